"""Asks the real MirrorMaker 2 4.3.0, in a Java process of its own: its keys, and what it makes of a file."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkmirror.engine.java import find_java
from sparkmirror.testing.jars import MIRROR_MAKER, fetch
from sparkmirror.testing.process import QUICK_START

PROGRAM = Path(__file__).with_name("MirrorMakerSays.java")


def mirror_maker_keys() -> dict[str, dict[str, str]]:
    """Every ConfigDef that a line of a file may reach, by who reads it: key to default."""
    keys: dict[str, dict[str, str]] = _ask("keys")
    return keys


def mirror_maker_flows(
    files: Sequence[Path], topics: Sequence[str], environment: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """What MirrorMaker makes of each file, by its name: for each pair that runs, its settings and remote topics."""
    answers: list[dict[str, Any]] = _ask("flows", ",".join(topics), *map(str, files), environment=environment)
    return {file.stem: answer for file, answer in zip(files, answers, strict=True)}


def _ask(*arguments: str, environment: Mapping[str, str] | None = None) -> Any:
    jars = ":".join(map(str, sorted(fetch(MIRROR_MAKER).iterdir())))  # without logging, which would share stdout
    command = [str(find_java()), *QUICK_START, "-Xmx256m", "-cp", jars, str(PROGRAM)]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=100, check=False,
        env=os.environ | (environment or {}),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
