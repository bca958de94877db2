"""What `sparkmirror doctor` makes of what it is told: clocks, disks, releases, permissions, limits of this machine."""

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.kafka.test_passing import LOADING, Brokers, groups

from sparkmirror.cli.main import main
from sparkmirror.config.flow.flows import load_config, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.errors import AuthorizationFailed, ClusterUnreachable
from sparkmirror.kafka.answers import TopicExists
from sparkmirror.kafka.health import BrokerAnswer, BrokerDisk
from sparkmirror.model import NO_TOPIC_ID, Cluster, Topic
from sparkmirror.operations import cluster_checks, machine_checks, right_checks
from sparkmirror.operations.grants import KEEPING_OFFSETS
from sparkmirror.operations.needs import CLUSTER, FlowTopics, Need, judge_need, list_group_needs, list_needs
from sparkmirror.views.findings import Finding, Level, has_failed, name_some, render_findings
from sparkmirror.views.table import page_lines

FILE = (
    "clusters = east, backup", "east.bootstrap.servers = e:1", "backup.bootstrap.servers = b:1",
    "east->backup.enabled = true",
)  # fmt: skip
GB = 1_000_000_000
NEW = {0: (3, 13), 1: (4, 18), 35: (1, 5)}
OLD = {0: (0, 8), 1: (0, 11), 2: (0, 5)}


def test_a_file_that_mirrors_nothing_is_looked_at_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "heartbeat.properties"
    file.write_text(
        "name=h\nconnector.class=MirrorHeartbeatConnector\nsource.cluster.alias=a\ntarget.cluster.alias=b\n"
        "target.cluster.bootstrap.servers=localhost:1\n"
    )
    assert main(["doctor", str(file)]) == 1
    told = capsys.readouterr().out
    assert "it writes only the heartbeats of a->b" in told
    assert "localhost:1" in told, "the target is asked"


def test_findings_are_a_table_with_hints_and_a_sum() -> None:
    found = [
        Finding(Level.OK, "east", "clock", "0.01 s ahead"),
        Finding(Level.FAIL, "this machine", "Java", "none", "install Java 17"),
    ]
    assert page_lines(render_findings(found)) == [
        "      where         what   found",
        "OK    east          clock  0.01 s ahead",
        "FAIL  this machine  Java   none",
        "FAIL this machine, Java: install Java 17",
        "1 OK, 0 WARN, 1 FAIL",
    ]
    assert has_failed(found) and not has_failed(found[:1])


@pytest.mark.parametrize(
    ("ahead_seconds", "level"),
    [(0.02, Level.OK), (-0.9, Level.OK), (-4.0, Level.WARN), (3599.0, Level.WARN), (3600.0, Level.FAIL)],
)
def test_a_clock_is_judged_by_what_brokers_refuse(ahead_seconds: float, level: Level) -> None:
    assert cluster_checks.judge_clock("east", ahead_seconds).level is level


def test_an_unknown_clock_is_to_be_compared_by_hand() -> None:
    found = cluster_checks.judge_clock("east", None)
    assert (found.level, found.said) == (Level.WARN, "the cluster does not tell its time")


@pytest.mark.parametrize(("free", "level"), [(50, Level.OK), (14, Level.WARN), (2, Level.FAIL)])
def test_the_fullest_disk_of_a_target_counts(free: int, level: Level) -> None:
    found = cluster_checks.judge_disks("backup", [BrokerDisk(1, 90 * GB, 100 * GB), BrokerDisk(2, free * GB, 100 * GB)])
    assert found.level is level
    assert "broker 2" in found.said


def test_each_broker_that_does_not_answer_is_named() -> None:
    away = ClusterUnreachable("Cluster east (b2:9092) did not answer while connecting.")
    answers = [BrokerAnswer(1, "b1:9092", None, 0.004, NEW), BrokerAnswer(2, "b2:9092", away)]
    found = list(cluster_checks.judge_brokers("east", answers))
    assert [(one.level, one.what) for one in found] == [
        (Level.FAIL, "reachable"),
        (Level.OK, "reachable"),
        (Level.OK, "release"),
    ]
    assert "broker 2 (b2:9092)" in found[0].said and "advertised.listeners" in found[0].hint
    assert "1 of 2 brokers answer, the slowest in 4 ms" in found[1].said
    assert found[2].said == "Kafka 4.3"


