"""Loading the kernels beside a loop: what it leaves behind."""

import gc
import sys
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
