"""A JVM that does not start is reported with what it said, by a mirror and by the warning of the class archive."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from sparkmirror.java import find_java
from sparkmirror.spark.gateway import JvmOptions

REFUSED = {"SPARK_LAUNCHER_OPTS": "-XX:NoSuchOption"}  # of spark-class, whose JVM comes before Spark's
WORDS = "Unrecognized VM option 'NoSuchOption'"


def run(code: str, tmp_path: Path, variables: Mapping[str, str] = REFUSED) -> str:
    environment = {**os.environ, **variables, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_jvm_that_does_not_start_is_reported_with_its_last_words(tmp_path: Path) -> None:
    said = run(
        "from pathlib import Path\n"
        "from sparkmirror.errors import EnvironmentProblem\n"
        "from sparkmirror.spark.gateway import JvmOptions\n"
        "from sparkmirror.spark.session import launch_context\n"
        "try: launch_context(1, Path.cwd(), options=JvmOptions(archive=[]))\n"
        "except EnvironmentProblem as problem: print(problem)\n",
        tmp_path,
    )
    assert said.startswith(f"Spark's JVM did not start: {WORDS}; Error: Could not create the Java Virtual Machine"), (
        said
    )


def test_where_java_itself_does_not_start_it_the_launcher_is_asked_and_says_why(tmp_path: Path) -> None:
    said = run(
        "from pathlib import Path\n"
        "from sparkmirror.errors import EnvironmentProblem\n"
        "from sparkmirror.spark import gateway\n"
        "from sparkmirror.spark.session import launch_context\n"
        "options = gateway.JvmOptions(archive=['-Xms9g'])\n"
        "started = gateway.start_jvm(Path.cwd(), options, debug=False)\n"
        "print('org.apache.spark.deploy.SparkSubmit' in started.process.args, started.wait())\n"
        "try: launch_context(1, Path.cwd(), options=options)\n"
        "except EnvironmentProblem as problem: print(problem)\n",
        tmp_path,
        {},
    )
    lines = said.splitlines()  # Java says on its standard output why it does not start
    assert "False None" in lines, said
    assert any(line.startswith("Spark's JVM did not start: ") for line in lines), said


def test_what_only_sparks_launcher_knows_is_left_to_it(tmp_path: Path) -> None:
    said = run(
        "from pathlib import Path\n"
        "from sparkmirror.spark import gateway\n"
        "print(gateway.start_jvm(Path.cwd(), gateway.JvmOptions(archive=[]), debug=False))\n",
        tmp_path,
        {"SPARK_CONF_DIR": str(tmp_path)},
    )
    assert said == "None\n"


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


def test_only_the_jvm_of_decoded_records_has_mllib_and_what_else_expressions_may_ask_for(tmp_path: Path) -> None:
    said = run(
        "from pathlib import Path\n"
        "from sparkmirror.spark.warm_start import class_path, spark_home\n"
        "home = spark_home()\n"
        "for has_all in (False, True):\n"
        "    places = [Path(place) for place in class_path(home, has_all=has_all).split(':')]\n"
        "    jars = [jar.name for place in places[1:] for jar in place.parent.glob(place.name)]\n"
        "    print(places[0].name[:9], len(jars) - len(set(jars)), sorted(jars) == sorted(\n"
        "        jar.name for jar in (home / 'jars').glob('*.jar')), any('mllib' in jar for jar in jars))\n",
        tmp_path,
        {},
    )
    assert said == "slf4j-api 0 False False\nslf4j-api 0 True True\n"


def test_a_jvm_that_java_starts_has_the_jars_that_its_flows_need(tmp_path: Path) -> None:
    said = run(
        "from pathlib import Path\n"
        "from sparkmirror.spark import gateway\n"
        "for decodes in (False, True):\n"
        "    options = gateway.JvmOptions(archive=['-Xms9g'], decodes=decodes)\n"
        "    started = gateway.start_jvm(Path.cwd(), options, debug=False)\n"
        "    words = started.process.args\n"
        "    print(words[words.index('-cp') + 1].count('/*'), started.wait())\n",
        tmp_path,
        {},
    )
    assert [line for line in said.splitlines() if line.endswith(" None")] == ["1 None", "2 None"]


@pytest.mark.parametrize("options", [JvmOptions(is_lean=True, archive=()), JvmOptions(decodes=True, archive=())])
def test_java_starts_by_the_options_and_says_nothing_of_them(options: JvmOptions) -> None:
    command = [str(find_java()), *options.words(), "-XX:+PrintFlagsFinal", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "arning" not in done.stderr
    young = next(line.split()[3] for line in done.stdout.splitlines() if " MaxNewSize " in line)
    assert (int(young) == 8 << 20) == options.is_lean