def test_brokers_that_are_too_old_are_reported() -> None:
    (_, release) = cluster_checks.judge_brokers("east", [BrokerAnswer(1, "b1:9092", None, 0.004, OLD)])
    assert (release.level, release.said) == (Level.FAIL, "Kafka 2.4")


def test_a_missing_permission_names_topics_and_what_to_grant() -> None:
    need = Need("east", ("bills", "orders"), ("READ",), "reading the mirrored topics")
    assert judge_need(need, {"bills": {"READ", "DESCRIBE"}, "orders": {"READ"}}).level is Level.OK
    found = judge_need(need, {"bills": {"READ"}})
    assert (found.level, found.said) == (
        Level.FAIL,
        "reading the mirrored topics: not granted on 1 of 2, READ: orders",
    )
    assert found.hint == "grant READ on topic orders to the principal that east.* of the file logs in as"


def test_what_is_merely_left_undone_is_a_warning() -> None:
    need = Need("backup", (CLUSTER,), ("ALTER",), "copying ACLs", required=False)
    found = judge_need(need, {CLUSTER: {"DESCRIBE"}})
    assert (found.level, found.said) == (Level.WARN, "copying ACLs: not granted on the cluster, ALTER")


def test_groups_need_other_rights_on_either_side_by_what_the_file_asks() -> None:
    def needs(*lines: str) -> list[tuple[str, tuple[str, ...], tuple[str, ...], bool]]:
        flow = parse_config(parse_properties("\n".join((*FILE, *lines)).encode(), "")).flows[0]
        found = list_group_needs(flow, ["billing", "fraud"])
        return [(need.alias, need.names, need.rights, need.required) for need in found]

    both = ("billing", "fraud")
    assert needs() == [("east", both, ("DESCRIBE",), False)]
    assert needs("sync.group.offsets.enabled = true")[1:] == [("backup", both, ("READ",), False)]
    assert needs("progress.group.id = old-mirror")[1:] == [("east", ("old-mirror",), ("READ",), True)]


def test_keeping_offsets_needs_more_rights_on_its_topics() -> None:
    lines = (*FILE, "preserve.offsets.enabled = true", "sync.topic.configs.enabled = false")
    flow = parse_config(parse_properties("\n".join(lines).encode(), "")).flows[0]
    mirrored, remote = (Topic(name, NO_TOPIC_ID, 1, 1) for name in ("orders", "east.orders"))
    topics = FlowTopics({mirrored.name: mirrored}, {remote.name: remote}, {})
    (need,) = (one for one in list_needs(flow, topics) if one.purpose == KEEPING_OFFSETS)
    found = judge_need(need, {"east.orders": {"READ", "WRITE"}})
    assert (found.level, found.said) == (
        Level.FAIL,
        f"{KEEPING_OFFSETS}: not granted on 1 of 1, DELETE: east.orders",
    )
    assert judge_need(need, {"east.orders": {"READ", "DELETE"}}).level is Level.OK


def test_groups_that_a_loading_coordinator_does_not_list_are_not_taken_for_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sparkmirror.kafka.groups._PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(right_checks, "group_rights", lambda admin, names: {one: {"READ"} for one in names})
    monkeypatch.setattr(right_checks, "cluster_rights", lambda admin: None)
    flow = parse_config(parse_properties("\n".join(FILE).encode(), "")).flows[0]

    def found(source: Any) -> list[Finding]:
        return [one for one in right_checks.check_groups(flow, source, source) if one.level is not Level.OK]

    (loading,) = found(Brokers(groups(0), [groups(LOADING)]))
    assert (loading.level, loading.where, loading.what) == (Level.WARN, "east", "groups")
    assert loading.said.startswith("not all groups were looked at: Cluster A: broker 2 (b:9092) does not list")
    assert "run this again" in loading.hint
    (hidden,) = found(Brokers(groups(0), []))
    assert (hidden.what, "can be seen" in hidden.said) == ("permissions", True)


