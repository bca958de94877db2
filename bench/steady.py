"""Measures a flow that is up: start-up, latency, CPU while idle. Called by `bench.plan`."""

import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from bench.brokers import delete_topics, delete_traces
from bench.contestants import Contestant, Job
from bench.latency import Latency, Probe
from bench.loading import create_topic
from bench.offsets import EndOffsets
from bench.process_tree import own_cpu_seconds, pss_bytes, spent_between
from bench.running import Mirror
from bench.workloads import PARTITIONS
from sparkmirror.testing.guard import Guard

START_SECONDS_MAX = 90.0
RATES = (50, 1000)


@dataclass(frozen=True, slots=True)
class Pace:
    """How long each part takes, in seconds."""

    warm_up: float = 10.0
    latency: float = 20.0
    settle: float = 3.0
    idle: float = 20.0


QUICK = Pace(3.0, 5.0, 1.0, 5.0)


@dataclass(frozen=True, slots=True)
class Steady:
    """`start_seconds` is of the second start: the topics and the positions are there, all caches are warm."""

    start_seconds: float
    latencies: tuple[Latency, ...]
    idle_cores: float
    idle_bytes: int


def measure_steady(contestant: Contestant, job: Job, pace: Pace, directory: Path, guard: Guard) -> Steady:
    """Two starts; during the second, latency and then idleness. Raises SparkMirrorError when a record does not come."""
    create_topic(job.source, job.topic)
    try:
        command = contestant.prepare(job, directory)
        log_file = directory / f"{job.alias}.log"
        with Mirror(command, log_file, guard) as mirror:
            _first_record_seconds(job, mirror, 1)
        with Mirror(command, log_file, guard) as mirror:
            start_seconds = _first_record_seconds(job, mirror, 2)
            latencies = _measure_latencies(job, pace)
            time.sleep(pace.settle)
            cpu, at = own_cpu_seconds(mirror.pid), time.monotonic()
            time.sleep(pace.idle)
            idle = spent_between(cpu, own_cpu_seconds(mirror.pid)) / (time.monotonic() - at)
            mirror.check()
            return Steady(start_seconds, latencies, idle, pss_bytes(mirror.pid))
    finally:
        delete_topics(job.source, lambda name: name == job.topic)
        delete_traces(job.target, job.alias)


def _first_record_seconds(job: Job, mirror: Mirror, records: int) -> float:
    """Produce one record at once, wait until the target has `records`; seconds from the program's start to then."""
    producer = Producer({"bootstrap.servers": job.source.bootstrap_servers, "log_level": 0})
    producer.produce(job.topic, bytes(100), partition=records % PARTITIONS)
    producer.flush(10)
    with EndOffsets(job.target.bootstrap_servers, job.target_topic, PARTITIONS) as ends:
        ends.wait(records, mirror.check, seconds_max=START_SECONDS_MAX, stall_seconds_max=START_SECONDS_MAX)
    return time.monotonic() - mirror.started_at


def _measure_latencies(job: Job, pace: Pace) -> tuple[Latency, ...]:
    servers = (job.source.bootstrap_servers, job.target.bootstrap_servers)
    with Probe(*servers, job.topic, job.target_topic) as probe:
        probe.measure(max(RATES), pace.warm_up)
        return tuple(probe.measure(rate, pace.latency) for rate in RATES)
