"""Loading the kernels beside a loop: what it leaves behind."""

import gc
import sys
import time
from types import ModuleType

import pytest

import sparkmirror.batch
from sparkmirror.batch import loading

NAME = "sparkmirror.batch.kernels"


def test_what_was_loaded_is_left_out_of_garbage_collection_which_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = ModuleType(NAME)
    monkeypatch.setitem(sys.modules, NAME, kernels)
    monkeypatch.setattr(sparkmirror.batch, "kernels", kernels, raising=False)
    gc.unfreeze()
    try:
        loading._load()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()


def test_garbage_is_collected_again_when_kernels_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sparkmirror.batch, "kernels", raising=False)
    monkeypatch.setitem(sys.modules, NAME, None)
    try:
        loading._load()
        assert gc.isenabled()
    finally:
        gc.unfreeze()


def test_they_are_loaded_when_the_work_without_them_has_cost_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_loading", loading._Loading())
    assert not any(loading.kernels_pay(0.0004) for _ in range(1000))
    assert not loading._loading.has_begun, "a few heartbeats that waited together are not worth 100 MB"
    deadline = time.monotonic() + 120
    while not loading.kernels_pay(0.15):
        assert loading._loading.has_begun
        assert time.monotonic() < deadline
        time.sleep(0.01)
