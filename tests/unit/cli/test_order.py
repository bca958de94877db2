"""Orders to running flows: which runs they go to, what they select, and what is said."""

import json
from pathlib import Path

import pytest

from sparkmirror.cli import orders
from sparkmirror.cli.main import main
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.commands import Command, Pause, Restart, Resume, Retry, Selection
from sparkmirror.telemetry.board import FlowStatus

FILE = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
B->A.enabled = true
"""
FAILED = FlowStatus(failed={"orders-3": "too large"})


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return str(path)


@pytest.fixture
def ordered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Command]]:
    """What is published, by flow. A->B runs, with a failed partition; B->A never did."""
    given: list[tuple[str, Command]] = []

    def latest_report(flow: FlowConfig) -> orders.Report | None:
        return orders.Report("run-1", FAILED, 0) if str(flow.name) == "A->B" else None

    monkeypatch.setattr(orders, "latest_report", latest_report)
    monkeypatch.setattr(orders, "publish_order", lambda flow, command: given.append((str(flow.name), command)))
    return given


@pytest.mark.parametrize(
    ("arguments", "selection"),
    [
        ([], Selection()),
        (["--topic", "ord.*"], Selection("ord.*")),
        (["--topic", "orders", "--partition", "3"], Selection("orders", 3)),
    ],
)
@pytest.mark.parametrize(("verb", "kind"), [("pause", Pause), ("resume", Resume), ("retry", Retry)])
def test_an_order_goes_to_the_latest_run_of_each_flow_that_has_one(
    file: str,
    ordered: list[tuple[str, Command]],
    verb: str,
    kind: type[Pause] | type[Resume] | type[Retry],
    arguments: list[str],
    selection: Selection,
) -> None:
    assert main([verb, file, *arguments]) == 0
    ((flow, command),) = ordered
    assert flow == "A->B"
    assert isinstance(command, kind)
    assert (command.run, command.selection) == ("run-1", selection)
    assert command.at_ms > 1_600_000_000_000


def test_restart_is_for_whole_flows(file: str, ordered: list[tuple[str, Command]]) -> None:
    assert main(["restart", file, "--flow", "A->B"]) == 0
    assert isinstance(ordered[0][1], Restart)


def test_a_retry_names_what_had_failed(
    file: str, ordered: list[tuple[str, Command]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["retry", file, "--flow", "A->B"]) == 0
    said = capsys.readouterr().out
    assert "A->B: all topics are tried again; 1 partition(s) had FAILED" in said
    assert "orders-3: too large" in said


def test_what_was_ordered_is_reported_to_programs_too(
    file: str, ordered: list[tuple[str, Command]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pause", file, "--topic", "ord.*", "--format", "json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == [
        {"flow": "A->B", "run": "run-1", "ordered": "pause of topics that match ord.* is ordered"}
    ]
    assert "B->A: no run has reported" in said.err


def test_without_a_run_that_could_obey_it_is_an_error(
    file: str, ordered: list[tuple[str, Command]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pause", file, "--flow", "B->A"]) == 1
    assert ordered == []
    assert "None of the flows has a run" in capsys.readouterr().err


def test_an_expression_that_is_none_orders_nothing(file: str, ordered: list[tuple[str, Command]]) -> None:
    assert main(["retry", file, "--topic", "a["]) == 2
    assert ordered == []
