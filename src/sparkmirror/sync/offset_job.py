"""Offsets of one flow: offset syncs, checkpoints, and group offsets on the target; observe, plan, apply.

Run by `runtime.jobs` every second or so; new groups are looked for every five. The data plane only stores the offset
map; all that MirrorMaker's formats ask for is made here from it, so none of it delays records. When the map's topic was
deleted, `MapKeeper` writes the map again from memory; a mirror that was down at that time has offset syncs and
checkpoints left, which give earlier offsets.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from math import inf
from uuid import UUID

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import AuthorizationFailed, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.publish import Publisher
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.ledger.checkpoints import Origins
from sparkmirror.ledger.map_records import MapView
from sparkmirror.ledger.setup import ensure_compacted_topic, ensure_ledger_topics, mirror_topics
from sparkmirror.ledger.syncs import SyncEmitter
from sparkmirror.model import TopicPartition
from sparkmirror.sync.group_sync import GroupRound
from sparkmirror.sync.offset_state import OffsetState
from sparkmirror.telemetry.records import Spread
from sparkmirror.telemetry.window import Window

GroupPartition = tuple[str, TopicPartition]
"""A group, and a partition by its name on the target."""


class CheckpointLatency:
    """How long one flow's checkpoints take from being read to being stored, for each group and partition.

    MirrorMaker's metric of that name mixes all groups of a task. One thread adds, others read."""

    def __init__(self) -> None:
        self._windows: dict[GroupPartition, Window] = {}
        self._lock = threading.Lock()

    def add(self, stored: Iterable[GroupPartition], ms: int, now_ms: int) -> None:
        """These checkpoints took `ms`."""
        with self._lock:
            for one in stored:
                self._windows.setdefault(one, Window()).add(ms, ms, 1, now_ms)

    def spreads(self, now_ms: int) -> Mapping[GroupPartition, Spread]:
        with self._lock:
            return {one: window.spread(now_ms) for one, window in self._windows.items()}


log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
_GROUPS_SECONDS = 5.0
"""How often new groups are looked for, by two requests a broker. Without any group a round comes as rarely."""
_FLUSH_SECONDS = 5.0
"""How often the last record of each partition that moved becomes an offset sync. MirrorMaker's do once a minute."""
_REFUSED_SECONDS = 60.0
"""After this time offset syncs are tried again that the mirror has no right to write; all else goes on meanwhile."""
_COMPACTION_SECONDS = 600.0


