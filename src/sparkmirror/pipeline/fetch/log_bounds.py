"""Asks for the bounds of a partition's log where a broker refuses its position, and judges what is lost. Owned by
`pipeline.fetch.reader`.
"""

from functools import partial
from typing import Final

from sparkmirror.kafka.background import Background, Outcome
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.lookup import Span, look_up_span
from sparkmirror.pipeline.fetch.loss import Loss, judge_out_of_range, judge_unknown_epoch
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState
from sparkmirror.pipeline.fetch.responses import FetchResponseReader

KEY: Final = "span"
_DOUBTS_MAX: Final = 10


class LogBounds:
    """The questions of one task, answered in the background under keys of `KEY` and the partition."""

    def __init__(self, source: ClientSettings, background: Background) -> None:
        self._source = source
        self._background = background

    def ask(self, fetch_state: PartitionFetchState) -> None:
        work = partial(look_up_span, self._source, fetch_state.partition)
        self._background.submit((KEY, fetch_state.partition), work)

    def take(self, fetch_state: PartitionFetchState, outcome: Outcome, response_reader: FetchResponseReader) -> None:
        """Take the answer: a loss is reported, an error tried again later."""
        if outcome.error is not None:
            response_reader.back_off(fetch_state, str(outcome.error))
            return
        span: Span = outcome.result
        loss = judge_out_of_range(fetch_state.offset, fetch_state.lineage, span) or _doubt(fetch_state, span)
        if loss is not None:
            response_reader.lose(fetch_state, loss)


def _doubt(fetch_state: PartitionFetchState, span: Span) -> Loss | None:
    """The position lies in the log, but the broker refused it. The broker may have been behind, and another one leads
    now; or its log has no epoch as late as ours, and it refuses every time."""
    fetch_state.node = None
    fetch_state.doubts += 1
    if fetch_state.doubts < _DOUBTS_MAX:
        return None
    fetch_state.doubts = 0
    return judge_unknown_epoch(fetch_state.offset, fetch_state.lineage, span)
