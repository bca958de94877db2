"""What a Spark session starts beside itself. No broker takes part; the JVM is why this stands here."""

import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import sys
from contextlib import suppress
from pathlib import Path
import psutil
from sparkmirror.spark.session import launch_context, open_session
context = launch_context(1, Path(sys.argv[1]))
session = open_session(context, discovers_sources=sys.argv[2] != "lean")
for child in psutil.Process().children(recursive=True):
    with suppress(psutil.Error):  # it has ended meanwhile
        print(" ".join(child.cmdline()))
session.readStream.format("kafka-runs")
context.stop()
"""


@pytest.mark.parametrize(("kind", "looks"), [("lean", False), ("of transforms", True)])
def test_spark_looks_for_data_sources_of_others_only_where_expressions_may_name_one(
    tmp_path: Path, kind: str, looks: bool
) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path), kind]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ("lookup_data_sources" in ended.stdout) is looks, ended.stdout
