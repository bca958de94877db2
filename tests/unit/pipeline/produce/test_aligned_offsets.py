"""Filling holes in the background: a target that keeps fills waiting keeps nothing else waiting."""

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.control.assignment import Append
from sparkmirror.kafka.background import Background
from sparkmirror.kafka.offset_fillers import HoleFiller
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.pipeline.produce.aligned_buffer import AlignedBuffer
from sparkmirror.pipeline.produce.aligned_offsets import AlignedOffsets, AlignmentOptions
from sparkmirror.policy.fillers import MARKERS, Hole

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
    plan: Any = SimpleNamespace(producer_id=-1, producer_epoch=-1, task=0)
    progress: Any = SimpleNamespace(awaits_gap=lambda _: False)
    ledger_flush: Any = None
    aligned = AlignedOffsets(plan, progress, ledger_flush, options, background, deque())
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
