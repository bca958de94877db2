"""States in which a mirror was once shown as well, on real brokers: all that tells how it stands agrees, alerts too.

The page is Chromium's. What each state is called is in `tests/unit/telemetry/test_verdict.py`.
"""

import http.client
import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from playwright.sync_api import Page, expect
from tests.oracle import Client
from tests.scenarios.browser import chromium, keep_picture, open_page
from tests.scenarios.data import Note, alter_topic, make_topics, numbered, write
from tests.scenarios.mirror import Mirror, flow_file
from tests.scenarios.prometheus import alerts, prometheus
from tests.scenarios.status import board_of
from tests.waiting import wait_until

from sparkmirror.cli.main import main
from sparkmirror.testing.kafka import KafkaCluster

ALERTS = {"green": set(), "amber": {"SparkMirrorAmber"}, "unknown": {"SparkMirrorUnknown"}, "red": {"SparkMirrorRed"}}
KINDS = {"green": "ok", "amber": "warn", "unknown": "idle", "red": "bad"}
WAIT_SECONDS_MAX = 120.0
EPOCH_SECONDS = 15
TOPIC, GROUP = "orders", "billing"
TOKEN = "token-of-the-page-0007"
VERDICT_ALERTS = set.union(*ALERTS.values())
FAST = tuple(f"{name}.interval.seconds = 1" for name in ("emit.checkpoints", "sync.group.offsets", "refresh.groups"))
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""Everybody may do everything, until an ACL says otherwise."""


class Stage:
    """A mirror of one topic between clusters of its own, and all that tells how it stands."""

    def __init__(self, directory: Path, source: KafkaCluster, target: KafkaCluster) -> None:
        self.source_cluster, self.target_cluster = source, target
        self.source: Client = {"bootstrap.servers": source.bootstrap_servers}
        self.target: Client = {"bootstrap.servers": target.bootstrap_servers}
        make_topics(self.source, {TOPIC: 4})
        write(self.source, TOPIC, numbered(0, 20_000, partitions=4))
        self.commit(1000)
        self._directory = directory
        self.prometheus = 0
        self.start()

    def start(self) -> None:
        """The mirror, for the first time or again."""
        lines = ["status.listen = localhost:0", f"status.token = {TOKEN}", "sync.topic.configs.enabled = false"]
        lines += [f"groups = {GROUP}", "sync.group.offsets.enabled = true", *FAST]
        lines += [f"west->backup.epoch.seconds = {EPOCH_SECONDS}"]
        text = flow_file(self.source, self.target, alias="west", topics=TOPIC, lines=lines)
        self.mirror = Mirror(self._directory, text)
        found = r"status page is at http://\S+:(\d+)/"
        self.mirror.wait_until(lambda: re.search(found, self.mirror.errors), "the page is served")
        self.port = int(re.findall(found, self.mirror.errors)[0])

    def ask(self, path: str, order: dict[str, Any] | None = None) -> tuple[int, str]:
        assert self.mirror.running, f"the mirror ended:\n{self.mirror.errors[-3000:]}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            body = json.dumps(order) if order else None
            connection.request("POST" if order else "GET", path, body, {"Authorization": f"Bearer {TOKEN}"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def part(self) -> dict[str, Any]:
        """What the page shows of the flow."""
        found: dict[str, Any] = json.loads(self.ask("/api/state")[1])["parts"].get("flow/west->backup", {})
        return found

    def epoch(self) -> int:
        """The latest that a task has told of."""
        works = json.loads(self.ask("/api/state")[1])["parts"]["works/west->backup"]
        return max(int(one["epoch"]) for one in works["tasks"])

    def commit(self, offset: int) -> None:
        """Move the group on the source."""
        member = Consumer({**self.source, "group.id": GROUP})
        member.commit(offsets=[TopicPartition(TOPIC, 2, offset)], asynchronous=False)
        member.close()

    def status(self, capsys: pytest.CaptureFixture[str], exit_status: int = 0) -> dict[str, Any]:
        """What `sparkmirror status` says."""
        capsys.readouterr()
        assert main(["status", str(self.mirror.file), "--format", "json"]) == exit_status
        (found,) = json.loads(capsys.readouterr().out)
        return dict(found)

    def metric(self) -> str:
        """The level that `/metrics` has."""
        lines = re.findall(r'^sparkmirror_verdict\{.*level="(\w+)"\} 1$', self.ask("/metrics")[1], re.MULTILINE)
        return lines[0] if lines else ""

    def tells(self) -> tuple[str, str, str, int, set[str]]:
        """Level and sentence of the page, level of the metrics, status of `/readyz`, alerts that wait or fire."""
        verdict = self.part().get("verdict", {"level": "", "sentence": ""})
        found = alerts(self.prometheus) & VERDICT_ALERTS if self.prometheus else ALERTS.get(verdict["level"], set())
        return verdict["level"], verdict["sentence"], self.metric(), self.ask("/readyz")[0], found

    def await_level(self, level: str, words: str, page: Page) -> None:
        """Until page, metrics and readiness say so, and the page in the browser."""
        ready = 200 if level in ("green", "amber") else 503

        def is_told() -> bool:
            shown, sentence, metric, status, found = self.tells()
            return shown == metric == level and words in sentence and status == ready and found == ALERTS[level]

        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not is_told():
            assert time.monotonic() < deadline, f"{level}, {words}: {self.tells()}\n{self.mirror.errors[-3000:]}"
            time.sleep(0.3)
        expect(page.locator(".verdict")).to_have_class(f"verdict {KINDS[level]}")
        expect(page.locator(".verdict")).to_contain_text(words)
        assert self.ask("/healthz")[0] == 200, "the verdict is none of its"

    def await_not_red(self) -> None:
        self.mirror.wait_until(lambda: self.part()["verdict"]["level"] != "red", "the flow is not red any more")

    def limit(self, size: int) -> None:
        """Of a batch that the target's topic takes."""
        alter_topic(self.target, f"west.{TOPIC}", {"max.message.bytes": str(size)})


