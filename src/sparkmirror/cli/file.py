"""What verbs share: how one is declared, the arguments of those that read a mirror's file, and reading it."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.output import say
from sparkmirror.errors import ConfigError

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import MirrorConfig
    from sparkmirror.config.formats.properties import Properties

Command = Callable[[argparse.Namespace], int]


def add_verb(verbs: Any, name: str, about: str, description: str, command: Command) -> argparse.ArgumentParser:
    """A verb of argparse's subparsers, or a kind of one, with `--debug`: `about` is its line in the list."""
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=description)
    add_debug(parser)
    parser.set_defaults(command=command, takes_rest=False, clusters=[], flow=[])
    return parser


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
    parser.add_argument("--flow", metavar="S->T", nargs="+", default=[], help="only these flows, as in 'A->B'")


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
    """Where Java classes are that FILE names."""
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
    """The file, understood. Raises ConfigError, also without any flow unless `heartbeats_suffice`."""
    from sparkmirror.config.flow.flows import parse_config

    return parse_config(read_input(args), args.clusters, args.flow, heartbeats_suffice=heartbeats_suffice)


def read_file(args: argparse.Namespace) -> "MirrorConfig":
    """As `parse_file`; its warnings go to stderr."""
    config = parse_file(args)
    for warning in config.warnings:
        say(f"warning: {warning}")
    return config


def check_cluster(config: "MirrorConfig", alias: str) -> None:
    """Raises ConfigError where `--cluster` names none of the file's."""
    if alias not in config.clusters:
        known = ", ".join(config.clusters)
        raise ConfigError(f"`--cluster {alias}`: the file has no such cluster", f"known are {known}", file=config.file)
