"""What rounds of a continuous comparison leave on the status topic."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.cli.verify import _tell_round
from sparkmirror.errors import ClusterError
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.records import encode_key, encode_record
from sparkmirror.verify import job
from sparkmirror.verify.difference import Difference
from sparkmirror.verify.job import Choice, fold_round
from sparkmirror.verify.report import Compared, FlowReport, exit_status

HERE = TopicPartition("orders", 0)


def report(different: int) -> FlowReport:
    first = Difference("value", 7, 9) if different else None
    counts = {"equal": 100 - different, "different": different}
    return FlowReport(FlowName("A", "B"), (Compared(HERE, HERE, counts, first),), sample_percent=5.0)


def test_rounds_are_counted_and_the_last_one_is_reported() -> None:
    one = fold_round(None, report(0), 10)
    assert (one.verdict, one.rounds, one.rounds_different, one.records_in_all) == ("equal", 1, 0, 100)
    two = fold_round(one, report(3), 20)
    assert (two.verdict, two.rounds, two.rounds_different, two.records_in_all) == ("different", 2, 1, 200)
    assert two.first_difference == "orders-0 at upstream offset 7, downstream offset 9 (value)"
    three = fold_round(two, report(0), 30)
    assert (three.verdict, three.rounds_different) == ("equal", 1), "another sample need not see it again"
    assert (three.first_difference, three.different_at_ms) == (two.first_difference, 20)
    all_equal = fold_round(three, report(0), 40, covers_all=True)
    assert (all_equal.first_difference, all_equal.different_at_ms) == ("", None)
    assert fold_round(three, report(2), 40, covers_all=True).different_at_ms == 40


def test_a_difference_is_reported_though_it_cannot_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    found = replace(report(3), chosen=1)
    refused = ClusterError("Cluster B refuses to write to the status topic.")
    told = run_round(monkeypatch, lambda: found, refused)
    assert told == found
    assert exit_status([told]) == 1


def test_what_was_not_compared_is_neither_equal_nor_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent() -> FlowReport:
        raise ClusterError("Cluster B does not answer.")

    stored: list[FlowReport] = []
    for compared in (silent, lambda: FlowReport(FlowName("A", "B"), ())):
        assert run_round(monkeypatch, compared, stored=stored) is None
    assert stored == []
    args = SimpleNamespace(format="text")
    assert _tell_round(None, args) == 4  # type: ignore[arg-type]


def run_round(
    monkeypatch: pytest.MonkeyPatch,
    compare: Callable[[], FlowReport],
    refused: ClusterError | None = None,
    stored: list[FlowReport] | None = None,
) -> FlowReport | None:
    """Of a continuous comparison, of which the target refuses the result, or takes it."""

    def tell(_flow: object, found: FlowReport, *, covers_all: bool) -> None:
        assert covers_all
        if refused is not None:
            raise refused
        if stored is not None:
            stored.append(found)

    monkeypatch.setattr(job, "verify_flow", lambda *_: compare())
    monkeypatch.setattr(job, "_tell", tell)
    flow: Any = SimpleNamespace(name=FlowName("A", "B"))
    choice = Choice(lambda _: True, 100.0, is_whole=True)
    return job._round(None, None, flow, choice)  # type: ignore[arg-type]


def test_the_board_shows_the_last_comparison_of_its_flow_whatever_ran_since() -> None:
    record = fold_round(None, report(1), 10)
    key, value = encode_record("A", record)
    board = StatusBoard("A")
    assert board.take(key, value)
    assert board.verified == record
    assert not board.take(encode_key("verify", "other"), value)
