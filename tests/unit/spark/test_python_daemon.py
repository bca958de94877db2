"""What every worker inherits from the daemon that forks it."""

import gc
import sys

import pytest

from sparkmirror.spark.python_daemon import preload


def test_threads_of_workers_wait_for_each_other_less_than_a_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    before = sys.getswitchinterval()
    try:
        preload("json")
        assert sys.getswitchinterval() < 0.001
        assert gc.get_freeze_count() > 0
    finally:
        sys.setswitchinterval(before)
        gc.unfreeze()