class OffsetJob:
    """One round for each call. Connections stay open between rounds and are opened again after a failure."""

    def __init__(self, flow: FlowConfig, latency: CheckpointLatency | None = None) -> None:
        """`latency` records how long checkpoints took."""
        self._flow = flow
        self._latency = latency or CheckpointLatency()
        self._names = mirror_topics(flow.name, flow.policy, flow.offsets.syncs_location)
        self._connections = ExitStack()
        self._open: _Opened | None = None
        self._syncs_from = self._look_at = 0.0
        self._keeper = MapKeeper(flow)
        self._origins: Origins = {}

    @property
    def seconds_max(self) -> float:
        """The shortest of the intervals in the file."""
        settings = self._flow.offsets
        seconds = [settings.emit_checkpoints_interval_seconds]
        if settings.sync_groups:
            seconds.append(settings.sync_groups_interval_seconds)
        if settings.refresh_groups:
            seconds.append(settings.refresh_groups_interval_seconds)
        return float(min(seconds))

    def __call__(self) -> str:
        """Why some groups were not kept in step, "" if all were. Raises ClusterError if a cluster does not answer."""
        try:
            if self._open is None:
                self._open = _Opened(self._flow, self._connections, self._origins)
            elif self._rests(self._open):
                return ""
            self._look_at = time.monotonic() + _GROUPS_SECONDS
            self._round(self._open)
            if self._keeper.keep(self._open.target, self._open.publisher, self._open.state.maps):
                self.close()
        except Exception:
            self.close()
            raise
        return "" if self._open is None else self._open.groups.problem

    def _rests(self, opened: "_Opened") -> bool:
        """Whether nothing waits for this round: no group is followed, none has a checkpoint to keep."""
        return time.monotonic() < self._look_at and not opened.groups.groups and not opened.state.checkpoints

    def close(self) -> None:
        self._connections.close()
        self._open = None

    def _round(self, opened: "_Opened") -> None:
        """Offset syncs come first, so that refused checkpoints do not stop them."""
        changed = opened.state.follow()
        if self._flow.offsets.emit_syncs:
            self._sync(opened, changed)
        if self._flow.offsets.emit_checkpoints:
            self._checkpoint(opened)
        opened.compact_maps(self._flow)

    def _sync(self, opened: "_Opened", changed: set[TopicPartition]) -> None:
        for partition in changed:
            found = opened.state.maps.map_of(partition)
            if found is not None and partition.topic not in opened.state.scattered:
                opened.emitter.follow(partition, found)
        now = time.monotonic()
        if now < self._syncs_from:
            return
        is_flush = now >= opened.flushes_at
        syncs = opened.emitter.take(flushed=is_flush)
        try:
            opened.ensure_syncs_topic(self._names.syncs, self._flow.offsets.syncs_replication_factor)
            if syncs:
                opened.syncs_publisher.write(self._names.syncs, [(sync.key(), sync.value()) for sync in syncs])
        except AuthorizationFailed as problem:
            opened.emitter.give_back(syncs)
            self._put_off_syncs(problem)
        else:
            opened.flushes_at = now + _FLUSH_SECONDS if is_flush else opened.flushes_at
            self._tell_of_syncs_again()

    def _put_off_syncs(self, problem: SparkMirrorError) -> None:
        if not self._syncs_from:
            log.warning(
                "%s: no offset syncs are written, which only MirrorMaker would miss: %s "
                "Or set offset-syncs.topic.location=target, or emit.offset-syncs.enabled=false.",
                self._flow.name,
                problem,
            )
        self._syncs_from = time.monotonic() + _REFUSED_SECONDS

    def _tell_of_syncs_again(self) -> None:
        if self._syncs_from:
            log.info("%s: offset syncs are written again.", self._flow.name)
        self._syncs_from = 0.0

    def _checkpoint(self, opened: "_Opened") -> None:
        settings = self._flow.offsets
        opened.ensure_checkpoints_topic(self._names.checkpoints, settings.checkpoints_replication_factor)
        now = time.monotonic()
        if now >= opened.looks_at:
            opened.groups.find_groups()
            opened.looks_at = now + _GROUPS_SECONDS if settings.refresh_groups else inf
        fetched_ms = time.time_ns() // 1_000_000
        plan = opened.groups.plan(opened.state)
        checkpoints = [*plan.checkpoints, *opened.groups.take_back(plan.renewals)]
        if checkpoints:
            records = [(checkpoint.key(), checkpoint.value()) for checkpoint in checkpoints]
            opened.publisher.write(self._names.checkpoints, records, fetched_ms)
            opened.groups.remember(checkpoints)
            now_ms = time.time_ns() // 1_000_000
            self._latency.add(((one.group, one.partition) for one in checkpoints), now_ms - fetched_ms, now_ms)
        opened.groups.note_logs()
        if settings.sync_groups:
            opened.groups.commit(opened.state)


