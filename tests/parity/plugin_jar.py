"""Compiles the Java classes of `acme/` against the real `connect-mirror-client` and its like, as a user would."""

import subprocess
from pathlib import Path

from sparkmirror.java import find_java
from sparkmirror.testing.jars import MIRROR_MAKER, fetch

_SOURCES = Path(__file__).with_name("acme")


def kafka_libs() -> Path:
    """What stands for the directory `libs` of a Kafka distribution."""
    return fetch(MIRROR_MAKER)


def compile_classes(directory: Path) -> Path:
    """Compiles them into `directory`, which a `plugin.path` may name then."""
    compiler = [str(find_java()), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    options = ["-cp", ":".join(map(str, kafka_libs().iterdir())), "-d", str(directory)]
    command = [*compiler, *options, *map(str, sorted(_SOURCES.glob("*.java")))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return directory
