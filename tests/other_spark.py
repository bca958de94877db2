"""Tests with another PySpark than the one that pyproject.toml asks for: `python -m tests.other_spark VERSION [TESTS]`.

pip unpacks that version below `.cache`, where it stands first on PYTHONPATH; all else is this environment's. What came
of it is in docs/spark.md. Run by hand.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TESTS: Final = (
    "tests/brokers/test_record_plan.py",
    "tests/brokers/test_spark_session.py",
    "tests/scenarios/test_once.py",
    "tests/scenarios/test_data_source.py",
    "tests/scenarios/test_own_program.py",
    "tests/scenarios/test_kafka_records.py",
    "tests/scenarios/test_transforms.py",
)
"""What asks most of Spark: both public data sources, batches and streams, and flows with transforms."""


def unpack(version: str) -> Path:
    """A directory that holds that PySpark and its py4j alone. Raises CalledProcessError where pip has none."""
    home = ROOT / ".cache" / f"pyspark-{version}"
    if not home.is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--target", str(home), f"pyspark=={version}"], check=True)
    return home


def main(version: str, *tests: str) -> int:
    environment = {**os.environ, "PYTHONPATH": str(unpack(version))}
    command = [sys.executable, "-m", "pytest", "-m", "not long", *(tests or TESTS)]
    return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
