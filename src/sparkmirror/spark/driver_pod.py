"""What Spark's cluster mode on Kubernetes makes a driver's pod of: settings, pod templates, the driver's account; pure.

Called by `cli.cluster_mode`. All of it stands in command lines, in a config map and in the specifications of pods,
which many people may read. So the mirror's file is not among it: the pod reads it from a Secret of Kubernetes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sparkmirror.errors import ConfigError
from sparkmirror.spark.cluster import SparkCluster, master_kind

MAIN: Final = "local:///opt/sparkmirror/driver.py"
"""A file of the image: `local:` has Spark's client leave it alone."""
KEY: Final = "mirror.properties"
"""The name of the mirror's file in the Secret."""
_PLACE: Final = "/etc/sparkmirror"
FILE: Final = f"{_PLACE}/{KEY}"
SECRET: Final = "sparkmirror"
ACCOUNT: Final = "sparkmirror-on-spark-driver"
POD_NAME: Final = "spark.kubernetes.driver.pod.name"
_DRIVER_TEMPLATE, _EXECUTOR_TEMPLATE = (f"spark.kubernetes.{who}.podTemplateFile" for who in ("driver", "executor"))
_NAMESPACE: Final = "spark.kubernetes.namespace"
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.app.name": "sparkmirror",
    "spark.driver.memory": "512m",
    "spark.driver.memoryOverhead": "1536m",
    "spark.driver.port": "7078",
    "spark.driver.blockManager.port": "7079",
    "spark.blockManager.port": "7080",
    "spark.kubernetes.authenticate.driver.serviceAccountName": ACCOUNT,
    "spark.kubernetes.driver.service.deleteOnTermination": "false",
    "spark.kubernetes.driver.service.publishNotReadyAddresses": "true",
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
    "spark.kubernetes.submission.waitAppCompletion": "false",
}
"""The ports are those that the network policies of deploy/kubernetes/on-spark.yaml name. Kubernetes itself removes the
driver's service with the driver, so the driver needs rights to pods and config maps alone. Executors find the driver by
the service before it is ready: it is ready once they run its tasks."""
_OF_SPARK: Final = ("spark.driver.host", "spark.driver.bindAddress")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class DriverPod:
    """A driver that is to run in a pod: Spark's settings, the arguments of `sparkmirror run`, and the Secret of its
    file. `templates` are the texts of pod templates, by the setting that names the file."""

    master: str
    settings: Mapping[str, str]
    arguments: Sequence[str]
    secret: str
    templates: Mapping[str, str]

    @property
    def namespace(self) -> str:
        return self.settings.get(_NAMESPACE, "default")

    def words(self, files: Mapping[str, str]) -> list[str]:
        """The arguments of Spark's `spark-submit`; `files` are the paths of the templates, by setting."""
        settings = sorted({**self.settings, **files}.items())
        options = [word for key, value in settings for word in ("--conf", f"{key}={value}")]
        return ["--master", self.master, "--deploy-mode", "cluster", *options, MAIN, *self.arguments]


@dataclass(frozen=True, slots=True)
class Ports:
    """Those of `status.listen` and `status.probes.listen`; 0 without."""

    page: int = 0
    probes: int = 0


def plan_driver(cluster: SparkCluster, secret: str, options: Sequence[str], ports: Ports) -> DriverPod:
    """`cluster` is planned for a driver outside of it; `options` are those of `sparkmirror run`. Raises ConfigError."""
    if not _NAME.fullmatch(secret):
        hint = "Lower-case letters, digits and `-`, at most 63 of them."
        raise ConfigError(f"`--secret {secret}` is no name of a Secret that Spark can mount.", hint)
    for key in _OF_SPARK:
        if key in cluster.settings:
            raise ConfigError(f"`--conf {key}`: in cluster mode Spark itself sets it, to the driver's service and pod.")
    settings = {**_SETTINGS, f"spark.kubernetes.driver.secrets.{secret}": _PLACE, **cluster.settings}
    made = {_DRIVER_TEMPLATE: driver_template(ports), _EXECUTOR_TEMPLATE: EXECUTOR_TEMPLATE}
    templates = {key: text for key, text in made.items() if key not in cluster.settings}
    return DriverPod(cluster.master, settings, [FILE, *options], secret, templates)


def refuse_cluster_mode(master: str) -> None:
    """Raises ConfigError where the driver cannot run in the cluster."""
    kind = master_kind(master)
    reasons = {
        "local": "`--master local` is this machine: there is no cluster for the driver.",
        "standalone": "A standalone cluster of Spark runs no Python driver: Spark itself refuses it.",
        "yarn": "On YARN there is no Secret from which a driver could read FILE and its passwords.",
    }
    if kind in reasons:
        hint = "Leave --deploy-mode out and run this command in the cluster, on a machine beside the brokers."
        raise ConfigError(f"{reasons[kind]} `--deploy-mode cluster` is for Kubernetes.", hint)


_POD: Final = """\
apiVersion: v1
kind: Pod
metadata:
  labels: {{app.kubernetes.io/name: {label}}}
spec:
  automountServiceAccountToken: {asks}
  enableServiceLinks: false
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile: {{type: RuntimeDefault}}
  containers:
    - name: {role}
{more}      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {{drop: [ALL]}}
      volumeMounts:
        - {{name: scratch, mountPath: /tmp}}
  volumes:
    - name: scratch
      emptyDir: {{}}
"""
EXECUTOR_TEMPLATE: Final = _POD.format(label="sparkmirror-on-spark-executor", asks="false", role="executor", more="")
"""As in deploy/kubernetes/on-spark.yaml; a test compares. Spark adds the image, the command and the resources."""


def driver_template(ports: Ports) -> str:
    """The driver's pod. Nothing starts it again, so there is no probe whether it is alive."""
    named = {name: port for name, port in (("http", ports.page), ("probes", ports.probes)) if port}
    lines = (
        ["ports:", *(f"  - {{name: {name}, containerPort: {port}}}" for name, port in named.items())] if named else []
    )
    if ports.probes:
        lines += ["readinessProbe:", "  httpGet: {path: /readyz, port: probes}", "  periodSeconds: 5"]
    more = "".join(f"      {line}\n" for line in lines)
    return _POD.format(label="sparkmirror-on-spark", asks="true", role="driver", more=more)


_ACCOUNT: Final = """\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {account}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {account}
rules:
  - apiGroups: [""]
    resources: [pods]
    verbs: [get, list, watch, create, delete, deletecollection]
  - apiGroups: [""]
    resources: [configmaps]
    verbs: [create, deletecollection]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {account}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {account}}}
subjects:
  - {{kind: ServiceAccount, name: {account}, namespace: {namespace}}}
"""


def account_manifest(pod: DriverPod) -> str:
    """The driver's account and its rights: what it does with its executors' pods, and no more."""
    account = pod.settings["spark.kubernetes.authenticate.driver.serviceAccountName"]
    return _ACCOUNT.format(account=account, namespace=pod.namespace)