class _Opened:
    """The connections of the job until its next failure."""

    def __init__(self, flow: FlowConfig, connections: ExitStack, origins: Origins) -> None:
        source: Admin = connections.enter_context(open_admin(flow.source, "offsets"))
        self.target: Admin = connections.enter_context(open_admin(flow.target, "offsets"))
        on_source = flow.offsets.syncs_location == "source"
        self._syncs_at = source if on_source else self.target
        self.state = state = connections.enter_context(OffsetState(flow, source, self.target))
        self.groups = GroupRound(flow, source, self.target, state.checkpoints, state.places, origins)
        self.publisher = connections.enter_context(Publisher(flow.target, "offsets"))
        needs_own = on_source and flow.offsets.emit_syncs
        self.syncs_publisher = (
            connections.enter_context(Publisher(flow.source, "offsets")) if needs_own else self.publisher
        )
        self.emitter = SyncEmitter(flow.offsets.lag_max)
        for sync in self.state.last_syncs.values():
            self.emitter.resume(sync.partition, sync.upstream)
        self.looks_at = self.flushes_at = 0.0
        self._ensured: set[str] = set()
        self._source = source
        self._compacted_at = time.monotonic()

    def ensure_syncs_topic(self, name: str, replication_factor: int) -> None:
        self._ensure(self._syncs_at, name, replication_factor)

    def ensure_checkpoints_topic(self, name: str, replication_factor: int) -> None:
        self._ensure(self.target, name, replication_factor)

    def _ensure(self, admin: Admin, name: str, replication_factor: int) -> None:
        """Create an internal topic, once. Raises AuthorizationFailed and the like."""
        if name not in self._ensured:
            ensure_compacted_topic(admin, name, replication_factor)
            self._ensured.add(name)

    def compact_maps(self, flow: FlowConfig) -> None:
        """Now and then joins the pieces of offset maps, so that they stay few."""
        if time.monotonic() - self._compacted_at < _COMPACTION_SECONDS:
            return
        self._compacted_at = time.monotonic()
        starts = dict(
            self._source.earliest_offsets(self.state.maps.partitions).known
        )  # of the others nothing is pruned
        records = self.state.maps.plan_compaction(starts)
        if records:
            topic = flow.ledger_topics.offset_map
            self.publisher.write(topic, [(record.key, record.value) for record in records])


_LOOK_SECONDS = 5.0


class MapKeeper:
    """Remembers one flow's offset maps beyond the connections of its job, and writes them again if their topic is
    deleted."""

    def __init__(self, flow: FlowConfig) -> None:
        self._flow = flow
        self._topics = flow.ledger_topics
        self._due_at = 0.0
        self._topic_id: UUID | None = None
        self._maps = MapView(flow.name.source)

    def keep(self, target: Admin, publisher: Publisher, maps: MapView) -> bool:
        """Whether the topic was deleted or created again, and has been written; then `maps` must be read again.

        `maps` is what was read from it. Raises ClusterError; the next call tries again.
        """
        if time.monotonic() < self._due_at:
            return False
        found = target.list_topics([self._topics.offset_map]).get(self._topics.offset_map)
        if found is not None and self._topic_id in (None, found.topic_id):
            self._due_at = time.monotonic() + _LOOK_SECONDS
            self._topic_id, self._maps = found.topic_id, maps
            return False
        if self._topic_id is None:
            return False
        self._write(target, publisher)
        return True

    def _write(self, target: Admin, publisher: Publisher) -> None:
        """Write the remembered maps; records that writers store meanwhile, or in open transactions, are younger, and
        stay."""
        flow = self._flow
        ensure_ledger_topics(target, self._topics)
        topic = self._topics.offset_map
        where, count = TopicPartition(topic, 0), 0
        with open_tail(flow.target, "offsets", [where]) as tail:
            there = {record.key for record in tail.read_to({where: target.await_end(where)})}
            records = {one.key: one.value for one in self._maps.records() if one.key not in there}
            while records:
                publisher.write(topic, list(records.items()))
                count += len(records)
                records = _overtaken(tail.read_to({where: target.await_end(where)}), records)
        self._topic_id = target.list_topics([topic])[topic].topic_id
        log.warning(
            "%s: topic %s was gone; the offset map of %d partitions was written again (%d records).",
            flow.name, topic, len(self._maps.partitions), count,
        )  # fmt: skip


def _overtaken(read: Iterable[TailRecord], written: Mapping[bytes, bytes | None]) -> dict[bytes, bytes | None]:
    """The records of others that lie right before what was written of the same keys, and count for older now."""
    younger: dict[bytes, bytes | None] = {}
    last: dict[bytes, bytes | None] = {}
    for record in read:
        if record.key is not None and record.key in written:
            last[record.key] = record.value
            if record.value != written[record.key]:
                younger[record.key] = record.value
    return {key: value for key, value in younger.items() if last[key] != value}
