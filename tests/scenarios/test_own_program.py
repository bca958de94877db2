"""`kafka-runs` without the rest: the program printed in docs/spark.md runs as it stands and copies every record."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.oracle import Client, assert_same, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import flow_file

DOCS = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_documented_program_copies_a_topic(
    source: Client, target: Client, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, alias = unique("own"), unique("mine")
    make_topics(source, {topic: 2})
    make_topics(target, {f"{alias}.{topic}": 2})
    write(source, topic, numbered(0, 5000, partitions=2), compression_type="lz4")
    config = tmp_path / "mirror.properties"
    config.write_text(flow_file(source, target, alias=alias, topics=topic, lines=["tasks.max = 2"]))
    program = re.search(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert program is not None
    script = tmp_path / "program.py"
    script.write_text(program[1].replace('"A->B"', f'"{alias}->backup"').replace('"A."', f'"{alias}."'))

    command = [sys.executable, str(script), str(config), str(tmp_path / "checkpoint")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)

    assert done.returncode == 0, done.stderr[-3000:]
    assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)
