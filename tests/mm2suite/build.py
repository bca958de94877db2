"""The class path of the suite: MirrorMaker 2's jars, and in front of them our classes, compiled once into the cache."""

import hashlib
import os
import subprocess
from pathlib import Path

from sparkmirror.cache import cache_directory, publish_once
from sparkmirror.errors import EnvironmentProblem
from sparkmirror.java import find_java
from sparkmirror.testing.jars import MIRROR_MAKER_TESTS, fetch

SOURCES = sorted((Path(__file__).parent / "java").rglob("*.java"))
COMPILER = "jdk.compiler/com.sun.tools.javac.Main"
BUILD_SECONDS_MAX = 300


def class_path() -> str:
    """Fetched and compiled if need be. Raises EnvironmentProblem without a network or a Java that compiles."""
    jars = os.pathsep.join(map(str, sorted(fetch(MIRROR_MAKER_TESTS).iterdir())))
    key = hashlib.sha256(jars.encode() + b"".join(source.read_bytes() for source in SOURCES)).hexdigest()[:12]
    classes = publish_once(cache_directory() / f"mm2suite-{key}", lambda scratch: _compile(jars, scratch))
    return f"{classes}{os.pathsep}{jars}"


def test_jars() -> list[Path]:
    """The two jars whose classes are MirrorMaker 2's tests."""
    return sorted(fetch(MIRROR_MAKER_TESTS).glob("connect-mirror*-test.jar"))


def _compile(jars: str, directory: Path) -> None:
    _run("--module", COMPILER, "-nowarn", "-XDignore.symbol.file", "-Xlint:none", "-cp", jars, "-d", str(directory),
         *map(str, SOURCES))  # fmt: skip
    _run("-cp", f"{directory}{os.pathsep}{jars}", "sparkmirror.suite.LongerLimits", str(directory))


def _run(*arguments: str) -> None:
    done = subprocess.run(
        [str(find_java()), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=BUILD_SECONDS_MAX, check=False,
    )  # fmt: skip
    if done.returncode:
        raise EnvironmentProblem(
            f"The classes of tests/mm2suite/java cannot be compiled:\n{done.stdout.strip()}",
            "a JDK is needed, Java 17 or newer, not a runtime alone",
        )
