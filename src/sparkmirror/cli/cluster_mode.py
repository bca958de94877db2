"""`--deploy-mode cluster` of `sparkmirror submit`: the driver is a pod of Kubernetes, made by Spark's own spark-submit.

FILE is read here to plan executors; the pod reads it from a Secret. `--dry-run` prints a shell script that makes the
Secret, the driver's account and the pod. Called by `cli.submit`.
"""

import argparse
import json
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from sparkmirror.cli.file import parse_file
from sparkmirror.cli.output import answer, say, working
from sparkmirror.cli.run import plan_for, warnings_of
from sparkmirror.errors import ConfigError
from sparkmirror.shown import hide_user_info

if TYPE_CHECKING:
    from sparkmirror.spark.driver_pod import DriverPod

CAUTION = "Run on a pretended Kubernetes only: SparkMirror's tests have no real one."
_PYTHON = "python3"
"""Driver and executors are of one image: it is the version there that counts, and not the one here."""
_WAIT = "spark.kubernetes.submission.waitAppCompletion"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--deploy-mode` and `--secret`."""
    parser.add_argument(
        "--deploy-mode",
        choices=("client", "cluster"),
        default="client",
        help="where the driver runs: client is this command, cluster is a pod on Kubernetes (default: client)",
    )
    parser.add_argument(
        "--secret",
        metavar="NAME",
        help="the Secret of Kubernetes that holds FILE in cluster mode (default: sparkmirror)",
    )


def execute(args: argparse.Namespace) -> int:
    """Plans the pod, and shows it or has Spark's client make it. Raises ConfigError, EnvironmentProblem, and
    SparkMirrorError where the client fails."""
    pod = _plan(args)
    if args.dry_run:
        _show(args, pod)
        return 0
    return _submit(args, pod)


def _plan(args: argparse.Namespace) -> "DriverPod":
    from sparkmirror.spark.driver_pod import SECRET, Ports, plan_driver, refuse_cluster_mode

    refuse_cluster_mode(args.master)
    _refuse_files(args)
    config = parse_file(args)
    image = [f"spark.kubernetes.container.image={args.image}"] if args.image else []
    cluster = plan_for(config, args.master, [f"spark.pyspark.python={args.python or _PYTHON}", *image, *args.conf])
    for warning in (*config.warnings, *warnings_of(config, cluster)):
        say(f"warning: {warning}")
    secret = SECRET if args.secret is None else args.secret
    page, probes = (one.port if one else 0 for one in (config.status.listen, config.status.probes_listen))
    return plan_driver(cluster, secret, run_options(args), Ports(page, probes))


def _refuse_files(args: argparse.Namespace) -> None:
    """Raises ConfigError for files that would not be in the pod."""
    from sparkmirror.config.formats.files import YAML_ENDS

    if args.installed:
        raise ConfigError("`--installed` goes with machines: in cluster mode all packages are in the image.")
    if args.jars:
        hint = "Put them into the image, and their directory there into plugin.path."
        raise ConfigError("`--jars` names files of this machine, which the driver's pod does not have.", hint)
    if args.consumer_and_producer or args.more_files or args.secrets_dir or args.file.endswith(YAML_ENDS):
        hint = "`sparkmirror config convert` makes one of other forms."
        raise ConfigError("In cluster mode FILE is one properties file, which a Secret holds.", hint)


def run_options(args: argparse.Namespace) -> list[str]:
    """What the person asked for, as options of `sparkmirror run`."""
    return [
        *flow_options(args),
        *(["--once"] if args.once else []),
        *(["--log-format", args.log_format] if args.log_format else []),
        *(["--debug"] if args.debug else []),
    ]


def flow_options(args: argparse.Namespace) -> list[str]:
    """Which flows, as options of `sparkmirror run`."""
    clusters = ["--clusters", *args.clusters] if args.clusters else []
    return [*clusters, *(word for name in args.flow for word in ("--flow", name))]


def _submit(args: argparse.Namespace, pod: "DriverPod") -> int:
    """The driver's own exit status where Spark's client waited for its end."""
    from sparkmirror.spark.driver_pod import POD_NAME
    from sparkmirror.spark.spark_submit import submit_driver

    name = pod.settings.get(POD_NAME, f"sparkmirror-{token_hex(4)}-driver")
    named = replace(pod, settings={**pod.settings, POD_NAME: name})
    waits = pod.settings[_WAIT] == "true"
    with tempfile.TemporaryDirectory(prefix="sparkmirror-submit-") as directory, working("Spark's client is at work"):
        status = submit_driver(named, Path(directory), say if args.debug or waits else None)
    if args.format == "json":
        print(json.dumps({"namespace": pod.namespace, "pod": name, "secret": pod.secret}, indent=2))
    elif waits:
        answer(f"The pod {name} in the namespace {pod.namespace} has ended with status {status}.")
    else:
        place = f"kubectl --namespace {pod.namespace}"
        answer(
            f"The driver is the pod {name} in the namespace {pod.namespace}. Its file is in the Secret {pod.secret}."
        )
        answer(f"{place} logs --follow {name}  # what it says")
        answer(f"{place} delete pod {name}  # stops it, and its executors with it")
    return status


def _show(args: argparse.Namespace, pod: "DriverPod") -> None:
    """The generated files, as JSON or as a script that makes all of them."""
    from sparkmirror.spark.driver_pod import account_manifest
    from sparkmirror.spark.spark_submit import template_name

    files = {template_name(key): text for key, text in pod.templates.items()}
    words = pod.words({key: template_name(key) for key in pod.templates})
    if args.format == "json":
        shown = {"files": {"account.yaml": account_manifest(pod), **files}, "caution": CAUTION}
        print(json.dumps({"command": ["spark-submit", *map(hide_user_info, words)], **shown}, indent=2))
        return
    answer(_script(args.file, pod, files, list(map(hide_user_info, words))))


def _script(file: str, pod: "DriverPod", files: dict[str, str], words: list[str]) -> str:
    from sparkmirror.spark.driver_pod import KEY, account_manifest

    kubectl = f"kubectl --namespace {shlex.quote(pod.namespace)}"
    return "\n".join(
        [
            "#!/bin/sh",
            f"# {CAUTION}",
            "set -eu",
            "# Once: the file and its passwords, which stand in this Secret alone.",
            f"{kubectl} create secret generic {pod.secret} --from-file={KEY}={shlex.quote(file)}",
            "# Once: the account of drivers, which may do what Spark does with executors' pods.",
            f"{kubectl} apply --filename=- <<'END'",
            f"{account_manifest(pod)}END",
            *(line for name, text in files.items() for line in (f"cat > {name} <<'END'", f"{text}END")),
            "# Without spark-defaults.conf and Hadoop's files: Spark would put all of them into config maps.",
            "SPARK_CONF_DIR=$(mktemp -d)",
            "export SPARK_CONF_DIR",
            "unset HADOOP_CONF_DIR",
            f"spark-submit {_lines(words)}",
        ]
    )


def _lines(words: list[str]) -> str:
    """Each option on a line with its value."""
    lines: list[list[str]] = []
    for word in words:
        if not lines or word.startswith(("--", "local:")):
            lines.append([])
        lines[-1].append(word)
    return " \\\n  ".join(map(shlex.join, lines))
