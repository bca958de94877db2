"""`sparkmirror run FILE`: mirrors what a file says. Only reads arguments; the work is `engine.run`'s."""

import argparse
import sys
from typing import Any

DESCRIPTION = "Mirror what a MirrorMaker 2 properties file says, until stopped."


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = verbs.add_parser("run", help="mirror what a file says", description=DESCRIPTION)
    add_arguments(parser)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb, which `connect-mirror-maker` shares."""
    parser.add_argument("file", metavar="FILE", help="a MirrorMaker 2 properties file")
    parser.add_argument("--clusters", metavar="ALIAS", nargs="+", default=[], help="only flows into these clusters")
    parser.add_argument("--flow", metavar="S->T", nargs="+", default=[], help="only these flows, as in 'A->B'")
    parser.add_argument("--once", action="store_true", help="stop when all that is there now is mirrored")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done and change nothing")
    parser.add_argument("--format", choices=("table", "json"), default="table", help="how to print (default: table)")
    parser.add_argument("--debug", action="store_true", help="show stack traces")
    parser.add_argument("--master", metavar="URL", help="a Spark master (default: this machine)")
    parser.set_defaults(command=execute, takes_rest=False)


def execute(args: argparse.Namespace) -> int:
    """Reads the file, prints its warnings and hands over. Raises ConfigError and what the engine raises."""
    from sparkmirror.config.flows import load_config
    from sparkmirror.config.options import RunOptions

    config = load_config(args.file, args.clusters, args.flow)
    for warning in config.warnings:
        print(f"warning: {warning}", file=sys.stderr)

    from sparkmirror.engine.run import run_mirror

    options = RunOptions(args.once, args.dry_run, args.format, args.master, args.debug)
    return run_mirror(config, options)
