"""A JVM that does not start is reported with what it said, by a mirror and by the warning of the class archive."""

import os
import subprocess
import sys
from pathlib import Path

REFUSED = {"SPARK_LAUNCHER_OPTS": "-XX:NoSuchOption"}  # of spark-class, whose JVM comes before Spark's
WORDS = "Unrecognized VM option 'NoSuchOption'"


def run(code: str, tmp_path: Path) -> str:
    environment = {**os.environ, **REFUSED, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_jvm_that_does_not_start_is_reported_with_its_last_words(tmp_path: Path) -> None:
    said = run(
        "from pathlib import Path\n"
        "from sparkmirror.errors import EnvironmentProblem\n"
        "from sparkmirror.spark.session import launch_context\n"
        "try: launch_context(1, Path.cwd(), jvm_options=[])\n"
        "except EnvironmentProblem as problem: print(problem)\n",
        tmp_path,
    )
    assert said.startswith(f"Spark's JVM did not start: {WORDS}; Error: Could not create the Java Virtual Machine"), (
        said
    )


def test_the_warning_of_a_class_archive_says_why_and_the_start_goes_on_without(tmp_path: Path) -> None:
    said = run(
        "import logging, sys\n"
        "logging.basicConfig(stream=sys.stdout, format='%(message)s')\n"
        "from sparkmirror.spark.warm_start import archive_options\n"
        "print(archive_options())\n",
        tmp_path,
    )
    warning, options = said.splitlines()
    assert warning.startswith("Spark's class archive could not be made, so starts are slower: "), said
    assert WORDS in warning, said
    assert options == "[]"
