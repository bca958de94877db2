"""The reading end by itself, in a Spark program that knows nothing of SparkMirror's engine.

`test_own_program` runs the manual's program, which uses both ends.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.oracle import Client, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import OWN_PROGRAM, flow_file

READER = Path(__file__).with_name("reading_program.py")
SECONDS_MAX = 240


def run_program(program: Path, *arguments: str | Path) -> str:
    """The program's output. Fails with what it said when it does not end well."""
    command = [sys.executable, program, *arguments]
    environment = os.environ | OWN_PROGRAM
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS_MAX, env=environment, cwd=program.parent, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_that_only_reads_gets_each_run_with_its_payload(
    source: Client, target: Client, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, alias = unique("orders"), unique("east")
    make_topics(source, {topic: 2})
    write(source, topic, numbered(0, 1_000, partitions=2, size_bytes=1_000), compression_type="lz4")
    file = tmp_path / "mirror.properties"
    file.write_text(flow_file(source, target, alias=alias, topics=topic))
    values: dict[int, dict[int, str]] = {0: {}, 1: {}}
    for line in run_program(READER, file, f"{alias}->backup", tmp_path / "checkpoint").splitlines():
        name, partition, first, following, found = json.loads(line)
        assert (name, following - first) == (topic, len(found))
        values[partition] |= dict(zip(range(first, following), found, strict=True))
    for number, records in read_topic(source, topic).items():
        assert [values[number][at] for at in range(len(records))] == [(seen.value or b"").decode() for seen in records]
