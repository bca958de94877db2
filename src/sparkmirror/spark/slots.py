"""How many tasks each flow may run at once on a Spark cluster that may have fewer slots than there are tasks: pure.

A Spark task holds its slot for a whole epoch, so one task more than there are slots would wait for ten minutes, and its
partitions with it. So a flow runs as many tasks as it gets slots; each of them then mirrors more partitions. Called by
`runtime.executors`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

TURN_SECONDS = 10
"""How long an epoch lasts where there are more flows than slots. Spark gives a free slot to whoever waits longest."""
STEADY_SECONDS = 10.0
"""A lost executor is replaced in some five seconds; only what lasts longer is worth an epoch's end."""


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """By flow, in the order of the file: how many tasks; and how long a turn lasts, 0 where all run at once."""

    tasks: tuple[int, ...]
    turn_seconds: int = 0


def plan_slots(wanted: Sequence[int], slots: int) -> SlotPlan:
    """Gives each flow one slot, then one more at a time to the flow that has the smallest part of what it wants.

    With fewer slots than flows each runs one task, in turns.
    """
    tasks = [min(count, 1) for count in wanted]
    for _ in range(slots - sum(tasks)):
        short = [flow for flow, count in enumerate(wanted) if tasks[flow] < count]
        if not short:
            break
        tasks[min(short, key=lambda flow: (tasks[flow] / wanted[flow], flow))] += 1
    return SlotPlan(tuple(tasks), TURN_SECONDS if slots < sum(tasks) else 0)


class Steady:
    """Of a number that changes: what it has been for `STEADY_SECONDS`, so that a moment's loss changes nothing."""

    def __init__(self, value: int) -> None:
        self.value = value
        self._seen = value
        self._since = 0.0

    def see(self, value: int, now: float) -> int:
        """`now` is monotonic, in seconds."""
        if value != self._seen:
            self._seen, self._since = value, now
        if now - self._since >= STEADY_SECONDS:
            self.value = self._seen
        return self.value
