"""Who takes part, and how each is started: a command line, and a properties file where it needs one.

Each run has a source alias of its own, hence target topics and positions of its own: no run continues another.
Called by `bench.plan` and `bench.running`; only `prepare` does I/O.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.brokers import JVM_OPTIONS
from bench.loading import create_topic
from bench.workloads import PARTITIONS
from sparkmirror.java import find_java
from sparkmirror.testing.jars import MIRROR_MAKER, class_path
from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.process import JavaProgram

TRANSFORMATIONS = Path(__file__).with_name("smt")
MERGE_ALL = Path(__file__).with_name("merge_all")
BARE_LOOP = Path(__file__).with_name("bare_loop.py")
MIRROR_MAKER_TASKS = 4
SPARK_TASKS = 2
MIRROR_MAKER_CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"


@dataclass(frozen=True, slots=True)
class Job:
    """One run: copy `topic` under the source alias `alias`; `codec` is what the source's batches have.

    `far` is `source` or `target` where that side is reached over the long link.
    `settings` are lines for SparkMirror alone, `smt` for a MirrorMaker that changes records. `routed` stands behind the
    target topic's name. `tasks` is `tasks.max`; 0 stands for what the contestant has elsewhere.
    With several `flows` each has a source alias and a topic of its own, all to one target: `numbered` names them.
    `counted` is the file in which the bare loop counts its answers, in steady mode.
    """

    source: KafkaCluster
    target: KafkaCluster
    alias: str
    topic: str
    codec: str = "none"
    tls: bool = False
    far: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    smt: tuple[tuple[str, str], ...] = ()
    routed: str = ""
    tasks: int = 0
    flows: int = 1
    partitions: int = PARTITIONS
    counted: Path | None = None

    @property
    def numbered(self) -> tuple[tuple[str, str], ...]:
        """Source alias and topic of each flow."""
        if self.flows == 1:
            return ((self.alias, self.topic),)
        return tuple((f"{self.alias}-{number}", f"{self.topic}-{number}") for number in range(self.flows))

    @property
    def target_topic(self) -> str:
        return f"{self.alias}.{self.topic}{self.routed}"

    @property
    def replication_factor(self) -> int:
        return min(3, self.target.size)


@dataclass(frozen=True, slots=True)
class Contestant:
    """`prepare(job, directory)` makes what the run needs and returns its command line."""

    name: str
    title: str
    prepare: Callable[[Job, Path], list[str]]


def render_properties(values: Mapping[str, object]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in values.items())


def common_properties(job: Job) -> dict[str, object]:
    """What both mirrors are told: two clusters, one flow, one topic; or several flows from one source, as of many."""
    values: dict[str, object] = {"clusters": ", ".join([*(alias for alias, _ in job.numbered), "t"])}
    sources = [("source", alias, job.source) for alias, _ in job.numbered]
    for side, alias, cluster in (*sources, ("target", "t", job.target)):
        near = cluster.bootstrap_servers_tls if job.tls else cluster.bootstrap_servers
        values[f"{alias}.bootstrap.servers"] = cluster.bootstrap_servers_far if job.far == side else near
        if job.tls:
            values[f"{alias}.security.protocol"] = "SSL"
            values[f"{alias}.ssl.truststore.type"] = "PEM"
            values[f"{alias}.ssl.truststore.location"] = cluster.ca_file
    for alias, topic in job.numbered:
        values |= {f"{alias}->t.enabled": "true", f"{alias}->t.topics": topic}
    if job.flows > 1:  # each of a hundred pairs of clusters would have them, mirrored or not
        values["emit.heartbeats.enabled"] = "false"
    return values | {
        "replication.factor": job.replication_factor,
        "offset.storage.replication.factor": job.replication_factor,
    }


WITHOUT_JOBS: Mapping[str, object] = {
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "emit.offset-syncs.enabled": "false",
    "refresh.groups.enabled": "false",
    "sync.topic.acls.enabled": "false",
}
"""A mirror that copies records, and does nothing beside."""
TOPICS_OF_JOBS: Final = ("offset-syncs", "checkpoints", "heartbeats")
"""Three replicas each, if nothing else is said: MirrorMaker 2 cannot create them on one broker. It refuses to hear of
them where their jobs are off."""


def mirror_maker_properties(job: Job, extra: Mapping[str, object]) -> dict[str, object]:
    """MirrorMaker 2 with its defaults."""
    return {
        **common_properties(job),
        "tasks.max": job.tasks or MIRROR_MAKER_TASKS,
        **{f"t->{alias}.enabled": "false" for alias, _ in job.numbered},
        "config.storage.replication.factor": job.replication_factor,
        "status.storage.replication.factor": job.replication_factor,
        **extra,
    }


def tuning(job: Job) -> dict[str, object]:
    """What an experienced operator sets for throughput; the codec is the source's, else MirrorMaker decompresses."""
    consumer, producer = f"{job.alias}.consumer", "t.producer"
    return {
        f"{consumer}.max.poll.records": 20_000,
        f"{consumer}.max.partition.fetch.bytes": 4 << 20,
        f"{consumer}.fetch.max.bytes": 64 << 20,
        f"{producer}.batch.size": 512 << 10,
        f"{producer}.linger.ms": 50,
        f"{producer}.max.request.size": 4 << 20,
        f"{producer}.buffer.memory": 64 << 20,
        f"{producer}.compression.type": job.codec,
    }


