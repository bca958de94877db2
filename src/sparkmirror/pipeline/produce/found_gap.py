"""A gap that a partition has met and that the ledger does not have yet; pure.

It begins where the partition stands when it has all that came before. One that goes back before it (a rewind, an
aborted transaction) gets it again from its reader, from where it stands then: what was found first is dropped, or
the ledger would list two.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from sparkmirror.ledger.gaps import Gap

Order = tuple[int, int]
"""As `pipeline.produce.acked_position.Place.order`."""
ANYWHERE: Final[Order] = (0, 0)
"""Of a gap on the target, which stays one wherever the partition goes back to."""


class FoundGap(NamedTuple):
    """`beyond` is the order of the place behind it. None where the partition is held before it."""

    gap: Gap
    beyond: Order | None

    @property
    def order(self) -> Order:
        """By which those of a partition follow each other."""
        return self.beyond or ANYWHERE

    def is_met(self, order: Order) -> bool:
        """Whether a partition that stands at `order` does not get it again."""
        return self.order <= order

    def seen_from(self, offset: int) -> Gap:
        """As it is stored: a partition that is held comes to rest where all that was under way is answered."""
        return self.gap if self.beyond is not None else replace(self.gap, expected=offset)
