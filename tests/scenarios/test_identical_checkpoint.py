"""A program of Spark's own Kafka connector, whose checkpoint keeps its offsets, moves over to the other cluster and
back."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.oracle import Client
from tests.scenarios import checkpoint_program
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import MirrorOnce
from tests.scenarios.test_identical_consumers import values
from tests.scenarios.test_identical_failback import one_way
from tests.scenarios.test_identical_offsets import begin_at
from tests.scenarios.test_transactions import write_transactions

from sparkmirror.cli.main import main
from sparkmirror.testing.jars import SPARK_CONNECTOR, fetch

pytestmark = pytest.mark.long

SECONDS_MAX = 400.0
COMMITTED = {"isolation.level": "read_committed"}
"""What is mirrored: aborted records of the source are not."""


class Program:
    """The program with its checkpoint and its sink; it can be pointed to another cluster."""

    def __init__(self, directory: Path, topic: str) -> None:
        self._topic = topic
        self._checkpoint, self._sink = directory / "checkpoint", directory / "sink"
        self._errors = directory / "program.err"
        for place in (self._sink, directory / "scratch"):
            place.mkdir()
        self._jars = ",".join(str(jar) for jar in sorted(fetch(SPARK_CONNECTOR).glob("*.jar")))

    def run(self, client: Client, *, dies_in: int = -1) -> None:
        """To the present end, or it is killed in that batch."""
        places = [client["bootstrap.servers"], self._topic, str(self._checkpoint), str(self._sink)]
        words = [sys.executable, checkpoint_program.__file__, *places, self._jars, str(dies_in)]
        with self._errors.open("wb") as errors, subprocess.Popen(words, stdout=errors, stderr=errors) as child:
            try:
                status = child.wait(SECONDS_MAX)
            except subprocess.TimeoutExpired:
                child.kill()
                raise AssertionError(f"not in {SECONDS_MAX:g} s:\n{self._said()}") from None
        assert status == (0 if dies_in < 0 else -signal.SIGKILL), self._said()

    def _said(self) -> str:
        return self._errors.read_text(errors="replace")[-4000:]

    def batches(self) -> int:
        """How many are in the sink."""
        return len(list(self._sink.glob("*.json")))

    def read(self) -> list[tuple[int, int, bytes | None]]:
        """All of the sink: partition, offset and value of each row."""
        files = [json.loads(file.read_text()) for file in self._sink.glob("*.json")]
        return sorted((at, offset, value.encode()) for rows in files for at, offset, value in rows)


def test_a_program_of_spark_s_own_connector_moves_over_and_back_with_its_checkpoint(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    mirror_once: MirrorOnce,
    tmp_path: Path,
) -> None:
    topic, a, b = unique("ledger"), unique("east"), unique("west")
    clients = {a: source, b: target}
    over, back = one_way(clients, a, b, topic), one_way(clients, b, a, topic)
    program = Program(tmp_path, topic)
    make_topics(source, {topic: 2})
    begin_at(source, topic, 5000)
    write(source, topic, numbered(0, 600, 2))
    program.run(source, dies_in=2)
    assert program.batches() == 2

    write_transactions(source, topic, unique("writer"))
    write(source, topic, numbered(600, 900, 2))
    mirror_once(over)
    program.run(target)
    assert program.read() == values(target, topic) == values({**source, **COMMITTED}, topic), (
        "what was in doubt came once"
    )

    file = tmp_path / "back.properties"
    file.write_text(over)
    assert main(["failback", "run", str(file)]) == 0
    write(target, topic, numbered(900, 1300, 2))
    program.run(target, dies_in=program.batches())
    mirror_once(back)
    program.run(source)
    assert program.read() == values({**source, **COMMITTED}, topic) == values(target, topic)
