"""`sparkmirror version`: what is installed, for a bug report."""

import argparse
import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Any

from sparkmirror import __version__
from sparkmirror.cli.file import add_verb
from sparkmirror.cli.output import add_format, show

_PACKAGES = ("pyspark", "kafka-python", "pyarrow", "numpy")


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    about = "print the versions of SparkMirror and what it runs on"
    add_format(add_verb(verbs, "version", about, "Print what is installed, for a bug report.", execute))


def execute(args: argparse.Namespace) -> int:
    """Prints one line per component."""
    versions = {"sparkmirror": __version__, "python": platform.python_version()}
    versions |= {name: _installed(name) for name in _PACKAGES}
    show(args, versions, lambda: [f"{name} {number}" for name, number in versions.items()])
    return 0


def _installed(name: str) -> str:
    try:
        return installed(name)
    except PackageNotFoundError:
        return "not installed"