def _mirror_maker(job: Job, directory: Path, extra: Mapping[str, object], plugins: Sequence[Path] = ()) -> list[str]:
    file = directory / f"{job.alias}.properties"
    file.write_text(render_properties(mirror_maker_properties(job, extra)))
    options = ("-Xms256M", *JVM_OPTIONS)
    path = ":".join([class_path(MIRROR_MAKER), *map(str, plugins)])
    return JavaProgram("MirrorMaker 2", MIRROR_MAKER_CLASS, path, [str(file)], options, heap_mb=2048).command()


def _mirror_maker_default(job: Job, directory: Path) -> list[str]:
    """Without its jobs, in its favour: SparkMirror's are on."""
    return _mirror_maker(job, directory, WITHOUT_JOBS)


def _mirror_maker_with_jobs(job: Job, directory: Path) -> list[str]:
    """As a user runs it who has written two clusters and a flow."""
    factors = {f"{topic}.topic.replication.factor": job.replication_factor for topic in TOPICS_OF_JOBS}
    return _mirror_maker(job, directory, factors)


def _mirror_maker_tuned(job: Job, directory: Path) -> list[str]:
    return _mirror_maker(job, directory, {**WITHOUT_JOBS, **tuning(job)})


def _mirror_maker_changing(job: Job, directory: Path) -> list[str]:
    """Tuned, and told to do what SparkMirror's transforms do."""
    _create_routed(job)
    lines = {f"{job.alias}->t.{key}": value for key, value in job.smt}
    changed = {**WITHOUT_JOBS, **tuning(job), **lines}
    return _mirror_maker(job, directory, changed, [_compile(directory / "smt")])


def _compile(directory: Path) -> Path:
    """The transformations of `bench/smt`, as a user would compile them. Raises CalledProcessError."""
    compiler = [str(find_java()), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    sources = map(str, sorted(TRANSFORMATIONS.glob("*.java")))
    command = [*compiler, "-cp", class_path(MIRROR_MAKER), "-d", str(directory), *sources]
    subprocess.run(command, check=True, timeout=120)
    return directory


def _create_routed(job: Job) -> None:
    """MirrorMaker creates no topic but the mirrored one."""
    if job.routed:
        create_topic(job.target, job.target_topic, job.replication_factor, job.partitions)


def _bare(job: Job, _directory: Path) -> list[str]:
    create_topic(job.target, job.target_topic, job.replication_factor, job.partitions)
    servers = (job.source.bootstrap_servers, job.target.bootstrap_servers)
    counted = [str(job.counted)] if job.counted else []
    return [sys.executable, "-P", str(BARE_LOOP), *servers, job.topic, job.target_topic, *counted]


def _spark(job: Job, directory: Path, extra: Mapping[str, object] | None = None) -> list[str]:
    _create_routed(job)
    file = directory / f"{job.alias}.properties"
    file.write_text(
        render_properties(
            {**common_properties(job), "tasks.max": job.tasks or SPARK_TASKS, **dict(job.settings), **(extra or {})}
        )
    )
    return [str(Path(sys.executable).with_name("sparkmirror")), "run", str(file)]


def _spark_inline(job: Job, directory: Path) -> list[str]:
    return _spark(job, directory, {"lease.ring.bytes": 0})


def _spark_apart(job: Job, directory: Path) -> list[str]:
    """No two batches are smaller together than this."""
    return _spark(job, directory, {"t.producer.batch.size": 1})


def _spark_merged(job: Job, directory: Path) -> list[str]:
    """No key says so: what a batch costs that passes is set so high that merging always pays."""
    return ["env", f"PYTHONPATH={MERGE_ALL}", *_spark(job, directory, {})]


def _spark_where(job: Job, directory: Path) -> list[str]:
    """Each record is a row of Spark's, and all of them stay."""
    return _spark(job, directory, {"transforms.where": "offset >= 0"})


def _spark_exactly_once(job: Job, directory: Path) -> list[str]:
    return _spark(job, directory, {"t.exactly.once.source.support": "enabled"})


def _spark_without_jobs(job: Job, directory: Path) -> list[str]:
    """As MirrorMaker 2 runs here."""
    return _spark(job, directory, WITHOUT_JOBS)


def _spark_kept(job: Job, directory: Path) -> list[str]:
    return _spark(job, directory, {"preserve.offsets.enabled": "true"})


CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant("mm2-default", "MirrorMaker 2, defaults", _mirror_maker_default),
        Contestant("mm2-jobs", "MirrorMaker 2, defaults, with its jobs", _mirror_maker_with_jobs),
        Contestant("mm2-tuned", "MirrorMaker 2, tuned", _mirror_maker_tuned),
        Contestant("mm2-smt", "MirrorMaker 2, tuned, with transformations", _mirror_maker_changing),
        Contestant("bare", "bare loop", _bare),
        Contestant("spark", "SparkMirror", _spark),
        Contestant("spark-alone", "SparkMirror, without its jobs", _spark_without_jobs),
        Contestant("spark-apart", "SparkMirror, no batches merged", _spark_apart),
        Contestant("spark-merged", "SparkMirror, all batches merged", _spark_merged),
        Contestant("spark-where", "SparkMirror, with transforms", _spark_where),
        Contestant("eos", "SparkMirror, exactly-once", _spark_exactly_once),
        Contestant("spark-kept", "SparkMirror, identical offsets", _spark_kept),
    )
}
SPARK_INLINE = Contestant("spark-inline", "SparkMirror, inline payload", _spark_inline)
