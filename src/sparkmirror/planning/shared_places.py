"""Where the log of a source still is what was mirrored from it, for a target's log that begins again; pure but for who
is asked. Called by `planning.offset_starts`."""

from collections.abc import Callable
from typing import Final

from sparkmirror.ledger.lineage import EPOCHS_MAX, Lineage
from sparkmirror.model import Position
from sparkmirror.policy.fillers import Hole

Parted = Callable[[int, int], tuple[int, int] | None]
"""Of an offset and the epoch of the record before: None where the log has that record, else the log's last epoch that
is not later, and where it ends."""

_STEPS_MAX: Final = EPOCHS_MAX + 1


def shared_place(known: Position, source: Hole, parted: Parted) -> Position:
    """The place up to which the `source`'s log, of these offsets, is the one of the position `known`: below it, where
    the log was cut meanwhile. What is behind is new. Raises what `parted` raises."""
    lineage, at = Lineage.of(known), known.offset
    if at > source.stop:
        lineage, at = lineage.truncated(source.stop, lineage.leader_epoch), source.stop
    for _ in range(_STEPS_MAX):
        found = parted(at, lineage.leader_epoch) if lineage.epochs and at >= source.first else None
        if found is None:
            break
        epoch, end = found
        at = min(at, lineage.parts_at(epoch, end))
        lineage = lineage.truncated(at, epoch)
    return lineage.at(at)
