"""`sparkmirror doctor FILE`: whether the file, the clusters and this machine are fit for the mirror."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_file_arguments, add_verb, read_input
from sparkmirror.cli.output import add_format, show, working

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import MirrorConfig
    from sparkmirror.views.findings import Finding

_DESCRIPTION = (
    "Look at everything that a mirror needs and change nothing: the file; of each cluster that its brokers answer, "
    "their release, clock and disks, permissions, and creating topics; here Java, disk, shared memory, memory and open "
    "files. Exit status: 0 without a FAIL, 1 with one."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = add_verb(verbs, "doctor", "whether all is fit for the mirror", _DESCRIPTION, execute)
    add_file_arguments(parser)
    parser.add_argument(
        "--acls", metavar="PRINCIPAL", help="only print the kafka-acls commands that grant this one what the file needs"
    )
    add_format(parser)


def execute(args: argparse.Namespace) -> int:
    """Looks and prints; 1 where something failed. Raises ConfigError for a file that cannot be read at all."""
    from sparkmirror.views.findings import has_failed, render_findings

    if args.acls:
        return _print_acls(args)
    found = _examine(args)
    show(args, [one.as_json() for one in found], lambda: render_findings(found))
    return 1 if has_failed(found) else 0


def _print_acls(args: argparse.Namespace) -> int:
    """No cluster is asked. Raises ConfigError."""
    from sparkmirror.config.flow.flows import parse_config
    from sparkmirror.operations.acl_commands import acl_commands

    config = parse_config(read_input(args), args.clusters, args.flow, heartbeats_suffice=True)
    lines = acl_commands(config, args.acls)
    show(args, lines, lambda: list(lines))
    return 0


def _examine(args: argparse.Namespace) -> "list[Finding]":
    from sparkmirror.config.flow.flows import examine, parse_config
    from sparkmirror.operations.cluster_checks import check_clusters
    from sparkmirror.operations.machine_checks import check_machine
    from sparkmirror.views.findings import Finding, Level

    properties, file = read_input(args), Path(args.file).name
    config, problems = examine(properties)
    found = [
        Finding(Level.FAIL, file, f"line {error.line}" if error.line else "file", str(error.args[0]), error.hint)
        for error in sorted(problems.errors, key=lambda error: error.line)
    ]
    if found:
        return found
    chosen: MirrorConfig = parse_config(properties, args.clusters, args.flow, heartbeats_suffice=True)
    found += [Finding(Level.WARN, file, "file", warning) for warning in chosen.warnings]
    found.append(Finding(Level.OK, file, "file", f"it can be used; {config.purpose}"))
    with working("looking at this machine"):
        found += check_machine(chosen)
    with working("asking the clusters"):
        found += check_clusters(chosen.flows, chosen.heartbeats, chosen.checkpoints)
    return found
