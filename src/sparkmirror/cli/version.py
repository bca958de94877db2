"""`sparkmirror version`: what is installed, for a bug report; with `--check FILE`, whether brokers speak what we do."""

import argparse
import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import TYPE_CHECKING, Any

from sparkmirror import __version__
from sparkmirror.cli.file import add_verb
from sparkmirror.cli.output import add_format, show, working

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import MirrorConfig
    from sparkmirror.views.findings import Finding

_PACKAGES = ("pyspark", "kafka-python", "pyarrow", "numpy")


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    about = "print the versions of SparkMirror and what it runs on"
    description = (
        "Print what is installed, for a bug report. With --check, ask each broker of the clusters in FILE for its "
        "release and the requests that it understands, and say what is missing; exit status 1 where a broker cannot be "
        "mirrored from or to."
    )
    parser = add_verb(verbs, "version", about, description, execute)
    parser.add_argument("--check", metavar="FILE", help="compare with the brokers of a mirror's file")
    add_format(parser)


def execute(args: argparse.Namespace) -> int:
    """Prints one line per component, or with `--check` one per broker. Raises ConfigError and ClusterError."""
    if args.check:
        return _check(args)
    versions = {"sparkmirror": __version__, "python": platform.python_version()}
    versions |= {name: _installed(name) for name in _PACKAGES}
    versions |= {"java": _java(), "os": f"{platform.system()} {platform.release()} {platform.machine()}"}
    show(args, versions, lambda: [f"{name} {number}" for name, number in versions.items()])
    return 0


def _java() -> str:
    from sparkmirror.errors import EnvironmentProblem
    from sparkmirror.java import java_release

    try:
        return java_release()
    except EnvironmentProblem as problem:
        return f"unknown: {problem.args[0]}"


def _installed(name: str) -> str:
    try:
        return installed(name)
    except PackageNotFoundError:
        return "not installed"


def _check(args: argparse.Namespace) -> int:
    from sparkmirror.config.flow.flows import load_config
    from sparkmirror.views.findings import has_failed, render_findings

    config = load_config(args.check)
    with working("asking the brokers"):
        found = _ask(config)
    show(args, [one.as_json() for one in found], lambda: render_findings(found))
    return 1 if has_failed(found) else 0


def _ask(config: "MirrorConfig") -> "list[Finding]":
    from sparkmirror.kafka.clients import open_admin
    from sparkmirror.kafka.health import ask_brokers
    from sparkmirror.kafka.settings import client_settings
    from sparkmirror.operations.cluster_checks import judge_versions
    from sparkmirror.views.findings import Finding, Level

    found: list[Finding] = []
    for alias, cluster in config.clusters.items():
        with open_admin(cluster, "version") as admin:
            answers = ask_brokers(client_settings(cluster, "version"), admin.brokers())
        for one in answers:
            where = f"broker {one.node_id} ({one.address})"
            if one.problem is not None or one.versions is None:
                said = str(one.problem.args[0]) if one.problem else "it does not answer"
                found.append(Finding(Level.FAIL, alias, where, said, one.problem.hint if one.problem else ""))
            else:
                found += judge_versions(alias, where, one.release, one.versions)
    return found
