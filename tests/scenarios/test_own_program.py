"""`kafka-runs` with a mirror's file: the program printed in docs/spark.md runs as it stands and copies every record."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import OWN_PROGRAM, START_SECONDS_MAX, flow_file
from tests.waiting import wait_until

DOCS = Path(__file__).parents[2] / "docs" / "spark.md"
ACCOUNTING = Path(__file__).with_name("accounting_program.py")
ROUNDS = 40


def test_the_documented_program_copies_a_topic(
    source: Client, target: Client, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, alias = unique("own"), unique("mine")
    make_topics(source, {topic: 2})
    make_topics(target, {f"{alias}.{topic}": 2})
    write(source, topic, numbered(0, 5000, partitions=2), compression_type="lz4")
    config = tmp_path / "mirror.properties"
    config.write_text(flow_file(source, target, alias=alias, topics=topic, lines=["tasks.max = 2", "tasks.min = 2"]))
    program = re.search(
        r"```python\n(.*?)```", DOCS.read_text().partition("\n### With a mirror's file\n")[2], re.DOTALL
    )
    assert program is not None
    script = tmp_path / "program.py"
    script.write_text(program[1].replace('"A->B"', f'"{alias}->backup"').replace('"A."', f'"{alias}."'))

    command = [sys.executable, str(script), str(config), str(tmp_path / "checkpoint")]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, env=os.environ | OWN_PROGRAM
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)


@pytest.mark.long
def test_spark_accounts_for_each_record_once_also_for_those_that_pass_it_by(
    source: Client, target: Client, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Caught up: what observes the query sees answers that had no rows, in extent rows, and the rest in runs.

    Each record arrives before the next one is written: no row waits for others until the epoch ends.
    """
    topic, alias = unique("own"), unique("mine")
    make_topics(source, {topic: 2})
    make_topics(target, {f"{alias}.{topic}": 2})
    config = tmp_path / "mirror.properties"
    lines = ["tasks.max = 1", f"{alias}->backup.epoch.seconds = 10"]
    config.write_text(flow_file(source, target, alias=alias, topics=topic, lines=lines))
    command = [sys.executable, str(ACCOUNTING), str(config), f"{alias}->backup", str(tmp_path / "checkpoint")]
    environment = os.environ | OWN_PROGRAM
    problems = tmp_path / "problems"
    with problems.open("w") as errors, subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
    ) as program:  # fmt: skip
        seen = Seen(program)
        written = 0

        def arrive() -> None:
            nonlocal written
            write(source, topic, numbered(written, written + 2, partitions=2))
            written += 2
            wait_until(lambda: count_records(target, f"{alias}.{topic}") == written, "they arrive", START_SECONDS_MAX)

        try:
            for _ in range(ROUNDS):
                arrive()
            wait_until(lambda: seen.records == written, "Spark has accounted for each", 60)
        finally:
            assert program.stdin is not None
            program.stdin.close()
    assert program.returncode == 0, problems.read_text()[-3000:]
    assert seen.counts["run"] + seen.counts["extent"] == written, seen.counts
    assert seen.counts["extent"] > 0, "answers were announced"
    assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)


class Seen:
    """The records that Spark has observed, by the kind of their rows, as the program prints them."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self.counts = {"run": 0, "extent": 0}
        threading.Thread(target=self._follow, args=(program.stdout,), daemon=True).start()

    @property
    def records(self) -> int:
        return sum(self.counts.values())

    def _follow(self, lines: Iterable[str]) -> None:
        for line in lines:
            if line.startswith("{"):
                self.counts = json.loads(line)
