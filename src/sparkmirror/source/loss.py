"""What to make of a source log that is not where we left it: pure judgements. Called by `source.reader`.

Nothing is skipped in silence (invariant 1): each judgement becomes a gap row, which the writer records.
"""

from dataclasses import dataclass

from sparkmirror.kafka.lookup import Span

RETENTION = "retention"
TRUNCATED = "truncated"
RECREATED = "recreated"


@dataclass(frozen=True, slots=True)
class Loss:
    """Go on from `resume` instead of `position`; `cause` is one of the names above."""

    cause: str
    position: int
    resume: int


def judge_out_of_range(position: int, span: Span) -> Loss | None:
    """The broker says OFFSET_OUT_OF_RANGE. None when the position lies inside the log after all: fetch again."""
    if position < span.start:
        return Loss(RETENTION, position, span.start)
    if position > span.end:
        return Loss(TRUNCATED, position, span.end)
    return None


def judge_divergence(position: int, diverging_offset: int) -> Loss:
    """The broker's log parted from ours before `position` (KIP-320): what follows its end was rewritten."""
    return Loss(TRUNCATED, position, min(position, diverging_offset))


def judge_recreated(position: int) -> Loss:
    """The topic has another id: a new log, to be mirrored from its beginning."""
    return Loss(RECREATED, position, 0)
