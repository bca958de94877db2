"""Checks whether the clusters of a file meet the requirements of its flows, and changes nothing. Called by
`cli.doctor`.

Pure functions of this module judge figures; `operations.right_checks` judges permissions. The checks search internal
topics for records that cannot be read: a mirror skips most of them, but an unreadable position or command stops a
partition, or the flow.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.settings import HeartbeatSettings
from sparkmirror.control.commands import decode_command
from sparkmirror.errors import AuthorizationFailed, ClusterError, ProtocolError, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.connect_group import is_run_by_connect
from sparkmirror.kafka.fencing import COORDINATOR_HINT, rouse_coordinator
from sparkmirror.kafka.health import BrokerAnswer, BrokerDisk, ask_brokers, broker_disks, clock_ahead_seconds
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.ledger import gaps, map_records
from sparkmirror.ledger.topics import LedgerTopics
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.operations.adoption_checks import check_adoption
from sparkmirror.operations.marker_checks import check_markers
from sparkmirror.operations.memory_checks import check_memory
from sparkmirror.operations.right_checks import check_heartbeat_rights, check_rights
from sparkmirror.operations.writer_checks import check_writers
from sparkmirror.stored_json import decode_or_none
from sparkmirror.telemetry.records import key_prefixes, parse_record
from sparkmirror.views.findings import Finding, Level, show_bytes

Versions = Mapping[int, tuple[int, int]]
"""For each API key the lowest and highest version that a broker supports (ApiVersions)."""


@dataclass(frozen=True, slots=True)
class ApiNeed:
    """A request and the versions of it that SparkMirror supports. `without` says what does not work with a broker
    that lacks the request; empty if the broker cannot be mirrored at all."""

    key: int
    name: str
    ours: tuple[int, int]
    without: str = ""

    def is_met(self, versions: Versions) -> bool:
        """Whether the broker and SparkMirror have a common version."""
        low, high = versions.get(self.key, (0, -1))
        return max(low, self.ours[0]) <= min(high, self.ours[1])


API_NEEDS: tuple[ApiNeed, ...] = (
    ApiNeed(wire.PRODUCE, "Produce", wire.PRODUCE_VERSIONS),
    ApiNeed(wire.FETCH, "Fetch", wire.FETCH_VERSIONS),
    ApiNeed(2, "ListOffsets", (4, 9)),
    ApiNeed(3, "Metadata", (10, 13)),
    ApiNeed(10, "FindCoordinator", (0, 5)),
    ApiNeed(19, "CreateTopics", (0, 7)),
    ApiNeed(22, "InitProducerId", (3, 5)),
    ApiNeed(32, "DescribeConfigs", (1, 4)),
    ApiNeed(8, "OffsetCommit", (0, 9), "group offsets are not written (sync.group.offsets.enabled)"),
    ApiNeed(9, "OffsetFetch", (0, 9), "group offsets are not read, so there are no checkpoints"),
    ApiNeed(11, "JoinGroup", (4, 7), "processes cannot share flows"),
    ApiNeed(16, "ListGroups", (0, 5), "groups are not found, so there are no checkpoints"),
    ApiNeed(21, "DeleteRecords", (0, 2), "no start of kept offsets above 0 (preserve.offsets.enabled)"),
    ApiNeed(24, "AddPartitionsToTxn", (3, 3), "no exactly-once (exactly.once.source.support)"),
    ApiNeed(26, "EndTxn", (3, 5), "no exactly-once (exactly.once.source.support)"),
    ApiNeed(27, "WriteTxnMarkers", (1, 1), "holes are filled slowly (preserve.offsets.filler = write-markers)"),
    ApiNeed(29, "DescribeAcls", (0, 3), "ACLs are not copied (sync.topic.acls.enabled)"),
    ApiNeed(44, "IncrementalAlterConfigs", (0, 1), "settings are not kept in step (sync.topic.configs.enabled)"),
    ApiNeed(61, "DescribeProducers", (0, 0), "offsets are not kept (preserve.offsets.enabled)"),
    ApiNeed(65, "DescribeTransactions", (0, 0), "a time-out looks like a take-over, with exactly-once"),
    ApiNeed(66, "ListTransactions", (0, 1), "tasks of earlier runs with more tasks are not fenced"),
)


def lacking(versions: Versions, needs: Sequence[ApiNeed] = API_NEEDS) -> list[ApiNeed]:
    """The needs that a broker with these versions does not meet."""
    return [need for need in needs if not need.is_met(versions)]


_CLOCK_WARN_SECONDS, _CLOCK_FAIL_SECONDS = 1.0, 3600.0
_DISK_WARN_SHARE, _DISK_FAIL_SHARE = 0.15, 0.03
_RELEASE_MIN = (3, 0)
_AT_ONCE = 16


def check_clusters(
    flows: Sequence[FlowConfig],
    heartbeats: Sequence[HeartbeatSettings] = (),
    checkpoints: Sequence[FlowConfig] = (),
) -> Iterator[Finding]:
    """Checks each cluster once, side by side, then each flow's requirements of its two clusters. A cluster that
    does not answer is reported once. For flows in `checkpoints`, whose topics another program mirrors, only the
    clusters are checked."""
    clusters = {side.alias: side for flow in (*flows, *checkpoints) for side in (flow.source, flow.target)}
    clusters |= {one.target.alias: one.target for one in heartbeats}
    targets = {flow.name.target for flow in flows}
    reached: set[str] = set()

    def check(cluster: Cluster) -> list[Finding]:
        found: list[Finding] = []
        try:
            with open_admin(cluster, "doctor") as admin:
                reached.add(cluster.alias)
                found.extend(_check_cluster(admin, cluster, with_disks=cluster.alias in targets))
        except SparkMirrorError as problem:
            found.append(Finding(Level.FAIL, cluster.alias, "reachable", str(problem.args[0]), problem.hint))
        return found

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for findings in pool.map(check, clusters.values()):
            yield from findings
    for flow in flows:
        if {flow.name.source, flow.name.target} <= reached:
            yield from check_flow(flow)
    targets_of_beats = {one.target.alias: one for one in heartbeats if one.target.alias in reached}
    for settings in targets_of_beats.values():
        yield from _check_heartbeats(settings)


def _check_heartbeats(settings: HeartbeatSettings) -> Iterator[Finding]:
    with open_admin(settings.target, "doctor") as admin:
        yield from check_heartbeat_rights(settings, admin)


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
    """A finding for each broker that does not answer, and one for those that do, with their release and the slowest
    round trip."""
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
    """Compares the clocks: brokers refuse records that are more than an hour ahead of their clock
    (message.timestamp.after.max.ms)."""
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
    """Judges the free space on the target's disks."""
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
    """Checks the requirements of a flow on its two clusters, both of which answer."""
    try:
        with open_admin(flow.source, "doctor") as source, open_admin(flow.target, "doctor") as target:
            yield from _check_other_mirror(flow, target)
            yield from check_rights(flow, source, target)
            yield from check_writers(flow, source, target)
            yield from check_markers(flow, source, target)
            yield from check_memory(flow, target)
            yield from _check_coordinator(flow, target)
            yield from check_records(flow, target)
            yield from check_adoption(flow, source, target)
    except SparkMirrorError as problem:
        yield Finding(Level.FAIL, str(flow.name), "looking", str(problem.args[0]), problem.hint)


