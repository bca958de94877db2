"""Identifies the log of a position, and its end: topic id, leader epochs and extent on source and target; pure.

A leader epoch begins where the log ended when its leader was elected (KIP-101). Two logs of a partition are the same up
to where their epochs part, so the epochs that were read tell where to go on after an unclean election. Read by
`pipeline.fetch.reader`, carried by `pipeline.produce.buffer` up to what the target has, and stored with it
(`ledger.positions`).

A topic of the target that is deleted, or cut short by an unclean leader election, loses mirrored records. The writer
stores each partition's extent with its position; `planning.planner` compares it with the target when it assigns
partitions, `pipeline.produce.log_check` with every acknowledgement. DeleteRecords and retention only move the beginning
of a log, which is the target's own business.
"""

from typing import Annotated, NamedTuple, Self
from uuid import UUID

from msgspec import Meta

from sparkmirror.model import NO_EPOCH, NO_TOPIC_ID, Epochs, Position
from sparkmirror.stored_json import Count, Number, Offset, TopicName

EPOCHS_MAX = 16
"""The number of epochs that are remembered, the newest: a partition has a few elections a year."""
StoredEpochs = Annotated[tuple[tuple[Number, Offset], ...], Meta(max_length=EPOCHS_MAX)]
"""As JSON has them, for `stored_json`."""


class Lineage(NamedTuple):
    """`epochs` are the leader epochs that were read, each with its first offset; `turns` counts how often the log was
    found rewritten (truncated or created again) since the task took the partition on.

    Immutable, and the same object from batch to batch: it changes with an election.
    """

    topic_id: UUID = NO_TOPIC_ID
    epochs: Epochs = ()
    turns: int = 0

    @classmethod
    def of(cls, position: Position) -> Self:
        return cls(position.topic_id, position.epochs)

    def at(self, offset: int) -> Position:
        return Position(offset, self.epochs, self.topic_id)

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the last batch, NO_EPOCH if none was read."""
        return self.epochs[-1][0] if self.epochs else NO_EPOCH

    def read(self, epoch: int, start: int) -> Self:
        """Records of that epoch were read, from `start` on. NO_EPOCH changes nothing.

        An epoch that also begins at `start` has no records: it is dropped, as in Kafka (`LeaderEpochFileCache.assign`).
        """
        if epoch <= self.leader_epoch:
            return self
        return self._replace(epochs=(*self.up_to(start).epochs, (epoch, start))[-EPOCHS_MAX:])

    def up_to(self, offset: int) -> Self:
        """The lineage when only the offsets below `offset` had been read."""
        if not self.epochs or self.epochs[-1][1] < offset:
            return self
        return self._replace(epochs=tuple(one for one in self.epochs if one[1] < offset))

    def parts_at(self, epoch: int, end: int) -> int:
        """The offset at which a log parts from this one, if its last epoch that is not later than ours is `epoch`, with
        the end `end`.

        An upper bound: the logs may have parted in an earlier epoch (the broker is then asked again).
        """
        return min([end, *(start for known, start in self.epochs if known > epoch)])

    def truncated(self, offset: int, epoch: int = NO_EPOCH) -> Self:
        """After the log was cut at `offset`, where `epoch` is the last before, if nothing of our own says so."""
        kept = self.up_to(offset).epochs
        if not kept and epoch != NO_EPOCH:
            kept = ((epoch, offset),)
        return self._replace(epochs=kept, turns=self.turns + 1)

    def recreated(self, topic_id: UUID) -> Self:
        """The lineage of a topic that was created again."""
        return self._replace(topic_id=topic_id, epochs=(), turns=self.turns + 1)


TARGET_DELETED = "target deleted"
TARGET_TRUNCATED = "target truncated"
TARGET_CAUSES = frozenset({TARGET_DELETED, TARGET_TRUNCATED})


class Extent(NamedTuple):
    """A partition of the target: its topic, and the offset behind the last record that is known to be there."""

    topic: TopicName
    topic_id: UUID
    end: Count


def judge(known: Extent, found: Extent) -> str | None:
    """Why mirrored records are gone, one of TARGET_CAUSES; None if the log reaches as far as it must.

    A topic that is not there at all is found with NO_TOPIC_ID and end 0.
    """
    is_other = NO_TOPIC_ID != known.topic_id != found.topic_id
    if known.end > 0 and is_other:
        return TARGET_DELETED
    return TARGET_TRUNCATED if found.end < known.end else None
