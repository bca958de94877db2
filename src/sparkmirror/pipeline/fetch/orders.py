"""What the operator has ordered of a task's partitions: not to be read, to be read again, to be tried at once. No I/O.

An order goes on to the writing end as a row, which answers for the partition's state. Owned by `pipeline.fetch.reader`.
"""

from collections.abc import Iterable

from sparkmirror.control.commands import Pause, Resume, Retry
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState
from sparkmirror.pipeline.relay.schema import ORDER, ORDERED_PAUSE, ORDERED_RESUME, ORDERED_RETRY, Row


class Orders:
    """Pauses and resumes of a run, the last that covers a partition counts; `given` are those before this epoch."""

    def __init__(self, given: Iterable[Pause | Resume]) -> None:
        self._given = list(given)

    def take(self, order: Pause | Resume | Retry, fetch_states: Iterable[PartitionFetchState]) -> list[Row]:
        """Carry out an order on those that are read now. Gives a row for each that it changes."""
        covered = [fetch_state for fetch_state in fetch_states if order.selection.covers(fetch_state.partition)]
        if isinstance(order, Retry):
            for fetch_state in covered:
                fetch_state.not_before = 0.0
            return [_row(fetch_state, ORDERED_RETRY) for fetch_state in covered]
        self._given.append(order)
        return self.apply(covered)

    def apply(self, fetch_states: Iterable[PartitionFetchState]) -> list[Row]:
        """Hold and let go as the orders so far say; also for partitions that the task has just taken on."""
        rows = []
        for fetch_state in fetch_states:
            is_held = self._holds(fetch_state)
            if is_held != fetch_state.held_by_order:
                fetch_state.held_by_order = is_held
                rows.append(_row(fetch_state, ORDERED_PAUSE if is_held else ORDERED_RESUME))
        return rows

    def _holds(self, fetch_state: PartitionFetchState) -> bool:
        covering = [order for order in self._given if order.selection.covers(fetch_state.partition)]
        return bool(covering) and isinstance(covering[-1], Pause)


def _row(fetch_state: PartitionFetchState, word: bytes) -> Row:
    return Row(ORDER, fetch_state.partition.topic, fetch_state.partition.partition, payload=word)
