"""Loading the kernels beside a loop: when, and what comes of it where they cannot be."""

import sys
import time

import pytest
from tests.manual_clock import ManualClock

import sparkmirror.batch
from sparkmirror.batch import loading
from sparkmirror.batch.headers import read_headers

NAME = "sparkmirror.batch.kernels"


def test_kernels_that_cannot_be_loaded_are_reported_by_their_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sparkmirror.batch, "kernels", raising=False)
    monkeypatch.setitem(sys.modules, NAME, None)
    loading._load()
    with pytest.raises(ImportError):
        read_headers(memoryview(b""), 0, 0)


def test_they_are_loaded_when_the_work_without_them_has_cost_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_loading", loading._Loading())
    assert not any(loading.kernels_pay(0.00009) for _ in range(1000))
    assert not loading._loading.has_begun, "a few heartbeats that waited together are not worth it"
    deadline = time.monotonic() + 120
    while not loading.kernels_pay(0.04):
        assert loading._loading.has_begun
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_work_that_is_done_seldom_loads_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[float] = []

    def pay(seconds: float) -> bool:
        counted.append(seconds)
        return len(counted) == 2

    monkeypatch.setattr(loading, "kernels_pay", pay)
    clock = ManualClock()
    often = loading.OftenDone(clock)
    for _ in range(100):
        assert not often.kernels_pay(0.5)
        clock.now += 0.2
    assert counted == []
    clock.now -= 0.15
    assert [often.kernels_pay(0.5) for _ in range(2)] == [False, True]
    assert counted == [0.5, 0.5]
