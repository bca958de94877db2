"""The MBeans that a mirror has: MirrorMaker's names and attributes, for what this process mirrors."""

import math
from dataclasses import replace

import pytest
from tests.unit.telemetry.test_metrics import flow_board, snapshot

from sparkmirror.telemetry.beans import Bean, Own, TaskRates, connect_beans, mirror_beans, render
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.records import FlowRecord, FlowState, TaskRecord

OWN = Own("MirrorSourceConnector", {0})
ORDERS = "kafka.connect.mirror:type=MirrorSourceConnector,source=A,target=B,topic=A.orders,partition=0"
TASK = "connector=MirrorSourceConnector,task=0"


def numbers(bean: Bean) -> dict[str, float | str | None]:
    """NaN as None, which equals itself."""
    return {name: None if value != value else value for name, value in bean.items()}


def test_a_partition_has_mirrormakers_twelve_attributes_under_its_name_on_the_target() -> None:
    beans = mirror_beans(snapshot(flow_board()), OWN)
    assert numbers(beans[ORDERS]) == {
        "record-count": 93.0,
        "record-rate": 0.0,
        "byte-count": 0.0,
        "byte-rate": 0.0,
        "record-age-ms": 2.0,
        "record-age-ms-min": None,
        "record-age-ms-max": None,
        "record-age-ms-avg": None,
        "replication-latency-ms": 5.0,
        "replication-latency-ms-min": 1.0,
        "replication-latency-ms-max": 9.0,
        "replication-latency-ms-avg": 4.5,
    }
    group = "kafka.connect.mirror:type=MirrorCheckpointConnector,source=A,target=B,group=us,topic=A.orders,partition=0"
    assert numbers(beans[group]) == {
        "checkpoint-latency-ms": 9.0,
        "checkpoint-latency-ms-min": None,
        "checkpoint-latency-ms-max": None,
        "checkpoint-latency-ms-avg": None,
    }


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        (["legacy"], ["MirrorCheckpointConnector", "MirrorSourceConnector"]),
        (["new"], ["plugins"]),
        (["new", "legacy"], ["MirrorCheckpointConnector", "MirrorSourceConnector", "plugins"]),
    ],
)
def test_new_names_tell_connector_and_task(names: list[str], kinds: list[str]) -> None:
    beans = mirror_beans(snapshot(flow_board()), replace(OWN, names=names))
    assert sorted({name.partition("type=")[2].partition(",")[0] for name in beans}) == kinds
    new = {name for name in beans if "type=plugins" in name}
    orders = f"kafka.connect:type=plugins,{TASK},source=A,target=B,topic=A.orders,partition=0"
    group = (
        "kafka.connect:type=plugins,connector=MirrorCheckpointConnector,task=0,"
        "source=A,target=B,group=us,topic=A.orders,partition=0"
    )
    assert {orders, group} <= new if "new" in names else not new
    assert len(beans) == len(names) * len(mirror_beans(snapshot(flow_board()), OWN))


def test_values_are_quoted_where_kafka_quotes_them() -> None:
    (odd,) = [name for name in mirror_beans(snapshot(flow_board()), OWN) if "partition=1" in name]
    assert odd.endswith(r',topic="A.o\"dd\\",partition=1')


def test_what_another_process_mirrors_is_left_to_it() -> None:
    beans = mirror_beans(snapshot(flow_board()), replace(OWN, tasks={1}))
    assert {name.partition(",")[0] for name in beans} == {"kafka.connect.mirror:type=MirrorCheckpointConnector"}
    assert connect_beans({"A->B": (snapshot(flow_board()), replace(OWN, tasks={1}), TaskRates())}, 0.0) == {}


def test_connects_beans_of_a_task_and_flows_of_one_connector_are_counted_together() -> None:
    seen = snapshot(flow_board())
    flows = {name: (seen, OWN, TaskRates()) for name in ("A->B", "A->C")}
    connect_beans(flows, 0.0)
    beans = connect_beans(flows, 10.0)
    assert beans[f"kafka.connect:type=source-task-metrics,{TASK}"] == {
        "source-record-poll-rate": 0.0,
        "source-record-poll-total": 200.0,
        "source-record-write-rate": 0.0,
        "source-record-write-total": 200.0,
    }
    assert beans[f"kafka.connect:type=connector-task-metrics,{TASK}"] == {"status": "running"}


def test_what_was_polled_is_unknown_where_transforms_may_drop_records() -> None:
    flows = {"A->B": (snapshot(flow_board()), replace(OWN, is_read_whole=False), TaskRates())}
    bean = connect_beans(flows, 0.0)[f"kafka.connect:type=source-task-metrics,{TASK}"]
    assert math.isnan(float(bean["source-record-poll-total"]))
    assert bean["source-record-write-total"] == 100.0


@pytest.mark.parametrize(
    ("state", "said"),
    [(FlowState.RESTARTING, "restarting"), (FlowState.FAILED, "failed"), (FlowState.SILENT, "unassigned")],
)
def test_a_task_has_its_flows_state(state: FlowState, said: str) -> None:
    board = StatusBoard("A", "r")
    board.processes["h:1"] = FlowRecord("r", state, at_ms=0 if state is FlowState.SILENT else 1_800_000_000_000)
    board.tasks[0] = TaskRecord("r", 0, 1)
    beans = connect_beans({"A->B": (snapshot(board), OWN, TaskRates())}, 0.0)
    assert beans[f"kafka.connect:type=connector-task-metrics,{TASK}"] == {"status": said}


def test_a_count_goes_on_over_attempts_and_a_rate_is_of_the_last_minute() -> None:
    rates = TaskRates()

    def take(epoch: int, records: int, now: float) -> tuple[float, float]:
        return rates.take({0: TaskRecord("r", 0, epoch, records=records)}, {0}, now)[0]

    total, rate = take(1, 50, 0.0)
    assert total == 50.0
    assert math.isnan(rate), "nothing is known of the time before"
    assert take(1, 150, 10.0) == (150.0, 10.0)
    assert take(2, 30, 20.0) == (180.0, 6.5), "a new epoch counts from 0"
    assert take(2, 30, 80.0) == (180.0, 0.0), "and what is more than a minute ago counts no more"


def test_only_what_changed_is_sent_and_a_bean_that_is_gone_is_taken_away() -> None:
    told: dict[str, str] = {}
    assert render({"a": {"x": 1.0, "s": "run"}, "b": {"x": math.nan}}, told, "|") == ['a|x|1.0|s|"run', "b|x|NaN"]
    assert render({"a": {"x": 2.0, "s": "run"}, "b": {"x": math.nan}}, told, "|") == ['a|x|2.0|s|"run']
    assert render({"b": {"x": math.nan}}, told, "|") == ["a"]
