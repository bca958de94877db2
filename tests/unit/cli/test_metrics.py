"""What `sparkmirror metrics` prints: of a board that was written by hand."""

import json
from pathlib import Path

import pytest
from tests.flows import SMALLEST

from sparkmirror.cli import metrics
from sparkmirror.cli.main import main
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.stored_json import encode
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.histogram import Histogram
from sparkmirror.telemetry.metrics import METRICS
from sparkmirror.telemetry.records import encode_key
from sparkmirror.telemetry.snapshot import FlowSnapshot

COUNT = "kafka_connect_mirror_mirrorsourceconnector_record_count"
KIND = next(one.kind for one in METRICS if one.name == COUNT)
NOW_MS = 1_800_000_000_000


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a flow that has mirrored 1,200 records of one partition, each within 12 ms."""
    board, latency = StatusBoard("A"), Histogram()
    latency.add(12, 1200)
    told = {"run": "r", "epoch": 1}
    task = {**told, "records": 1200, "partitions": 1, "latency": latency.as_json()}
    board.take(encode_key("task", "A", 0), encode(task), NOW_MS)
    partition = {**told, "task": 0, "offset": 1200, "end": 1500, "records": 1200, "target_topic": "A.orders"}
    board.take(encode_key("partition", "A", "orders", 0), encode(partition), NOW_MS)

    def see(flow: FlowConfig) -> FlowSnapshot:
        return FlowSnapshot(flow.name, board, NOW_MS, flow.remote_topic)

    monkeypatch.setattr(metrics, "_see", see)
    path = tmp_path / "mm2.properties"
    path.write_text(SMALLEST)
    return str(path)


def test_each_value_has_its_name_and_labels(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", file, "--name", COUNT]) == 0
    assert capsys.readouterr().out.splitlines()[1].split("  ")[-1] == "1,200"
    assert main(["metrics", file, "--name", COUNT, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "name": COUNT,
            "kind": KIND,
            "labels": {"source": "A", "target": "B", "topic": "A.orders", "partition": "0"},
            "value": 1200,
        }
    ]


def test_a_histogram_is_its_quantiles(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", file, "--name", ".*latency_seconds", "--format", "json"]) == 0
    found = [one for one in json.loads(capsys.readouterr().out) if one["kind"] == "histogram" and one["value"]]
    assert found[0]["value"] == 1200
    assert found[0]["quantiles"] == {"0.5": 0.012, "0.99": 0.012, "0.999": 0.012}
    assert main(["metrics", file, "--name", found[0]["name"]]) == 0
    assert "1,200 (p50 0.012 s, p99 0.012 s, p99.9 0.012 s)" in capsys.readouterr().out


def test_prometheus_format_is_what_the_page_serves(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", file, "--format", "prometheus", "--name", COUNT]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"# TYPE {COUNT} {KIND}"
    assert lines[2] == f'{COUNT}{{source="A",target="B",topic="A.orders",partition="0"}} 1200'
    assert len(lines) == 3


def test_names_that_match_nothing_and_no_expressions_are_reported(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metrics", file, "--name", "nothing"]) == 0
    assert capsys.readouterr().out == "no metrics\n"
    assert main(["metrics", file, "--name", "a["]) == 2