def test_a_missing_right_on_groups_is_granted_on_groups() -> None:
    need = Need("backup", ("billing", "fraud"), ("READ",), "keeping groups in step", required=False, kind="group")
    assert judge_need(need, {"billing": {"READ"}}).hint.startswith("grant READ on group fraud to the principal")
    assert judge_need(need, {}).hint.startswith("grant READ on these groups to the principal")


def test_topics_that_cannot_be_created_say_why() -> None:
    refused = AuthorizationFailed("Cluster backup: creating topic x failed with CLUSTER_AUTHORIZATION_FAILED.")
    (found,) = right_checks.judge_creations("backup", {"x": refused, "y": None, "z": TopicExists("there")})
    assert found.level is Level.FAIL
    assert found.said.startswith("1 of 3 cannot be created (x): Cluster backup: creating topic x failed")
    assert list(right_checks.judge_creations("backup", {})) == []


@pytest.mark.parametrize(("free", "level"), [(5 * GB, Level.OK), (2 * GB, Level.WARN), (1 * GB, Level.FAIL)])
def test_memory_must_hold_the_rings_and_the_engine(free: int, level: Level) -> None:
    assert machine_checks.judge_memory(3 * GB // 2, free).level is level


@pytest.mark.parametrize(("limit", "level"), [(65536, Level.OK), (-1, Level.OK), (450, Level.WARN), (256, Level.FAIL)])
def test_open_files_must_do_for_the_connections(limit: int, level: Level) -> None:
    assert machine_checks.judge_files(limit, 100).level is level


def test_a_full_disk_and_a_java_that_is_not_there_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert machine_checks.judge_disk("cache", tmp_path, 1_000_000, "XDG_CACHE_HOME").level is Level.FAIL
    assert machine_checks.judge_disk("cache", tmp_path, GB, "XDG_CACHE_HOME").level is Level.WARN
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = machine_checks.check_java()
    assert found.level is Level.FAIL and "JAVA_HOME" in found.said and "install a Java 17" in found.hint


def test_a_java_that_does_not_run_fails_whatever_its_files_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\necho 'no libjvm.so' >&2\nexit 1\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    (tmp_path / "release").write_text('JAVA_VERSION="17.0.15"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = machine_checks.check_java()
    assert found.level is Level.FAIL and "no libjvm.so" in found.said


def test_memory_is_shared_between_two_processes_here() -> None:
    assert machine_checks.check_shared_memory().level is Level.OK


def test_a_file_with_problems_is_all_that_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = A, B\nA.bootstrap.servers = a:1\nA->B.enabled = true\ntasks.max = many\n")
    assert main(["doctor", str(file), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {one["level"] for one in found} == {"FAIL"}
    assert any(one["what"] == "line 4" and "tasks.max" in one["said"] for one in found)


def test_a_cluster_that_is_away_is_reported_once_and_keeps_nobody_from_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n")

    def open_admin(cluster: Cluster, role: str) -> Any:
        if cluster.alias == "A":
            raise ClusterUnreachable("Cluster A (a:1) did not answer.", "Check A.bootstrap.servers.")
        return nullcontext(SimpleNamespace(alias="B", brokers=dict))

    monkeypatch.setattr(cluster_checks, "open_admin", open_admin)
    monkeypatch.setattr(cluster_checks, "clock_ahead_seconds", lambda admin: 0.0)
    monkeypatch.setattr(cluster_checks, "broker_disks", lambda admin: [])
    found = list(cluster_checks.check_clusters(load_config(str(file)).flows))
    assert [(one.level, one.where, one.what) for one in found] == [
        (Level.FAIL, "A", "reachable"),
        (Level.OK, "B", "clock"),
        (Level.WARN, "B", "disk"),
    ]


def test_a_long_list_of_names_is_cut_in_a_finding() -> None:
    assert name_some(["a"] * 7) == "a, a, a, a, a and 2 more"