def _check_other_mirror(flow: FlowConfig, target: Admin) -> Iterator[Finding]:
    if is_run_by_connect(target, flow.connector):
        said = f"a MirrorMaker 2 mirrors this flow now: group {flow.connector.group} has members"
        yield Finding(Level.FAIL, str(flow.name), "other mirrors", said, "stop it first; its positions are taken over")


def _check_coordinator(flow: FlowConfig, target: Admin) -> Iterator[Finding]:
    """Checks whether the target has, or can have, a coordinator of transactions."""
    if why := rouse_coordinator(target, flow.connector):
        level = Level.FAIL if flow.is_exactly_once else Level.WARN
        lost = "exactly-once is refused" if flow.is_exactly_once else "predecessors are not fenced"
        yield Finding(level, flow.name.target, "transactions", f"{lost}: {why}", COORDINATOR_HINT)


_READ_SECONDS_MAX = 30.0
_WHAT = "internal topics"


def check_records(flow: FlowConfig, target: Admin) -> Iterator[Finding]:
    """Checks the internal topics that the principal may read; `operations.needs` reports the others. Raises
    ClusterError."""
    topics = flow.ledger_topics
    there = target.list_topics(list(topics))
    where = [TopicPartition(name, number) for name, topic in there.items() for number in range(topic.partitions)]
    if not where:
        return
    with open_tail(flow.target, "doctor", where) as tail:
        try:
            records = tail.read_to_end(_READ_SECONDS_MAX)
        except AuthorizationFailed:
            return
        yield from judge_records(flow, topics, records)


