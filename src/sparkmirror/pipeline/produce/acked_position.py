"""How far the target has a source partition, and the gaps that it has met and not stored yet. A base of
`pipeline.produce.buffer`, which moves it.

A task may have thousands of partitions, few of which move in a second: those enter themselves in `moved`, and
`pipeline.produce.progress` looks at them alone. A gap begins where the partition stands when it has all that came
before. A partition that goes back before it (a rewind, an aborted transaction) gets the gap again from its reader, from
where it stands then: the first finding is dropped, or the ledger would list two.
"""

from collections.abc import Container
from dataclasses import replace
from typing import Final, NamedTuple

from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.lineage import Extent, Lineage
from sparkmirror.model import Position, TopicPartition


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
        come; one that had not got to where its log was cut has lost nothing."""
        gap = self.gap
        if self.beyond is not None:
            return gap
        return replace(gap, expected=max(offset, gap.resumed) if gap.resumed < gap.expected else offset)


class AckedPosition:
    """One source partition: all before `acknowledged`, in the log of `lineage`, is on the target; all before
    `committed` stays there.

    `gaps` are those that the ledger does not have yet; `extent` is how far the target's log reaches, None until that is
    known. `marker_at` is the offset of the target's log that the marker of the last commit has if the log was not cut,
    -1 where that is not known.
    """

    __slots__ = ("_moved", "acknowledged", "committed", "extent", "gaps", "lineage", "marker_at", "source")

    def __init__(self, source: TopicPartition, offset: int, moved: dict[TopicPartition, None] | None = None) -> None:
        self.source = source
        self._moved = {} if moved is None else moved
        self.acknowledged = offset
        self._moved[source] = None
        self.lineage = Lineage()
        self.committed = self.place
        self.extent: Extent | None = None
        self.marker_at = -1
        self.gaps: tuple[FoundGap, ...] = ()

    @property
    def place(self) -> Place:
        """The position that the target has acknowledged."""
        return Place(self.acknowledged, self.lineage)

    def move_to(self, offset: int, lineage: Lineage) -> None:
        """The target has all records before `offset`."""
        self.lineage = lineage
        self.acknowledged = offset
        self._moved[self.source] = None

    def commit(self) -> None:
        """The transaction is committed: what is acknowledged stays."""
        self.committed = self.place

    def extend(self, extent: Extent | None) -> None:
        """So far the target's log reaches now."""
        self.extent = extent

    def expect_marker(self, *, is_written: bool) -> None:
        """A transaction with records of the partition is committed. Not all brokers write its marker everywhere."""
        self.marker_at = self.extent.end if is_written and self.extent is not None else -1

    # Gaps.

    def find_gap(self, found: FoundGap) -> None:
        self.gaps += (found,)

    def take_gaps(self, stored: Container[FoundGap]) -> None:
        """The ledger gets these gaps."""
        self.gaps = tuple(found for found in self.gaps if found not in stored)

    def has_met(self, found: FoundGap) -> bool:
        """Whether the target has all before the gap, or the partition is held there."""
        return found.beyond is None or found.is_met(self.place.order)

    def return_gap(self, found: FoundGap) -> None:
        """The ledger has lost the gap: it is to be stored again."""
        self.gaps = tuple(sorted({*self.gaps, found}, key=_order))

    def drop_gaps_beyond(self, order: Order) -> None:
        """The partition goes back to `order`: its reader sends the gaps beyond it again."""
        if self.gaps:
            self.gaps = tuple(found for found in self.gaps if found.is_met(order))


def _order(found: FoundGap) -> Order:
    return found.order
