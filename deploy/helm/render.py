"""Writes deploy/kubernetes/*.yaml: the chart with its own values, for people who do without Helm.

`python deploy/helm/render.py` writes them. With `--check` it ends with status 1 where they are not what the chart
gives, and renders other values into the directory that `--to` names, to be compared with Kubernetes' schemas: so `make
manifests` calls it. Needs `helm` on the path.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CHART: Final = Path(__file__).with_name("sparkmirror")
MANIFESTS: Final = Path(__file__).parents[1] / "kubernetes"
_SECRET: Final = """\
# The page's token is a secret of yours, and none is in this file. Make one that nobody can guess, once:
#   printf 'token = %s\\n' "$(openssl rand -hex 24)" |
#     kubectl create secret generic {name} --from-file=secrets.properties=/dev/stdin
"""
_MADE: Final = "# Rendered from deploy/helm/sparkmirror by deploy/helm/render.py: change the chart, not this file.\n"
HEADS: Final[Mapping[str, str]] = {
    "sparkmirror": """\
# Two processes that share the flows of one file. Change the addresses, the namespace of Prometheus and the ports of
# your brokers, then: kubectl apply -f deploy/kubernetes/sparkmirror.yaml
# A changed file is taken up by a rolling restart: kubectl rollout restart deployment/sparkmirror (docs/processes.md).
"""
    + _SECRET.format(name="sparkmirror"),
    "on-spark": """\
# One driver whose tasks run in executors' pods, which Spark makes: for flows that one machine cannot carry. Change the
# addresses, the namespaces and the ports of your brokers, then: kubectl apply -f deploy/kubernetes/on-spark.yaml
# tasks.max says how many tasks there are; two tasks share an executor (spark.executor.cores).
"""
    + _SECRET.format(name="sparkmirror-on-spark"),
}
_RELEASES: Final = {"sparkmirror": ("sparkmirror", ()), "on-spark": ("sparkmirror-on-spark", ("onSpark.enabled=true",))}
VARIANTS: Final[Mapping[str, tuple[str, ...]]] = {
    "one-process": ("replicas=1", "networkPolicy.enabled=false"),
    "digest": (f"image.digest=sha256:{'0' * 64}", "image.repository=registry.example.org/sparkmirror"),
    "settings": (
        "secretName=mine",
        "podAnnotations.team=data",
        "nodeSelector.pool=mirrors",
        "image.pullSecrets[0].name=pull",
        "env[0].name=AWS_REGION",
        "env[0].value=eu-central-1",
        "tolerations[0].operator=Exists",
    ),
    "spark-options": ("onSpark.enabled=true", "onSpark.args[0]=--conf=spark.executor.cores=4", "env[0].name=A"),
}
"""Values that are set, by the name of what is rendered with them."""


def render(release: str, values: tuple[str, ...], kubernetes: str) -> str:
    """What `helm template` gives, without its remarks about files. Raises CalledProcessError."""
    options = [option for value in values for option in ("--set", value)]
    command = [
        "helm",
        "template",
        release,
        str(CHART),
        "--namespace",
        "default",
        "--kube-version",
        kubernetes,
        *options,
    ]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.sub(r"^# Source: .*\n", "", told, flags=re.MULTILINE)


def manifest(name: str, kubernetes: str) -> str:
    """The text of a file of deploy/kubernetes."""
    release, values = _RELEASES[name]
    return HEADS[name] + _MADE + render(release, values, kubernetes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubernetes", default="1.37.0", help="version that the chart is rendered for")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where a file differs")
    parser.add_argument("--to", type=Path, help="with --check: where manifests with other values go")
    args = parser.parse_args()
    differs = False
    for name in _RELEASES:
        file, text = MANIFESTS / f"{name}.yaml", manifest(name, args.kubernetes)
        if not args.check:
            file.write_text(text)
        elif file.read_text() != text:
            print(f"{file.name} is not what the chart gives: run `python deploy/helm/render.py`.", file=sys.stderr)
            differs = True
    if args.to is not None:
        args.to.mkdir(parents=True, exist_ok=True)
        for name, values in VARIANTS.items():
            (args.to / f"{name}.yaml").write_text(render("mirror", values, args.kubernetes))
    return int(differs)


if __name__ == "__main__":
    raise SystemExit(main())
