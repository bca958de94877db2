"""Reads what the verbs `topics`, `groups` and `topology` list: topics of a flow, its consumer groups, a cluster's
heartbeats.

Changes nothing. Called by the verbs, and by `web.watchers`; `views` judges and renders the results.
"""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from sparkmirror.client import MirrorClient
from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig
from sparkmirror.errors import AuthorizationFailed
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.group_answers import GroupListing, GroupOffsets
from sparkmirror.kafka.groups import list_all_groups
from sparkmirror.kafka.log_offsets import LogOffsets, name_unknown
from sparkmirror.ledger.translate import TargetLogs
from sparkmirror.model import Topic, TopicPartition
from sparkmirror.operations.cluster_pair import ClusterPair, open_sides
from sparkmirror.operations.failover_snapshot import read_groups
from sparkmirror.operations.identical_offsets import Identical, look_at_identical
from sparkmirror.policy.filters import LeftOut, compile_names
from sparkmirror.policy.naming import ReplicationPolicy
from sparkmirror.sync.config_job import observe_settings
from sparkmirror.sync.configs import ResetConfig, SetConfig, plan_configs
from sparkmirror.sync.flow import topic_rules
from sparkmirror.sync.group_sync import followed_offsets
from sparkmirror.sync.offset_state import OffsetState, target_logs
from sparkmirror.views.groups_page import GroupLine, GroupPlace
from sparkmirror.views.topics_page import TopicLine, list_lines, list_orphans
from sparkmirror.views.topology import Topology, read_topology


def look_at_topics(flow: FlowConfig, pattern: str = "") -> list[TopicLine]:
    """Topics whose whole source name matches the expression; all for "". Raises ClusterError if a cluster does not
    answer."""
    compiled = compile_names([pattern or ".*"])
    assert compiled is not None
    with open_admin(flow.source, "topics") as source, open_admin(flow.target, "topics") as target:
        on_source, on_target = source.list_topics(), target.list_topics()
        chosen = {name: topic for name, topic in on_source.items() if compiled.fullmatch(name)}
        left_out = _left_out(flow, chosen)
        wanted = chosen.keys() - left_out.keys()
        settings = _differing(flow, source, target, wanted)
    orphans = {
        remote: name
        for remote, name in _origins(flow, on_target).items()
        if name not in on_source and compiled.fullmatch(name)
    }
    remote_names = {name: flow.remote_topic(name) for name in wanted}
    return [*list_lines(chosen, on_target, left_out, remote_names, settings), *list_orphans(on_target, orphans)]


def _left_out(flow: FlowConfig, topics: Mapping[str, Topic]) -> dict[str, tuple[LeftOut, str]]:
    """Topics that are not mirrored, and why; topics that the brokers mark as internal are left out altogether."""
    found: dict[str, tuple[LeftOut, str]] = {}
    for name, topic in topics.items():
        if topic.internal:
            found[name] = (LeftOut.INTERNAL, "internal to Kafka")
        elif why := flow.topics.why_not(name, flow.policy, flow.name):
            found[name] = why
    return found


def _differing(flow: FlowConfig, source: Admin, target: Admin, topics: Collection[str]) -> dict[str, list[str]]:
    """For each source topic the settings that a round of the settings job would change, whether or not that job
    runs."""
    rules = replace(topic_rules(flow), is_mirrored=lambda name: name in topics)
    try:
        pairs = observe_settings(source, target, rules)
    except AuthorizationFailed:
        return {}  # shown as not compared
    differing: dict[str, list[str]] = defaultdict(list, {pair.source_topic: [] for pair in pairs})
    for change in plan_configs(pairs, rules.configs).changes:
        if isinstance(change, SetConfig | ResetConfig):
            differing[change.source_topic].append(change.key)
    return differing


def _origins(flow: FlowConfig, on_target: Mapping[str, Topic]) -> dict[str, str]:
    """Topics of the target that came over this flow, by their names, with their names on the source; empty where
    topics keep their names."""
    found = {}
    for remote in on_target:
        name = flow.policy.upstream_topic(remote)
        if name is None or name == remote or flow.policy.topic_source(remote) != flow.name.source:
            continue
        if flow.should_replicate(name):
            found[remote] = name
    return found


