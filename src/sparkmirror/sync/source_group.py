"""Keeps a flow's progress as a consumer group on the source, too, as MirrorMaker 1 does.

The ledger on the target is the authority; the group shows the same positions on the source. A mirror's commits carry a
mark in their metadata that names the flow. An offset without the mark was set by MirrorMaker 1 or by an operator with
Kafka's tools, and the next start begins there. `runtime.run` calls `begin` before the flow starts, the job thread calls
the job while the flow runs, and `end` commits the last positions.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.kafka.groups import commit_group_offsets, has_members, read_group_offsets
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger import connect
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.setup import count_offsets_partitions
from sparkmirror.ledger.topics import LedgerTopics
from sparkmirror.model import NO_TOPIC_ID, Position, TopicPartition
from sparkmirror.policy.partitioner import murmur2_partition


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


log = logging.getLogger(__name__)

_T = TypeVar("_T")

_RENEW_SECONDS = 3600.0
"""Brokers let a group's offsets expire after `offsets.retention.minutes`, though the partition is idle."""


class SourceGroup:
    """The consumer group of one flow. Its methods may be called from several threads."""

    def __init__(self, flow: FlowConfig) -> None:
        self._flow = flow
        self._group = flow.progress_group
        self._mark = mark_of(flow.name.source)
        self._topics: LedgerTopics = flow.ledger_topics
        self._source: Admin | None = None
        self._ledger: LedgerReader | None = None
        self._lock = threading.Lock()
        self._over = False
        self._renewed_at = time.monotonic()
        self._due_at = 0.0
        self._told: set[TopicPartition] = set()

    def begin(self, target: Admin) -> None:
        """Check that the flow may run, and make it start where the group stands. The ledger's topics exist.

        Raises SparkMirrorError when source and target are one cluster, when the group has members, and when an offset
        cannot be taken over.
        """
        with self._lock:
            source, ledger = self._clients()
            _refuse_same_cluster(self._flow, source, target)
            if has_members(source, self._group):
                raise SparkMirrorError(
                    f"{self._flow.name}: group {self._group} on the source has members: a MirrorMaker 1 mirrors now.",
                    "Stop it first; SparkMirror then goes on from its offsets.",
                )
            group = self._mirrored(source, read_group_offsets(source, self._group))
            adopted = plan_adoption(group, ledger.read_to_end(), self._mark, ledger.view.problems)
            self._store(adopted, target)
            self._commit(source, plan_mark(group, self._mark))
            if adopted:
                log.info("%s: %d partitions start from group %s.", self._flow.name, len(adopted), self._group)

    def __call__(self) -> None:
        """A round of the job, when one is due. Raises ClusterError; the next round connects again."""
        with self._lock:
            if self._over or time.monotonic() < self._due_at:
                return
            self._due_at = time.monotonic() + self._flow.progress_group_commit_interval_ms / 1000
            try:
                self._round()
            except SparkMirrorError:
                self._close()
                raise

    def end(self) -> None:
        """Commit the last positions, and end the rounds. Logs if they cannot be committed."""
        with self._lock:
            self._over = True
            try:
                self._round()
            except SparkMirrorError as problem:
                log.warning(
                    "%s: the last positions are in the ledger, but not in group %s: %s",
                    self._flow.name,
                    self._group,
                    problem,
                )
            finally:
                self._close()

    def _round(self) -> None:
        source, ledger = self._clients()
        now = time.monotonic()
        renew = now - self._renewed_at > _RENEW_SECONDS
        positions = self._mirrored(source, ledger.read_to_end(), lambda position: position.topic_id)
        plan = plan_commit(read_group_offsets(source, self._group), positions, self._mark, renew=renew)
        self._commit(source, plan.commits)
        self._renewed_at = now if renew else self._renewed_at
        for partition in sorted(set(plan.set_by_others) - self._told):
            log.warning(
                "%s: the offset of %s in group %s was set by somebody else: it counts from the next start on.",
                self._flow.name,
                partition,
                self._group,
            )
        self._told = set(plan.set_by_others)

    def _commit(self, source: Admin, offsets: GroupOffsets) -> None:
        for problem in commit_group_offsets(source, self._group, offsets).values():
            raise problem

    def _store(self, positions: Mapping[TopicPartition, int], target: Admin) -> None:
        """Store positions as Connect's tools alter offsets; our record beside it then differs, and is not used."""
        if not positions:
            return
        partitions = count_offsets_partitions(target, self._topics)
        records = [
            (connect.encode_key(self._flow.connector, where), connect.encode_value(offset))
            for where, offset in sorted(positions.items())
        ]
        publish(self._flow.target, self._topics.offsets, records, place=lambda key: murmur2_partition(key, partitions))

    def _mirrored(
        self,
        source: Admin,
        found: Mapping[TopicPartition, _T],
        topic_id_of: Callable[[_T], UUID] = lambda _: NO_TOPIC_ID,
    ) -> dict[TopicPartition, _T]:
        """Those of topics that the flow mirrors and that are there: others cannot be committed. A position of a topic
        that is no more means nothing in another one of its name."""
        topics = source.list_topics({where.topic for where in found})
        return {
            where: value
            for where, value in found.items()
            if where.topic in topics
            and where.partition < topics[where.topic].partitions
            and topic_id_of(value) in (NO_TOPIC_ID, topics[where.topic].topic_id)
            and self._flow.should_replicate(where.topic)
        }

    def _clients(self) -> tuple[Admin, LedgerReader]:
        if self._source is None:
            self._source = open_admin(self._flow.source, "group")
        if self._ledger is None:
            self._ledger = LedgerReader(self._flow.target, self._topics, self._flow.connector)
        return self._source, self._ledger

    def _close(self) -> None:
        for client in (self._source, self._ledger):
            if client is not None:
                client.close()
        self._source = self._ledger = None


def _refuse_same_cluster(flow: FlowConfig, source: Admin, target: Admin) -> None:
    """Invariant 8: names that stay the same show no loop, so at least the shortest one is looked for by cluster id."""
    cluster_id = source.cluster_id()
    if cluster_id and cluster_id == target.cluster_id():
        raise SparkMirrorError(
            f"{flow.name}: source and target are the same cluster ({cluster_id}).",
            "Topics keep their names, so every record would be mirrored to its own topic, again and again.",
        )
