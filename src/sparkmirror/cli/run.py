"""`sparkmirror run FILE`: mirrors what a file says. Only reads arguments; the work is `runtime.run`'s."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkmirror.cli import plan
from sparkmirror.cli.file import add_debug, add_file_arguments, parse_file
from sparkmirror.cli.output import add_format, add_log_format, say
from sparkmirror.errors import ConfigError, EnvironmentProblem

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import MirrorConfig
    from sparkmirror.spark.cluster import SparkCluster

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
    add_settings(parser)
    add_debug(parser)
    parser.set_defaults(command=execute, takes_rest=False)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """`--conf`."""
    parser.add_argument("--conf", metavar="KEY=VALUE", action="append", default=[], help="a Spark setting; repeatable")


def execute(args: argparse.Namespace) -> int:
    """Reads the file and hands over. Raises ConfigError and what the engine raises."""
    if args.dry_run:
        return plan.execute(args)
    config = parse_file(args, heartbeats_suffice=not args.once)
    on_cluster = config.flows and (args.master or args.conf)
    return mirror(config, args, plan_for(config, args.master, args.conf) if on_cluster else None)


def mirror(config: "MirrorConfig", args: argparse.Namespace, cluster: "SparkCluster | None") -> int:
    """Says what there is to be warned of, and runs until stopped. Raises what the engine raises."""
    from sparkmirror.runtime.options import RunOptions

    refuse_without_key(cluster)
    say_before(config, args, [*config.warnings, *warnings_of(config, cluster)])

    from sparkmirror.runtime.start import run_mirror

    return run_mirror(config, RunOptions(args.once, cluster, args.debug, args.log_format))


def warnings_of(config: "MirrorConfig", cluster: "SparkCluster | None") -> list[str]:
    """Warnings about a Spark cluster, for a person, before the mirror runs on it."""
    from sparkmirror.config.secrets import is_secret
    from sparkmirror.spark.cluster import needs_encryption

    if cluster is None or not needs_encryption(cluster) or not any(map(is_secret, config.lines.entries)):
        return []
    return [
        f"the driver tells executors of {cluster.master} the file's passwords unencrypted; "
        "spark.authenticate and spark.network.crypto.enabled, here and on the cluster's daemons, hide them"
    ]


def plan_for(config: "MirrorConfig", master: str | None, pairs: Sequence[str]) -> "SparkCluster":
    """Spark's settings for the file's flows. Raises ConfigError, and EnvironmentProblem without YARN's own files."""
    from sparkmirror.config.secrets import is_secret
    from sparkmirror.spark.cluster import Demand, count_slots, local_master, plan_cluster, read_settings
    from sparkmirror.spark.session import FIXED_SETTINGS

    if master == "yarn" and not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & set(os.environ):
        hint = "Set HADOOP_CONF_DIR to the directory of yarn-site.xml and core-site.xml."
        raise EnvironmentProblem("YARN's configuration is not known here.", hint)
    _refuse_databases(config, master)
    demand = Demand(
        sum(flow.tasks_max for flow in config.flows), max((flow.lease_ring_bytes for flow in config.flows), default=0)
    )
    carries_secrets = any(map(is_secret, config.lines.entries))
    own = read_settings(pairs)
    return plan_cluster(
        master or local_master(count_slots(config.flows)), own, FIXED_SETTINGS, demand, carries_secrets=carries_secrets
    )


def _refuse_databases(config: "MirrorConfig", master: str | None) -> None:
    """Raises ConfigError for a table that this machine would read from a database, and that other machines look up."""
    from sparkmirror.spark.cluster import master_kind

    sources = [table.jdbc.source for flow in config.flows for table in flow.transforms.databases if table.jdbc]
    if sources and master is not None and master_kind(master) != "local":
        where = sources[0]
        raise ConfigError(
            f"`{where.key}` names a database, which a mirror on a Spark cluster does not read: its table would be in a "
            "file of this machine alone.",
            "Let a job of yours write the table, as Parquet, to a place that every machine reads (`s3://…`, a shared "
            "directory), name that by `.path`, and replace it by a rename (docs/transforms.md).",
            key=where.key, line=where.line, file=where.file,
        )  # fmt: skip


def refuse_without_key(cluster: "SparkCluster | None") -> None:
    """Raises EnvironmentProblem where Spark would not start: the driver has to know the secret of its cluster."""
    from sparkmirror.spark.cluster import needs_key

    if cluster is not None and needs_key(cluster) and not _has_key():
        raise EnvironmentProblem(
            f"The driver would encrypt what it tells executors of {cluster.master}, but has no secret for that.",
            "Start master and workers with -Dspark.authenticate=true, -Dspark.network.crypto.enabled=true and a secret "
            "in the environment variable _SPARK_AUTH_SECRET, and set that here, too (docs/cluster.md). `--conf "
            "spark.authenticate=false --conf spark.network.crypto.enabled=false` sends passwords in the open.",
        )


def _has_key() -> bool:
    """Whether Spark's driver will find the secret of its cluster: in the environment, or among its defaults."""
    if "_SPARK_AUTH_SECRET" in os.environ or "SPARK_CONF_DIR" not in os.environ:
        return "_SPARK_AUTH_SECRET" in os.environ
    try:
        defaults = (Path(os.environ["SPARK_CONF_DIR"]) / "spark-defaults.conf").read_text()
    except OSError:
        return False
    return "spark.authenticate.secret" in defaults


def say_before(
    config: "MirrorConfig", args: argparse.Namespace, sentences: Sequence[str], prefix: str = "warning: "
) -> None:
    """Prints on stderr before the mirror runs, in the form of its later output."""
    from sparkmirror.logs.handlers import log_warning

    how = args.log_format or config.status.log_format
    for sentence in sentences:
        if how == "json":
            log_warning(sentence)
        else:
            say(f"{prefix}{sentence}")
