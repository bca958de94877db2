"""The commands `sparkmirror`, `connect-mirror-maker` and `kafka-mirror-maker`: parse, run a verb, give an exit status.

Exit statuses: 0 done, 1 run-time, 2 configuration or usage, 3 environment (`errors.py`), 130 interrupted.
"""

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence

from sparkmirror.cli import (
    completion,
    config,
    demo,
    doctor,
    failback,
    failover,
    gaps,
    kafka_mirror_maker,
    lag,
    listings,
    metrics,
    migrate,
    offsets,
    orders,
    plan,
    positions,
    run,
    status,
    submit,
    tail,
    topology,
    verify,
    version,
)
from sparkmirror.cli.file import take_files, take_more_files
from sparkmirror.errors import ConfigError, EnvironmentProblem, SparkMirrorError
from sparkmirror.shown import show_lines

INTERRUPTED = 130

_VERBS = (
    run.add_parser,
    submit.add_parser,
    plan.add_parser,
    doctor.add_parser,
    status.add_parser,
    config.add_parser,
    lag.add_parser,
    listings.add_topics,
    listings.add_groups,
    tail.add_parser,
    metrics.add_parser,
    offsets.add_parser,
    positions.add_parser,
    gaps.add_parser,
    topology.add_parser,
    verify.add_parser,
    migrate.add_parser,
    failover.add_parser,
    failback.add_parser,
    orders.add_pause,
    orders.add_resume,
    orders.add_retry,
    orders.add_restart,
    orders.add_throttle,
    demo.add_parser,
    completion.add_parser,
    version.add_parser,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `sparkmirror VERB …` and gives its exit status; without a verb it shows them all. Entry point."""
    parser, words = build_parser(), sys.argv[1:] if argv is None else argv
    if not words:
        parser.print_help(sys.stderr)
        return 2
    try:
        words, files = take_files(words)
    except ConfigError as error:
        print(show_lines(f"{parser.prog}: {error}"), file=sys.stderr)
        return error.exit_status
    words, more_files = take_more_files(words)
    args, rest = parser.parse_known_args(words)
    args.consumer_and_producer = files
    args.more_files = more_files
    if rest and not args.takes_rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    args.rest = rest
    return _guarded(args, parser.prog)


def connect_mirror_maker(argv: Sequence[str] | None = None) -> int:
    """Runs `connect-mirror-maker FILE [--clusters …]`, which is `sparkmirror run`. Entry point."""
    parser = _connect_parser()
    return _guarded(parser.parse_args(argv), parser.prog)


def mirror_maker_1(argv: Sequence[str] | None = None) -> int:
    """Runs `kafka-mirror-maker --consumer.config F --producer.config F …`, MirrorMaker 1's command. Entry point."""
    parser = _mirror_maker_1_parser()
    return _guarded(parser.parse_args(argv), parser.prog)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all verbs."""
    parser = argparse.ArgumentParser(
        prog="sparkmirror",
        description="Replicates topics between Kafka clusters, as MirrorMaker does, on PySpark Structured Streaming.",
        epilog="Exit status: 0 done, 1 run-time error, 2 configuration or usage, 3 environment, 130 interrupted.",
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for add_parser in _VERBS:
        add_parser(verbs)
    return parser


def _connect_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="connect-mirror-maker", description=run.DESCRIPTION)
    run.add_arguments(parser)
    return parser


def _mirror_maker_1_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kafka-mirror-maker", description=kafka_mirror_maker.DESCRIPTION)
    kafka_mirror_maker.add_arguments(parser)
    return parser


def all_parsers() -> list[argparse.ArgumentParser]:
    """Of every command that is installed, for `cli.completion` and `cli.reference`."""
    return [build_parser(), _connect_parser(), _mirror_maker_1_parser()]


def _guarded(args: argparse.Namespace, prog: str) -> int:
    command: Callable[[argparse.Namespace], int] = args.command
    try:
        return command(args)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as unexpected:
        error = _in_words(unexpected)
        if args.debug:
            traceback.print_exc()
        _tell(error, args, prog)
        return error.exit_status


def _tell(error: SparkMirrorError, args: argparse.Namespace, prog: str) -> None:
    """As the command says everything else: it may have learned from its file that that is JSON."""
    from sparkmirror.logs.handlers import say_end, speaks_json

    if getattr(args, "log_format", "") == "json" or speaks_json():
        say_end(str(error.args[0]), error.hint)
    else:
        print(show_lines(f"{prog}: {error}"), file=sys.stderr)


def _in_words(error: Exception) -> SparkMirrorError:
    if isinstance(error, SparkMirrorError):
        return error
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("sparkmirror"):
        missing = error.name.partition(".")[0]
        return EnvironmentProblem(f"the Python package `{missing}` is missing", "install SparkMirror again with pip")
    said = " ".join(str(error).split()) or "nothing more is known"
    return SparkMirrorError(f"unexpected {type(error).__name__}: {said}", "run again with --debug to see where")
