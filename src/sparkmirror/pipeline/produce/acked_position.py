"""How far the target has a source partition, and the gaps that it has met and not stored yet. The base of
`pipeline.produce.buffer`, which moves it.

A task may have thousands of partitions, few of which move in a second: those enter themselves in `moved`, and
`pipeline.produce.progress` looks at them alone. A gap begins where the partition stands when it has all that came
before. A partition that goes back before it (a rewind, an aborted transaction) gets the gap again from its reader, from
where it stands then: the first finding is dropped, or the ledger would list two.
"""

from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import Position, TopicPartition


class State(Enum):
    """FLOWING: runs arrive in order. REWINDING: runs are dropped until the reader sends `position` again. FAILED: as
    REWINDING, and the reader pauses the partition until the retry time."""

    FLOWING = "flowing"
    REWINDING = "rewinding"
    FAILED = "failed"


class Place(NamedTuple):
    """An offset together with the log that it belongs to."""

    offset: int
    lineage: Lineage = Lineage()

    @property
    def position(self) -> Position:
        return self.lineage.at(self.offset)

    @property
    def order(self) -> tuple[int, int]:
        """The sort key of a partition's places: a rewritten log comes after the log before."""
        return self.lineage.turns, self.offset


class AckedPosition:
    """One source partition: all before `acknowledged`, in the log of `lineage`, is on the target."""

    __slots__ = ("_acknowledged", "_moved", "lineage", "source")

    def __init__(self, source: TopicPartition, moved: dict[TopicPartition, None] | None = None) -> None:
        self.source = source
        self._moved = {} if moved is None else moved
        self._acknowledged = 0
        self.lineage = Lineage()

    @property
    def place(self) -> Place:
        """The position that the target has acknowledged."""
        return Place(self._acknowledged, self.lineage)

    @property
    def acknowledged(self) -> int:
        return self._acknowledged

    @acknowledged.setter
    def acknowledged(self, offset: int) -> None:
        self._acknowledged = offset
        self._moved[self.source] = None


Order = tuple[int, int]
"""As `Place.order`."""
ANYWHERE: Final[Order] = (0, 0)
"""The order of a gap on the target, which stays one wherever the partition goes back to."""


class FoundGap(NamedTuple):
    """A gap that the ledger does not have yet. `beyond` is the order of the place behind it, None if the partition is
    held before it."""

    gap: Gap
    beyond: Order | None

    @property
    def order(self) -> Order:
        """The sort key of a partition's gaps."""
        return self.beyond or ANYWHERE

    def is_met(self, order: Order) -> bool:
        """Whether a partition that stands at `order` has passed the gap, so that its reader does not send it again."""
        return self.order <= order

    def seen_from(self, offset: int) -> Gap:
        """The gap as it is stored. A held partition begins it at `offset`, where it stopped after all answers had
        come."""
        return self.gap if self.beyond is not None else replace(self.gap, expected=offset)
