"""Judges what was lost when a source log is no longer as the reader left it. Pure; called by `pipeline.fetch.reader`.

Nothing is skipped in silence (invariant 1): each judgement becomes a gap row, which the writer records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sparkmirror.kafka.wire.lookup import Span
from sparkmirror.ledger.lineage import Lineage

RETENTION = "retention"
TRUNCATED = "truncated"
RECREATED = "recreated"
EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Loss:
    """Reading continues at `resume` instead of `position`; `cause` is one of the names above, empty if nothing was
    lost.

    `before` is the lineage of what was read up to `position`, `after` the lineage of the log before `resume`.
    """

    cause: str
    position: int
    resume: int
    before: Lineage
    after: Lineage


def judge_out_of_range(position: int, lineage: Lineage, span: Span) -> Loss | None:
    """After OFFSET_OUT_OF_RANGE; None when the position lies inside the log after all."""
    if position < span.start:
        return Loss(RETENTION, position, span.start, lineage, lineage)
    if position > span.end:
        return Loss(TRUNCATED, position, span.end, lineage, lineage.truncated(span.end))
    return None


def judge_empty(position: int, lineage: Lineage, end: int) -> Loss:
    """The broker reports an end of at least `end`, and has returned nothing for a long time."""
    return Loss(EMPTY, position, end, lineage, lineage)


def judge_divergence(position: int, lineage: Lineage, epoch: int, end: int) -> Loss:
    """The broker's log parted from ours (KIP-320): its last epoch that is not later than ours is `epoch`, up to `end`.

    If our records of that epoch end earlier, the broker is asked again from there with our earlier epoch, until both
    agree. Nothing is lost where our last epoch had no records yet: a leader is replaced before it has any.
    """
    resume = min(position, lineage.parts_at(epoch, end))
    return Loss(TRUNCATED if resume < position else "", position, resume, lineage, lineage.truncated(resume, epoch))


def judge_unknown_epoch(position: int, lineage: Lineage, span: Span) -> Loss | None:
    """The log has no epoch as late as our last one, so it lost all that was read under that epoch. None without an
    epoch."""
    if not lineage.epochs:
        return None
    resume = min(lineage.epochs[-1][1], position, span.end)
    return Loss(TRUNCATED, position, resume, lineage, lineage.truncated(resume))


def judge_recreated(position: int, lineage: Lineage, topic_id: UUID) -> Loss:
    """The topic has another id: a new log, to be mirrored from its beginning."""
    return Loss(RECREATED, position, 0, lineage, lineage.recreated(topic_id))


def judge_untaken(position: int, losses: Sequence[Loss]) -> Loss:
    """Joins all losses since the writer stood at `position`, to which it has gone back.

    If `position` lies before all of them, nothing is lost: the log continues there.
    """
    before = losses[0].before.up_to(position)
    resume, after, cause = position, before, ""
    for loss in losses:
        if loss.cause == RECREATED:
            resume, after, cause = loss.resume, loss.after, RECREATED
        elif loss.resume < resume:
            resume, after = loss.resume, after.truncated(loss.resume, loss.after.leader_epoch)
            cause = cause or TRUNCATED
    return Loss(cause, position, resume, before, after._replace(turns=losses[-1].after.turns))
