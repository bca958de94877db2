"""Observes the facts that `operations.failover` judges: the ledger, both clusters' offsets and groups. Called by
`cli.failover`.

The source may be lost; then only the target's records are used. Changes nothing.
"""

import time
from collections.abc import Collection, Mapping
from uuid import UUID

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.group_answers import GroupListing, GroupOffsets
from sparkmirror.kafka.groups import GroupOffsetsClient, list_all_groups
from sparkmirror.kafka.log_offsets import name_unknown
from sparkmirror.ledger.translate import TargetLogs
from sparkmirror.model import TopicPartition
from sparkmirror.operations.cluster_pair import ClusterPair, ledger_offsets, mirrored_offsets, mirrored_partitions
from sparkmirror.operations.failover import (
    IN_STEP,
    Behind,
    Readiness,
    name_beyond,
    plan_behind,
    plan_places,
    plan_places_without_source,
)
from sparkmirror.operations.identical_offsets import look_at_identical
from sparkmirror.sync.flow import plan_flow
from sparkmirror.sync.offset_state import OffsetState, target_logs

_AGES_SECONDS_MAX = 10.0
_PATIENCE_SECONDS = 10.0


def look(flow: FlowConfig, cluster_pair: ClusterPair, *, differences: bool = True, is_step: bool = False) -> Readiness:
    """The readiness of the flow for a failover. With `differences` it also compares topics, settings and ACLs. A step
    waits for the leaders of the target, since a group that it leaves out begins by `auto.offset.reset`. Raises
    ClusterError, and for a step OffsetsUnknown."""
    with OffsetState(flow, cluster_pair.source, cluster_pair.target) as state:
        state.follow()
        listed = list_all_groups(cluster_pair.target)
        active = frozenset(name for name, group in listed.items() if group.is_active)
        if cluster_pair.source is None:
            return _by_target_alone(flow, cluster_pair.target, state, active, is_step=is_step)
        groups = _wanted(flow, list_all_groups(cluster_pair.source))
        committed = read_groups(cluster_pair.source, groups)
        partitions = mirrored_partitions(flow, cluster_pair.source)
        remote = {where: TopicPartition(flow.remote_topic(where.topic), where.partition) for where in partitions}
        remote |= _homeward(flow, cluster_pair.source)
        wanted = {remote[where] for at in committed.values() for where in at if where in remote}
        logs, silent = _target_logs(cluster_pair.target, wanted, is_step=is_step)
        places = plan_places(
            committed, state.checkpoints, read_groups(cluster_pair.target, groups), active,
            state.maps, state.translator.translate, remote, logs, flow.keeps_offsets,
        )  # fmt: skip
        beyond = name_beyond(places, logs)
        behind, unknown = look_behind(flow, cluster_pair.source, partitions)
        return Readiness(
            flow.name,
            True,
            behind,
            places,
            frozenset(name for name, group in groups.items() if group.is_active),
            active,
            silent + beyond + (_differences(flow) if differences else ()),
            unknown=unknown,
            identical=look_at_identical(flow, cluster_pair.target, state.records),
            topic_ids=_topic_ids(logs),
            compared=_compared(flow) if differences else (),
        )


def _target_logs(
    target: Admin, partitions: Collection[TopicPartition], *, is_step: bool
) -> tuple[TargetLogs, tuple[str, ...]]:
    """The logs to which groups go, and a sentence about those whose leaders do not answer. Raises OffsetsUnknown for a
    step."""
    if is_step:
        return target_logs(target, target.await_latest_offsets(partitions)), ()
    found = target.latest_offsets(partitions)
    silent = f"{target.alias} does not tell the ends of {name_unknown(found.unknown)}"
    said = (f"{silent}: where groups go on there is not known",) if found.unknown else ()
    return target_logs(target, found.known), said


def _homeward(flow: FlowConfig, source: Admin) -> dict[TopicPartition, TopicPartition]:
    """Source topics that came from the target, with their names there: a group that read one on the source continues
    at the original."""
    home: dict[TopicPartition, TopicPartition] = {}
    for name, topic in source.list_topics().items():
        original = flow.policy.upstream_topic(name)
        if original is None or flow.policy.topic_source(name) != flow.name.target or not flow.topics.accepts(original):
            continue
        home |= {TopicPartition(name, at): TopicPartition(original, at) for at in range(topic.partitions)}
    return home


