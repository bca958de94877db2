"""Asks for the bounds of a partition's log where a broker refuses its position, and judges what is lost. Owned by
`pipeline.fetch.reader`.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from sparkmirror.kafka.background import Background, Outcome
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.lookup import Span, look_up_span
from sparkmirror.model import NO_EPOCH, NO_TOPIC_ID, TopicPartition, is_another_topic
from sparkmirror.pipeline.fetch.loss import TRUNCATED, Loss, judge_out_of_range, judge_unknown_epoch
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState
from sparkmirror.pipeline.fetch.responses import FetchResponseReader

KEY: Final = "span"
_DOUBTS_MAX: Final = 10
_UNPROVED_MAX: Final = 4
"""Each question about a partition begins with another server."""


class LogBounds:
    """The questions of one task, answered in the background under keys of `KEY` and the partition. `settings_from`
    gives the source's, with the server first whose turn it is. Each partition has turns of its own: of turns shared
    with other look-ups, which come in a fixed order, it may get the same server each time."""

    def __init__(self, settings_from: Callable[[int], ClientSettings], background: Background) -> None:
        self._settings_from = settings_from
        self._background = background
        self._asked: Counter[TopicPartition] = Counter()

    def ask(self, fetch_state: PartitionFetchState) -> None:
        where = fetch_state.partition
        work = partial(look_up_span, self._settings_from(self._asked[where]), where)
        self._asked[where] += 1
        self._background.submit((KEY, fetch_state.partition), work)

    def take(self, fetch_state: PartitionFetchState, outcome: Outcome, response_reader: FetchResponseReader) -> None:
        """Take the answer: a loss is reported, an error tried again later. What a former leader says of its log is
        not believed: the leader is looked up again."""
        if outcome.error is not None:
            response_reader.back_off(fetch_state, str(outcome.error))
            return
        span: Span = outcome.result
        if _is_former(fetch_state, span):
            fetch_state.node = None
            return
        if span.topic_id != NO_TOPIC_ID and span.topic_id == fetch_state.topic_id:
            fetch_state.current_epoch = max(fetch_state.current_epoch, span.epoch)  # who led before that is former
        loss = judge_out_of_range(fetch_state.offset, fetch_state.lineage, span)
        if loss is None or _is_unproved(fetch_state, loss):
            if _doubts(fetch_state, _DOUBTS_MAX if loss is None else _UNPROVED_MAX):
                return
            loss = loss or judge_unknown_epoch(fetch_state.offset, fetch_state.lineage, span)
        if loss is not None:
            response_reader.lose(fetch_state, loss)


def _is_former(fetch_state: PartitionFetchState, span: Span) -> bool:
    """Whether the broker led before an epoch that was seen, or leads another topic of that name. A log that was cut has
    a leader that is not older: an election raises the epoch, and a lone broker that was killed may lead by the same
    one. Where topics have no ids nobody can tell."""
    if is_another_topic(fetch_state.topic_id, span.topic_id):
        return True
    return span.topic_id != NO_TOPIC_ID and NO_EPOCH < span.epoch < fetch_state.newest_epoch


def _is_unproved(fetch_state: PartitionFetchState, loss: Loss) -> bool:
    """Whether a log ends before a position of which no epoch is known, as one of MirrorMaker's or of a person: nothing
    tells yet whether the leader is a former one, which another server may know."""
    return loss.cause == TRUNCATED and not fetch_state.lineage.epochs


def _doubts(fetch_state: PartitionFetchState, doubts_max: int) -> bool:
    """Whether the broker is not believed yet, and the leader is looked up again: it may have been behind, and another
    one leads now; or its log has no epoch as late as ours, and it refuses every time."""
    fetch_state.node = None
    fetch_state.doubts += 1
    if fetch_state.doubts >= doubts_max:
        fetch_state.doubts = 0
    return bool(fetch_state.doubts)
