"""What partitions lose beside one that is attacked with batches that become very large: `python -m bench.bombs`.

Copies a topic alone, and beside a partition full of bombs (50 MiB of zeros in 2 KB each), in turns. `--forced` asks for
another codec, so that all has to be unpacked: bombs of up to 16 MiB are then made again, larger ones fail their
partition. Prints Markdown.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

from confluent_kafka import Producer

from bench.brokers import bench_cluster, delete_traces
from bench.contestants import CONTESTANTS, Job
from bench.copying import Copy, measure_copy
from bench.loading import LOAD_SECONDS_MAX, create_topic, load
from bench.process_tree import cpu_seconds
from bench.results import SPARK
from bench.workloads import Workload
from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.guard import Guard
from sparkmirror.testing.kafka import KafkaCluster

TASKS = 1
"""One writer has to do with both."""
_CALM = Workload("calm", "1 KB, lz4, 160 KB batches", 1_000_000, 1000, "lz4", 225)
_BOMBS = "bombs"
_MEBIBYTE = 1 << 20


class Taken(NamedTuple):
    """One copy, and the CPU time of the target's broker from the mirror's start to its end."""

    copy: Copy
    broker_cpu_seconds: float


def load_bombs(cluster: KafkaCluster, count: int, size_bytes: int) -> None:
    """Fill the one partition of the topic; raises SparkMirrorError when the broker does not take them."""
    create_topic(cluster, _BOMBS, partitions=1)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "compression.type": "zstd",
            "batch.num.messages": 1,
            "message.max.bytes": 1_000_000_000,
            "log_level": 0,
        }
    )
    value = bytes(size_bytes)
    for _ in range(count):
        producer.produce(_BOMBS, value, partition=0)
        while len(producer) > 4:
            producer.poll(0.05)
    if producer.flush(LOAD_SECONDS_MAX):
        raise SparkMirrorError("The bombs could not be produced.")


def main() -> None:
    """Measures each layout as often as is said, and prints all that was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="copies of each layout (default: 3)")
    parser.add_argument("--bombs", type=int, default=400, help="how many there are (default: 400)")
    parser.add_argument("--mebibytes", type=int, default=50, help="what each becomes (default: 50)")
    parser.add_argument("--records", type=int, default=_CALM.records, help="of the other topic (default: 1,000,000)")
    parser.add_argument("--forced", action="store_true", help="have all records made again in another codec")
    args = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="sparkmirror-bench-"))
    calm = replace(_CALM, records=args.records)
    topics = {"alone": calm.name, "beside bombs": f"{calm.name}, {_BOMBS}"}
    found: dict[str, list[Taken]] = {layout: [] for layout in topics}
    forced = (("t.producer.compression.type", "zstd"),) if args.forced else ()
    with Guard(directory) as guard, bench_cluster("source") as source, bench_cluster("target") as target:
        load(source, calm.name, calm)
        load_bombs(source, args.bombs, args.mebibytes * _MEBIBYTE)

        def copy(alias: str, layout: str) -> Taken:
            own = ((f"{alias}->t.topics", topics[layout]), *forced)
            job = Job(source, target, alias, calm.name, settings=own, tasks=TASKS)
            before = cpu_seconds(target.broker(1).pid)
            measured = measure_copy(CONTESTANTS[SPARK], job, calm, directory, guard)
            taken = Taken(measured, cpu_seconds(target.broker(1).pid) - before)
            delete_traces(target, alias)
            return taken

        copy("warm", "alone")  # the brokers' code has to be compiled
        for number in range(args.rounds):
            layouts = list(found) if number % 2 else list(reversed(found))
            for layout in layouts:
                taken = copy(f"{layout.split()[0]}{number}", layout)
                found[layout].append(taken)
                print(f"{layout}: {_describe(taken)}", flush=True)
    _tell(calm, found)


def _describe(taken: Taken) -> str:
    copy, by_broker = taken
    said = f"{copy.records_per_second:,.0f} records/s, {copy.cpu_seconds:.2f} s of the mirror's CPU time"
    return f"{said}, {by_broker:.1f} s of the target broker's, at most {copy.peak_bytes / _MEBIBYTE:,.0f} MiB"


def _tell(calm: Workload, found: dict[str, list[Taken]]) -> None:
    """The CPU times tell what the mirror does with bombs from what brokers do, which unpack what they are sent."""
    columns = "records/s, median | least | most | CPU s of the mirror, median | CPU s of the target's broker, median"
    print(f"\n| {calm.records:,} records of 1 KB | {columns} |")
    print("|---|---|---|---|---|---|")
    for layout, all_taken in found.items():
        rates = [taken.copy.records_per_second for taken in all_taken]
        by_mirror = median(taken.copy.cpu_seconds for taken in all_taken)
        by_broker = median(taken.broker_cpu_seconds for taken in all_taken)
        figures = f"{median(rates):,.0f} | {min(rates):,.0f} | {max(rates):,.0f} | {by_mirror:.2f} | {by_broker:.1f}"
        print(f"| {layout} | {figures} |")
    alone, beside = (median(taken.copy.records_per_second for taken in all_taken) for all_taken in found.values())
    print(f"\n{beside / alone:.1%} of its rate alone.")


if __name__ == "__main__":
    main()
