"""Groups of one flow, round by round: read on the source, translated to checkpoints, committed on the target.

Called by `sync.offset_job`. What to write is decided in `ledger.checkpoints`; here it is read, applied and repaired.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from sparkmirror.config.flows import FlowConfig
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.commit_log import CommitLog
from sparkmirror.kafka.group_answers import GroupOffsets
from sparkmirror.kafka.groups import GroupIsActive, GroupOffsetsClient, list_groups
from sparkmirror.ledger.checkpoints import Checkpoints, plan_checkpoints, plan_group_writes
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.ledger.translate import Translator
from sparkmirror.model import TopicPartition

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 30.0
"""A group that stands where it should is looked at again after this time: somebody may have reset it."""


def followed_offsets(flow: FlowConfig, offsets: GroupOffsets) -> GroupOffsets:
    """Those to translate: by the topic filter alone, as in MirrorMaker; and what came from the target, for the way
    back."""
    return {
        partition: committed
        for partition, committed in offsets.items()
        if flow.topics.accepts(partition.topic) or _returns(flow, partition.topic)
    }


def _returns(flow: FlowConfig, topic: str) -> bool:
    upstream = flow.policy.upstream_topic(topic)
    returns = flow.policy.topic_source(topic) == flow.name.target and upstream is not None
    return returns and flow.topics.accepts(upstream or "")


@dataclass(slots=True)
class GroupCounts:
    """Since the start: checkpoints written, groups' partitions moved forward, commits of others restored."""

    checkpoints: int = 0
    moved: int = 0
    restored: int = 0


class GroupRound:
    """The groups of one flow. The admins and checkpoints belong to the caller."""

    def __init__(self, flow: FlowConfig, source: Admin, target: Admin, checkpoints: Checkpoints) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._source_groups = GroupOffsetsClient(source)
        self._target_groups = GroupOffsetsClient(target)
        self._commits = CommitLog(target)
        self._checkpoints = checkpoints
        self._settled: dict[str, float] = {}
        self._told: set[str] = set()
        self.groups: list[str] = []
        self.counts = GroupCounts()

    def find_groups(self) -> None:
        """Which groups take part: by the filter, in any state. Raises ClusterError."""
        accepts = self._flow.offsets.groups.accepts
        found = list_groups(self._source).values()
        self.groups = sorted(group.name for group in found if group.is_consumer and accepts(group.name))

    def checkpoint(self, translator: Translator) -> list[Checkpoint]:
        """What to write to the checkpoints topic now; remembered as written. Raises ClusterError."""
        committed, failed = self._source_groups.committed(self.groups)
        self._tell(failed)
        wanted = {group: followed_offsets(self._flow, offsets) for group, offsets in committed.items()}
        plan = plan_checkpoints(wanted, self._checkpoints, translator.translate)
        for checkpoint in plan:
            self._checkpoints[checkpoint.group, checkpoint.partition] = checkpoint
            self._settled.pop(checkpoint.group, None)
        self.counts.checkpoints += len(plan)
        return plan

    def commit(self) -> None:
        """Moves groups without members on the target forward to their checkpoints. Raises ClusterError."""
        wanted = self._due()
        if not wanted:
            return
        before = self._commits.ends()
        active = frozenset(group.name for group in list_groups(self._target).values() if group.is_active)
        on_target, failed = self._target_groups.committed(wanted.keys() - active)
        self._tell(failed)
        writes = {write.group: write.offsets for write in plan_group_writes(wanted, active, on_target)}
        now = time.monotonic()
        self._settled.update(dict.fromkeys(on_target.keys() - writes.keys(), now))
        written = {group: offsets for group, offsets in writes.items() if self._write(group, offsets)}
        self._settled.update(dict.fromkeys(written, now))
        if written:
            self._restore(self._commits.overtaken(before, written))

    def _due(self) -> dict[str, dict[TopicPartition, Checkpoint]]:
        before = time.monotonic() - _LOOK_AGAIN_SECONDS
        accepts = self._flow.offsets.groups.accepts
        wanted: dict[str, dict[TopicPartition, Checkpoint]] = defaultdict(dict)
        for (group, partition), checkpoint in self._checkpoints.items():
            if self._settled.get(group, before) <= before and (group in wanted or accepts(group)):
                wanted[group][partition] = checkpoint
        return wanted

    def _write(self, group: str, offsets: GroupOffsets) -> bool:
        """Whether all was committed. A group that has become active meanwhile is its members' own."""
        try:
            refused = self._target_groups.commit(group, offsets)
        except GroupIsActive:
            return False
        except SparkMirrorError as problem:
            self._tell({group: problem})
            return False
        self.counts.moved += len(offsets) - len(refused)
        self._tell({str(partition): problem for partition, problem in refused.items()})
        return not refused

    def _restore(self, overtaken: Mapping[str, GroupOffsets]) -> None:
        """Gives back what consumers committed between our look and our commit: Kafka knows no compare-and-set."""
        for group, offsets in overtaken.items():
            if self._write(group, offsets):
                self.counts.restored += len(offsets)
                log.warning(
                    "%s: group %s committed on %s while it was being synced; its own offsets were restored (%s).",
                    self._flow.name, group, self._target.alias, ", ".join(map(str, sorted(offsets))),
                )  # fmt: skip

    def _tell(self, failed: Mapping[str, SparkMirrorError]) -> None:
        """Each failure once."""
        for problem in failed.values():
            if str(problem) not in self._told:
                self._told.add(str(problem))
                log.warning("%s: %s", self._flow.name, problem)
