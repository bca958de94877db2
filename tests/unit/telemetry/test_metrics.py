"""The table of metrics: what Prometheus is told, docs/metrics.md, the dashboard and the alerts, all say the same."""

import json
import re
import subprocess
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.programs import program

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.exposition import expose
from sparkmirror.telemetry.histogram import Histogram
from sparkmirror.telemetry.metrics import LABELS_OF_ALL, METRICS, document
from sparkmirror.telemetry.records import Spread
from sparkmirror.telemetry.snapshot import FlowSnapshot

ROOT = Path(__file__).parents[3]
NOW_MS = 1_800_000_000_000
BY_NAME = {metric.name: metric for metric in METRICS}
NAME = re.compile(r"\b(?:sparkmirror|kafka_connect_mirror)_[a-z0-9_]+\b")
SELECTOR = re.compile(r"\b((?:sparkmirror|kafka_connect_mirror)_[a-z0-9_]+)\{([^}]*)\}")
FREE = {"datasource"}


def flow_board(age_ms: int = 1000) -> StatusBoard:
    """A flow with one task, two partitions, a job, a canary and a comparison."""
    board, latency = StatusBoard("A"), Histogram()
    latency.add(3, 90)
    latency.add(700, 10)

    def tell(key: list[Any], value: dict[str, Any]) -> None:
        assert board.take(json.dumps(key).encode(), json.dumps({"run": "r"} | value).encode(), NOW_MS - age_ms)

    tell(["flow", "A", "here:7"], {"state": "RUNNING", "host": "here", "pid": 7, "version": "1", "digest": "d"})
    task = {"epoch": 1, "records": 100, "lag_records": 7, "behind_since_ms": NOW_MS - 4000, "throttled_ms": 1500}
    tell(["task", "A", 0], task | {"latency": latency.as_json(), "recent_latency": latency.as_json()})
    first = {"task": 0, "epoch": 1, "offset": 93, "end": 100, "behind_since_ms": NOW_MS - 4000, "records": 93}
    spread = {"latency": [5, 1, 9, 4.5], "age": [2, None, None, None], "target_topic": "A.orders"}
    tell(["partition", "A", "orders", 0], first | spread)
    tell(["partition", "A", 'o"dd\\', 1], {"task": 0, "epoch": 1, "offset": 0, "state": "FAILED"})
    start = {"task": -1, "epoch": 0, "offset": 800, "end": 850, "filling": [True, 0, 800, 200, 50.0]}
    tell(["partition", "A", "late", 0], start)
    tell(["job", "A", "topics"], {"state": "FAILED", "rounds": 4, "failures": 1, "last_at_ms": NOW_MS})
    tell(["job", "A", "canary"], {"rounds": 9})
    tell(["verify", "A"], {"verdict": "equal", "rounds": 3})
    tell(["canary", "A"], {"sent": 9, "arrived": 8, "latency": latency.as_json(), "source_skew_seconds": 0.25})
    return board


def snapshot(board: StatusBoard, now_ms: int = NOW_MS) -> FlowSnapshot:
    groups = {
        ("eu", TopicPartition("A.orders", 0)): Spread(8, 8, 8, 8),
        ("us", TopicPartition("A.orders", 0)): Spread(9),
    }
    return FlowSnapshot(FlowName("A", "B"), board, now_ms, lambda topic: f"A.{topic}", checkpoints=groups)


