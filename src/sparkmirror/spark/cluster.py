"""Spark's settings for a cluster, and how many tasks each flow may run at once on its slots; pure.

Called by `cli.run`, `cli.submit`, `cli.cluster_mode`, `verify.job` and `runtime.executors`. The driver is where the
command runs (client mode): its planner, its jobs and its Kafka clients are there. In cluster mode that is a pod, with
the same settings (`spark/driver_pod.py`). Executors run nothing but the two Python ends of each task, so their JVM is
small and most of their memory is Python's.

A Spark task holds its slot for a whole epoch, so one task more than there are slots would wait for ten minutes, and its
partitions with it. So a flow runs as many tasks as it gets slots; each of them then mirrors more partitions.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ConfigError

_TASK_ATTEMPTS = 8

_MIB = 1 << 20
_PYTHON_MIB = 384
"""Memory of an executor: the JVM beyond its heap, and the process from which its Python workers are forked."""
_TASK_MIB = 192
"""Memory of a task beside its ring: the part that its two Python workers do not share."""
_CORES = 2
_FORGOTTEN = "1h"
"""Without it the executors that are lost over months would add up until YARN or Kubernetes ends the application."""
KEY_VARIABLE = "_SPARK_AUTH_SECRET"
"""The environment variable in which Spark's daemons find the secret of their cluster."""
_SECRET = re.compile(r"(?i)secret|password|passphrase|token|access[.]?key|credential|jaas")
_NO_SECRET = re.compile(r"(?i)(file|enabled|provider|bitlength|\.secrets\.[^.]+|\.secretKeyRef\.[^.]+)$")
"""Keys that look like secrets and name a file, a switch, a size, or a secret of Kubernetes."""
_SECRET_HINT = (
    "Write it into `spark-defaults.conf` in the directory that SPARK_CONF_DIR names, a file that only you may read; "
    "spark.authenticate.secret may also stand in the environment, as _SPARK_AUTH_SECRET."
)
_OPEN_SETTINGS = (
    "spark.app.name", "spark.ui.enabled", "spark.driver.memory", "spark.sql.streaming.stopTimeout",
    "spark.python.unix.domain.socket.enabled", "spark.cleaner.periodicGC.interval",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A master, and Spark's settings for it; `settings` may hold secrets."""

    master: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_here(self) -> bool:
        """Whether the master is this machine."""
        return master_kind(self.master) == "local"


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of a mirror on a cluster: its tasks, and the memory that one task may lease."""

    tasks: int
    ring_bytes: int


def plan_cluster(
    master: str,
    own: Mapping[str, str],
    fixed: Mapping[str, str],
    demand: Demand | None,
    *,
    carries_secrets: bool = False,
) -> SparkCluster:
    """The settings for `master`: a person's `own` first, then what the `demand` asks for; None for work without one.

    `fixed` are settings that a mirror relies on. Where the driver `carries_secrets` to executors, messages between them
    are encrypted. Raises ConfigError.
    """
    kind = master_kind(master)
    _refuse(master, own, fixed)
    if kind == "local":
        return SparkCluster(master, dict(own))
    settings = {
        "spark.executor.memory": "512m",
        "spark.task.maxFailures": str(_TASK_ATTEMPTS),
        **(_sized(kind, own, demand) if demand is not None else {}),
        **(_encrypted() if carries_secrets or kind in ("yarn", "k8s") else {}),
    }
    if kind == "k8s" and "spark.kubernetes.container.image" not in own:
        raise ConfigError(
            "Executors on Kubernetes need an image with Spark, and none is named.",
            "Add `--image IMAGE`; deploy/container/Containerfile makes one.",
        )
    return SparkCluster(master, {**settings, **own})


def master_kind(master: str) -> str:
    """`local`, `standalone`, `yarn` or `k8s`. Raises ConfigError."""
    if master.startswith("local"):
        return "local"
    if master.startswith("spark://"):
        return "standalone"
    if master == "yarn":
        return "yarn"
    if master.startswith("k8s://"):
        return "k8s"
    hint = "Spark knows spark://HOST:PORT, yarn, k8s://HTTPS-ADDRESS, and local[N] for this machine."
    raise ConfigError(f"`{master}` is no Spark master.", hint)


def count_slots(flows: Iterable[FlowConfig]) -> int:
    """The Spark tasks of the flows at once on one machine: those that mirror, and one for each table of a database."""
    return sum(flow.tasks_max + len(flow.transforms.databases) for flow in flows)


def local_master(tasks: int) -> str:
    """This machine, with a slot for each task."""
    return f"local[{max(tasks, 1)},{_TASK_ATTEMPTS}]"


def needs_encryption(cluster: SparkCluster) -> bool:
    """Whether messages from the driver to executors, the file included, would cross the network unencrypted."""
    on = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
    is_hidden = any(cluster.settings.get(key, "").lower() == "true" for key in on)
    return not cluster.is_here and not is_hidden


def needs_key(cluster: SparkCluster) -> bool:
    """Whether the driver must be given the secret that the cluster's daemons have."""
    return (
        master_kind(cluster.master) == "standalone"
        and cluster.settings.get("spark.authenticate", "").lower() == "true"
        and cluster.settings.get("spark.ssl.rpc.enabled", "").lower() != "true"
    )


def read_settings(pairs: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE` as users write them after `--conf`. Raises ConfigError, for secrets too: other users can read them
    there."""
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip().startswith("spark."):
            raise ConfigError(f"`--conf {key}`: a Spark setting is written spark.KEY=VALUE.")
        if _SECRET.search(key) and not _NO_SECRET.search(key.strip()):
            raise ConfigError(f"`--conf {key.strip()}`: a secret in a command line is seen by all users.", _SECRET_HINT)
        settings[key.strip()] = value.strip()
    return settings


def _refuse(master: str, own: Mapping[str, str], fixed: Mapping[str, str]) -> None:
    for key in own:
        if key in fixed and key not in _OPEN_SETTINGS and own[key] != fixed[key]:
            raise ConfigError(f"`--conf {key}`: a mirror rests on {key}={fixed[key]}, which cannot be changed.")
    if own.get("spark.submit.deployMode", "client") != "client":
        hint = "`sparkmirror submit FILE --deploy-mode cluster` has Kubernetes run it in a pod."
        raise ConfigError("The driver is this command: spark.submit.deployMode cannot be cluster.", hint)
    if own.get("spark.master", master) != master:
        raise ConfigError(f"`--conf spark.master` differs from `--master {master}`.", "Leave it out.")


def _sized(kind: str, own: Mapping[str, str], demand: Demand) -> dict[str, str]:
    """As many executors as the tasks need, for the whole run, because the number of a mirror's tasks is constant.

    With dynamic allocation Spark would otherwise wait for tasks before it asks for executors, and the mirror for
    executors before it begins tasks. A standalone cluster gives an executor all cores of its worker.
    """
    if kind == "standalone":
        cores = _whole(own, "spark.executor.cores", 1)
        limit = {"spark.cores.max": str(_ceil(demand.tasks, cores) * cores)}
        return limit | _kept(own, _ceil(demand.tasks, cores))
    cores = _whole(own, "spark.executor.cores", min(_CORES, demand.tasks))
    python_mib = _PYTHON_MIB + cores * (_TASK_MIB + 2 * _ceil(demand.ring_bytes, _MIB))
    count = _ceil(demand.tasks, cores)
    return {
        "spark.executor.cores": str(cores),
        "spark.executor.instances": str(count),
        "spark.executor.memoryOverhead": f"{python_mib}m",
        "spark.executor.failuresValidityInterval": _FORGOTTEN,
        **_kept(own, count),
    }


def _kept(own: Mapping[str, str], executors: int) -> dict[str, str]:
    """Has no effect unless dynamic allocation is on, which a cluster's own defaults may have done."""
    executors = min(executors, _whole(own, "spark.dynamicAllocation.maxExecutors", executors))
    return {"spark.dynamicAllocation.minExecutors": str(executors)}


def _encrypted() -> dict[str, str]:
    """YARN and Kubernetes hand the key to executors by themselves; a standalone cluster's daemons must have it."""
    return {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


def _whole(own: Mapping[str, str], key: str, default: int) -> int:
    text = own.get(key, str(default))
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ConfigError(f"`--conf {key}={text}`: a whole number from 1 on is expected.")
    return int(text)


def _ceil(number: int, of: int) -> int:
    return -(-number // of)


TURN_SECONDS = 10
"""How long an epoch lasts with more flows than slots. Spark gives a free slot to the job that waits longest."""
STEADY_SECONDS = 10.0
"""A lost executor is replaced in some five seconds; only what lasts longer is worth an epoch's end."""


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """By flow, in the order of the file, the number of its tasks; and the length of a turn, 0 where all run at once."""

    tasks: tuple[int, ...]
    turn_seconds: int = 0


def plan_slots(wanted: Sequence[int], slots: int) -> SlotPlan:
    """Gives each flow one slot, then one more at a time to the flow that has the smallest part of what it wants.

    With fewer slots than flows each runs one task, in turns.
    """
    tasks = [min(count, 1) for count in wanted]
    for _ in range(slots - sum(tasks)):
        short = [flow for flow, count in enumerate(wanted) if tasks[flow] < count]
        if not short:
            break
        tasks[min(short, key=lambda flow: (tasks[flow] / wanted[flow], flow))] += 1
    return SlotPlan(tuple(tasks), TURN_SECONDS if slots < sum(tasks) else 0)


class Steady:
    """A changing number's last value that lasted for `STEADY_SECONDS`, so that a short loss has no effect."""

    def __init__(self, value: int) -> None:
        self.value = value
        self._seen = value
        self._since = 0.0

    def see(self, value: int, now: float) -> int:
        """`now` is monotonic, in seconds."""
        if value != self._seen:
            self._seen, self._since = value, now
        if now - self._since >= STEADY_SECONDS:
            self.value = self._seen
        return self.value
