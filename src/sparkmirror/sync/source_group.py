"""Progress as a consumer group on the source, as MirrorMaker 1 keeps it; the rules, pure.

The ledger on the target is the authority; the group shows the same positions on the source. A mirror's commits carry a
mark in their metadata that names the flow. An offset without the mark was set by MirrorMaker 1 or by an operator with
Kafka's tools, and the next start begins there. Carried out by `sync.source_group_job`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sparkmirror.kafka.group_answers import Committed
from sparkmirror.model import Position, TopicPartition


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """The offsets to commit, and the partitions whose foreign offset stays until the next start."""

    commits: Mapping[TopicPartition, Committed]
    set_by_others: tuple[TopicPartition, ...] = ()


def mark_of(source_alias: str) -> str:
    """The metadata of our commits. Another alias is another ledger."""
    return f"sparkmirror {source_alias}"


def plan_adoption(
    group: Mapping[TopicPartition, Committed],
    ledger: Mapping[TopicPartition, Position],
    mark: str,
    unknown: Collection[TopicPartition] = (),
) -> dict[TopicPartition, int]:
    """The positions that the group's offsets give at a start; all other partitions go on from the ledger.

    An offset of ours is older than the ledger, or the ledger was led back with reason (a truncated source): it counts
    only where the ledger has nothing, not where its record is `unknown`. A foreign offset always counts.
    """
    there = {*ledger, *unknown}
    return {
        partition: stored.offset
        for partition, stored in group.items()
        if (partition not in there if stored.metadata == mark else _differs(stored, ledger.get(partition)))
    }


def plan_commit(
    group: Mapping[TopicPartition, Committed],
    ledger: Mapping[TopicPartition, Position],
    mark: str,
    *,
    renew: bool = False,
) -> CommitPlan:
    """The commits that bring the group in step with the ledger: changed positions, or all with `renew`, since brokers
    let offsets expire."""
    others = tuple(sorted(where for where in ledger if where in group and group[where].metadata != mark))
    commits = {
        where: Committed(position.offset, mark, position.leader_epoch)
        for where, position in ledger.items()
        if where not in others and (renew or where not in group or group[where].offset != position.offset)
    }
    return CommitPlan(commits, others)


def plan_mark(group: Mapping[TopicPartition, Committed], mark: str) -> dict[TopicPartition, Committed]:
    """The group's own offsets once more, under our mark: from here on a foreign one was set while the mirror ran."""
    return {
        where: Committed(stored.offset, mark, stored.leader_epoch)
        for where, stored in group.items()
        if stored.metadata != mark
    }


def _differs(stored: Committed, position: Position | None) -> bool:
    return position is None or position.offset != stored.offset
