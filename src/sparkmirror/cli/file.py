"""Declares verbs and the arguments of verbs that read a mirror's file, and reads the file.

FILE may be several files: MirrorMaker 2 on Kafka Connect is up to three connectors and a worker, each in a file of its
own (`sparkmirror run worker.properties source.json checkpoint.json`). MirrorMaker 1's two files stand in the place of
FILE as options (`sparkmirror status --consumer.config F --producer.config F`), as for `kafka-mirror-maker`.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.output import say
from sparkmirror.errors import ConfigError

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import MirrorConfig
    from sparkmirror.config.formats.mm1 import MirrorMaker1
    from sparkmirror.config.formats.properties import Properties


Command = Callable[[argparse.Namespace], int]


def add_verb(
    verbs: Any, name: str, about: str, description: str, command: Command, *, is_question: bool = True
) -> argparse.ArgumentParser:
    """A verb of argparse's subparsers, or a kind of one, with `--debug`: `about` is its line in the list.

    A person waits for the answer to a question; what takes long anyway waits for brokers that are being started.
    """
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=description)
    add_debug(parser)
    parser.set_defaults(command=_asking(command) if is_question else command, takes_rest=False, clusters=[], flow=[])
    return parser


def _asking(command: Command) -> Command:
    """The command while a person waits for its answer."""

    def ask(args: argparse.Namespace) -> int:
        from sparkmirror.kafka.patience import impatient

        with impatient():
            return command(args)

    return ask


def add_debug(parser: argparse.ArgumentParser) -> None:
    """`--debug`, which every command knows."""
    parser.add_argument("--debug", action="store_true", help="show stack traces")


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """FILE, and which of its flows."""
    add_input_arguments(parser)
    parser.add_argument("--clusters", metavar="ALIAS", nargs="+", default=[], help="only flows into these clusters")
    add_flows(parser)


def add_flows(parser: argparse.ArgumentParser) -> None:
    """Which flows of the file."""
    parser.add_argument(
        "--flow", metavar="S->T", action="append", default=[], help="only this flow, as in 'A->B'; may be repeated"
    )


def add_topic_pattern(parser: argparse.ArgumentParser) -> None:
    """Which topics, by name; `check_pattern` says whether it is an expression."""
    words = "only topics whose whole name matches, as in 'orders.*'"
    parser.add_argument("--topic", metavar="REGEX", default="", help=words)


def add_partition(parser: argparse.ArgumentParser) -> None:
    """Which partition of them."""
    parser.add_argument("--partition", metavar="N", type=int, help="only this partition number")


def add_cluster(parser: argparse.ArgumentParser, default: str, *, required: bool = False) -> None:
    """Which cluster is asked; `default` says which without it."""
    words = f"the cluster to ask{f' (default: {default})' if default else ''}"
    parser.add_argument("--cluster", metavar="ALIAS", required=required, help=words)


def add_execute(parser: argparse.ArgumentParser) -> None:
    """`--execute`, of verbs that otherwise only print what they would do."""
    parser.add_argument("--execute", action="store_true", help="do it (default: only print what would be done)")


def check_pattern(pattern: str) -> None:
    """Raises ConfigError for an expression that Java would refuse; an empty one stands for all topics."""
    from sparkmirror.policy.filters import check_expression

    check_expression(pattern)


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """FILE, and where its secrets are."""
    parser.set_defaults(consumer_and_producer=None, more_files=())
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a MirrorMaker 2 properties file, a Strimzi KafkaMirrorMaker2, the files of MirrorMaker 2's connectors "
        "and of their worker, or the options --consumer.config F --producer.config F in its place for MirrorMaker 1's "
        "files",
    )
    parser.add_argument(
        "--secrets-dir",
        metavar="DIR",
        help="where a Strimzi resource finds its secrets, as DIR/SECRET/KEY (default: `secrets` beside FILE)",
    )
    add_jars(parser)


def add_jars(parser: argparse.ArgumentParser) -> None:
    """`--jars`, where the Java classes are that FILE names."""
    parser.add_argument(
        "--jars",
        metavar="JAR,…",
        action="append",
        default=[],
        help="jars or directories of Java classes that FILE names, beside its plugin.path",
    )


def read_input(args: argparse.Namespace) -> "Properties":
    """The lines of the file or files, whatever their form. Raises ConfigError."""
    from sparkmirror.config.formats.files import read_mirror_files
    from sparkmirror.config.plugins import with_jars

    if args.consumer_and_producer is not None:
        from sparkmirror.config.formats.mm1 import read_files

        return with_jars(read_files(args.consumer_and_producer), args.jars)
    return with_jars(read_mirror_files([args.file, *args.more_files], args.secrets_dir), args.jars)


def parse_file(args: argparse.Namespace, *, heartbeats_suffice: bool = False) -> "MirrorConfig":
    """The file, understood; `cli.ending` finds it in `args.config`. Raises ConfigError, also without any flow unless
    `heartbeats_suffice`."""
    from sparkmirror.config.flow.flows import parse_config

    config = parse_config(read_input(args), args.clusters, args.flow, heartbeats_suffice=heartbeats_suffice)
    args.config = config
    return config


def read_file(args: argparse.Namespace) -> "MirrorConfig":
    """Reads the file as `parse_file` does; its warnings go to stderr."""
    config = parse_file(args)
    for warning in config.warnings:
        say(f"warning: {warning}")
    return config


def check_cluster(config: "MirrorConfig", alias: str) -> None:
    """Raises ConfigError where `--cluster` names none of the file's."""
    if alias not in config.clusters:
        known = ", ".join(config.clusters)
        raise ConfigError(f"`--cluster {alias}`: the file has no such cluster", f"known are {known}", file=config.file)


def take_more_files(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The words of a command line with one file where several of connectors stood, and the files behind it.

    Other files that stand beside each other are left to the verb.
    """
    first = next((at for at in range(len(words) - 1) if _begins(words, at)), None)
    if first is None:
        return list(words), ()
    end = first + 1
    while end < len(words) and _is_file(words[end]):
        end += 1
    return [*words[: first + 1], *words[end:]], tuple(words[first + 1 : end])


def _begins(words: Sequence[str], at: int) -> bool:
    """Whether the files of connectors begin at this argument, which may also be the value of an option."""
    if not (_is_file(words[at]) and _is_file(words[at + 1])):
        return False

    from sparkmirror.config.formats.files import is_connector_file

    if at and words[at - 1].startswith("-"):
        return is_connector_file(words[at])
    return is_connector_file(words[at]) or is_connector_file(words[at + 1])


def _is_file(word: str) -> bool:
    """Whether the argument looks like a file by its name: one that cannot be read is reported as a file."""
    return word.endswith((".json", ".yaml", ".yml", ".properties")) and not word.startswith("-")


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
