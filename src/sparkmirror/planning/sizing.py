"""Chooses how many of a flow's tasks run, by `planning.task_count`: counts the cores, asks how far behind the flow is.

On a Spark cluster its slots count in the place of this machine's cores. Owned by `planning.planner`.
"""

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from math import fsum, inf
from pathlib import Path

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import Assigned, Assignment
from sparkmirror.control.commands import Throttle
from sparkmirror.kafka.admin import Admin
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import TopicPartition
from sparkmirror.planning.hand_over import TaskReport
from sparkmirror.planning.ownership import TaskOwnership
from sparkmirror.planning.task_count import ONE_TASK_BYTES, Bounds, TaskCount, TaskLoad, bound
from sparkmirror.policy.rates import WHOLE_FLOW, RateLimit, in_force, limits_of
from sparkmirror.telemetry.brakes import OWN_LIMITS

log = logging.getLogger(__name__)

_QUOTA = Path("/sys/fs/cgroup/cpu.max")


class Sizing:
    """The tasks of one flow that run in this process.

    A batch of a task that slept is refused only where a later task of its number has written: that fences a number,
    and what it writes fences each partition. So a partition that others wrote last keeps the number of its task, and
    that task runs, until the partition has a position of ours or nothing to mirror.
    """

    def __init__(self, flow: FlowConfig, ownership: TaskOwnership, *, once: bool) -> None:
        """A bounded run, `once`, has as many as it may."""
        self._flow = flow
        self._ownership = ownership
        self._once = once
        self._count = TaskCount()
        self._bounds = Bounds(1, 1, "")
        self._held_since: dict[TopicPartition, int] = {}

    @property
    def reason(self) -> str:
        """Why there are so many, "2 of at most 4: behind at the start; no more by cores"."""
        return f"{self._count.tasks} of at most {self._flow.tasks_max}: {self._count.reason}"

    @property
    def may_change(self) -> bool:
        """Whether a load could bring more tasks than run now."""
        return not self._once and self._bounds.most > self._count.tasks

    def begin(
        self,
        assigned: Collection[Assigned],
        records: Mapping[TopicPartition, PositionRecord],
        before: Assignment,
        source: Admin,
    ) -> tuple[list[int], Assignment]:
        """The tasks of an epoch, at least one, in which these partitions are mirrored; and what they keep, of the
        assignment `before` and of other processes' last one. `records` are the ledger's. Raises ClusterError."""
        bounds = self._look_at_bounds(len(assigned))
        foreign = self._foreign(assigned, records)
        asks = not self._once and bounds.least < bounds.most and bool(self._count.is_first or foreign)
        left = _left(assigned, source) if asks else {}
        foreign = {where: task for where, task in foreign.items() if left.get(where, inf) > 0}
        bound_tasks = set(foreign.values())
        self._bounds = bounds = bounds._replace(least=min(max(bounds.least, len(bound_tasks)), bounds.most))
        ran = self._count.tasks
        held = heed_limits(left, self._limits) if self._count.is_first else frozenset()
        backlog = fsum(records for where, records in left.items() if where not in held) if asks else inf
        count = self._count.begin(bounds, backlog, fsum(left[where] for where in held))
        if ran not in (0, count):
            log.info("%s: runs %s tasks.", self._flow.name, self.reason)
        tasks = choose_tasks(self._ownership.tasks, bound_tasks, before.keys(), count)
        return tasks, keep(tasks, before, foreign)

    def note_held(self, assigned: Collection[TopicPartition], generation: int) -> None:
        """The tasks of an epoch of that generation have these partitions."""
        self._held_since = {where: self._held_since.get(where, generation) for where in assigned}

    def _foreign(
        self, assigned: Collection[Assigned], records: Mapping[TopicPartition, PositionRecord]
    ) -> dict[TopicPartition, int]:
        """The partitions whose last position is not of this process, with the task that stored it."""
        found = {item.partition: records[item.partition] for item in assigned if item.partition in records}
        return {
            where: record.task % self._flow.tasks_max
            for where, record in found.items()
            if record.generation < self._held_since.get(where, record.generation + 1)
            and record.task % self._flow.tasks_max in self._ownership.tasks
        }

    def look(self, reports: Mapping[int, TaskReport]) -> bool:
        """Whether the epoch is to end now, for more tasks."""
        limits = self._limits
        loads = {task: TaskLoad(one.cores, is_behind_freely(one, limits)) for task, one in reports.items()}
        return not self._once and self._count.look(loads, self._bounds)

    @property
    def _limits(self) -> tuple[RateLimit, ...]:
        """The flow's rate limits, as orders have changed them."""
        orders = (one for one in self._ownership.orders if isinstance(one, Throttle))
        return in_force(self._flow.rate_limits, {one.pattern: one.bytes_per_second for one in orders})

    def _look_at_bounds(self, partitions: int) -> Bounds:
        limits = {"tasks.max": self._flow.tasks_max, "partitions": max(partitions, 1)}
        if self._ownership.tasks:
            limits["the tasks of this process"] = len(self._ownership.tasks)
        slots = self._ownership.granted_slots
        if slots is not None:
            return bound(self._flow.tasks_min, limits | {"slots": slots}, {})
        return bound(self._flow.tasks_min, limits, {"cores": usable_cores()})


