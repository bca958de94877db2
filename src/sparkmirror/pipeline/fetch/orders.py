"""Applies the planner's and the operator's commands to a task: end the epoch; pause, resume or retry partitions. No
I/O.

An operator's command goes on to the writer as a row, since the writer reports the partition's state. An epoch ends by
the clock, by a command, or soon after its process was given more tasks. Owned by `pipeline.fetch.reader`.
"""

from collections.abc import Iterable
from math import inf
from typing import Final

from sparkmirror.control.assignment import TaskPlan
from sparkmirror.control.commands import Command, Pause, Resume, Retry, Share, Throttle, ends_epoch, is_growth
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState
from sparkmirror.pipeline.relay.schema import ORDER, ORDERED_PAUSE, ORDERED_RESUME, ORDERED_RETRY, Row


class Orders:
    """Pauses and resumes of a run; the last one that covers a partition counts. `given` are those before this epoch."""

    def __init__(self, given: Iterable[Pause | Resume | Throttle]) -> None:
        self._given = [one for one in given if not isinstance(one, Throttle)]

    def take(self, order: Pause | Resume | Retry, fetch_states: Iterable[PartitionFetchState]) -> list[Row]:
        """Apply a command to the partitions that are read now. Gives a row for each partition that it changes."""
        covered = [fetch_state for fetch_state in fetch_states if order.selection.covers(fetch_state.partition)]
        if isinstance(order, Retry):
            for fetch_state in covered:
                fetch_state.not_before = 0.0
            return [_row(fetch_state, ORDERED_RETRY) for fetch_state in covered]
        if order not in self._given:  # the topic may be read again
            self._given.append(order)
        return self.apply(covered)

    def apply(self, fetch_states: Iterable[PartitionFetchState]) -> list[Row]:
        """Apply all pauses and resumes so far, also to partitions that the task has just taken on."""
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


GROWN_SECONDS: Final = 5.0
"""The running tasks mirror what another process left at once; after this time an epoch begins with all tasks."""


class EpochEnd:
    """Of one task. Times are monotonic."""

    def __init__(self, plan: TaskPlan, now: float) -> None:
        """In the plan of a bounded run `seconds` is 0: it ends with its partitions, or by a command."""
        self._share = plan.share
        self._at = now + plan.seconds if plan.seconds else inf

    def hear(self, command: Command, now: float) -> None:
        """A command of the task's run."""
        if isinstance(command, Share) and is_growth(command, self._share):
            self._share = command
            self._at = min(self._at, now + GROWN_SECONDS)
        elif ends_epoch(command, self._share):
            self._at = now

    def has_come(self, now: float) -> bool:
        return now >= self._at

    def seconds_left(self, now: float) -> float:
        return max(self._at - now, 0.0)
