"""Whether the clusters of a file are as its flows need them; changes nothing. Asked by `cli.doctor`.

Answers that are figures are judged by the pure functions here, permissions by `operations.right_checks`.
"""

from collections.abc import Iterator, Sequence

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.offsets import HeartbeatSettings
from sparkmirror.errors import ClusterError, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.connect_group import is_run_by_connect
from sparkmirror.kafka.fencing import COORDINATOR_HINT, rouse_coordinator
from sparkmirror.kafka.health import BrokerAnswer, BrokerDisk, ask_brokers, broker_disks, clock_ahead_seconds
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import Cluster
from sparkmirror.operations.record_checks import check_records
from sparkmirror.operations.right_checks import check_heartbeat_rights, check_rights
from sparkmirror.views.findings import Finding, Level, show_bytes

_CLOCK_WARN_SECONDS, _CLOCK_FAIL_SECONDS = 1.0, 3600.0
_DISK_WARN_SHARE, _DISK_FAIL_SHARE = 0.15, 0.03
_RELEASE_MIN = (3, 0)


def check_clusters(
    flows: Sequence[FlowConfig],
    heartbeats: Sequence[HeartbeatSettings] = (),
    checkpoints: Sequence[FlowConfig] = (),
) -> Iterator[Finding]:
    """Each cluster once, then what each flow needs of its two. A cluster that is away is told once.

    Of `checkpoints`, whose topics something else mirrors, the clusters alone are looked at.
    """
    clusters = {side.alias: side for flow in (*flows, *checkpoints) for side in (flow.source, flow.target)}
    clusters |= {one.target.alias: one.target for one in heartbeats}
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
            yield from check_rights(flow, source, target)
            yield from _check_coordinator(flow, target)
            yield from check_records(flow, target)
    except SparkMirrorError as problem:
        yield Finding(Level.FAIL, str(flow.name), "looking", str(problem.args[0]), problem.hint)


def _check_other_mirror(flow: FlowConfig, target: Admin) -> Iterator[Finding]:
    if is_run_by_connect(target, flow.connector):
        said = f"a MirrorMaker 2 mirrors this flow now: group {flow.connector.group} has members"
        yield Finding(Level.FAIL, str(flow.name), "other mirrors", said, "stop it first; its positions are taken over")


def _check_coordinator(flow: FlowConfig, target: Admin) -> Iterator[Finding]:
    """As above: without a coordinator of transactions."""
    if why := rouse_coordinator(target, flow.connector):
        level = Level.FAIL if flow.is_exactly_once else Level.WARN
        lost = "exactly-once is refused" if flow.is_exactly_once else "predecessors are not fenced"
        yield Finding(level, flow.name.target, "transactions", f"{lost}: {why}", COORDINATOR_HINT)
