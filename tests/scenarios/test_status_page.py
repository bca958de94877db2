"""The status page of a running mirror: by its paths, and in a browser as a person uses it."""

import http.client
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Page, expect
from tests.oracle import Client
from tests.scenarios.browser import chromium, keep_picture, open_page, violations
from tests.scenarios.data import Note, make_topics, numbered, write
from tests.scenarios.mirror import Mirror, flow_file

from sparkmirror.cli.main import main
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster
from sparkmirror.telemetry.records import VerifyRecord, encode_record
from sparkmirror.testing.kafka import KafkaCluster

DIFFERENCE = "orders-0 at upstream offset 7, downstream offset 9 (value)"
TOKEN, PASSWORD = "token-of-the-page-0001", "pass-of-a-store-0002"
VIEWS = (
    "overview", "topics", "partitions", "groups", "gaps", "processes", "failover", "configuration", "log",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Story:
    """A mirror with a page, and what it mirrors."""

    mirror: Mirror
    port: int
    alias: str
    topic: str
    source: Client
    target: Client

    @property
    def flow(self) -> str:
        return f"{self.alias}->backup"

    def ask(self, path: str, order: Mapping[str, Any] | None = None, token: str = "") -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            body = json.dumps(order) if order else None
            connection.request("POST" if order else "GET", path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def look_up(self, kind: str) -> dict[str, Any]:
        """What the page looks up on the clusters."""
        answer: dict[str, Any] = json.loads(self.ask(f"/api/{kind}?flow={self.flow.replace('>', '%3E')}")[1])
        return answer

    def states(self) -> dict[int, str]:
        """Of the topic's partitions that stand at their ends."""
        return {row[2]: row[3] for row in self.rows("partitions") if row[1] == self.topic and row[4] == row[5]}

    def verdict(self) -> dict[str, Any]:
        """On the flow: level, sentence, problems."""
        found: dict[str, Any] = self.part("flow")["verdict"]
        return found

    def part(self, kind: str) -> Any:
        """What the page shows of the flow."""
        return json.loads(self.ask("/api/state")[1])["parts"][f"{kind}/{self.flow}"]

    def rows(self, kind: str) -> list[list[Any]]:
        """Of a kind, of this flow, each behind its number."""
        found: list[list[Any]] = json.loads(self.ask("/api/state")[1])["rows"].get(f"{kind}/{self.flow}", [])
        return found


@pytest.fixture(scope="module")
def story(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, class_archive: None, tmp_path_factory: Any
) -> Iterator[Story]:
    source, target = ({"bootstrap.servers": one.bootstrap_servers} for one in (source_cluster, target_cluster))
    mark = uuid4().hex[:8]
    topic, alias = f"paged-{mark}", f"west-{mark}"
    make_topics(source, {topic: 3})
    write(source, topic, numbered(0, 300, partitions=3))
    commit(source, f"billing-{mark}", TopicPartition(topic, 2, 60))
    lines = [
        "status.listen = localhost:0", f"status.token = {TOKEN}", f"backup.ssl.keystore.password = {PASSWORD}",
        f"groups = billing-{mark}", "emit.checkpoints.interval.seconds = 1",
        "sync.group.offsets.enabled = true", "sync.group.offsets.interval.seconds = 1",
    ]  # fmt: skip
    text = flow_file(source, target, alias=alias, topics=f"{topic}.*", lines=lines)
    mirror = Mirror(tmp_path_factory.mktemp("page"), text)
    try:
        mirror.wait_until(lambda: re.search(r"status page is at http://\S+:\d+/", mirror.errors), "the page is served")
        port = int(re.findall(r"status page is at http://\S+:(\d+)/", mirror.errors)[0])
        yield Story(mirror, port, alias, topic, source, target)
    finally:
        mirror.close()


@pytest.fixture(scope="module")
def eventful(story: Story) -> Story:
    """The same after a night: a partition was held until its records were deleted, a comparison found a difference."""
    wait, lost = story.mirror.wait_until, TopicPartition(story.topic, 0, 130)
    wait(lambda: story.states() == dict.fromkeys(range(3), "RUNNING"), "all is shown as mirrored")
    wait(lambda: story.ask("/readyz") == (200, "ok\n"), "the flow runs")
    wait(lambda: story.verdict()["level"] == "green", "all is well")
    order = {"action": "pause", "flow": story.flow, "topic": story.topic, "partition": 0}
    assert story.ask("/api/orders", order)[0] == 401
    assert story.ask("/api/orders", order, TOKEN)[0] == 202
    paused = {0: "PAUSED", 1: "RUNNING", 2: "RUNNING"}
    wait(lambda: story.states() == paused, "the partition, and it alone, is shown as paused")
    write(story.source, story.topic, (Note(b"late", partition=0) for _ in range(40)))
    admin = AdminClient(dict(story.source))
    for deleted in admin.delete_records([lost]).values():
        deleted.result(60)
    assert story.ask("/api/orders", {"action": "resume", "flow": story.flow}, TOKEN)[0] == 202
    record = VerifyRecord("different", 300, 1, 0.2, 5.0, DIFFERENCE, time.time_ns() // 1_000_000, 3, 1, 900)
    publish(
        Cluster("backup", dict(story.target)), ledger_topics(story.alias).status, [encode_record(story.alias, record)]
    )
    return story


def test_the_page_tells_programs_how_the_mirror_stands_and_takes_their_orders(eventful: Story) -> None:
    story = eventful
    assert story.ask("/healthz") == (200, "ok\n")
    wait = story.mirror.wait_until
    wait(lambda: story.ask("/readyz")[0] == 503, "the copy differs: that is red, and readiness is the verdict's")
    assert "were found to differ" in story.ask("/readyz")[1]
    assert story.ask("/healthz") == (200, "ok\n")
    story.mirror.wait_until(lambda: story.states().get(0) == "RUNNING", "the partition runs again", 30)
    story.mirror.wait_until(lambda: story.look_up("readiness")["records_behind"] == 0, "its records have arrived", 30)
    assert story.look_up("readiness")["source_answers"]


def test_the_page_tells_of_groups_of_what_was_lost_and_of_comparisons(eventful: Story) -> None:
    ends = (eventful.topic, 0, "retention", 100, 130, 30, "went on")
    eventful.mirror.wait_until(
        lambda: [row[1:8] for row in eventful.rows("gaps")] == [list(ends)], "the gap is shown", 30
    )
    lost = "1 gap that nobody has acknowledged, 30 offsets gone"
    eventful.mirror.wait_until(
        lambda: lost in [one["sentence"] for one in eventful.verdict()["problems"]], "the gap is a problem", 30
    )
    assert main(["gaps", str(eventful.mirror.file), "--acknowledge"]) == 0
    eventful.mirror.wait_until(
        lambda: [one["cause"][:9] for one in eventful.verdict()["problems"]] == [f"{eventful.alias} and "[:9]],
        "somebody has seen the gap", 30,
    )  # fmt: skip
    happened = {"started", "paused", "runs again", "gap"}
    eventful.mirror.wait_until(
        lambda: happened <= {one["kind"] for one in eventful.part("history")["events"]}, "a time line"
    )
    eventful.mirror.wait_until(lambda: _group(eventful) == (40, 40, [], [(60, 60)]), "the group is synced", 60)
    eventful.mirror.wait_until(
        lambda: DIFFERENCE in eventful.ask("/status.txt")[1], "what differs is told in words", 10
    )


def test_the_page_tells_what_does_the_work(eventful: Story) -> None:
    works = eventful.part("works")
    assert [one["state"] for one in works["processes"]] == ["RUNNING"]
    assert works["tasks"] and {"topics", "offsets"} <= {one["name"] for one in works["jobs"]}
    clusters = eventful.look_up("brokers")["clusters"]
    assert [(one["alias"], len(one["brokers"]), one["problem"]) for one in clusters] == [
        (eventful.alias, 1, ""), ("backup", 1, ""),
    ]  # fmt: skip
    assert all(one["release"] and one["round_trip_ms"] >= 0 for cluster in clusters for one in cluster["brokers"])

    def is_told() -> bool:
        """Mirrors make topics of their own meanwhile."""
        led = [cluster["brokers"][0]["leads"] for cluster in eventful.look_up("brokers")["clusters"]]
        return led == [_count_partitions(eventful.source), _count_partitions(eventful.target)]

    eventful.mirror.wait_until(is_told, "what each broker leads is told")


def _count_partitions(client: Client) -> int:
    """Of all topics; the cluster's one broker leads them."""
    return sum(len(topic.partitions) for topic in AdminClient(dict(client)).list_topics(timeout=30).topics.values())


def test_no_answer_of_the_page_holds_a_secret(story: Story) -> None:
    """Invariant 10."""
    paths = ("/", "/api/state", "/api/config", "/healthz", "/readyz", "/nowhere")
    told = "".join(story.ask(path)[1] for path in paths)
    assert TOKEN not in told and PASSWORD not in told and "[hidden]" in told


def test_a_person_looks_at_everything_and_pauses_and_resumes_a_partition(eventful: Story) -> None:
    story = eventful
    complaints: list[str] = []
    with chromium() as browser:
        page = open_page(browser, f"http://localhost:{story.port}/", "light", complaints)
        expect(page.locator(".verdict")).to_contain_text("were found to differ", timeout=60_000)
        for number, view in enumerate(VIEWS, 1):
            page.keyboard.press(str(number))
            expect(page.locator("nav a[aria-current]")).to_have_attribute("href", f"#{view}")
            _wait_for(page, view, story)
            keep_picture(page, f"status-{view}-light")
        _pause_and_resume(page, story)
        for look in ("dark", "phone"):
            other = open_page(browser, f"http://localhost:{story.port}/", look, complaints)
            for view in VIEWS:
                other.evaluate("view => { location.hash = view }", view)
                _wait_for(other, view, story)
                assert other.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{view} is too wide"
                assert violations(other) == [], f"{view}: what axe-core finds"
                keep_picture(other, f"status-{view}-{look}")
        write(story.source, story.topic, numbered(300, 600, partitions=3))
        row = page.get_by_role("row", name=re.compile(f"{story.topic} 2 "))  # the one that is searched for
        expect(row).to_contain_text("200", timeout=60_000)
        assert not complaints, complaints
        page.keyboard.press("Escape")
        page.keyboard.press("1")
        story.mirror.stop()  # though three pages are open
        expect(page.locator(".verdict")).to_have_class("verdict idle", timeout=60_000)
        expect(page.locator(".verdict")).to_contain_text("This page has heard nothing of the mirror since")
        expect(page.locator("#link")).to_contain_text(re.compile("again|answer|heard"), timeout=60_000)
        keep_picture(page, "status-stale-light")


def _group(story: Story) -> tuple[Any, ...]:
    """Its lag on both sides, why it is not synced, and its offsets: on the source, translated."""
    own = story.alias.replace("west", "billing")
    (group,) = [one for one in story.look_up("groups")["groups"] if one["group"] == own]
    offsets = [(one["committed"], one["translated"]) for one in group["partitions"]]
    return group["lag"], group["target_lag"], group["notes"], offsets


def commit(client: Client, group: str, place: TopicPartition) -> None:
    member = Consumer({**client, "group.id": group})
    member.commit(offsets=[place], asynchronous=False)
    member.close()


def _wait_for(page: Page, view: str, story: Story) -> None:
    """Until the view shows what it has to."""
    expect(page.locator("main")).to_have_attribute("data-view", view)
    wanted = {
        "overview": page.locator(".problems").get_by_text(DIFFERENCE),
        "topics": page.get_by_role("gridcell", name=story.topic).first,
        "partitions": page.get_by_role("gridcell", name=story.topic).first,
        "groups": page.get_by_role("gridcell", name="billing").first,
        "gaps": page.get_by_role("gridcell", name="retention").first,
        "processes": page.get_by_text("answers").first,
        "failover": page.get_by_text("Nothing would be lost"),
        "configuration": page.get_by_text("[hidden]").first,
        "log": page.get_by_role("heading", name="The last warnings"),
    }
    expect(wanted[view]).to_be_visible(timeout=60_000)


def _pause_and_resume(page: Page, story: Story) -> None:
    """With the keyboard alone, and the token."""
    page.keyboard.press("3")
    expect(page.get_by_role("gridcell", name=story.topic).first).to_be_visible(timeout=60_000)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused(timeout=60_000)
    page.keyboard.type(f"{story.topic}-2")
    expect(page.locator(".tbody .tr")).to_have_count(1)
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("p")
    expect(page.locator("input[type=password]")).to_be_focused(timeout=60_000)
    page.keyboard.type(TOKEN)
    page.keyboard.press("Enter")
    row = page.get_by_role("row", name=re.compile(story.topic))
    expect(row).to_contain_text("PAUSED", timeout=60_000)
    keep_picture(page, "status-paused")
    page.get_by_role("grid").focus()
    page.keyboard.press("p")
    expect(row).to_contain_text("RUNNING", timeout=60_000)
