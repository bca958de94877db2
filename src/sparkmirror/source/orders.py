"""What the operator has ordered of a task's partitions: not to be read, to be read again, to be tried at once. No I/O.

An order goes on to the writing end as a row, which answers for the partition's state. Owned by `source.reader`.
"""

from collections.abc import Iterable

from sparkmirror.relay.schema import ORDER, ORDERED_PAUSE, ORDERED_RESUME, ORDERED_RETRY, Row
from sparkmirror.source.commands import Pause, Resume, Retry
from sparkmirror.source.partitions import Reading


class Orders:
    """Pauses and resumes of a run, the last that covers a partition counts; `given` are those before this epoch."""

    def __init__(self, given: Iterable[Pause | Resume]) -> None:
        self._given = list(given)

    def take(self, order: Pause | Resume | Retry, readings: Iterable[Reading]) -> list[Row]:
        """Carry out an order on those that are read now. Gives a row for each that it changes."""
        covered = [reading for reading in readings if order.selection.covers(reading.partition)]
        if isinstance(order, Retry):
            for reading in covered:
                reading.not_before = 0.0
            return [_row(reading, ORDERED_RETRY) for reading in covered]
        self._given.append(order)
        return self.apply(covered)

    def apply(self, readings: Iterable[Reading]) -> list[Row]:
        """Hold and let go as the orders so far say; also for partitions that the task has just taken on."""
        rows = []
        for reading in readings:
            is_held = self._holds(reading)
            if is_held != reading.held_by_order:
                reading.held_by_order = is_held
                rows.append(_row(reading, ORDERED_PAUSE if is_held else ORDERED_RESUME))
        return rows

    def _holds(self, reading: Reading) -> bool:
        covering = [order for order in self._given if order.selection.covers(reading.partition)]
        return bool(covering) and isinstance(covering[-1], Pause)


def _row(reading: Reading, word: bytes) -> Row:
    return Row(ORDER, reading.partition.topic, reading.partition.partition, payload=word)