def judge_records(flow: FlowConfig, topics: LedgerTopics, records: Iterable[TailRecord]) -> Iterator[Finding]:
    """A finding for each partition whose position cannot be read, and one for each topic with other unreadable
    records."""
    view = LedgerView(flow.connector)
    strange: Counter[str] = Counter()
    first: dict[str, str] = {}
    takes: dict[str, Callable[[TailRecord], object]] = {
        topics.offsets: lambda one: view.take_connect(one.key, one.value, one.place, one.headers) or _is_json(one.key),
        topics.positions: lambda one: view.take_ours(one.key, one.value, one.place) or _is_json(one.key),
        topics.commands: lambda record: decode_command(record.value),
        topics.status: lambda record: _is_status(record, flow.name.source),
        topics.gaps: lambda record: _is_gap(record, flow.name.source),
        topics.offset_map: _is_chunk,
    }
    last = {(record.partition, record.key): record for record in records}
    for record in last.values():
        if record.value is not None and not takes[record.partition.topic](record):
            strange[record.partition.topic] += 1
            first.setdefault(record.partition.topic, record.place)
    alias = flow.name.target
    for where, problem in sorted(view.problems.items()):
        yield Finding(Level.FAIL, alias, _WHAT, f"{flow.name} {where}: {problem}")
    for topic, count in sorted(strange.items()):
        said = f"{flow.name}: {count:,} records of {topic} cannot be read, and are passed by; the first: {first[topic]}"
        yield Finding(Level.WARN, alias, _WHAT, said, "see who may write to that topic")
    if not view.problems and not strange:
        yield Finding(Level.OK, alias, _WHAT, f"{flow.name}: all records can be read")


def _is_json(key: bytes | None) -> bool:
    return decode_or_none(key, list[Any]) is not None


def _is_status(record: TailRecord, source_alias: str) -> bool:
    """Whether the record is readable: a status record of any flow, a journal, or a note of an ACL."""
    if (record.key or b"").startswith(key_prefixes(source_alias)):
        return parse_record(record.key, record.value, source_alias, record.timestamp_ms) is not None
    return _is_json(record.key)


def _is_gap(record: TailRecord, source_alias: str) -> bool:
    found = gaps.decode(source_alias, record.key, record.value)
    return _is_json(record.key) if found is None else found.cause != gaps.UNREADABLE


def _is_chunk(record: TailRecord) -> bool:
    try:
        return map_records.decode_key(record.key) is not None and bool(map_records.decode_chunk(record.value or b""))
    except ProtocolError:
        return False


def judge_versions(alias: str, where: str, release: str, versions: Versions) -> Iterator[Finding]:
    """A finding for each request without a common version; a single finding with level OK where there is none."""
    missing = lacking(versions)
    for need in missing:
        low, high = versions.get(need.key, (0, -1))
        theirs = f"in versions {low} to {high}" if high >= 0 else "not at all"
        said = f"Kafka {release} speaks {need.name} {theirs}, we in {need.ours[0]} to {need.ours[1]}"
        if need.without:
            yield Finding(Level.WARN, alias, where, f"{said}: {need.without}")
        else:
            yield Finding(Level.FAIL, alias, where, said, "brokers from Kafka 3.0 on are supported")
    if not missing:
        yield Finding(Level.OK, alias, where, f"Kafka {release} speaks all that is needed")