def look_topology(config: MirrorConfig, alias: str, beats_max: int | None = None) -> Topology:
    """The topology that one cluster's heartbeats show, from the last `beats_max` of each topic, or from all. Raises
    ClusterError."""
    with MirrorClient(config.clusters[alias].client, _policy(config, alias)) as client:
        beats = client.heartbeats() if beats_max is None else client.heartbeats(beats_max=beats_max)
    return read_topology(alias, time.time_ns() // 1_000_000, beats)


def _policy(config: MirrorConfig, alias: str) -> ReplicationPolicy:
    """The replication policy of a flow into the cluster, if there is one; that policy named the topics there."""
    into = [flow.policy for flow in config.flows if flow.name.target == alias]
    return [*into, config.flows[0].policy][0]


_NOBODY = GroupListing("")


def look_at_groups(flow: FlowConfig, pattern: str = "") -> list[GroupLine]:
    """Groups whose whole name matches the expression; all for "". Raises ClusterError if the target does not answer, or
    a coordinator goes on loading its groups, which would be missing. Where the source does not answer, only the
    checkpoints are known."""
    compiled = compile_names([pattern or ".*"])
    assert compiled is not None
    with (
        open_sides(flow, "groups") as cluster_pair,
        OffsetState(flow, cluster_pair.source, cluster_pair.target) as state,
    ):
        state.follow()
        on_target = list_all_groups(cluster_pair.target)
        identical = look_at_identical(flow, cluster_pair.target, state.records)
        if cluster_pair.source is None:
            names = {group for group, _ in state.checkpoints if compiled.fullmatch(group)}
            seen = _Seen(flow, state, {}, on_target, {}, read_groups(cluster_pair.target, names), identical)
            ends = _read_ends(cluster_pair, (), {where for _, where in state.checkpoints})
            return [_lost_line(seen, ends, name) for name in sorted(names)]
        on_source = {
            name: group for name, group in list_all_groups(cluster_pair.source).items() if compiled.fullmatch(name)
        }
        wanted = [name for name, group in on_source.items() if _why_not(flow, group) == ""]
        committed = {
            name: followed_offsets(flow, found) for name, found in read_groups(cluster_pair.source, wanted).items()
        }
        there = read_groups(cluster_pair.target, wanted)
        seen = _Seen(flow, state, on_source, on_target, committed, there, identical)
        here = {where for offsets in committed.values() for where in offsets}
        ends = _read_ends(cluster_pair, here, {seen.remote(where) for where in here})
    return [_line(seen, ends, name) for name in sorted(on_source)]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The state of both clusters at one moment; offsets by group."""

    flow: FlowConfig
    state: OffsetState
    on_source: Mapping[str, GroupListing]
    on_target: Mapping[str, GroupListing]
    committed: Mapping[str, GroupOffsets]
    target_committed: Mapping[str, GroupOffsets]
    identical: Identical

    def remote(self, where: TopicPartition) -> TopicPartition:
        """The remote partition as `ledger.translate` names it: a topic that came from the target has its own name
        there."""
        return self.state.translator.remote(where)


@dataclass(frozen=True, slots=True)
class _Ends:
    """The ends of logs, and the partitions whose end is not known, with the reason."""

    source: Mapping[TopicPartition, int]
    target: TargetLogs
    unknown: Mapping[TopicPartition, str]

    def unknown_among(self, places: Iterable[GroupPlace]) -> dict[TopicPartition, str]:
        both = {where for place in places for where in (place.partition, place.remote)}
        return {where: self.unknown[where] for where in sorted(both & self.unknown.keys())}


def _read_ends(cluster_pair: ClusterPair, here: Collection[TopicPartition], there: Collection[TopicPartition]) -> _Ends:
    source, target = (
        admin.latest_offsets(some) if admin is not None else LogOffsets("", {})
        for admin, some in ((cluster_pair.source, here), (cluster_pair.target, there))
    )
    return _Ends(source.known, target_logs(cluster_pair.target, target.known), {**source.unknown, **target.unknown})


def _line(seen: _Seen, ends: _Ends, name: str) -> GroupLine:
    group, there = seen.on_source[name], seen.on_target.get(name, _NOBODY)
    if why_not := _why_not(seen.flow, group):
        return GroupLine(name, group.state, there.state, (), (why_not,))
    committed = seen.committed.get(name, {})
    places = tuple(_place(seen, ends, name, where, committed[where].offset) for where in sorted(committed))
    unknown = ends.unknown_among(places)
    notes = [*_notes(seen, there, places), *_unknown_note(unknown)]
    return GroupLine(name, group.state, there.state, places, tuple(notes), not unknown)


def _place(seen: _Seen, ends: _Ends, name: str, where: TopicPartition, offset: int) -> GroupPlace:
    remote = seen.remote(where)
    found = seen.state.settled(where, offset, ends.target) if offset >= 0 else None
    there = seen.target_committed.get(name, {}).get(remote)
    return GroupPlace(
        where,
        remote,
        offset,
        ends.source.get(where),
        None if found is None else found.offset,
        found is not None and found.exact,
        seen.state.checkpoint_times_ms.get((name, remote)),
        None if there is None else there.offset,
        _end(ends.target, remote),
        seen.identical.of(where),
    )


def _end(logs: TargetLogs, where: TopicPartition) -> int | None:
    return logs[where].end if where in logs else None


def _lost_line(seen: _Seen, ends: _Ends, name: str) -> GroupLine:
    """The line of a group whose cluster does not answer."""
    mine = sorted(where for group, where in seen.state.checkpoints if group == name)
    sources = seen.state.sources()
    places = tuple(_lost_place(seen, ends, name, where, sources) for where in mine)
    note = f"{seen.flow.name.source} does not answer: as the last checkpoints say"
    unknown = ends.unknown_among(places)
    state = seen.on_target.get(name, _NOBODY).state
    return GroupLine(name, "", state, places, (note, *_unknown_note(unknown)), not unknown)


def _lost_place(
    seen: _Seen, ends: _Ends, name: str, remote: TopicPartition, sources: Mapping[TopicPartition, TopicPartition]
) -> GroupPlace:
    checkpoint, source = seen.state.checkpoints[name, remote], sources.get(remote)
    there = seen.target_committed.get(name, {}).get(remote)
    return GroupPlace(
        TopicPartition(seen.flow.policy.upstream_topic(remote.topic) or remote.topic, remote.partition),
        remote,
        checkpoint.upstream,
        None,
        seen.state.now(checkpoint, sources, ends.target),
        False,
        seen.state.checkpoint_times_ms.get((name, remote)),
        None if there is None else there.offset,
        _end(ends.target, remote),
        source is not None and seen.identical.of(source),
    )


def _why_not(flow: FlowConfig, group: GroupListing) -> str:
    """The reason why the group is not synced; "" if it is."""
    if not group.is_consumer:
        return f"no consumer group: {group.kind or group.protocol_type}"
    groups = flow.offsets.groups
    return "" if groups.accepts(group.name) else groups.why_unwanted(group.name, "groups")[1]


def _unknown_note(unknown: Mapping[TopicPartition, str]) -> list[str]:
    return [f"its lag is not known: {name_unknown(unknown)}"] if unknown else []


def _notes(seen: _Seen, there: GroupListing, places: tuple[GroupPlace, ...]) -> Iterable[str]:
    settings = seen.flow.offsets
    if not places:
        yield "it has committed no offsets of mirrored topics"
    if unknown := sum(place.translated is None for place in places):
        yield f"{unknown} cannot be translated: below what was mirrored, or not mirrored yet"
    for place in places:
        if place.on_target is not None and place.target_end is not None and place.on_target > place.target_end:
            yield f"it stands at {place.on_target} of {place.remote}, whose log ends at {place.target_end}"
    if not settings.emit_checkpoints:
        yield "emit.checkpoints.enabled=false"
    elif not settings.sync_groups:
        yield "checkpoints only: sync.group.offsets.enabled=false"
    elif there.is_active:
        yield f"it has members on {seen.flow.name.target}, which commit for themselves"
