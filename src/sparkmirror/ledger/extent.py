"""How far a target's log must reach, and what to make of one that does not: pure judgements.

A topic of the target that is deleted, or cut short by an unclean leader election, takes mirrored records with it. The
writer stores each partition's extent with its position (`ledger.positions`); `planning.planner` compares it with the
target when partitions are handed out, `pipeline.produce.log_check` with every acknowledgement. DeleteRecords and
retention move the beginning of a log only, which is the target's own business.
"""

from typing import Any, NamedTuple
from uuid import UUID

from sparkmirror.decoding import Count, TopicName
from sparkmirror.model import NO_TOPIC_ID

TARGET_DELETED = "target deleted"
TARGET_TRUNCATED = "target truncated"
TARGET_CAUSES = frozenset({TARGET_DELETED, TARGET_TRUNCATED})


class Extent(NamedTuple):
    """A partition of the target: its topic, and the offset behind the last record that is known to be there."""

    topic: TopicName
    topic_id: UUID
    end: Count

    def as_json(self) -> list[Any]:
        return [self.topic, str(self.topic_id), self.end]


def judge(known: Extent, found: Extent) -> str | None:
    """Why mirrored records are gone, one of TARGET_CAUSES; None if the log reaches as far as it must.

    A topic that is not there at all is found with NO_TOPIC_ID and end 0.
    """
    is_other = NO_TOPIC_ID != known.topic_id != found.topic_id
    if known.end > 0 and is_other:
        return TARGET_DELETED
    return TARGET_TRUNCATED if found.end < known.end else None
