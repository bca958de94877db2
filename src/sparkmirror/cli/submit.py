"""`sparkmirror submit FILE --master URL`: mirrors on a Spark cluster, by `runtime.run`, and brings it the packages.

With `--deploy-mode cluster` all is done by `cli.cluster_mode`.
"""

import argparse
import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparkmirror.cli import cluster_mode
from sparkmirror.cli.file import add_debug, add_file_arguments, parse_file
from sparkmirror.cli.output import add_format, add_log_format, answer, say, working
from sparkmirror.cli.run import add_settings, mirror, plan_for, warnings_of
from sparkmirror.errors import ConfigError, EnvironmentProblem
from sparkmirror.kafka.security.msk import MECHANISM as MSK

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import MirrorConfig
    from sparkmirror.spark.cluster import SparkCluster

_DESCRIPTION = (
    "Mirror on a Spark cluster. The driver is this command (client mode). Executors get the Python packages as "
    "archives, made once for each state of them, and need only Spark 4.3 and a Python of this version; with --image "
    "all is in the image. --dry-run prints the settings as a `sparkmirror run` command, for a unit or a manifest. With "
    "--deploy-mode cluster Kubernetes runs the driver in a pod, which reads FILE from a Secret; --dry-run then prints "
    "a script that makes the Secret, the driver's account and the pod."
)
_SEEN = {
    "yarn": "Not run on YARN: SparkMirror's tests have none.",
    "k8s": cluster_mode.CAUTION,
}


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = verbs.add_parser("submit", help="mirror on a Spark cluster", description=_DESCRIPTION)
    add_file_arguments(parser)
    parser.add_argument("--master", metavar="URL", required=True, help="spark://HOST:PORT, yarn or k8s://ADDRESS")
    add_settings(parser)
    cluster_mode.add_arguments(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--image", metavar="IMAGE", help="the pods' image, which has the packages (Kubernetes)")
    where.add_argument("--installed", action="store_true", help="executors have the packages: ship none")
    parser.add_argument("--python", metavar="COMMAND", help="executors' Python (default: that of this version on PATH)")
    parser.add_argument("--once", action="store_true", help="stop when all that is there now is mirrored")
    parser.add_argument("--dry-run", action="store_true", help="print the command and run nothing")
    add_format(parser)
    add_log_format(parser)
    add_debug(parser)
    parser.set_defaults(command=execute, takes_rest=False)


def execute(args: argparse.Namespace) -> int:
    """Reads the file, packs, and hands over. Raises ConfigError, EnvironmentProblem and what the engine raises."""
    if args.deploy_mode == "cluster":
        return cluster_mode.execute(args)
    if args.secret is not None:
        raise ConfigError("`--secret` goes with `--deploy-mode cluster`: this command reads FILE itself.")
    config = parse_file(args)
    cluster = plan_for(config, args.master, [*_settings_for_packages(args, config), *args.conf])
    if not args.dry_run:
        return mirror(config, args, cluster)
    for warning in (*config.warnings, *warnings_of(config, cluster)):
        say(f"warning: {warning}")
    _show(args, cluster)
    return 0


def _settings_for_packages(args: argparse.Namespace, config: "MirrorConfig") -> Sequence[str]:
    """The settings by which executors get their Python and its packages."""
    from sparkmirror.spark.cluster import master_kind
    from sparkmirror.spark.packages import build_packages, executor_python

    master_kind(args.master)  # before minutes are spent on packing
    python = [f"spark.pyspark.python={args.python or executor_python()}"]
    if args.image:
        return [*python, f"spark.kubernetes.container.image={args.image}"]
    if args.installed:
        return python
    try:
        with working("Packing Python packages for the executors, once for their versions"):
            archives = build_packages(_extras(config))
    except OSError as problem:
        hint = "XDG_CACHE_HOME chooses another place; --installed ships nothing."
        raise EnvironmentProblem(f"The executors' packages could not be packed: {problem}", hint) from None
    return [
        *python,
        f"spark.archives={','.join(f'{path}#{name}' for name, path in archives.items())}",
        f"spark.executorEnv.PYTHONPATH={':'.join(f'./{name}' for name in archives)}",
    ]


def _extras(config: "MirrorConfig") -> frozenset[str]:
    """The optional packages that the executors' log-ins need."""
    clients = (cluster.client for flow in config.flows for cluster in (flow.source, flow.target))
    return frozenset({"msk"} if any(one.get("sasl.mechanism", "").strip().upper() == MSK for one in clients) else ())


def _show(args: argparse.Namespace, cluster: "SparkCluster") -> None:
    """The same as a command, secrets hidden."""
    from sparkmirror.config.secrets import redact
    from sparkmirror.spark.cluster import master_kind

    settings = redact(dict(sorted(cluster.settings.items())))
    caution = _SEEN.get(master_kind(cluster.master), "")
    if args.format == "json":
        print(json.dumps({"master": cluster.master, "settings": settings, "caution": caution}, indent=2))
        return
    once = ["--once"] if args.once else []
    flows = cluster_mode.flow_options(args)
    jars = [argument for one in args.jars for argument in ("--jars", one)]
    command = ["sparkmirror", "run", args.file, *args.more_files, *flows, *jars, *once, "--master", cluster.master]
    lines = [shlex.join(command), *(f"  --conf {shlex.quote(f'{key}={value}')}" for key, value in settings.items())]
    if caution:
        answer(f"# {caution}")
    answer(" \\\n".join(lines))
