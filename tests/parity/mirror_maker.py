"""Asks the real MirrorMaker 2 4.3.0, in a Java process of its own: its keys, what it makes of a file; and runs it."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sparkmirror.java import find_java
from sparkmirror.testing.guard import Guard
from sparkmirror.testing.jars import MIRROR_MAKER, class_path, fetch
from sparkmirror.testing.process import QUICK_START, JavaProcess, JavaProgram

PROGRAM = Path(__file__).with_name("MirrorMakerSays.java")


def mirror_maker_keys() -> dict[str, dict[str, str]]:
    """Every ConfigDef that a line of a file may reach, by who reads it: key to default."""
    keys: dict[str, dict[str, str]] = _ask("keys")
    return keys


def mirror_maker_flows(
    files: Sequence[Path], topics: Sequence[str], environment: Mapping[str, str], classes: Path | None = None
) -> dict[str, dict[str, Any]]:
    """What MirrorMaker makes of each file, by its name: for each pair that runs, its settings and remote topics.

    `classes` are a directory of a person's own.
    """
    asked = ("flows", ",".join(topics), *map(str, files))
    answers: list[dict[str, Any]] = _ask(*asked, environment=environment, classes=classes)
    return {file.stem: answer for file, answer in zip(files, answers, strict=True)}


@contextmanager
def mirror_maker(
    directory: Path, text: str, *, classes: Path | None = None, options: Sequence[str] = ()
) -> Iterator[JavaProcess]:
    """MirrorMaker in dedicated mode with a file of that text, to be launched; it is gone when the block ends.

    `classes` are a directory of a person's own, `options` those of its JVM.
    """
    home = directory / "mirror-maker"
    home.mkdir()
    file = home / "mm2.properties"
    file.write_text(text)
    program = JavaProgram(
        "MirrorMaker 2", "org.apache.kafka.connect.mirror.MirrorMaker", _with(class_path(MIRROR_MAKER), classes),
        [str(file)], (*QUICK_START, *options),
    )  # fmt: skip
    with Guard(home) as guard:
        yield JavaProcess(program, home / "mm2.log", guard)


def _with(jars: str, classes: Path | None) -> str:
    return f"{classes}:{jars}" if classes is not None else jars


def _ask(*arguments: str, environment: Mapping[str, str] | None = None, classes: Path | None = None) -> Any:
    jars = ":".join(map(str, sorted(fetch(MIRROR_MAKER).iterdir())))  # without logging, which would share stdout
    jars = _with(jars, classes)
    command = [str(find_java()), *QUICK_START, "-Xmx256m", "-cp", jars, str(PROGRAM)]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=100, check=False,
        env=os.environ | (environment or {}),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
