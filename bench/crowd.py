"""Measures a mirror of very many partitions: start, memory, idling, what is new. Called by `bench.plan`."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from bench.brokers import admin_of, delete_topics, delete_traces
from bench.contestants import Contestant, Job
from bench.loading import create_topic
from bench.process_tree import own_cpu_seconds, pss_bytes, spent_between
from bench.running import Mirror
from sparkmirror.config.flow.flows import load_config
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.model import TopicPartition
from sparkmirror.sync.flow import sync_flow
from sparkmirror.testing.guard import Guard
from sparkmirror.testing.kafka import KafkaCluster

PREFIX = "crowd-"
_TOPICS_A_REQUEST = 50
_ARRIVAL_SECONDS_MAX = 300.0
_LOOK_SECONDS = 0.25
_SAMPLE_PARTITIONS = 100
"""Asking for the ends of ten thousand partitions four times a second would take half a core from what is watched."""
_SETTLE_SECONDS = 75.0
"""After a start the mirror reports each partition once, a hundred a second and task. Idle workers live a minute."""


@dataclass(frozen=True, slots=True)
class Size:
    """`topics` times `partitions`, a record in each partition; then `settle_seconds` and `idle_seconds` of nothing."""

    topics: int = 1000
    partitions: int = 10
    idle_seconds: float = 30.0
    settle_seconds: float = _SETTLE_SECONDS


QUICK = Size(50, 10, 5.0, 2.0)


@dataclass(frozen=True, slots=True)
class Crowd:
    """Seconds are from the command, or from the order that makes something new, to the record at the target.

    `first_seconds` and `all_seconds` are of a first start, when all remote topics have to be created, the first record
    being that of any of a hundred partitions; `again_seconds` of a second one.
    """

    size: Size
    first_seconds: float
    all_seconds: float
    again_seconds: float
    new_topic_seconds: float
    idle_cores: float
    idle_bytes: int
    sync_seconds: float | None = None
    """Of SparkMirror: one round of topics, settings and ACLs over connections of its own, beside the running mirror."""


def create_crowd(cluster: KafkaCluster, size: Size) -> None:
    """All topics, and a record in each partition. Raises what the cluster answers."""
    names = _names(size)
    with admin_of(cluster) as admin:
        for start in range(0, len(names), _TOPICS_A_REQUEST):
            wanted = [NewTopic(name, size.partitions, 1, {}) for name in names[start : start + _TOPICS_A_REQUEST]]
            for problem in admin.create_topics(wanted).values():
                if problem is not None:
                    raise problem
    _produce(cluster, names, size.partitions)


def delete_crowd(cluster: KafkaCluster) -> None:
    delete_topics(cluster, lambda name: name.startswith(PREFIX))


def measure_crowd(
    contestant: Contestant, job: Job, size: Size, directory: Path, guard: Guard, say: Callable[[str], None]
) -> Crowd:
    """Two starts over a crowd that is there; `job.topic` is a pattern of it. `say` is told how it goes, for minutes.

    Raises SparkMirrorError.
    """
    command = contestant.prepare(job, directory)
    log_file = directory / f"{job.alias}.log"
    every = [TopicPartition(f"{job.alias}.{name}", n) for name in _names(size) for n in range(size.partitions)]
    try:
        with admin_of(job.target) as admin:
            with Mirror(command, log_file, guard) as mirror:
                some = every[:: max(len(every) // _SAMPLE_PARTITIONS, 1)]
                first = _wait(admin, some, 1, mirror) - mirror.started_at
                say(f"first record after {first:.1f} s")
                _wait(admin, some, len(some), mirror)
                whole = _wait(admin, every, len(every), mirror) - mirror.started_at
                say(f"all records after {whole:.1f} s")
            _produce(job.source, _names(size)[:1], 1)
            with Mirror(command, log_file, guard) as mirror:
                again = _wait(admin, every[: size.partitions], size.partitions + 1, mirror) - mirror.started_at
                new = _new_topic_seconds(admin, job, mirror)
                say(f"second start {again:.1f} s, a new topic {new:.1f} s")
                time.sleep(size.settle_seconds)
                cpu, at = own_cpu_seconds(mirror.pid), time.monotonic()
                time.sleep(size.idle_seconds)
                idle = spent_between(cpu, own_cpu_seconds(mirror.pid)) / (time.monotonic() - at)
                memory = pss_bytes(mirror.pid)
                sync = _sync_seconds(Path(command[-1])) if Path(command[0]).name == "sparkmirror" else None
                return Crowd(size, first, whole, again, new, idle, memory, sync)
    finally:
        delete_traces(job.target, job.alias)


def _new_topic_seconds(admin: Admin, job: Job, mirror: Mirror) -> float:
    """A topic with a record in it appears at the source; how long until its record is at the target."""
    name = f"{PREFIX}new-{job.alias}"
    create_topic(job.source, name, partitions=1)
    _produce(job.source, [name], 1)
    began = time.monotonic()
    return _wait(admin, [TopicPartition(f"{job.alias}.{name}", 0)], 1, mirror) - began


def _sync_seconds(file: Path) -> float:
    (flow,) = load_config(file).flows
    began = time.monotonic()
    sync_flow(flow)
    return time.monotonic() - began


def _names(size: Size) -> list[str]:
    return [f"{PREFIX}{number:04}" for number in range(size.topics)]


def _produce(cluster: KafkaCluster, topics: list[str], partitions: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for topic in topics:
        for partition in range(partitions):
            producer.produce(topic, bytes(100), partition=partition)
    if left := producer.flush(120):
        raise SparkMirrorError(f"{left} of {len(topics) * partitions} records could not be produced.")


def _wait(admin: Admin, partitions: list[TopicPartition], records: int, mirror: Mirror) -> float:
    """When so many records were there (monotonic seconds)."""
    give_up_at = time.monotonic() + _ARRIVAL_SECONDS_MAX
    while (found := _count(admin, partitions)) < records:
        mirror.check()
        if time.monotonic() > give_up_at:
            raise SparkMirrorError(f"Only {found} of {records} records came in {_ARRIVAL_SECONDS_MAX:.0f} s.")
        time.sleep(_LOOK_SECONDS)
    return time.monotonic()


def _count(admin: Admin, partitions: list[TopicPartition]) -> int:
    there = admin.list_topics({where.topic for where in partitions})
    known = [where for where in partitions if (topic := there.get(where.topic)) and where.partition < topic.partitions]
    return sum(admin.latest_offsets(known).known.values()) if known else 0
