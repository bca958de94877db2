"""What of a translated offset holds in the log that the target has now: pure judgements (invariant 7).

A topic of the target that is deleted and made again has another id; one that an unclean election cut is shorter than
the map. Both are looked at by `sync.offset_state`. A partition of which nothing is known is not among the logs, and
then nothing is written for it.
"""

from collections.abc import Mapping
from dataclasses import replace

from sparkmirror.ledger.extent import Extent
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.ledger.translate import Translated
from sparkmirror.model import NO_TOPIC_ID, TopicPartition

TargetLogs = Mapping[TopicPartition, Extent]
"""Each partition's topic, its id and the log's end, as the target says now."""


def is_former(topic_id: object, log: Extent) -> bool:
    """Whether something known of a topic is of another one than has the name now; False where either id is unknown."""
    return NO_TOPIC_ID not in (topic_id, log.topic_id) and topic_id != log.topic_id


def settle(found: Translated, log: Extent) -> Translated:
    """The translation within the log: its beginning if it is another log, its end if it does not reach so far.

    Such an answer lies before the true one, or at it, and says that it is `cut`.
    """
    if is_former(found.topic_id, log):
        return replace(found, offset=0, exact=False, cut=True)
    if found.offset > log.end:
        return replace(found, offset=log.end, exact=False, cut=True)
    return found


def settle_known(found: Translated | None, logs: TargetLogs) -> Translated | None:
    """`settle`; None where the translation or the log is not known."""
    log = None if found is None else logs.get(found.partition)
    return None if found is None or log is None else settle(found, log)


def is_stale(checkpoint: Checkpoint, now: Translated | None, log: Extent) -> bool:
    """Whether a checkpoint is of a log that is no more: it lies beyond the end, or beyond the truth.

    `now` is its source offset as it translates today, settled. One that is merely lower, because less is known than
    before, proves nothing.
    """
    is_lower = now is not None and (now.exact or now.cut) and now.offset < checkpoint.downstream
    return checkpoint.downstream > log.end or is_lower


def downstream_now(checkpoint: Checkpoint, now: Translated | None, logs: TargetLogs) -> int | None:
    """Where a checkpoint puts its group in the log that is there; None where that is not known."""
    log = logs.get(checkpoint.partition)
    if log is None:
        return None
    if not is_stale(checkpoint, now, log):
        return checkpoint.downstream
    return 0 if now is None else now.offset
