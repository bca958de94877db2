"""Spark's own pages and event log of a running mirror: the flows by name, their rates and lag, and no secret."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.oracle import Client, count_records
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import StartMirror, flow_file

from sparkmirror.testing.ports import PortReservation

SECRET = "hunter2-of-the-mirror"
PAGES = ("StreamingQuery/", "jobs/", "stages/", "storage/", "environment/", "executors/", "SQL/")
LISTS = ("environment", "jobs", "stages", "allexecutors", "sql?details=true&planDescription=true")
WAVE = 3000
SLOW = 60_000


@dataclass(frozen=True)
class SparkPage:
    """Spark's pages as a browser or a program asks for them."""

    base: str

    def get(self, path: str) -> str:
        text: str = urlopen(f"{self.base}/{path}", timeout=60).read().decode()
        return text

    def all(self) -> str:
        (application,) = json.loads(self.get("api/v1/applications"))
        lists = [f"api/v1/applications/{application['id']}/{name}" for name in LISTS]
        return "\n".join(map(self.get, [*PAGES, *lists]))

    def statistics(self, flow: str, directory: Path) -> str:
        """The page of one query, which is named by its run."""
        run = next(event["runId"] for event in events(directory) if event.get("name") == flow)
        return self.get(f"StreamingQuery/statistics/?id={run}")


def events(directory: Path) -> Iterator[dict[str, Any]]:
    """What the event log holds so far."""
    for file in directory.rglob("events_*"):
        whole = file.read_text().rpartition("\n")[0]
        yield from map(json.loads, whole.splitlines())


def own_progress(directory: Path, flow: str) -> list[dict[str, Any]]:
    """The flow's progress as the mirror has reported it; Spark's own comes when the epoch ends."""
    found = [event["progress"] for event in events(directory) if "progress" in event]
    return [one for one in found if one["name"] == flow and one["sources"][0]["description"] == f"records of {flow}"]


def mirrored(progress: list[dict[str, Any]]) -> int:
    return sum(one["sources"][0]["numInputRows"] for one in progress)


def lag_of(one: dict[str, Any]) -> int:
    return int(one["sources"][0]["metrics"].get("lagRecords", 0))


@pytest.mark.long
def test_sparks_streaming_page_shows_each_flow_with_its_rate_and_lag_and_no_secret(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    topic, alias, changed = unique("paged"), unique("plain"), unique("changed")
    flows = [f"{alias}->backup", f"{changed}->backup"]
    make_topics(source, {topic: 1})
    log = tmp_path / "events"
    log.mkdir()
    lines = [
        f"clusters = {alias}, {changed}, backup",
        *(f"{changed}.{key} = {value}" for key, value in source.items()),
        f"{flows[1]}.enabled = true",
        f"{flows[1]}.transforms.where = value IS NOT NULL",
        f"{flows[1]}.rate.limit.bytes.per.second = {SLOW}",
        f"backup.sasl.password.of.nobody = {SECRET}",
        f"{alias}.producer.ssl.key.password = {SECRET}",
    ]
    with PortReservation(1) as reserved:
        (port,) = reserved.ports
        settings = {
            "spark.ui.enabled": "true", "spark.ui.port": str(port), "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": log.as_uri(), "spark.eventLog.compress": "false",
        }  # fmt: skip
        given = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        mirror = start_mirror(flow_file(source, target, alias=alias, topics=topic, lines=lines), *given)
        mirror.wait_until(lambda: all(own_progress(log, flow) for flow in flows), "both flows report to Spark")
        write(source, topic, numbered(0, WAVE, size_bytes=1000), batch_size=20_000)
        mirror.wait_until(lambda: count_records(target, f"{alias}.{topic}") == WAVE, "all arrive by the plain flow")
        mirror.wait_until(lambda: mirrored(own_progress(log, flows[0])) == WAVE, "Spark knows of each record")
        mirror.wait_until(lambda: any(map(lag_of, own_progress(log, flows[1]))), "Spark knows of the slow flow's lag")
        page = SparkPage(f"http://127.0.0.1:{port}")
        for flow in flows:  # Spark's pages may hear of what happens later than its event log
            name = flow.replace(">", "&gt;")
            mirror.wait_until(lambda name=name: name in page.get("StreamingQuery/"), f"{flow} is shown")
        mirror.wait_until(lambda: '"lag"' in page.statistics(flows[1], log), "the slow flow's lag is shown")
        assert SECRET not in page.all()
        mirror.stop()

    slow = [one for one in own_progress(log, flows[1]) if lag_of(one)]
    assert max(one["durationMs"]["lag"] for one in slow) > 0
    assert max(one["sources"][0]["inputRowsPerSecond"] for one in slow) > 0
    assert {one["batchId"] for one in slow} == {0}, "many events of one epoch"
    assert not [file for file in log.rglob("*") if file.is_file() and SECRET in file.read_text(errors="replace")]
