"""How far the target has a source partition. The base of `pipeline.produce.buffer`, which moves it.

A task may have thousands of partitions, few of which move in a second: those that do enter themselves in `moved`, and
`pipeline.produce.progress` looks at them alone.
"""

from enum import Enum
from typing import NamedTuple

from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import Position, TopicPartition


class State(Enum):
    """FLOWING: in order. REWINDING: what arrives is dropped until the reader comes again with `position`.
    FAILED: as rewinding, and paused at the reader until the retry time."""

    FLOWING = "flowing"
    REWINDING = "rewinding"
    FAILED = "failed"


class Place(NamedTuple):
    """An offset, and the log that it is an offset of: neither is known without the other."""

    offset: int
    lineage: Lineage = Lineage()

    @property
    def position(self) -> Position:
        return self.lineage.at(self.offset)

    @property
    def order(self) -> tuple[int, int]:
        """By which places of a partition follow each other: a log that was rewritten comes after what it was."""
        return self.lineage.turns, self.offset


class AckedPosition:
    """One source partition; all before `acknowledged`, in the log that `lineage` tells, is on the target."""

    __slots__ = ("_acknowledged", "_moved", "lineage", "source")

    def __init__(self, source: TopicPartition, moved: dict[TopicPartition, None] | None = None) -> None:
        self.source = source
        self._moved = {} if moved is None else moved
        self._acknowledged = 0
        self.lineage = Lineage()

    @property
    def place(self) -> Place:
        """What the target has reached."""
        return Place(self._acknowledged, self.lineage)

    @property
    def acknowledged(self) -> int:
        return self._acknowledged

    @acknowledged.setter
    def acknowledged(self, offset: int) -> None:
        self._acknowledged = offset
        self._moved[self.source] = None
