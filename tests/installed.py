"""The package in an environment of its own, as pip installs it. Dependencies are those of this environment: whether
they can be had is for pip to say."""

import subprocess
import sysconfig
import venv
from pathlib import Path


def install(package: Path, home: Path) -> Path:
    """Installs a wheel or a source tree; returns the directory of its commands."""
    venv.create(home, with_pip=True)
    python = str(home / "bin/python")
    pip = [python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, str(package)], check=True)
    (packages,) = (home / "lib").glob("python*/site-packages")
    # A path alone: a .pth file in that directory, such as an editable install's, is not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"