def told(body: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """As Prometheus' own client reads it."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def value_of(found: dict[tuple[str, tuple[tuple[str, str], ...]], float], name: str, **labels: str) -> float:
    return found[name, tuple(sorted({"source": "A", "target": "B", **labels}.items()))]


def test_names_are_well_formed_and_reported_once() -> None:
    assert len(BY_NAME) == len(METRICS)
    for metric in METRICS:
        assert NAME.fullmatch(metric.name), metric.name
        assert metric.help and not metric.help.endswith(".")
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.name.endswith("_count") == (metric.kind == "untyped"), metric.name
        assert "job" not in metric.labels and "instance" not in metric.labels, "Prometheus has its own"


def test_prometheus_reads_all_metrics_of_the_status_and_nothing_else() -> None:
    found = told(expose([snapshot(flow_board())]))
    suffixes = ("_bucket", "_sum", "_count")
    names = {name for name, _ in found} | {name.removesuffix(end) for name, _ in found for end in suffixes}
    silent = {metric.name for metric in METRICS} - names
    assert silent == {"sparkmirror_canary_target_clock_skew_seconds"}, "this canary has not measured it"
    assert all(
        name in BY_NAME or name.removesuffix(end) in BY_NAME for name, _ in found for end in suffixes if end in name
    )
    for name, labels in found:
        metric = BY_NAME.get(name) or next(BY_NAME[name.removesuffix(end)] for end in suffixes if name.endswith(end))
        assert {label for label, _ in labels} - {"le"} == {*LABELS_OF_ALL, *metric.labels}


def test_mirrormakers_names_have_the_name_on_the_target() -> None:
    found = told(expose([snapshot(flow_board())]))
    name = "kafka_connect_mirror_mirrorsourceconnector_"
    here = {"topic": "A.orders", "partition": "0"}
    assert value_of(found, name + "record_count", **here) == 93
    assert value_of(found, name + "replication_latency_ms", **here) == 5
    assert value_of(found, name + "replication_latency_ms_max", **here) == 9
    assert value_of(found, name + "record_age_ms_min", **here) != value_of(found, name + "record_age_ms_min", **here)
    assert value_of(found, name + "record_count", topic='A.o"dd\\', partition="1") == 0


def test_each_group_has_a_checkpoint_latency_of_its_own() -> None:
    found = told(expose([snapshot(flow_board())]))
    name, where = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms", ("A.orders", "0")
    for group, ms in (("eu", 8), ("us", 9)):
        assert value_of(found, name, group=group, topic=where[0], partition=where[1]) == ms


def test_lag_states_latencies_and_pauses() -> None:
    found = told(expose([snapshot(flow_board())]))
    assert value_of(found, "sparkmirror_flow_up") == 1
    assert value_of(found, "sparkmirror_lag_seconds") == 4
    assert value_of(found, "sparkmirror_partition_lag_records", topic="orders", partition="0") == 7
    assert value_of(found, "sparkmirror_partitions", state="FAILED") == 1
    assert value_of(found, "sparkmirror_replication_latency_seconds_bucket", le="0.004") == 90
    assert value_of(found, "sparkmirror_replication_latency_seconds_bucket", le="+Inf") == 100
    assert value_of(found, "sparkmirror_replication_latency_recent_seconds", quantile="0.5") == 0.003
    assert value_of(found, "sparkmirror_throttle_seconds_total", cause="target quota") == 1.5
    assert value_of(found, "sparkmirror_job_up", job_name="topics") == 0


def test_a_lag_in_seconds_that_nobody_knows_is_not_0() -> None:
    """A paused partition is not fetched, so where it ends is not known, and of one that was not answered neither."""
    board = StatusBoard("A")

    def tell(key: list[Any], value: dict[str, Any]) -> None:
        assert board.take(json.dumps(key).encode(), json.dumps({"run": "r"} | value).encode(), NOW_MS - 1000)

    tell(["flow", "A", "here:7"], {"state": "RUNNING", "host": "here", "pid": 7})
    assert isnan(value_of(told(expose([snapshot(board)])), "sparkmirror_lag_seconds")), "no task has reported"
    tell(["task", "A", 0], {"epoch": 1, "unknown_ends": 1, "paused": ["held-0"]})
    tell(["partition", "A", "fresh", 0], {"task": 0, "epoch": 1, "offset": 9})
    tell(["partition", "A", "held", 0], {"task": 0, "epoch": 1, "offset": 9, "end": 9, "state": "PAUSED"})
    tell(["partition", "A", "orders", 0], {"task": 0, "epoch": 1, "offset": 9, "end": 9})
    found = told(expose([snapshot(board)]))
    assert isnan(value_of(found, "sparkmirror_lag_seconds"))
    late = {dict(labels)["topic"] for name, labels in found if name == "sparkmirror_partition_lag_seconds"}
    assert late == {"orders"}
    behind = {"epoch": 1, "unknown_ends": 1, "behind_since_ms": NOW_MS - 4000, "lag_records": 3}
    tell(["task", "A", 0], behind)
    assert value_of(told(expose([snapshot(board)])), "sparkmirror_lag_seconds") == 4, "one is known to be behind"


def test_restarts_are_counted_over_all_processes_whichever_wrote_last() -> None:
    """A counter that goes down is one that began again: Prometheus would count its value once more."""
    board, seen = StatusBoard("A"), []
    for at, (pid, restarts) in enumerate([(7, 3), (8, 0), (7, 3), (8, 1)]):
        value = {"run": "r", "state": "RUNNING", "host": "here", "pid": pid, "restarts": restarts}
        board.take(json.dumps(["flow", "A", f"here:{pid}"]).encode(), json.dumps(value).encode(), NOW_MS - 1000 + at)
        seen.append(value_of(told(expose([snapshot(board)])), "sparkmirror_flow_restarts_total"))
    assert seen == [3, 3, 3, 4]


def test_a_partition_that_is_tried_again_counts_as_failed_until_it_has_moved() -> None:
    board = flow_board()
    key = json.dumps(["partition", "A", 'o"dd\\', 1]).encode()
    again = {"run": "r", "task": 0, "epoch": 2, "offset": 0}
    for offset, failed in ((0, 1), (1, 0)):
        board.take(key, json.dumps(again | {"offset": offset}).encode(), NOW_MS)
        found = told(expose([snapshot(board)]))
        assert value_of(found, "sparkmirror_partitions", state="FAILED") == failed
        assert value_of(found, "sparkmirror_partitions", state="RUNNING") == 3 - failed


def test_gaps_and_what_is_gone_in_them_are_counted() -> None:
    """Of the gap ledger: a task's own counters end with its attempt."""
    lost = tuple(Gap(TopicPartition("orders", 0), "retention", at, at + 35, "went on", NOW_MS) for at in (0, 100))
    seen = FlowSnapshot(FlowName("A", "B"), flow_board(), NOW_MS, str, gaps=lost)
    found = told(expose([seen]))
    assert value_of(found, "sparkmirror_gaps_total") == 2
    assert value_of(found, "sparkmirror_lost_records_total") == 70


def test_a_flow_that_was_killed_is_down_and_its_windows_are_empty() -> None:
    found = told(expose([snapshot(flow_board(age_ms=90_000))]))
    assert value_of(found, "sparkmirror_flow_up") == 0
    assert value_of(found, "sparkmirror_flow_state", state="SILENT") == 1
    assert value_of(found, "sparkmirror_flow_beat_age_seconds") == 90
    name = "kafka_connect_mirror_mirrorsourceconnector_replication_latency_ms"
    assert value_of(found, name, topic="A.orders", partition="0") == 5
    least = value_of(found, name + "_min", topic="A.orders", partition="0")
    assert least != least


def test_the_page_of_metrics_is_made_from_the_table() -> None:
    assert (ROOT / "docs/metrics.md").read_text() == document(), (
        "python -m sparkmirror.telemetry.metrics > docs/metrics.md"
    )


def expressions() -> Iterator[str]:
    alerts = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())
    for group in alerts["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]
            text = " ".join(rule["annotations"].values())
            yield from (one for one in NAME.findall(text) if one != "sparkmirror")
    board = json.loads((ROOT / "deploy/grafana/sparkmirror.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in board["templating"]["list"]:
        if variable["name"] not in FREE:
            yield variable["query"]


def test_each_alert_has_a_paragraph_that_says_what_to_do() -> None:
    alerts = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())
    named = {rule["alert"]: rule["annotations"]["runbook_url"] for group in alerts["groups"] for rule in group["rules"]}
    assert {f"troubleshooting/#{name.lower()}" for name in named} == set(named.values())
    section = (ROOT / "docs/troubleshooting.md").read_text().partition("## By alert")[2].partition("\n## ")[0]
    assert re.findall(r"^### (\w+)$", section, re.MULTILINE) == list(named)


def metric_of(name: str) -> Any:
    if name in BY_NAME:
        return BY_NAME[name]
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    assert base in BY_NAME and BY_NAME[base].kind == "histogram", f"{name} is no metric"
    return BY_NAME[base]


def test_the_dashboard_and_the_alerts_name_only_metrics_and_labels_that_there_are() -> None:
    seen = set()
    for expression in expressions():
        for name in NAME.findall(expression):
            seen.add(metric_of(name).name)
        for name, selector in SELECTOR.findall(expression):
            labels = set(re.findall(r"(\w+)\s*[=!]", selector))
            assert labels <= {*LABELS_OF_ALL, *metric_of(name).labels, "le"}, expression
        for by in re.findall(r"\bby \(([^)]*)\)", expression):
            known = {label for name in NAME.findall(expression) for label in metric_of(name).labels}
            assert {label.strip() for label in by.split(",")} <= {*LABELS_OF_ALL, *known, "le"}, expression
    assert len(seen) > 25


def test_every_rate_is_of_a_counter_or_a_histogram() -> None:
    for expression in expressions():
        for name in re.findall(r"(?:rate|increase)\(((?:sparkmirror|kafka)_[a-z0-9_]+)", expression):
            assert metric_of(name).kind in ("counter", "histogram"), expression


def test_promtool_accepts_the_rules_and_each_expression_of_the_dashboard(tmp_path: Path) -> None:
    promtool = program("promtool")
    rules = [
        {"record": f"panel:{number}", "expr": re.sub(r"\$__rate_interval", "5m", one).replace("$source", ".*")}
        for number, one in enumerate(expressions())
        if "label_values" not in one and one not in BY_NAME
    ]
    panels = tmp_path / "panels.yml"
    panels.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    for file in (ROOT / "deploy/prometheus/alerts.yml", panels):
        checked = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, timeout=30)
        assert checked.returncode == 0, checked.stdout + checked.stderr


RULE_TEST = {
    "evaluation_interval": "1m",
    "tests": [
        {
            "interval": "1m",
            "input_series": [
                {"series": f'sparkmirror_verdict{{source="A",target="{target}",level="green"}}', "values": values}
                for target, values in (("B", "1x60"), ("C", "1x9 stale"))
            ],
            "alert_rule_test": [
                {"eval_time": "9m", "alertname": "SparkMirrorAbsent", "exp_alerts": []},
                {
                    "eval_time": "20m",
                    "alertname": "SparkMirrorAbsent",
                    "exp_alerts": [{"exp_labels": {"severity": "critical", "source": "A", "target": "C"}}],
                },
            ],
        }
    ],
}


def test_a_flow_that_is_heard_of_no_more_raises_an_alert_while_others_are_heard_of(tmp_path: Path) -> None:
    promtool, alerts = program("promtool"), yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())
    for rule in alerts["groups"][0]["rules"]:
        rule["annotations"] = {}
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(alerts))
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"rule_files": ["alerts.yml"]} | RULE_TEST))
    tested = subprocess.run(
        [promtool, "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=30
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_how_far_a_start_is_filled_is_known_while_it_is_reported() -> None:
    name, here = "sparkmirror_partition_filling_", {"topic": "late", "partition": "0"}
    found = told(expose([snapshot(flow_board())]))
    values = [value_of(found, name + one, **here) for one in ("ratio", "left_offsets", "offsets_per_second")]
    assert values == [0.25, 600, 50]
    old = told(expose([snapshot(flow_board(age_ms=36_000))]))
    assert all(isnan(value_of(old, name + one, **here)) for one in ("ratio", "left_offsets", "offsets_per_second"))