def choose_tasks(
    owned: Collection[int], bound_tasks: Collection[int], running: Collection[int], count: int
) -> list[int]:
    """`count` of the `owned` tasks: first those that have to run, then those that did; pure."""
    order = sorted(owned, key=lambda task: (task not in bound_tasks, task not in running, task))
    return sorted(order[:count])


def keep(tasks: Collection[int], before: Assignment, foreign: Mapping[TopicPartition, int]) -> Assignment:
    """What the tasks have already: all that the same tasks had before, and what is bound to one of them; pure."""
    same = before if before.keys() == set(tasks) else {}
    return {
        task: frozenset(where for where in same.get(task, ()) if where not in foreign)
        | frozenset(where for where, number in foreign.items() if number == task)
        for task in tasks
    }


def is_behind_freely(report: TaskReport, limits: Sequence[RateLimit]) -> bool:
    """Whether a task is far behind in a partition that nothing holds back; pure. A quota holds all of the task back, a
    rate limit the topics that it is for."""
    if not set(report.held_by) <= {OWN_LIMITS}:
        return False
    return any(not (report.held_by and limits_of(topic, limits)) for topic in report.behind)


def heed_limits(left: Mapping[TopicPartition, float], limits: Sequence[RateLimit]) -> frozenset[TopicPartition]:
    """The partitions with records `left` that rate limits hold back so far that one task reads all that it may; pure.
    None where the limits of all of them together let more through."""
    found = {where: limits_of(where.topic, limits) for where, records in left.items() if records}
    held = {where: ones for where, ones in found.items() if ones}
    if not held:
        return frozenset()
    named = [[one for one in ones if one.pattern != WHOLE_FLOW] for ones in held.values()]
    by_name = fsum(one.bytes_per_second for one in set(chain.from_iterable(named))) if all(named) else inf
    whole = min(
        (one.bytes_per_second for ones in held.values() for one in ones if one.pattern == WHOLE_FLOW), default=inf
    )
    return frozenset(held) if min(by_name, whole) <= ONE_TASK_BYTES else frozenset()


def _left(assigned: Collection[Assigned], source: Admin) -> dict[TopicPartition, float]:
    """The records that the source has beyond where each partition stands; infinite where it does not say."""
    starts = {item.partition: item.offset for item in assigned if not item.unknown}
    ends = source.latest_offsets(starts).known
    return {where: max(ends[where] - start, 0) if where in ends else inf for where, start in starts.items()}


def usable_cores() -> int:
    """The cores that this process may use, by its affinity and its container's quota, rounded up."""
    cores = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        quota, period = _QUOTA.read_text().split()
        if quota != "max":
            return max(min(cores, -(-int(quota) // int(period))), 1)
    return cores