@pytest.fixture
def stage(tmp_path: Path, class_archive: None) -> Iterator[Stage]:
    with KafkaCluster(2, name="source") as source, KafkaCluster(name="target", config=AUTHORIZER) as target:
        made = Stage(tmp_path, source, target)
        try:
            yield made
        finally:
            made.mirror.close()


@pytest.mark.long
def test_no_state_is_shown_as_well_that_is_not(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    complaints: list[str] = []
    begun: list[dict[str, Any]] = []
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not (begun and begun[-1]["verdict"]["level"] == "green"):
        assert time.monotonic() < deadline, begun[-1:]
        begun += [part] if (part := stage.part()) else []
    for part in begun[:-1]:
        assert part["verdict"]["level"] != "green" and part["lag_records"] != 0, "nothing is known while it starts"
    with chromium() as browser, prometheus(tmp_path, stage.port) as stage.prometheus:
        page = open_page(browser, f"http://localhost:{stage.port}/", "light", complaints)
        stage.await_level("green", "west->backup is mirroring", page)
        assert stage.status(capsys)["verdict"]["level"] == "green"
        _refuse_a_group(stage, page, capsys)
        _pause_all(stage, page, capsys)
        _lose_records(stage, page, capsys)
        _refuse_a_partition(stage, page, capsys)
        _lose_half_of_the_source(stage, page, capsys)
        other = open_page(browser, f"http://localhost:{stage.port}/#failover", "light", complaints)
        _lose_the_target(stage, page, other, capsys)
        other.close()
        _kill_workers(stage, page, capsys)
        _kill_the_mirror(stage, page, capsys)
        absent = "SparkMirrorAbsent"
        known = VERDICT_ALERTS | {absent}
        wait_until(lambda: alerts(stage.prometheus) & known == {absent}, "no mirror answers Prometheus", 60)
        stage.prometheus = 0
        stage.mirror.close()
        stage.start()
        _start_again(stage, open_page(browser, f"http://localhost:{stage.port}/", "light", complaints), capsys)
    assert [one for one in complaints if "ERR_" not in one and "503" not in one] == []


def _refuse_a_group(stage: Stage, page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    """For as long as the target forbids to write the group's offsets; once it may, all is well by itself."""
    wait = stage.mirror.wait_until
    wait(lambda: GROUP in stage.ask("/api/groups?flow=west-%3Ebackup")[1], "the group is known")
    admin = AdminClient(dict(stage.target))
    place = (ResourceType.GROUP, GROUP, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*")
    denied = AclBinding(*place, AclOperation.READ, AclPermissionType.DENY)
    for done in admin.create_acls([denied]).values():
        done.result(60)
    stage.commit(2000)
    stage.await_level("amber", "groups and checkpoints are not synced: ", page)
    assert GROUP in stage.part()["verdict"]["sentence"], "which group it is"
    problem = stage.status(capsys)["verdict"]["problems"][0]
    assert problem["level"] == "amber" and problem["cause"].startswith("groups and checkpoints are not synced: ")
    lacking = AclBindingFilter(*place, AclOperation.READ, AclPermissionType.DENY)
    for done in admin.delete_acls([lacking]).values():
        done.result(60)
    stage.await_level("green", "west->backup is mirroring", page)


def _pause_all(stage: Stage, page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    assert stage.ask("/api/orders", {"action": "pause", "flow": "west->backup"})[0] == 202
    stage.await_level("amber", "4 partitions: paused by order", page)
    write(stage.source, TOPIC, numbered(20_000, 20_010, partitions=4))
    assert stage.part()["lag_records"] is None, "nobody asks where they end"
    assert stage.status(capsys)["lag"] == 10
    assert stage.status(capsys)["verdict"]["problems"][0]["command"].startswith("sparkmirror resume ")


def _lose_records(stage: Stage, page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    """While all are paused, so that it is a gap."""
    write(stage.source, TOPIC, (Note(b"late", partition=0) for _ in range(485)))
    admin = AdminClient(dict(stage.source))
    for deleted in admin.delete_records([TopicPartition(TOPIC, 0, 5485)]).values():
        deleted.result(60)
    assert stage.ask("/api/orders", {"action": "resume", "flow": "west->backup"})[0] == 202
    stage.await_level("amber", "1 gap that nobody has acknowledged, 485 offsets gone", page)
    stage.mirror.workers()[-1].kill()
    found = stage.status(capsys)
    assert (found["gaps"], found["lost_records"]) == (1, 485), "the ledger remembers what a dead worker has told"
    assert main(["gaps", str(stage.mirror.file), "--acknowledge"]) == 0
    stage.mirror.wait_until(
        lambda: not any("gap" in one["cause"] for one in stage.part()["verdict"]["problems"]), "no gap is a problem"
    )


def _refuse_a_partition(stage: Stage, page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    """Two are, through two retries at least and an epoch's end: they are never shown as well."""
    stage.limit(2000)
    write(stage.source, TOPIC, [Note(b"x" * 50_000, partition=at) for at in (1, 2)], compression_type="none")
    stage.await_level("red", "2 partitions: ", page)
    since = stage.part()["verdict"]["since_ms"]
    epoch = stage.epoch()
    until = time.monotonic() + 12
    while time.monotonic() < until or stage.epoch() < epoch + 2:
        assert time.monotonic() < until + WAIT_SECONDS_MAX
        part = stage.part()
        assert (part["verdict"]["level"], part["verdict"]["since_ms"], part["counts"]["FAILED"]) == ("red", since, 2)
        time.sleep(0.2)
    assert stage.status(capsys)["verdict"]["level"] == "red"
    keep_picture(page, "status-red-light")
    stage.limit(1_000_000)
    assert stage.ask("/api/orders", {"action": "retry", "flow": "west->backup"})[0] == 202
    stage.await_not_red()


def _lose_half_of_the_source(stage: Stage, page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    broker = stage.source_cluster.broker(2)
    broker.kill()
    stage.await_level("red", "west does not give it", page)
    assert stage.part()["lag_records"] is None
    found = stage.status(capsys)
    assert (found["verdict"]["level"], found["lag"]) == ("red", None)
    expect(page.get_by_text("lag not known").first).to_be_visible()
    broker.start()
    stage.await_not_red()


def _lose_the_target(stage: Stage, page: Page, other: Page, capsys: pytest.CaptureFixture[str]) -> None:
    """What a failover would lose is not known meanwhile, whatever was seen before."""
    (broker,) = stage.target_cluster.brokers
    well = "Nothing would be lost: all is mirrored."
    expect(other.get_by_text(well)).to_be_visible()
    broker.pause()
    try:
        stage.await_level("red", "cluster backup: does not answer", page)
        found = stage.status(capsys, exit_status=1)
        assert (found["verdict"]["level"], found["lag"], found["state"]) == ("red", None, None)
        assert [one["end"] is not None for one in found["partitions"]] == [True] * 4
        expect(other.get_by_text(well)).to_have_count(0, timeout=90_000)
        expect(other.get_by_text(re.compile("not known now|Nobody can say now")).first).to_be_visible()
    finally:
        broker.resume()
    stage.await_not_red()


def _kill_workers(stage: Stage, page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, as fast as Spark brings new ones."""
    board = board_of(stage.target, "west")
    before = len(board.trouble.restarts)
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while len(board_of(stage.target, "west").trouble.restarts) < before + 2:
        assert time.monotonic() < deadline, stage.part()["verdict"]
        known = stage.mirror.workers()
        for worker in known[-2:]:
            with suppress(psutil.Error):
                worker.kill()
        assert stage.part()["verdict"]["level"] != "green"
        stage.mirror.wait_until(
            lambda known=known: set(stage.mirror.workers()) - set(known), "Spark brings new workers"
        )
    stage.await_level("amber", "of workers or of the query in the last 10 min", page)
    found = stage.status(capsys)["verdict"]
    assert found["level"] == "amber" and max(one["count"] for one in found["problems"]) >= 2


def _kill_the_mirror(stage: Stage, page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    stage.mirror.kill()
    expect(page.locator(".verdict")).to_have_class("verdict idle", timeout=30_000)
    expect(page.locator(".verdict")).to_contain_text("This page has heard nothing of the mirror since")
    expect(page.locator(".pulse")).to_have_count(0)
    levels: list[str] = []

    def is_red() -> bool:
        levels.append(stage.status(capsys)["verdict"]["level"])
        return levels[-1] == "red"

    wait_until(is_red, "`status` says that nothing runs", WAIT_SECONDS_MAX)
    assert "unknown" in levels and "green" not in levels


def _start_again(stage: Stage, page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    """It remembers the restarts of the process before, and what happened to it; then its JVM is killed."""
    stage.await_level("amber", "of workers or of the query in the last 10 min", page)
    earlier = {"started", "job fails", "job works", "paused", "gap", "failed", "waiting", "restarted"}

    def kinds() -> list[str]:
        events = json.loads(stage.ask("/api/state")[1])["parts"]["history/west->backup"]["events"]
        return [one["kind"] for one in events]

    stage.mirror.wait_until(lambda: earlier <= set(kinds()) and kinds().count("started") >= 2, "both are told", 30)
    stage.mirror.jvm().kill()
    expect(page.locator(".verdict")).to_have_class("verdict idle", timeout=60_000)

    def has_ended() -> bool:
        told = stage.status(capsys)["verdict"]
        assert told["level"] != "green", told
        return "it ended: " in told["sentence"]

    wait_until(has_ended, "`status` says how it ended", WAIT_SECONDS_MAX)
