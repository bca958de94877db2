"""Finds the Java that Spark runs on, and in `testing` brokers, MirrorMaker and Ivy too. Called by `spark.session`.

Nothing here asks for more than Spark does.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from sparkmirror.errors import EnvironmentProblem

JAVA_VERSION_MIN = 17
HINT = f"install a Java {JAVA_VERSION_MIN} or newer runtime and put `java` on PATH, or set JAVA_HOME"


def find_java(environ: Mapping[str, str] | None = None) -> Path:
    """The `java` of JAVA_HOME, else the first one on PATH, which is new enough by its own files, or else by its word.

    Raises EnvironmentProblem when there is none, when it does not run, or when it is older than Java 17.
    """
    java = _locate(os.environ if environ is None else environ)
    version = _major_version(_noted_release(java) or _release(java))
    if version < JAVA_VERSION_MIN:
        raise EnvironmentProblem(f"{java} is Java {version}, but Java {JAVA_VERSION_MIN} or newer is needed.", HINT)
    return java


def _locate(environ: Mapping[str, str]) -> Path:
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not java.is_file():
            raise EnvironmentProblem(f"JAVA_HOME is {home}, but there is no {java}.", HINT)
        return java
    found = shutil.which("java", path=environ.get("PATH", ""))
    if found is None:
        raise EnvironmentProblem("No Java was found: JAVA_HOME is not set and `java` is not on PATH.", HINT)
    return Path(found)


def java_release(environ: Mapping[str, str] | None = None) -> str:
    """The release of the `java` that is found, such as `17.0.12`, also of one that is too old.

    Raises EnvironmentProblem where there is none, or it does not run.
    """
    return _release(_locate(os.environ if environ is None else environ))


def _major_version(release: str) -> int:
    return int(re.split(r"\D", release.removeprefix("1."))[0])


def _noted_release(java: Path) -> str:
    """What the file `release` of its home says, as a Java since 8 has it; "" where there is none. To run `java` would
    take a tenth of a second of each start."""
    with suppress(OSError):
        said = (java.resolve().parents[1] / "release").read_text(errors="replace")
        found = re.search(r'^JAVA_VERSION="((?:1\.)?\d[^"]*)"', said, re.MULTILINE)
        return found[1] if found else ""
    return ""


@lru_cache
def _release(java: Path) -> str:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(f"{java} does not run: {error}.", HINT) from error
    found = re.search(r'version "((?:1\.)?\d+[^"]*)"', done.stderr)
    if done.returncode != 0 or found is None:
        raise EnvironmentProblem(f"{java} does not tell its version: {done.stderr.strip() or 'no output'}.", HINT)
    return found[1]
