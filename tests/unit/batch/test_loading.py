"""Loading the kernels beside a loop: when, and what comes of it where they cannot be."""

import sys
import time

import pytest

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
