"""With what Spark's JVM is launched."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.flows import config_of

from sparkmirror.runtime import run, start
from sparkmirror.runtime.options import RunOptions
from sparkmirror.spark.fork_server import ForkServer
from sparkmirror.spark.gateway import JvmOptions
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

    begun: list[JvmOptions] = []
    monkeypatch.setattr(ForkServer, "prepare", lambda _: None)
    monkeypatch.setattr(start, "start_early", lambda _, options, **__: begun.append(options))
    monkeypatch.setattr(start, "Launch", launched.append)
    monkeypatch.setattr(run, "MirrorRun", Run)
    assert start.run_with(config_of(line), RunOptions(), StopRequest(), tmp_path) == 0
    assert launched[0].keywords["options"].is_lean is is_lean
    assert begun in ([], [launched[0].keywords["options"]]), "the early JVM has the same options; none beside threads"
