"""Assigns partitions to tasks: pure, sticky, balanced. Called by `planning.planner`."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import fsum

from sparkmirror.control.assignment import Assignment
from sparkmirror.model import TopicPartition


def plan_assignment(
    partitions: Collection[TopicPartition],
    tasks: Collection[int],
    previous: Assignment,
    bytes_per_second: Mapping[TopicPartition, float],
) -> dict[int, frozenset[TopicPartition]]:
    """Give each partition to one of the `tasks`: kept where it was, new ones to the task with the least load.

    Load is the byte rate, and where rates are equal the number of partitions, so that tasks differ by at most one
    partition when nothing is known. Deterministic: the same input gives the same plan.
    """
    wanted = set(partitions)
    owned: dict[int, set[TopicPartition]] = {task: set() for task in sorted(tasks)}
    for task, kept in previous.items():
        if task in owned:
            owned[task] = set(kept) & wanted
    placed = set().union(*owned.values()) if owned else set()
    load = {task: fsum(bytes_per_second.get(tp, 0.0) for tp in owned[task]) for task in owned}
    for partition in sorted(wanted - placed, key=lambda tp: (-bytes_per_second.get(tp, 0.0), tp)):
        task = min(owned, key=lambda candidate: (load[candidate], len(owned[candidate]), candidate))
        owned[task].add(partition)
        load[task] += bytes_per_second.get(partition, 0.0)
    return {task: frozenset(members) for task, members in owned.items()}


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that changes its task: the first task releases it before the other may start."""

    partition: TopicPartition
    from_task: int
    to_task: int


def plan_moves(before: Assignment, after: Assignment) -> tuple[tuple[Move, ...], dict[int, list[TopicPartition]]]:
    """The steps from one assignment to another: moves, and partitions that had no task before."""
    owner = {partition: task for task, members in before.items() for partition in members}
    moves: list[Move] = []
    fresh: dict[int, list[TopicPartition]] = {}
    for task, members in sorted(after.items()):
        for partition in sorted(members):
            old = owner.get(partition)
            if old is None:
                fresh.setdefault(task, []).append(partition)
            elif old != task:
                moves.append(Move(partition, old, task))
    return tuple(moves), fresh
