"""`sparkmirror version`: what is installed, for a bug report."""

import argparse
import json
import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Any

from sparkmirror import __version__

_PACKAGES = ("pyspark", "kafka-python", "pyarrow", "numpy")


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = verbs.add_parser("version", help="print the versions of SparkMirror and what it runs on")
    parser.add_argument("--format", choices=("table", "json"), default="table", help="how to print (default: table)")
    parser.add_argument("--debug", action="store_true", help="show stack traces")
    parser.set_defaults(command=execute, takes_rest=False)


def execute(args: argparse.Namespace) -> int:
    """Prints one line per component."""
    versions = {"sparkmirror": __version__, "python": platform.python_version()}
    versions |= {name: _installed(name) for name in _PACKAGES}
    if args.format == "json":
        print(json.dumps(versions))
    else:
        for name, number in versions.items():
            print(f"{name} {number}")
    return 0


def _installed(name: str) -> str:
    try:
        return installed(name)
    except PackageNotFoundError:
        return "not installed"
