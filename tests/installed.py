"""The package in an environment of its own, as pip installs it. Dependencies are those of this environment, but for
versions that are asked for: whether they can be had is for pip to say."""

import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path


def install(package: Path, home: Path, requirements: Sequence[str] = (), *, editable: bool = False) -> Path:
    """Installs a wheel or a source tree, and before it `requirements`, lines of a lock; returns the directory of its
    commands."""
    venv.create(home, clear=True)
    if requirements:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as lock:
            lock.write("\n".join(requirements))
            lock.flush()
            _pip(home, "--require-hashes", "--only-binary", ":all:", "-r", lock.name)
    _pip(home, *(["--editable"] if editable else []), str(package))
    (packages,) = (home / "lib").glob("python*/site-packages")
    # A path alone: a .pth file in that directory, such as an editable install's, is not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def _pip(home: Path, *arguments: str) -> None:
    """This environment's pip installs into the other, which needs none."""
    pip = [sys.executable, "-I", "-m", "pip", "--python", str(home / "bin/python"), "install", "--quiet"]
    subprocess.run([*pip, "--disable-pip-version-check", "--no-deps", "--no-compile", *arguments], check=True)