def look_behind(
    flow: FlowConfig, source: Admin, partitions: Collection[TopicPartition]
) -> tuple[tuple[Behind, ...], Mapping[TopicPartition, str]]:
    """The partitions that are not mirrored to their end, with the age of the first missing record; and the
    partitions of which that is not known, with the reason. Raises ClusterError."""
    starts, ends = source.earliest_offsets(partitions).known, source.newest_ends(partitions)
    positions = mirrored_offsets(flow, source)
    found = plan_behind(positions, starts, ends.known, {})
    ages = _ages_seconds(flow, {one.partition: one.position for one in found})
    return plan_behind(positions, starts, ends.known, ages), ends.unknown


def _by_target_alone(
    flow: FlowConfig, target: Admin, state: OffsetState, active: frozenset[str], *, is_step: bool
) -> Readiness:
    accepts = flow.offsets.groups.accepts
    checkpoints = {at: one for at, one in state.checkpoints.items() if accepts(at[0])}
    upstream = {
        TopicPartition(flow.remote_topic(where.topic), where.partition): where for where in ledger_offsets(flow)
    }
    on_target = read_groups(target, {group for group, _ in checkpoints})
    logs, silent = _target_logs(target, {where for _, where in checkpoints}, is_step=is_step)
    translate = state.translator.translate
    places = plan_places_without_source(checkpoints, on_target, active, upstream, translate, logs, flow.keeps_offsets)
    beyond = name_beyond(places, logs)
    heard, identical = _heard_seconds(flow), look_at_identical(flow, target, state.records)
    return Readiness(
        flow.name, False, (), places, frozenset(), active, silent + beyond, heard,
        identical=identical, topic_ids=_topic_ids(logs),
    )  # fmt: skip


def _topic_ids(logs: TargetLogs) -> dict[str, UUID]:
    return {where.topic: log.topic_id for where, log in logs.items()}


def _wanted(flow: FlowConfig, listed: Mapping[str, GroupListing]) -> dict[str, GroupListing]:
    accepts = flow.offsets.groups.accepts
    return {name: group for name, group in listed.items() if group.is_consumer and accepts(name)}


def read_groups(admin: Admin, groups: Collection[str]) -> dict[str, GroupOffsets]:
    """Reads all groups. Raises ClusterError if one cannot be read, because figures without it would mislead."""
    found, failed = GroupOffsetsClient(admin, _PATIENCE_SECONDS).committed(groups)
    for problem in failed.values():
        raise problem
    return found


def _differences(flow: FlowConfig) -> tuple[str, ...]:
    plan = plan_flow(flow)
    return (*(change.sentence for change in plan.changes), *plan.warnings)


def _compared(flow: FlowConfig) -> tuple[str, ...]:
    """What `plan_flow` compares: that of the jobs which the file asks for."""
    kept = (True, flow.sync.configs_enabled, flow.sync.acls_enabled)
    return tuple(one for one, is_kept in zip(IN_STEP, kept, strict=True) if is_kept)


def _ages_seconds(flow: FlowConfig, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
    """The ages of the records at these offsets; a record that cannot be read in time is left out."""
    if not offsets:
        return {}
    found: dict[TopicPartition, int] = {}
    ends_at = time.monotonic() + _AGES_SECONDS_MAX
    with open_tail(flow.source, "failover", sorted(offsets), is_internal=False) as tail:
        for where, offset in offsets.items():
            tail.seek(where, offset)
        while found.keys() < offsets.keys() and time.monotonic() < ends_at:
            for record in tail.poll(0.2):
                found.setdefault(record.partition, record.timestamp_ms)
    now_ms = time.time_ns() // 1_000_000
    return {where: max(now_ms - at_ms, 0) / 1000 for where, at_ms in found.items()}


def _heard_seconds(flow: FlowConfig) -> float | None:
    """The time since the mirror last stored a position."""
    topic = TopicPartition(flow.ledger_topics.positions, 0)
    with open_tail(flow.target, "failover", [topic]) as tail:
        stored = [record.timestamp_ms for record in tail.read_to_end() if record.timestamp_ms >= 0]
    return max(time.time_ns() // 1_000_000 - max(stored), 0) / 1000 if stored else None
