"""A real Prometheus scrapes a running mirror and loads the alert rules; what the mirror left is read after a crash."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.collector import Collector
from tests.oracle import Client
from tests.programs import program
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import StartMirror, flow_file
from tests.scenarios.prometheus import get, prometheus, scraped
from tests.scenarios.status import board_of
from tests.waiting import wait_until

from sparkmirror.cli.main import main
from sparkmirror.config.flow.flows import load_config
from sparkmirror.runtime.progress import FlowWatch
from sparkmirror.telemetry.records import FlowState

SOURCE_METRIC = "kafka_connect_mirror_mirrorsourceconnector_record_count"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as found:
        yield found


def test_prometheus_scrapes_a_mirror_and_what_it_left_is_read_after_a_crash(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    collector: Collector,
) -> None:
    program("prometheus")
    story, alias = unique("metered"), unique("east")
    topic = f"{story}.orders"
    make_topics(source, {topic: 2})
    write(source, topic, numbered(0, 300, partitions=2))
    lines = ["status.listen = 127.0.0.1:0", "canary.interval.seconds = 1"]
    text = flow_file(source, target, alias=alias, topics=rf"{story}\\..*", lines=lines)
    file = tmp_path / "told.properties"
    file.write_text(text)
    exporting = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_METRIC_EXPORT_INTERVAL": "1000"}
    mirror = start_mirror(text, environment=os.environ | exporting)
    mirror.wait_until(lambda: "status page is at http://" in mirror.errors, "the page is served")
    port = int(re.findall(r"status page is at http://\S+:(\d+)/", mirror.errors)[0])
    flow = f'{{source="{alias}",target="backup"}}'
    with prometheus(tmp_path, port) as server:

        def known(expression: str) -> float:
            """A scrape of a busy machine may come to nothing: then the next one tells."""
            found: list[float] = []
            mirror.wait_until(lambda: found.extend(scraped(server, expression)) or found, expression)
            return found[-1]

        records = f'sum({SOURCE_METRIC}{{source="{alias}",topic="{alias}.{topic}"}})'
        mirror.wait_until(lambda: scraped(server, records) == [300.0], "Prometheus has all records")
        write(source, topic, numbered(300, 400, partitions=2))
        mirror.wait_until(lambda: scraped(server, records) == [400.0], "and those written since", 30)
        mirror.wait_until(lambda: scraped(server, f"sparkmirror_flow_up{flow}") == [1.0], "the flow is up")
        mirror.wait_until(lambda: scraped(server, f"sparkmirror_lag_records{flow}") == [0.0], "nothing waits")
        arrived = f"sparkmirror_canary_arrived_total{flow} > 2"
        mirror.wait_until(lambda: scraped(server, arrived), "probes have arrived", 60)
        assert known(f"sparkmirror_canary_lost_total{flow}") == 0.0
        levels = f'sparkmirror_verdict{{source="{alias}",level="green"}}'
        mirror.wait_until(lambda: scraped(server, levels) == [1.0], "all is well", 60)
        of_all, count = (f"sparkmirror_canary_latency_seconds_{what}{flow}" for what in ("sum", "count"))
        assert 0 < known(f"{of_all} / {count}") < 30
        for side in ("source", "target"):
            skew = known(f"sparkmirror_canary_{side}_clock_skew_seconds{flow}")
            assert abs(skew) < 30, "one machine has one clock, but half of a round trip counts"

        def health() -> set[str]:
            groups = json.loads(get(server, "/api/v1/rules"))["data"]["groups"]
            return {rule["health"] for group in groups for rule in group["rules"]}

        mirror.wait_until(lambda: health() == {"ok"}, "each rule was evaluated, and well")

    def sent(number: int) -> float | None:
        labels = {"source": alias, "target": "backup", "topic": f"{alias}.{topic}", "partition": str(number)}
        return collector.latest().get((SOURCE_METRIC, tuple(sorted(labels.items()))))

    mirror.wait_until(lambda: [sent(0), sent(1)] == [200.0, 200.0], "an OpenTelemetry collector has all records too")
    board = board_of(target, alias)
    assert board.flow is not None and board.flow.state is FlowState.RUNNING
    watch = FlowWatch(load_config(file).flows[0], board.run, None)
    pace = watch.pace
    wait_until(lambda: watch.poll() and pace.records_per_second > 0, "the second process counts probes, one a second")
    assert watch.status.records >= 400 and pace.records_per_second < 100, "and not what was mirrored before it came"
    watch.close()
    mirror.kill()
    capsys.readouterr()

    def page_now() -> dict[str, Any]:
        assert main(["status", str(file), "--format", "json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)
        return dict(found)

    wait_until(lambda: page_now()["verdict"]["level"] in ("unknown", "red"), "nobody can say how it stands")
    page = page_now()
    assert page["state"] in ("RUNNING", "SILENT"), "its last word"
    assert board.flow.state_at(time.time_ns() // 1_000_000 + 36_000) is FlowState.SILENT
    told = {(one["topic"], one["partition"]): one for one in page["partitions"]}
    assert [told[topic, number]["lag"] for number in (0, 1)] == [0, 0]
    assert {job["job"] for job in page["jobs"]} >= {"topics", "offsets"}
