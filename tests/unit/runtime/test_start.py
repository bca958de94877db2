"""With what Spark's JVM is launched."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.flows import config_of

from sparkmirror.runtime import run, start
from sparkmirror.runtime.options import RunOptions
from sparkmirror.stop_request import StopRequest


@pytest.mark.parametrize(
    ("line", "is_lean"),
    [
        ("tasks.max = 2", True),
        ("lease.ring.bytes = 0", False),
        ("transforms.where = offset >= 0", False),
    ],
    ids=["leases", "payload", "records"],
)
def test_a_jvm_through_which_leases_pass_is_given_a_small_young_generation(
    line: str, is_lean: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launched: list[partial[Any]] = []

    class Run:
        def __init__(self, *_: Any) -> None:
            pass

        def run(self) -> int:
            return 0

    monkeypatch.setattr(start, "Launch", launched.append)
    monkeypatch.setattr(run, "MirrorRun", Run)
    assert start.run_with(config_of(line), RunOptions(), StopRequest(), tmp_path) == 0
    assert launched[0].keywords["is_lean"] is is_lean
