"""`sparkmirror run FILE`: mirrors what a file says. Only reads arguments; the work is `engine.run`'s."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparkmirror.cli import plan
from sparkmirror.cli.file import add_debug, add_file_arguments, parse_file
from sparkmirror.cli.output import add_format, add_log_format

if TYPE_CHECKING:
    from sparkmirror.config.flows import MirrorConfig

DESCRIPTION = "Mirror what a MirrorMaker 2 properties file says, until stopped."


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    add_arguments(verbs.add_parser("run", help="mirror what a file says", description=DESCRIPTION))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb, which `connect-mirror-maker` shares."""
    add_file_arguments(parser)
    parser.add_argument("--once", action="store_true", help="stop when all that is there now is mirrored")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, as `sparkmirror plan`")
    add_format(parser)
    add_log_format(parser)
    parser.add_argument("--master", metavar="URL", help="a Spark master (default: this machine)")
    add_debug(parser)
    parser.set_defaults(command=execute, takes_rest=False)


def execute(args: argparse.Namespace) -> int:
    """Reads the file, prints its warnings and hands over. Raises ConfigError and what the engine raises."""
    from sparkmirror.config.options import RunOptions

    if args.dry_run:
        return plan.execute(args)
    config = parse_file(args)
    say_before(config, args, config.warnings)

    from sparkmirror.engine.run import run_mirror

    options = RunOptions(args.once, args.master, args.debug, args.log_format)
    return run_mirror(config, options)


def say_before(
    config: "MirrorConfig", args: argparse.Namespace, sentences: Sequence[str], prefix: str = "warning: "
) -> None:
    """On stderr before the mirror runs, in the form of everything that it says later."""
    from sparkmirror.engine.speech import say_warning

    how = args.log_format or config.status.log_format
    for sentence in sentences:
        if how == "json":
            say_warning(sentence)
        else:
            print(f"{prefix}{sentence}", file=sys.stderr)
