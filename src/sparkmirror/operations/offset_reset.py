"""Sets the offsets of one consumer group, by time, by checkpoint or to an end: observe, plan, apply. Called by
`cli.offsets`."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import EARLIEST, LATEST
from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.kafka.groups import GroupIsActive, commit_group_offsets, list_all_groups, read_group_offsets
from sparkmirror.model import TopicPartition, plain
from sparkmirror.policy.filters import name_matcher


@dataclass(frozen=True, slots=True)
class Move:
    """One partition: the offset at which the group stands (None: no offset is committed) and the offset to which it
    moves."""

    partition: TopicPartition
    before: int | None
    after: int

    @property
    def effect(self) -> str:
        """The effect on the group, in words. Transaction markers count as records."""
        if self.before is None:
            return "set"
        distance = self.before - self.after
        if not distance:
            return "as it is"
        return f"{distance} again" if distance > 0 else f"{-distance} skipped"

    def as_json(self) -> dict[str, Any]:
        return plain(self) | {"effect": self.effect}


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The moves of all chosen partitions, and warnings about parts of the request that could not be planned."""

    moves: tuple[Move, ...]
    warnings: tuple[str, ...] = ()

    @property
    def commits(self) -> GroupOffsets:
        """The offsets to commit: only those that move."""
        return {move.partition: Committed(move.after) for move in self.moves if move.after != move.before}


def plan_reset(
    committed: GroupOffsets,
    wanted: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> ResetPlan:
    """Moves each partition to its offset in `wanted`, kept within the log's start and end. A partition whose log is
    not known, such as that of a deleted topic, is left out, with a warning."""
    moves: list[Move] = []
    warnings: list[str] = []
    for partition, offset in sorted(wanted.items()):
        if partition not in starts or partition not in ends:
            warnings.append(f"{partition} is left as it is: the cluster does not say where it begins and ends")
            continue
        after = min(max(offset, starts[partition]), ends[partition])
        if after != offset:
            which = "start" if after > offset else "end"
            warnings.append(f"{partition}: offset {offset} is outside of the log, its {which}, {after}, is taken")
        stands = committed.get(partition)
        moves.append(Move(partition, None if stands is None else stands.offset, after))
    return ResetPlan(tuple(moves), tuple(warnings))


class Goal(Enum):
    """Places to which a group can go, apart from a point in time."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class Reset:
    """The request: `goal` is a Goal or a time in ms since 1970. With the expression `topics` it covers all
    partitions of the topics whose whole name matches, without it those for which the group has committed offsets."""

    group: str
    goal: Goal | int
    topics: str = ""


def observe_reset(admin: Admin, reset: Reset, checkpoints: GroupOffsets) -> ResetPlan:
    """The plan for the present state of the cluster. `checkpoints` are the group's, for that goal. Raises
    SparkMirrorError when there is nothing to move, and ClusterError, for example OffsetsUnknown while a leader does
    not give the start and end of its logs."""
    committed = read_group_offsets(admin, reset.group)
    wanted = _wanted(admin, reset, committed, checkpoints)
    if not wanted:
        raise SparkMirrorError(*_nothing(admin, reset))
    starts, ends = admin.await_earliest_offsets(wanted), admin.await_latest_offsets(wanted)
    return plan_reset(committed, wanted, starts, ends)


def refuse_active(admin: Admin, group: str) -> None:
    """Raises GroupIsActive for a group with members, SparkMirrorError for a group of another kind than consumers', and
    ClusterError where a coordinator does not list its groups: the group may be one of those."""
    found = list_all_groups(admin).get(group)
    if found is not None and found.is_active:
        raise GroupIsActive(
            f"Group {group} on {admin.alias} has members (it is {found.state}): only they commit its offsets.",
            "Stop its consumers, and wait for session.timeout.ms if one was killed; then try again.",
        )
    if found is not None and not found.is_consumer:
        raise SparkMirrorError(
            f"{group} on {admin.alias} is a {found.kind or found.protocol_type} group: it has no consumer's offsets."
        )


def apply_reset(admin: Admin, group: str, plan: ResetPlan) -> int:
    """Commits the offsets that move and returns their number. Raises GroupIsActive, and ClusterError that names the
    refused ones."""
    refuse_active(admin, group)
    commits = plan.commits
    refused = commit_group_offsets(admin, group, commits)
    if refused:
        said = "\n  ".join(map(str, refused.values()))
        raise SparkMirrorError(f"Not all offsets of group {group} were set on {admin.alias}:\n  {said}")
    return len(commits)


def _wanted(
    admin: Admin, reset: Reset, committed: GroupOffsets, checkpoints: GroupOffsets
) -> Mapping[TopicPartition, int]:
    if reset.goal is Goal.CHECKPOINT:
        is_chosen = name_matcher(reset.topics)
        return {where: one.offset for where, one in checkpoints.items() if is_chosen(where.topic)}
    partitions = _partitions(admin, reset.topics) if reset.topics else committed.keys()
    if isinstance(reset.goal, Goal):
        goal = EARLIEST if reset.goal is Goal.EARLIEST else LATEST
        return dict.fromkeys(partitions, 0) | admin.list_offsets(dict.fromkeys(partitions, goal)).all()
    return dict.fromkeys(partitions, 0) | admin.offsets_at(partitions, reset.goal).all()


def _partitions(admin: Admin, topics: str) -> list[TopicPartition]:
    is_chosen = name_matcher(topics)
    found = {name: topic for name, topic in admin.list_topics().items() if is_chosen(name)}
    if not found:
        raise SparkMirrorError(f"Cluster {admin.alias} has no topic that matches `{topics}`.", "Is its name right?")
    return [TopicPartition(name, number) for name in found for number in range(found[name].partitions)]


def _nothing(admin: Admin, reset: Reset) -> tuple[str, str]:
    if reset.goal is Goal.CHECKPOINT:
        return (
            f"There is no checkpoint of group {reset.group} on {admin.alias}.",
            "Checkpoints are written while a mirror runs, of groups that `groups` names and that have committed.",
        )
    return (
        f"Group {reset.group} has committed no offsets on {admin.alias}.",
        "Is its name right? To set offsets for a new group, name the topics: `--topic REGEX`.",
    )
