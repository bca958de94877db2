"""`kafka-runs` without the rest: the program printed in docs/spark.md runs as it stands and copies every record."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import START_SECONDS_MAX, flow_file

DOCS = Path(__file__).parents[2] / "docs" / "spark.md"
ACCOUNTING = Path(__file__).with_name("accounting_program.py")
RECORDS = 600


def test_the_documented_program_copies_a_topic(
    source: Client, target: Client, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, alias = unique("own"), unique("mine")
    make_topics(source, {topic: 2})
    make_topics(target, {f"{alias}.{topic}": 2})
    write(source, topic, numbered(0, 5000, partitions=2), compression_type="lz4")
    config = tmp_path / "mirror.properties"
    config.write_text(flow_file(source, target, alias=alias, topics=topic, lines=["tasks.max = 2", "tasks.min = 2"]))
    program = re.search(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert program is not None
    script = tmp_path / "program.py"
    script.write_text(program[1].replace('"A->B"', f'"{alias}->backup"').replace('"A."', f'"{alias}."'))

    command = [sys.executable, str(script), str(config), str(tmp_path / "checkpoint")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)

    assert done.returncode == 0, done.stderr[-3000:]
    assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)


def test_spark_accounts_for_each_record_once_also_for_those_that_pass_it_by(
    source: Client, target: Client, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Caught up: what observes the query sees small answers that had no rows, in extent rows, and the rest in runs."""
    topic, alias = unique("own"), unique("mine")
    make_topics(source, {topic: 2})
    make_topics(target, {f"{alias}.{topic}": 2})
    config = tmp_path / "mirror.properties"
    lines = ["tasks.max = 1", f"{alias}->backup.epoch.seconds = 10"]
    config.write_text(flow_file(source, target, alias=alias, topics=topic, lines=lines))
    arguments = [str(config), f"{alias}->backup", str(tmp_path / "checkpoint"), str(RECORDS)]
    command, environment = (
        [sys.executable, str(ACCOUNTING), *arguments],
        os.environ | {"PYSPARK_PYTHON": sys.executable},
    )
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert program.stdout is not None
    assert program.stdout.readline() == "started\n"
    write(source, topic, numbered(0, 2, partitions=2))
    deadline = time.monotonic() + START_SECONDS_MAX
    while count_records(target, f"{alias}.{topic}") < 2 and program.poll() is None:
        assert time.monotonic() < deadline, "the first records did not arrive"
        time.sleep(0.1)
    for at in range(2, RECORDS, 2):
        write(source, topic, numbered(at, at + 2, partitions=2))
    output, problems = program.communicate(timeout=240)

    assert program.returncode == 0, problems[-3000:]
    seen = json.loads(output)
    assert seen["run"] + seen["extent"] == RECORDS, seen
    assert seen["extent"] > 0, "small answers were announced"
    assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)
