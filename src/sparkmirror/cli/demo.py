"""`sparkmirror demo`: two brokers and a mirror on this machine. The demonstration itself is `testing.demo`."""

import argparse
from typing import Any


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers; its arguments, `--help` too, are left to the demonstration."""
    parser = verbs.add_parser("demo", help="start two brokers here and mirror between them", add_help=False)
    parser.add_argument("--debug", action="store_true", help="show stack traces")
    parser.set_defaults(command=execute, takes_rest=True)


def execute(args: argparse.Namespace) -> int:
    """Runs the demonstration. Raises what it raises."""
    from sparkmirror.testing.demo import main

    return main(args.rest)
