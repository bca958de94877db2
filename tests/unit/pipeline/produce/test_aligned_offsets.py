"""Filling holes in the background: a target that keeps fills waiting keeps nothing else waiting."""

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.control.assignment import Append
from sparkmirror.kafka.background import Background
from sparkmirror.kafka.offset_fillers import EndMoved, HoleFiller
from sparkmirror.model import NO_TOPIC_ID, Cluster, TopicPartition
from sparkmirror.pipeline.produce.aligned_buffer import AlignedBuffer
from sparkmirror.pipeline.produce.aligned_offsets import AlignedOffsets, AlignmentOptions
from sparkmirror.pipeline.produce.effects import Effects, Hold, NoteMisplaced
from sparkmirror.pipeline.produce.reports import Reports
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress
from sparkmirror.policy.fillers import MARKERS, Hole
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.filling import Filling

SECONDS_MAX = 60.0
PARTITIONS = 40


def idle_buffer(number: int) -> AlignedBuffer:
    where = TopicPartition("orders", number)
    buffer = AlignedBuffer(where, TopicPartition("A.orders", number), 0, number)
    buffer.append_from(Append(4711, 0, "A.orders"))
    return buffer


def test_fills_that_wait_for_a_dead_broker_do_not_keep_a_look_up_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, began, woken = threading.Event(), threading.Semaphore(0), threading.Event()

    def blocks(_: HoleFiller, hole: Hole, *__: Any) -> int:
        began.release()
        assert answers.wait(SECONDS_MAX)
        return hole.stop

    monkeypatch.setattr(HoleFiller, "fill", blocks)
    background = Background(woken.set)
    options = AlignmentOptions(Cluster("B", {"bootstrap.servers": "127.0.0.1:9"}), MARKERS, "a-")
    plan: Any = SimpleNamespace(producer_id=-1, producer_epoch=-1, task=0, attempt=0)
    progress: Any = SimpleNamespace(gaps=SimpleNamespace(awaits=lambda _: False))
    ledger_flush: Any = None
    metrics: Any = None
    aligned = AlignedOffsets(plan, progress, ledger_flush, options, background, deque(), metrics)
    for number in range(PARTITIONS):
        aligned.fill(idle_buffer(number), Hole(0, 7))
    assert began.acquire(timeout=SECONDS_MAX), "all others wait behind those that are waiting"

    background.submit("look-up", lambda: "leaders")
    assert woken.wait(SECONDS_MAX)
    (outcome,) = background.collect()
    assert (outcome.key, outcome.result) == ("look-up", "leaders")

    answers.set()
    for _ in range(PARTITIONS - 1):
        assert began.acquire(timeout=SECONDS_MAX), "those that waited are filled"
    background.close()
    aligned.close()


@pytest.mark.parametrize("at", [9, None])
def test_a_hole_that_holds_something_else_holds_its_partition_and_is_noted(
    monkeypatch: pytest.MonkeyPatch, at: int | None
) -> None:
    def finds(*_: Any) -> int:
        raise EndMoved("offset 9 has a record", at)

    monkeypatch.setattr(HoleFiller, "fill", finds)
    woken, effects = threading.Event(), Effects()
    background = Background(woken.set)
    options = AlignmentOptions(Cluster("B", {"bootstrap.servers": "127.0.0.1:9"}), MARKERS, "a-")
    plan: Any = SimpleNamespace(producer_id=-1, producer_epoch=-1, task=0, attempt=0)
    progress: Any = SimpleNamespace(gaps=SimpleNamespace(awaits=lambda _: False))
    metrics: Any = SimpleNamespace(fills=lambda *_: None)
    nothing: Any = None
    aligned = AlignedOffsets(plan, progress, nothing, options, background, effects, metrics)
    aligned.fill(idle_buffer(0), Hole(0, 7))
    assert woken.wait(SECONDS_MAX)
    for outcome in background.collect():
        aligned.take(outcome)
    background.close()
    aligned.close()
    *notes, hold = effects
    assert isinstance(hold, Hold)
    found = [effect.found for effect in notes if isinstance(effect, NoteMisplaced)]
    assert found == ([] if at is None else [(NO_TOPIC_ID, at)])


def test_a_hole_that_takes_more_than_one_piece_of_work_is_reported_until_it_is_filled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = deque([100, 300, 500])
    monkeypatch.setattr(HoleFiller, "fill", lambda *_: parts.popleft())
    woken, buffer = threading.Event(), idle_buffer(0)
    background = Background(woken.set)
    options = AlignmentOptions(Cluster("B", {"bootstrap.servers": "127.0.0.1:9"}), MARKERS, "a-")
    plan = PlanRow(0, "run", 1, 5, 7, 3, RingAddress(0, 0, 0, 0, 0), 25, ())
    metrics, clock = TaskMetrics(plan), ManualClock()
    metrics.assigned(buffer.source)
    reports = Reports(metrics, {buffer.source: buffer}, "A", clock)
    board = StatusBoard("A", "run")
    progress: Any = SimpleNamespace(gaps=SimpleNamespace(awaits=lambda _: False))
    ledger_flush: Any = None
    aligned = AlignedOffsets(plan, progress, ledger_flush, options, background, deque(), metrics)

    def fill_a_part(first: int) -> Filling | None:
        aligned.fill(buffer, Hole(first, 500))
        assert woken.wait(SECONDS_MAX)
        woken.clear()
        for outcome in background.collect():
            aligned.take(outcome)
        clock.now += 2.0
        for report in reports.due(plan, "", in_transactions=False, final=False):
            board.take(report.key, report.value, clock.now_ms)
        return board.partitions[buffer.source].filling

    found = [fill_a_part(0), fill_a_part(100)]
    assert [one and one[:4] for one in found] == [(False, 0, 500, 100), (False, 0, 500, 300)]
    assert all(one is not None and one.offsets_per_second for one in found)
    assert fill_a_part(300) is None
    assert buffer.acknowledged == 500
    background.close()
    aligned.close()
