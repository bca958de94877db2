"""When the epoch of a task is over: by the clock, by an order, or soon after its process was given more tasks.

Owned by `pipeline.fetch.reader`.
"""

from math import inf
from typing import Final

from sparkmirror.control.assignment import TaskPlan
from sparkmirror.control.commands import Command, Share, ends_epoch, is_growth

GROWN_SECONDS: Final = 5.0
"""What another process has left is mirrored by the tasks that run, at once; then an epoch begins with all of them."""


class EpochEnd:
    """Of one task. Times are monotonic."""

    def __init__(self, plan: TaskPlan, now: float) -> None:
        """`seconds` of a bounded run's plan are 0: only an order ends it before its partitions do."""
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
