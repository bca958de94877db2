"""What idle partitions take from a busy one: `python -m bench.hot`.

Copies one partition's backlog by two tasks, alone and with 999 partitions beside it that hold nothing, in turns. Prints
Markdown.
"""

import argparse
import re
import tempfile
from pathlib import Path
from statistics import median

from bench.brokers import bench_cluster, delete_traces
from bench.contestants import CONTESTANTS, Job
from bench.copying import Copy, measure_copy
from bench.loading import create_topic, load
from bench.results import SPARK
from bench.workloads import Workload
from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.guard import Guard

TASKS = 2
_HOT = Workload("hot", "1 KB, lz4, 160 KB batches, one partition", 1_000_000, 1000, "lz4", 225, partitions=1)
_IDLE_TOPIC = "idle"


def main() -> None:
    """Measures each layout as often as is said, and prints all that was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="copies of each layout (default: 3)")
    parser.add_argument("--idle", type=int, default=999, help="idle partitions (default: 999)")
    args = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="sparkmirror-bench-"))
    alone, crowded = "alone", f"with {args.idle} idle ones"
    topics = {alone: _HOT.name, crowded: f"{_HOT.name}, {_IDLE_TOPIC}"}
    found: dict[str, list[float]] = {alone: [], crowded: []}
    with Guard(directory) as guard, bench_cluster("source") as source, bench_cluster("target") as target:
        create_topic(source, _IDLE_TOPIC, partitions=args.idle)
        _, records = load(source, _HOT.name, _HOT)

        def copy(alias: str, layout: str) -> Copy:
            own = ((f"{alias}->t.topics", topics[layout]),)
            if layout == crowded:  # else they would be made while the hot one is copied, and mirrored after it
                create_topic(target, f"{alias}.{_IDLE_TOPIC}", partitions=args.idle)
            job = Job(source, target, alias, _HOT.name, settings=own, tasks=TASKS)
            taken = measure_copy(CONTESTANTS[SPARK], job, _HOT, directory, guard)
            delete_traces(target, alias)
            said = (directory / f"{alias}.log").read_text()
            mirrored = [int(count) for count in re.findall(r" (\d+) partitions", said)]
            if layout == crowded and max(mirrored, default=0) <= args.idle:
                raise SparkMirrorError(f"The mirror never had its {args.idle + 1} partitions. It said:\n{said[-2000:]}")
            return taken

        copy("warm", alone)  # the brokers' code has to be compiled
        for number in range(args.rounds):
            layouts = list(found) if number % 2 else list(reversed(found))
            for layout in layouts:
                taken = copy(f"{'solo' if layout == alone else 'crowd'}{number}", layout)
                found[layout].append(taken.records_per_second)
                print(f"{layout}: {taken.records_per_second:,.0f} records/s, {taken.cpu_seconds:.1f} s CPU", flush=True)
    print(f"\n| {records:,} records of 1 KB in one partition | records/s, median | least | most |\n|---|---|---|---|")
    for layout, rates in found.items():
        print(f"| {layout} | {median(rates):,.0f} | {min(rates):,.0f} | {max(rates):,.0f} |")
    print(f"\n{median(found[crowded]) / median(found[alone]):.1%} of its rate alone.")


if __name__ == "__main__":
    main()
