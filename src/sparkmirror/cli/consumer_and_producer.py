"""MirrorMaker 1's two files in the place of FILE: `sparkmirror status --consumer.config F --producer.config F`.

The options are those of `kafka-mirror-maker`; they stand where FILE would. Called by `cli.main`.
"""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparkmirror.errors import ConfigError

if TYPE_CHECKING:
    from sparkmirror.config.formats.mm1 import MirrorMaker1

CONSUMER_OPTION, PRODUCER_OPTION = "--consumer.config", "--producer.config"


def add_files(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """The two files."""
    parser.add_argument(
        CONSUMER_OPTION,
        dest="consumer_files",
        metavar="FILE",
        action="append",
        required=required,
        help="consumer settings of the source cluster; give it again for each further source",
    )
    parser.add_argument(
        PRODUCER_OPTION,
        dest="producer_file",
        metavar="FILE",
        required=required,
        help="producer settings of the target cluster",
    )


def add_topic_lists(parser: argparse.ArgumentParser) -> None:
    """Which topics are mirrored."""
    parser.add_argument(
        "--whitelist",
        "--include",
        dest="include",
        metavar="REGEX",
        help="topics to mirror: Java regular expressions, commas between them; `*` stands for all",
    )
    parser.add_argument(
        "--blacklist",
        "--exclude",
        dest="exclude",
        metavar="REGEX",
        help="topics to leave out; all others are mirrored",
    )


def take_files(words: Sequence[str]) -> "tuple[list[str], MirrorMaker1 | None]":
    """The words of a command line with the consumer's file where the two files were named, and what these say.

    All topics count where neither list is given: the verbs look at what a mirror has left. Raises ConfigError where
    one file is missing.
    """
    first = next(
        (at for at, word in enumerate(words) if word.partition("=")[0] in (CONSUMER_OPTION, PRODUCER_OPTION)), None
    )
    if first is None:
        return list(words), None
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_files(parser, required=False)
    add_topic_lists(parser)
    named, rest = parser.parse_known_args(words[first:])
    if not (named.consumer_files and named.producer_file):
        missing = PRODUCER_OPTION if named.consumer_files else CONSUMER_OPTION
        raise ConfigError(f"`{missing}` is missing", "a MirrorMaker 1 is known by both of its files")

    from sparkmirror.config.formats.mm1 import MirrorMaker1

    include = ".*" if named.include is None and named.exclude is None else named.include
    files = MirrorMaker1(tuple(named.consumer_files), named.producer_file, include, named.exclude)
    return [*words[:first], named.consumer_files[0], *rest], files
