"""Decides how many tasks a flow runs: as many as its load needs, between `tasks.min` and what the machine bears; pure.

A task is two processes, where MirrorMaker's is a thread: more of them than the load needs cost memory and CPU, and more
than there are cores are slower than fewer. A flow begins with the most tasks where it is far behind, else with the
least. It gets more within a minute, by a new epoch, where its tasks use up what one should take of the cores, or are
behind and nothing holds them back: who is at its own rate limit or a broker's quota would be no faster with more. It
gets fewer when an epoch ends that was calm for minutes, so that a load that comes and goes moves nothing. Called by
`planning.sizing`.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, fsum
from typing import Final, NamedTuple

CORES_MAX: Final = 0.6
"""What a task takes of the cores, its two processes together, before another one is started beside it."""
CORES_ENOUGH: Final = 0.4
"""What a task may take after others have ended."""
CALM_LOOKS: Final = 10
"""So many looks, of every 30 s by default, decide about fewer tasks: the one that needs most of them."""
BACKLOG_RECORDS: Final = 10_000
"""A flow that begins with more than this is behind."""
ONE_TASK_BYTES: Final = 10_000_000
"""Of a flow that may read so many bytes a second, one task reads all that it may (docs/sizing.md)."""


@dataclass(frozen=True, slots=True)
class TaskLoad:
    """What a task takes of the cores, and whether it is far behind although it is being read and nothing holds it
    back."""

    cores: float
    is_behind: bool = False


class Bounds(NamedTuple):
    """The least and the most tasks, and what allows no more, in words."""

    least: int
    most: int
    by: str


def bound(least: int, limits: Mapping[str, int], wished: Mapping[str, int]) -> Bounds:
    """`least` is `tasks.min`; nothing goes beyond the `limits`, and only `least` beyond what is `wished`."""
    hard = max(min(limits.values()), 1)
    lowest = min(max(least, 1), hard)
    most = max(lowest, min(hard, *wished.values())) if wished else hard
    by = next((why for why, tasks in {**limits, **wished}.items() if tasks <= most), "tasks.min")
    return Bounds(lowest, most, by)


def _at_first(bounds: Bounds, backlog: float, held: float) -> tuple[int, str]:
    if backlog > BACKLOG_RECORDS:
        return bounds.most, "behind at the start"
    if backlog + held > BACKLOG_RECORDS:
        return bounds.least, "behind at the start, by its rate limits"
    return bounds.least, "close at the start"


class TaskCount:
    """Of one flow in one process. `tasks` is 0 before the first epoch; `reason` says why there are so many."""

    def __init__(self) -> None:
        self.tasks = 0
        self.reason = ""
        self._needs: deque[int] = deque(maxlen=CALM_LOOKS)
        self._wanted = 0
        self._was_short = False

    @property
    def is_first(self) -> bool:
        """Whether no epoch has begun: the next one begins by the backlog."""
        return self.tasks == 0

    def begin(self, bounds: Bounds, backlog: float, held: float = 0) -> int:
        """An epoch begins; the number of its tasks. Only the first counts the `backlog`, in records; infinite where it
        is not known. Beyond it are those that low rate limits hold back, `held`."""
        if self.is_first:
            wanted, why = _at_first(bounds, backlog, held)
        elif self._wanted > self.tasks:
            wanted, why = self._wanted, self.reason
        elif len(self._needs) == CALM_LOOKS and max(self._needs) < self.tasks:
            wanted, why = max(self._needs), "calm for minutes"
        else:
            wanted, why = self.tasks, self.reason
        tasks = min(max(wanted, bounds.least), bounds.most)
        if tasks != self.tasks:
            self._needs.clear()
        self.tasks, self._wanted, self._was_short = tasks, 0, False
        self.reason = self._explain(tasks, why, bounds)
        return tasks

    def look(self, loads: Mapping[int, TaskLoad], bounds: Bounds) -> bool:
        """Whether the epoch should end now, for more tasks. `loads` has those of all tasks, or tells nothing.

        More are needed at two looks in a row before it is so.
        """
        if len(loads) != self.tasks:
            return False
        cores, is_behind = fsum(load.cores for load in loads.values()), any(load.is_behind for load in loads.values())
        needed = 2 * self.tasks if is_behind else ceil(cores / CORES_MAX)
        self._needs.append(self.tasks if is_behind else max(ceil(cores / CORES_ENOUGH), 1))
        is_short = min(needed, bounds.most) > self.tasks
        was_short, self._was_short = self._was_short, is_short
        if not (is_short and was_short):
            return False
        self._wanted, self._was_short = min(needed, bounds.most), False
        self.reason = "behind" if is_behind else f"{cores:.1f} cores used by {self.tasks}"
        return True

    @staticmethod
    def _explain(tasks: int, why: str, bounds: Bounds) -> str:
        if bounds.least == bounds.most:
            return bounds.by
        reason = why.partition("; ")[0]
        return f"{reason}; no more by {bounds.by}" if tasks == bounds.most else reason
