"""What a start costs: seconds from the command to the first record at the target, and CPU seconds until then, by role.

`python -m bench.start` starts a flow with one topic several times. The first start makes the remote topic; the others
find it, as after a restart. With `--flows 10` one file has so many flows, a topic each, and what counts is the first
record of the last. A process that has ended counts for its parent, as the system counts it. The package's byte code is
written first, as an installation does: a checkout may have none.
"""

import argparse
import compileall
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from confluent_kafka import Producer

import sparkmirror
from bench import process_tree
from bench.brokers import bench_cluster
from bench.contestants import CONTESTANTS, Job
from bench.loading import create_topic
from bench.machine import describe_run, today
from bench.markdown import render_table
from bench.offsets import EndOffsets
from bench.roles import Look, look_at, spent_by_role
from bench.running import Mirror
from sparkmirror.testing.guard import Guard
from sparkmirror.testing.kafka import KafkaCluster

_TOPIC = "start"
_PARTITIONS = 8
_SECONDS_MAX = 120.0
_CALM_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Start:
    """One start: `cpu_seconds` until the first record, by role; `calm_pss_bytes` of the whole tree 20 s later."""

    seconds: float
    cpu_seconds: Mapping[str, float]
    calm_pss_bytes: int

    @property
    def total(self) -> float:
        return sum(self.cpu_seconds.values())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.start", description=__doc__)
    parser.add_argument("--turns", type=int, default=4, help="how many starts (default: 4)")
    parser.add_argument("--tasks", type=int, default=2, help="tasks.max (default: 2)")
    parser.add_argument("--flows", type=int, default=1, help="how many flows the file has (default: 1)")
    parser.add_argument("--contestant", default="spark", help="spark, or mm2-default (default: spark)")
    args = parser.parse_args()
    starts = run(args.turns, args.tasks, args.contestant, args.flows)
    print(f"\n{today()}\n\n" + "\n".join(describe_run(os.getloadavg()[0])) + "\n\n" + render(starts))
    return 0


def run(turns: int, tasks: int, contestant: str, flows: int = 1) -> list[Start]:
    """All starts. Raises SparkMirrorError when no record comes."""
    compileall.compile_dir(Path(sparkmirror.__file__).parent, quiet=2)
    directory = Path(tempfile.mkdtemp(prefix="sparkmirror-bench-start-"))
    with (
        Guard(directory) as guard,
        bench_cluster("source") as source,
        bench_cluster("target") as target,
    ):
        job = Job(source, target, "s", _TOPIC, tasks=tasks, partitions=_PARTITIONS, flows=flows)
        for _, topic in job.numbered:
            create_topic(source, topic, partitions=_PARTITIONS)
        command = CONTESTANTS[contestant].prepare(job, directory)
        starts = []
        for number in range(turns):
            starts.append(_start(job, command, directory / f"{number}.log", guard))
            print(f"start {number + 1}: {starts[-1].seconds:.2f} s, {starts[-1].total:.2f} CPU s", flush=True)
        return starts


def _start(job: Job, command: Sequence[str], log_file: Path, guard: Guard) -> Start:
    with ExitStack() as watched:
        ends = [watched.enter_context(_ends(job, f"{alias}.{topic}")) for alias, topic in job.numbered]
        before = [one.total() for one in ends]
        _produce(job.source, [topic for _, topic in job.numbered])
        with Mirror(command, log_file, guard) as mirror:
            for one, total in zip(ends, before, strict=True):
                one.wait(total + 1, mirror.check, seconds_max=_SECONDS_MAX, stall_seconds_max=_SECONDS_MAX)
            seconds = time.monotonic() - mirror.started_at
            spent = _spent(mirror.pid)
            time.sleep(_CALM_SECONDS)
            pss_bytes = process_tree.pss_bytes(mirror.pid)
    return Start(seconds, spent, pss_bytes)


def _ends(job: Job, topic: str) -> EndOffsets:
    return EndOffsets(job.target.bootstrap_servers, topic, job.partitions)


def _produce(source: KafkaCluster, topics: Sequence[str]) -> None:
    """A record to each partition."""
    producer = Producer({"bootstrap.servers": source.bootstrap_servers, "log_level": 0})
    for topic, partition in product(topics, range(_PARTITIONS)):
        producer.produce(topic, b"start", partition=partition)
    assert producer.flush(30) == 0, "the source took no record"


def _spent(root: int) -> dict[str, float]:
    spent = spent_by_role(Look({}, {}, {}), look_at(root))
    return spent | {"helpers that ended": max(process_tree.cpu_seconds(root) - sum(spent.values()), 0.0)}


def render(starts: Sequence[Start]) -> str:
    """A row a start, and the medians of all but the first."""
    roles = sorted({role for one in starts for role in one.cpu_seconds})
    lines = [_line(str(number), one, roles) for number, one in enumerate(starts, 1)]
    later = starts[1:]
    if later:
        medians = {role: statistics.median(one.cpu_seconds.get(role, 0.0) for one in later) for role in roles}
        median = Start(
            statistics.median(one.seconds for one in later),
            medians,
            round(statistics.median(one.calm_pss_bytes for one in later)),
        )
        lines.append(_line("median of the later", median, roles))
    return render_table(["start", "first record, s", "CPU s", *roles, "PSS 20 s later, MB"], lines)


def _line(name: str, one: Start, roles: Sequence[str]) -> list[str]:
    parts = [f"{one.cpu_seconds.get(role, 0.0):.2f}" for role in roles]
    return [name, f"{one.seconds:.2f}", f"{one.total:.2f}", *parts, f"{one.calm_pss_bytes / 1e6:,.0f}"]


if __name__ == "__main__":
    raise SystemExit(main())
