"""Measures one copy of a loaded topic, from the first record at the target to the last. Called by `bench.plan`."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.contestants import Contestant, Job
from bench.offsets import EndOffsets
from bench.process_tree import PeakMemory, cpu_seconds
from bench.running import Mirror
from bench.workloads import Workload
from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.guard import Guard

START_SECONDS_MAX = 90.0
STALL_SECONDS_MAX = 30.0
COPY_SECONDS_MAX = 900.0


@dataclass(frozen=True, slots=True)
class Copy:
    """What one copy took. `records` of the source were done within `seconds`: those that the target had at the first
    look are left out of both."""

    records: int
    megabytes: float
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    start_seconds: float
    surplus_records: int = 0
    brokers_cpu_seconds: float = 0.0

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds

    @property
    def cpu_seconds_per_gigabyte(self) -> float:
        return self.cpu_seconds / self.megabytes * 1000

    @property
    def whole_cpu_seconds_per_gigabyte(self) -> float:
        """With that of the brokers."""
        return (self.cpu_seconds + self.brokers_cpu_seconds) / self.megabytes * 1000

    @property
    def megabytes_per_core(self) -> float:
        """MB/s that one core moves."""
        return self.megabytes / max(self.cpu_seconds, 0.01)


def measure_copy(
    contestant: Contestant,
    job: Job,
    workload: Workload,
    directory: Path,
    guard: Guard,
    environment: Mapping[str, str] | None = None,
) -> Copy:
    """Start the contestant, see the topic through, stop it. Raises SparkMirrorError when the copy does not come."""
    command = contestant.prepare(job, directory)
    log_file = directory / f"{job.alias}.log"
    ends = EndOffsets(job.target.bootstrap_servers, job.target_topic, workload.partitions)
    with ends, Mirror(command, log_file, guard, environment) as mirror, PeakMemory(mirror.pid) as memory:
        early = ends.wait(1, mirror.check, seconds_max=START_SECONDS_MAX, stall_seconds_max=START_SECONDS_MAX)
        first_at, cpu_first, brokers_first = time.monotonic(), mirror.cpu_seconds(), _brokers_cpu_seconds(job)
        try:
            found = ends.wait(
                workload.arriving, mirror.check, seconds_max=COPY_SECONDS_MAX, stall_seconds_max=STALL_SECONDS_MAX
            )
        except SparkMirrorError as problem:
            raise SparkMirrorError(f"{problem} The program's output ends:\n{mirror.log_tail()}") from None
        last_at, cpu_last, brokers_last = time.monotonic(), mirror.cpu_seconds(), _brokers_cpu_seconds(job)
    if early >= workload.arriving:
        raise SparkMirrorError("The copy was over before it could be measured: take more records.")
    records = (workload.arriving - early) * workload.keep_one_of
    return Copy(
        records=records,
        megabytes=workload.megabytes * records / workload.records,
        seconds=last_at - first_at,
        cpu_seconds=cpu_last - cpu_first,
        peak_bytes=memory.peak_bytes,
        start_seconds=first_at - mirror.started_at,
        surplus_records=found - workload.arriving,
        brokers_cpu_seconds=brokers_last - brokers_first,
    )


def _brokers_cpu_seconds(job: Job) -> float:
    return sum(cpu_seconds(broker.pid) for cluster in (job.source, job.target) for broker in cluster.brokers)
