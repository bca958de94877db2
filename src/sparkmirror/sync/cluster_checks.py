"""Whether the clusters of a file are as its flows need them; changes nothing. Asked by `cli.doctor`.

Answers that are figures are judged by the pure functions here and in `sync.needs`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from sparkmirror.config.flows import FlowConfig
from sparkmirror.config.offsets import HeartbeatSettings
from sparkmirror.errors import AuthorizationFailed, ClusterError, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic, TopicExists
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.fencing import COORDINATOR_HINT, rouse_coordinator, transactional_id
from sparkmirror.kafka.groups import has_members
from sparkmirror.kafka.health import BrokerAnswer, BrokerDisk, ask_brokers, broker_disks, clock_ahead_seconds
from sparkmirror.kafka.rights import cluster_rights, may_see_transactional_id, topic_rights
from sparkmirror.kafka.settings import client_settings
from sparkmirror.ledger.topics import ledger_topics, plan_ledger_topics
from sparkmirror.model import Cluster
from sparkmirror.policy.naming import HEARTBEATS_TOPIC
from sparkmirror.status.findings import Finding, Level, name_some, show_bytes
from sparkmirror.sync.flow import topic_rules
from sparkmirror.sync.grants import Kind, Part, list_grants, list_heartbeat_grants
from sparkmirror.sync.group_checks import check_groups
from sparkmirror.sync.needs import CLUSTER, FlowTopics, judge_need, list_needs, plain_needs
from sparkmirror.sync.record_checks import check_records
from sparkmirror.sync.topic_job import new_topic, observe_topics
from sparkmirror.sync.topics import BROKER_DEFAULT, CreateTopic, plan_topics

_CLOCK_WARN_SECONDS, _CLOCK_FAIL_SECONDS = 1.0, 3600.0
_DISK_WARN_SHARE, _DISK_FAIL_SHARE = 0.15, 0.03
_RELEASE_MIN = (3, 0)


def check_clusters(flows: Sequence[FlowConfig], heartbeats: Sequence[HeartbeatSettings] = ()) -> Iterator[Finding]:
    """Each cluster once, then what each flow needs of its two. A cluster that is away is told once."""
    clusters = {side.alias: side for flow in flows for side in (flow.source, flow.target)}
    targets = {flow.name.target for flow in flows}
    reached: set[str] = set()
    for alias, cluster in clusters.items():
        try:
            with open_admin(cluster, "doctor") as admin:
                reached.add(alias)
                yield from _check_cluster(admin, cluster, with_disks=alias in targets)
        except SparkMirrorError as problem:
            yield Finding(Level.FAIL, alias, "reachable", str(problem.args[0]), problem.hint)
    for flow in flows:
        if {flow.name.source, flow.name.target} <= reached:
            yield from check_flow(flow)
    targets_of_beats = {one.target.alias: one for one in heartbeats if one.target.alias in reached}
    for settings in targets_of_beats.values():
        yield from _check_heartbeats(settings)


def _check_heartbeats(settings: HeartbeatSettings) -> Iterator[Finding]:
    """Whether they may be written, where their topic is there; creating topics is looked at with the flows."""
    with open_admin(settings.target, "doctor") as admin:
        for need in plain_needs(list_heartbeat_grants(settings), admin.list_topics([HEARTBEATS_TOPIC])):
            yield judge_need(need, topic_rights(admin, need.names))


def _check_cluster(admin: Admin, cluster: Cluster, *, with_disks: bool) -> Iterator[Finding]:
    answers = ask_brokers(client_settings(cluster, "doctor"), admin.brokers())
    yield from judge_brokers(admin.alias, answers)
    try:
        yield judge_clock(admin.alias, clock_ahead_seconds(admin))
        if with_disks:
            yield judge_disks(admin.alias, broker_disks(admin))
    except ClusterError as problem:
        yield Finding(Level.WARN, admin.alias, "clock and disks", str(problem.args[0]), problem.hint)


def judge_brokers(alias: str, answers: Sequence[BrokerAnswer]) -> Iterator[Finding]:
    """A line for each that does not answer; one for those that do, with their release and the slowest round trip."""
    hint = "the brokers' advertised.listeners must be addresses that this machine reaches"
    for one in answers:
        if one.problem is not None:
            said = f"broker {one.node_id} ({one.address}): {one.problem.args[0]}"
            yield Finding(Level.FAIL, alias, "reachable", said, one.problem.hint or hint)
    there = [one for one in answers if one.problem is None]
    if there:
        slowest = max(one.round_trip_seconds for one in there) * 1000
        said = f"{len(there)} of {len(answers)} brokers answer, the slowest in {slowest:.0f} ms"
        yield Finding(Level.OK, alias, "reachable", said)
        yield _judge_releases(alias, sorted({one.release for one in there}, key=_numbers))


def _judge_releases(alias: str, releases: Sequence[str]) -> Finding:
    if _numbers(releases[0]) < _RELEASE_MIN:
        hint = "brokers from Kafka 3.0 on are supported"
        return Finding(Level.FAIL, alias, "release", f"Kafka {' and '.join(releases)}", hint)
    return Finding(Level.OK, alias, "release", f"Kafka {' and '.join(releases)}")


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def judge_clock(alias: str, ahead_seconds: float | None) -> Finding:
    """Brokers refuse records that are more than an hour ahead of them (message.timestamp.after.max.ms)."""
    if ahead_seconds is None:
        hint = "compare `date` on its brokers; KRaft controllers tell those who may Describe the cluster"
        return Finding(Level.WARN, alias, "clock", "the cluster does not tell its time", hint)
    direction = "ahead of" if ahead_seconds > 0 else "behind"
    said = f"the controller's clock is {abs(ahead_seconds):.2f} s {direction} this machine's"
    hint = "run NTP on brokers and here: ages and latencies are wrong by this, and brokers refuse records of the future"
    if abs(ahead_seconds) >= _CLOCK_FAIL_SECONDS:
        return Finding(Level.FAIL, alias, "clock", said, hint)
    if abs(ahead_seconds) >= _CLOCK_WARN_SECONDS:
        return Finding(Level.WARN, alias, "clock", said, hint)
    return Finding(Level.OK, alias, "clock", said)


def judge_disks(alias: str, disks: Sequence[BrokerDisk]) -> Finding:
    """Of a target, which is about to grow."""
    if not disks:
        hint = "look at the brokers' disks; from Kafka 3.3 on, they tell those who may Describe the cluster"
        return Finding(Level.WARN, alias, "disk", "the brokers do not tell how full their disks are", hint)
    fullest = min(disks, key=lambda disk: disk.free_bytes / disk.total_bytes)
    share = fullest.free_bytes / fullest.total_bytes
    said = f"{show_bytes(fullest.free_bytes)} ({share:.0%}) free on the fullest, broker {fullest.node_id}"
    if share < _DISK_WARN_SHARE:
        level = Level.FAIL if share < _DISK_FAIL_SHARE else Level.WARN
        return Finding(level, alias, "disk", said, "make room, or shorten retention of remote topics")
    return Finding(Level.OK, alias, "disk", said)


def check_flow(flow: FlowConfig) -> Iterator[Finding]:
    """What the flow needs of its two clusters, which both answer."""
    try:
        with open_admin(flow.source, "doctor") as source, open_admin(flow.target, "doctor") as target:
            yield from _check_other_mirror(flow, target)
            yield from _check_topics(flow, source, target)
            yield _check_transactional_id(flow, target)
            yield from _check_coordinator(flow, target)
            yield from check_groups(flow, source, target)
            yield from check_records(flow, target)
    except SparkMirrorError as problem:
        yield Finding(Level.FAIL, str(flow.name), "looking", str(problem.args[0]), problem.hint)


def _check_other_mirror(flow: FlowConfig, target: Admin) -> Iterator[Finding]:
    if has_members(target, flow.connector.group):
        said = f"a MirrorMaker 2 mirrors this flow now: group {flow.connector.group} has members"
        yield Finding(Level.FAIL, str(flow.name), "other mirrors", said, "stop it first; its positions are taken over")


def _check_topics(flow: FlowConfig, source: Admin, target: Admin) -> Iterator[Finding]:
    seen = observe_topics(source, target, topic_rules(flow))
    if not seen.source:
        hint = "see `sparkmirror topics`; topics without the permission Describe cannot be seen"
        yield Finding(Level.WARN, str(flow.name), "topics", "no topic of the source is to be mirrored", hint)
    remote = {flow.remote_topic(name) for name in seen.source}
    own = {flow.name.source: _own_topics(flow, source), flow.name.target: _own_topics(flow, target)}
    topics = FlowTopics(seen.source, {name: seen.target[name] for name in remote if name in seen.target}, own)
    rights = {
        flow.name.source: _rights(source, {*topics.mirrored, *own[flow.name.source]}),
        flow.name.target: _rights(target, {*topics.remote, *own[flow.name.target]}),
    }
    for need in list_needs(flow, topics):
        yield judge_need(need, rights[need.alias])
    creations = [change for change in plan_topics(seen, topic_rules(flow)).changes if isinstance(change, CreateTopic)]
    wanted = [new_topic(change) for change in creations if change.partitions != BROKER_DEFAULT]
    yield from judge_creations(flow.name.target, target.rehearse_topics(_missing_internal(flow, target) + wanted))


def _rights(admin: Admin, names: Collection[str]) -> dict[str, Collection[str]]:
    return {**topic_rights(admin, names), CLUSTER: cluster_rights(admin) or frozenset()}


def _own_topics(flow: FlowConfig, admin: Admin) -> Collection[str]:
    """Topics by name, beside those that are mirrored, that exist and that the flow needs rights on."""
    return admin.list_topics(
        one.name
        for grant in list_grants(flow)
        for one in grant.resources
        if grant.alias == admin.alias and one.kind is Kind.TOPIC and grant.part in (Part.INTERNAL, Part.OTHER)
    )


def _missing_internal(flow: FlowConfig, target: Admin) -> list[NewTopic]:
    topics = ledger_topics(flow.name.source, flow.offset_storage_topic)
    existing = {name: replace(topic) for name, topic in target.list_topics(topics).items()}
    plan = plan_ledger_topics(
        topics,
        existing,
        len(target.brokers()),
        replication_factor=flow.offset_storage_replication_factor,
        offsets_partitions=flow.offset_storage_partitions,
    )
    return list(plan.missing)


def judge_creations(alias: str, outcome: Mapping[str, SparkMirrorError | None]) -> Iterator[Finding]:
    """What the brokers said when topics were created for show."""
    refused = {name: why for name, why in outcome.items() if why is not None and not isinstance(why, TopicExists)}
    if outcome and not refused:
        yield Finding(Level.OK, alias, "creating topics", f"{len(outcome)} can be created")
    if refused:
        first = next(iter(refused.values()))
        said = f"{len(refused)} of {len(outcome)} cannot be created ({name_some(sorted(refused))}): {first.args[0]}"
        hint = "grant CREATE on the cluster, or create them" if isinstance(first, AuthorizationFailed) else first.hint
        yield Finding(Level.FAIL, alias, "creating topics", said, hint)


def _check_transactional_id(flow: FlowConfig, target: Admin) -> Finding:
    """Without it a flow cannot fence its predecessors; with exactly-once it cannot write at all."""
    name = transactional_id(flow.connector, 0)
    prefix = name.removesuffix("0")
    if may_see_transactional_id(target, name):
        return Finding(Level.OK, flow.name.target, "permissions", f"fencing: transactional ids {prefix}* may be used")
    level = Level.FAIL if flow.is_exactly_once else Level.WARN
    said = f"fencing: transactional ids {prefix}* may not be used"
    return Finding(level, flow.name.target, "permissions", said, "grant Write and Describe on them, as a prefix")


def _check_coordinator(flow: FlowConfig, target: Admin) -> Iterator[Finding]:
    """As above: without a coordinator of transactions."""
    if why := rouse_coordinator(target, flow.connector):
        level = Level.FAIL if flow.is_exactly_once else Level.WARN
        lost = "exactly-once is refused" if flow.is_exactly_once else "predecessors are not fenced"
        yield Finding(level, flow.name.target, "transactions", f"{lost}: {why}", COORDINATOR_HINT)
