"""Groups of one flow, round by round: read on the source, translated to checkpoints, committed on the target.

Called by `sync.offset_job`. `ledger.checkpoints` decides what to write; this module reads, applies and repairs.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple
from uuid import UUID

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import AuthorizationFailed, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.commit_log import CommitLog
from sparkmirror.kafka.group_answers import GroupOffsets
from sparkmirror.kafka.groups import GroupIsActive, GroupOffsetsClient, list_all_groups, list_groups
from sparkmirror.ledger.checkpoints import (
    CheckpointKey,
    Checkpoints,
    GroupWrite,
    Origins,
    Places,
    Reached,
    Renewal,
    begin_before,
    forget_places,
    may_move,
    note_origins,
    note_place,
    plan_checkpoints,
    plan_group_writes,
    plan_renewals,
    plan_take_back,
    translate_groups,
)
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.ledger.translate import TargetLogs, Translated, is_former
from sparkmirror.model import TopicPartition
from sparkmirror.sync.log_notes import LogNotes
from sparkmirror.sync.offset_state import OffsetState, read_target_logs

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 30.0
"""A group that stands where it should is looked at again after this time, since somebody may have reset it; and the
logs of all checkpoints, since a topic may have been made again."""


def followed_offsets(flow: FlowConfig, offsets: GroupOffsets) -> GroupOffsets:
    """The offsets to translate: by the topic filter alone, as in MirrorMaker, and those of topics that came from the
    target, for the way back."""
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


class RoundPlan(NamedTuple):
    """The plan of one round: checkpoints that moved, and checkpoints whose log no longer exists."""

    checkpoints: list[Checkpoint]
    renewals: list[Renewal]


class GroupRound:
    """The groups of one flow. The admins, checkpoints, places and origins belong to the caller."""

    def __init__(
        self,
        flow: FlowConfig,
        source: Admin,
        target: Admin,
        checkpoints: Checkpoints,
        places: Places,
        origins: Origins,
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._source_groups = GroupOffsetsClient(source)
        self._target_groups = GroupOffsetsClient(target)
        self._commits = CommitLog(target)
        self._checkpoints = checkpoints
        self._places = places
        self._origins = origins
        self._reached: Mapping[CheckpointKey, Reached] = {}
        self._settled: dict[str, float] = {}
        self._looks_at = 0.0
        self._held: dict[CheckpointKey, Renewal] = {}
        self._notes = LogNotes(flow.target, flow.ledger_topics.status, flow.name.source)
        self._seen: dict[TopicPartition, UUID] = {}
        self._told: set[str] = set()
        self._failed: dict[str, SparkMirrorError] = {}
        self._unsure: dict[str, GroupOffsets] = {}
        """Commits of this round that were not answered: they may stand."""
        self.groups: list[str] = []
        self.counts = GroupCounts()

    @property
    def problem(self) -> str:
        """Which groups the last round could not read or move, and why the first of them; empty where there is none."""
        if not self._failed:
            return ""
        name, problem = next(iter(self._failed.items()))
        more = f" and {len(self._failed) - 1} more" if len(self._failed) > 1 else ""
        return f"{name}{more}: {problem.args[0]}"

    def find_groups(self) -> None:
        """Find the groups that the filter selects, in any state. Raises ClusterError. Only where they are looked for
        again soon may those of a loading coordinator be missing."""
        settings = self._flow.offsets
        accepts = settings.groups.accepts
        found = (list_groups if settings.refresh_groups else list_all_groups)(self._source).values()
        self.groups = sorted(group.name for group in found if group.is_consumer and accepts(group.name))

    def plan(self, state: OffsetState) -> RoundPlan:
        """Begin a round: the records to write to the checkpoints topic now. Raises ClusterError."""
        self._failed, self._unsure = {}, {}
        committed, failed = self._source_groups.committed(self.groups)
        self._tell(failed)
        wanted = {group: followed_offsets(self._flow, offsets) for group, offsets in committed.items()}
        self._reached = reached = translate_groups(wanted, state.translator.translate)
        logs = read_target_logs(self._target, self._to_look_at(reached))
        sources = cache(state.sources)
        translate, source_of = state.translator.translate, (lambda at: sources().get(at))
        self._seen = {where: log.topic_id for where, log in logs.items()}
        remade = self._notes.remade(self._target, self._seen) if logs else set()
        known = self._checkpoints, logs, translate, source_of, remade
        renewals = plan_renewals(reached, *known, places=self._places, origins=self._origins) if logs else {}
        return RoundPlan(plan_checkpoints(reached, self._checkpoints, logs, renewals), list(renewals.values()))

    def _to_look_at(self, reached: Mapping[CheckpointKey, Reached]) -> set[TopicPartition]:
        """The target partitions of checkpoints that may have to be written; at times those of all checkpoints."""
        moving = {
            key[1]
            for key, one in reached.items()
            if may_move(key, one, self._checkpoints) or self._is_former(self._checkpoints.get(key), one.found)
        }
        if time.monotonic() < self._looks_at:
            return moving
        self._looks_at = time.monotonic() + _LOOK_AGAIN_SECONDS
        return moving | {partition for _, partition in self._checkpoints}

    def _is_former(self, checkpoint: Checkpoint | None, found: Translated | None) -> bool:
        """Whether it lies in what another topic of the source has on the target now."""
        return checkpoint is not None and begin_before(checkpoint, self._origins, found) is not None

    def remember(self, written: Sequence[Checkpoint]) -> None:
        """These checkpoints of the round's plan are the last of their groups."""
        note_origins(self._origins, self._reached, written)
        for checkpoint in written:
            self._checkpoints[checkpoint.group, checkpoint.partition] = checkpoint
            note_place(self._places, checkpoint)
            self._settled.pop(checkpoint.group, None)
            self.counts.checkpoints += 1

    def note_logs(self) -> None:
        """End a round: its checkpoints are of the logs that it has seen. Raises ClusterError."""
        self._notes.note(self._target, self._seen)

    def take_back(self, renewals: Sequence[Renewal]) -> list[Checkpoint]:
        """Moves idle groups that stand where this mirror committed them for a log that no longer exists; returns the
        checkpoints to write then.

        What a group or another tool committed is left and named. A group that cannot be read or moved now keeps its
        checkpoint, by which its commit is known as ours: the next round tries again. One that is not ours to read has
        nothing to wait for. A group that has members is looked at in each round until it has none, or stands elsewhere.
        Raises ClusterError.
        """
        due = [*self._held_before(renewals), *renewals]
        if not (due and self._flow.offsets.sync_groups):
            return self._settle(renewals)
        before = self._commits.ends()
        active = self._active()
        on_target, failed = self._target_groups.committed({one.before.group for one in due})
        self._tell(failed)
        plan = plan_take_back(due, active, on_target, self._places)
        self._name(plan.left)
        wanted = {write.group: write.offsets for write in plan.writes}
        written = self._write_all(wanted)
        if written or self._unsure:
            self._restore(self._commits.overtaken(before, on_target, self._unsure | written))
        away = {group for group, problem in failed.items() if not isinstance(problem, AuthorizationFailed)}
        unsettled = away | {group for group, offsets in wanted.items() if written.get(group) != offsets}
        if unsettled:
            self._looks_at = 0.0
            self._seen = {}
        again = [one for one in due if one.key in self._held and one.before.group in unsettled]
        self._held = {one.key: one for one in [*again, *plan.held]}
        return self._settle([one for one in renewals if one.before.group not in unsettled])

    def _held_before(self, renewals: Iterable[Renewal]) -> list[Renewal]:
        """Those of groups that had members, each with its group's present checkpoint."""
        renewed = {one.key: one.after for one in renewals if one.key in self._held}
        present = {key: renewed.get(key) or self._checkpoints.get(key) for key in self._held}
        return [self._held[key]._replace(after=after) for key, after in present.items() if after is not None]

    def _settle(self, renewals: Sequence[Renewal]) -> list[Checkpoint]:
        for one in renewals:
            forget_places(self._places, one.key, one.end)
        return [one.after for one in renewals]

    def commit(self, state: OffsetState) -> None:
        """Moves groups without members on the target forward to their checkpoints. Raises ClusterError."""
        wanted = self._due()
        if not wanted:
            return
        before = self._commits.ends()
        active = self._active()
        on_target, failed = self._target_groups.committed(wanted.keys() - active)
        self._tell(failed)
        forward = plan_group_writes(wanted, active, on_target)
        logs = read_target_logs(self._target, {where for write in forward for where in write.offsets})
        sources = state.sources() if forward else {}
        writes = {
            group: offsets
            for group, offsets in ((one.group, self._sound(one, state, sources, logs)) for one in forward)
            if offsets
        }
        now = time.monotonic()
        self._settled.update(dict.fromkeys(on_target.keys() - writes.keys(), now))
        written = self._write_all(writes)
        self._settled.update({group: now for group, offsets in written.items() if offsets == writes[group]})
        if written or self._unsure:
            self._restore(self._commits.overtaken(before, on_target, self._unsure | written))
            self._doubt(written, logs)

    def _active(self) -> frozenset[str]:
        return frozenset(group.name for group in list_groups(self._target).values() if group.is_active)

    def _sound(
        self,
        write: GroupWrite,
        state: OffsetState,
        sources: Mapping[TopicPartition, TopicPartition],
        logs: TargetLogs,
    ) -> GroupOffsets:
        """The offsets that are valid in the present logs; none of an unknown log."""

        def is_sound(where: TopicPartition, offset: int) -> bool:
            checkpoint, source = self._checkpoints[write.group, where], sources.get(where)
            found = None if source is None else state.translator.translate(source, checkpoint.upstream)
            return not self._is_former(checkpoint, found) and state.now(checkpoint, sources, logs) == offset

        return {where: one for where, one in write.offsets.items() if is_sound(where, one.offset)}

    def _doubt(self, written: Mapping[str, GroupOffsets], logs: TargetLogs) -> None:
        """Look at all checkpoints again if a topic was created again during the commit, which names no topic id."""
        topics = {where.topic for offsets in written.values() for where in offsets}
        there = self._target.list_topics(topics)
        for group, offsets in written.items():
            if any(
                where.topic not in there or is_former(there[where.topic].topic_id, logs[where]) for where in offsets
            ):
                self._settled.pop(group, None)
                self._looks_at = 0.0

    def _name(self, left: Iterable[tuple[Renewal, int]]) -> None:
        for one, stands in left:
            words = (
                f"group {one.before.group} stands at {stands} of {one.before.partition} on {self._target.alias}, whose "
                f"log was made again and ends at {one.end}. It is left: the group has members, or somebody else "
                "committed that. `sparkmirror offsets reset` sets it"
            )
            self._say_once(SparkMirrorError(words + "."))

    def _due(self) -> dict[str, dict[TopicPartition, Checkpoint]]:
        before = time.monotonic() - _LOOK_AGAIN_SECONDS
        accepts = self._flow.offsets.groups.accepts
        wanted: dict[str, dict[TopicPartition, Checkpoint]] = defaultdict(dict)
        for (group, partition), checkpoint in self._checkpoints.items():
            if self._settled.get(group, before) <= before and (group in wanted or accepts(group)):
                wanted[group][partition] = checkpoint
        return wanted

    def _write_all(self, writes: Mapping[str, GroupOffsets]) -> dict[str, GroupOffsets]:
        """What was committed, by group: brokers may refuse some partitions of one, and take the others."""
        written = {group: self._write(group, offsets) for group, offsets in writes.items()}
        return {group: offsets for group, offsets in written.items() if offsets}

    def _write(self, group: str, offsets: GroupOffsets) -> GroupOffsets:
        """Commit; what was committed. A group that has become active meanwhile is left to its members."""
        try:
            refused = self._target_groups.commit(group, offsets)
        except GroupIsActive:
            return {}
        except SparkMirrorError as problem:
            self._tell({group: problem})
            self._unsure |= {} if isinstance(problem, AuthorizationFailed) else {group: offsets}
            return {}
        self.counts.moved += len(offsets) - len(refused)
        self._tell({str(partition): problem for partition, problem in refused.items()})
        return {where: one for where, one in offsets.items() if where not in refused}

    def _restore(self, overtaken: Mapping[str, GroupOffsets]) -> None:
        """Gives back what others committed between our look and our commit: Kafka knows no compare-and-set."""
        for group, lost in overtaken.items():
            if offsets := self._write(group, lost):
                self.counts.restored += len(offsets)
                log.warning(
                    "%s: group %s committed on %s while it was being synced; its own offsets were restored (%s).",
                    self._flow.name, group, self._target.alias, ", ".join(map(str, sorted(offsets))),
                )  # fmt: skip

    def _tell(self, failed: Mapping[str, SparkMirrorError]) -> None:
        """Log each failure once; `problem` names all of this round."""
        self._failed.update(failed)
        for problem in failed.values():
            self._say_once(problem)

    def _say_once(self, problem: SparkMirrorError) -> None:
        if str(problem) not in self._told:
            self._told.add(str(problem))
            log.warning("%s: %s", self._flow.name, problem)
