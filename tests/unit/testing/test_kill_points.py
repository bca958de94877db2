"""Points exist where they say, kill or stop at the passage that was asked for, once, and cost nothing when off."""

import importlib
import inspect
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sparkmirror.testing.kill_points import KILL_POINTS, STOP_POINTS, KillPoint

PASS = """
import sys
from pathlib import Path
from sparkmirror.testing.kill_points import KILL_POINTS, install
from sparkmirror.kafka.wire.coordinator import EndTransaction
EndTransaction.decode = lambda *_: print("decoded", flush=True)
install(Path(sys.argv[1]))
for passage in range(3):
    EndTransaction.decode(None, None)
print("alive", flush=True)
"""


@pytest.mark.parametrize("point", [*KILL_POINTS, *STOP_POINTS], ids=lambda point: point.name)
def test_a_point_names_a_method_that_there_is_and_understands_its_arguments(point: KillPoint) -> None:
    method = getattr(getattr(importlib.import_module(point.module), point.owner), point.method)
    inspect.signature(point.counts).bind(*inspect.signature(method).parameters)


def test_a_process_dies_at_the_passage_that_was_armed_and_the_next_one_lives(tmp_path: Path) -> None:
    armed = tmp_path / "after-end-txn"
    armed.write_text("2")
    command = [sys.executable, "-c", PASS, str(tmp_path)]
    first = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (first.returncode, first.stdout) == (-signal.SIGKILL, "decoded\ndecoded\n")
    assert not armed.exists()
    second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert second.stdout.splitlines()[-1] == "alive", second.stderr


LEAVE = """
import sys
from pathlib import Path
from sparkmirror.pipeline.fetch.plain_answers import PlainAnswers
from sparkmirror.pipeline.fetch.plain_turns import PlainTurns as FetchTurns
from sparkmirror.pipeline.produce.plain_turns import PlainTurns as ProduceTurns
from sparkmirror.testing.kill_points import install
for owner in (PlainAnswers, FetchTurns, ProduceTurns):
    owner.take = lambda *_: "taken"
install(Path(sys.argv[1]))
for name in (None, "before-produce", "after-compiled-produce-turns"):
    if name:
        Path(sys.argv[1], name).touch()
    print(name, *[owner.take(None) for owner in (PlainAnswers, FetchTurns, ProduceTurns)])
    if name:
        Path(sys.argv[1], name).unlink()
"""


def test_while_a_point_of_python_s_is_armed_no_turn_is_taken_by_compiled_code(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LEAVE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [
        "None taken taken taken",
        "before-produce False None None",
        "after-compiled-produce-turns taken taken taken",
    ], done.stderr


def test_nothing_of_it_is_loaded_unless_it_is_asked_for() -> None:
    program = (
        "import sys; from sparkmirror.spark.python_daemon import preload; preload('pyspark.worker');"
        "print('sparkmirror.testing.kill_points' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env={})
    assert done.stdout.strip() == "False", done.stderr
