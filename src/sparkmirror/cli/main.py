"""The commands `sparkmirror`, `connect-mirror-maker` and `kafka-mirror-maker`: parse, run a verb, give an exit status.

Exit statuses: 0 done, 1 run-time, 2 configuration or usage, 3 environment (`errors.py`), 130 interrupted.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from sparkmirror import __version__
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
from sparkmirror.cli.ending import end_quietly, guarded
from sparkmirror.cli.examples import EXAMPLES
from sparkmirror.cli.file import take_files, take_more_files
from sparkmirror.cli.parser import CommandParser, add_example, add_examples
from sparkmirror.errors import ConfigError
from sparkmirror.shown import show_lines

_GROUPS: dict[str, tuple[Callable[[Any], object], ...]] = {
    "run": (run.add_parser, submit.add_parser, demo.add_parser),
    "inspect": (
        status.add_parser,
        doctor.add_parser,
        listings.add_topics,
        listings.add_groups,
        lag.add_parser,
        gaps.add_parser,
        verify.add_parser,
        tail.add_parser,
        metrics.add_parser,
        topology.add_parser,
    ),
    "control a running mirror": (
        orders.add_pause,
        orders.add_resume,
        orders.add_retry,
        orders.add_restart,
        orders.add_throttle,
    ),
    "offsets and disaster recovery": (
        failover.add_parser,
        failback.add_parser,
        migrate.add_parser,
        offsets.add_parser,
        positions.add_parser,
    ),
    "configuration": (config.add_parser, plan.add_parser, completion.add_parser, version.add_parser),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `sparkmirror VERB …` and gives its exit status; without a verb it shows them all. Entry point."""
    return end_quietly(lambda: _run_verb(sys.argv[1:] if argv is None else argv))


def _run_verb(words: Sequence[str]) -> int:
    parser = build_parser()
    if not words:
        parser.print_help(sys.stderr)
        return ConfigError.exit_status
    try:
        args = parse(parser, words)
    except ConfigError as error:
        print(show_lines(f"{parser.prog}: {error}"), file=sys.stderr)
        return error.exit_status
    return guarded(args, parser.prog)


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """The arguments of a verb. Ends the program with status 2 for wrong usage; raises ConfigError for one file of
    MirrorMaker 1's two."""
    words, files = take_files(words)
    words, more_files = take_more_files(words)
    args, rest = parser.parse_known_args(words)
    args.consumer_and_producer = files
    args.more_files = more_files
    if rest and not args.takes_rest:
        args.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    args.rest = rest
    return args


def connect_mirror_maker(argv: Sequence[str] | None = None) -> int:
    """Runs `connect-mirror-maker FILE [--clusters …]`, which is `sparkmirror run`. Entry point."""
    parser = _connect_parser()
    return end_quietly(lambda: guarded(parser.parse_args(argv), parser.prog))


def mirror_maker_1(argv: Sequence[str] | None = None) -> int:
    """Runs `kafka-mirror-maker --consumer.config F --producer.config F …`, MirrorMaker 1's command. Entry point."""
    parser = _mirror_maker_1_parser()
    return end_quietly(lambda: guarded(parser.parse_args(argv), parser.prog))


def build_parser() -> argparse.ArgumentParser:
    """The parser of all verbs."""
    parser = CommandParser(
        prog="sparkmirror",
        description="Replicates topics between Kafka clusters, as MirrorMaker does, on PySpark Structured Streaming.",
        epilog="Exit status: 0 done, 1 run-time error, 2 configuration or usage, 3 environment, 4 not all could be "
        "compared (verify), 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"sparkmirror {__version__}", help="print the version")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for title, add_parsers in _GROUPS.items():
        known = set(verbs.choices)
        for add_parser in add_parsers:
            add_parser(verbs)
        parser.verb_groups[title] = tuple(name for name in verbs.choices if name not in known)
    add_examples(parser, EXAMPLES)
    add_example(parser, EXAMPLES["run"], "sparkmirror run --help")
    return parser


def _connect_parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="connect-mirror-maker", description=run.DESCRIPTION)
    run.add_arguments(parser)
    add_example(parser, "connect-mirror-maker mm2.properties --clusters west")
    return parser


def _mirror_maker_1_parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="kafka-mirror-maker", description=kafka_mirror_maker.DESCRIPTION)
    kafka_mirror_maker.add_arguments(parser)
    add_example(
        parser, "kafka-mirror-maker --consumer.config a.config --producer.config b.config --whitelist 'orders.*'"
    )
    return parser


def all_parsers() -> list[argparse.ArgumentParser]:
    """The parser of every command that is installed, for `cli.completion` and `cli.reference`."""
    return [build_parser(), _connect_parser(), _mirror_maker_1_parser()]
