"""The arguments that every verb shares which reads a mirror's file, and reading it. Called by the verbs."""

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkmirror.config.flows import MirrorConfig


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """FILE, which of its flows, and `--debug`."""
    parser.add_argument("file", metavar="FILE", help="a MirrorMaker 2 properties file")
    parser.add_argument("--clusters", metavar="ALIAS", nargs="+", default=[], help="only flows into these clusters")
    parser.add_argument("--flow", metavar="S->T", nargs="+", default=[], help="only these flows, as in 'A->B'")
    parser.add_argument("--debug", action="store_true", help="show stack traces")


def read_file(args: argparse.Namespace) -> "MirrorConfig":
    """The file, understood; its warnings go to stderr. Raises ConfigError."""
    from sparkmirror.config.flows import load_config

    config = load_config(args.file, args.clusters, args.flow)
    for warning in config.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return config
