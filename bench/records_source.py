"""`kafka-records` and `kafka-runs` beside Spark's own Kafka connector: `python -m bench.records_source`.

Each program reads a topic whole, writes as many rows that Spark makes, and copies the topic, a few times; the median
counts. Rows of `kafka-runs` are record batches, so it writes none that Spark makes. The connector's jars are those of
Spark 4.2, the newest that can be had, on the Spark that this project uses.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

from bench.brokers import bench_cluster
from bench.loading import create_topic, load
from bench.machine import ROOT, describe_run, today
from bench.markdown import render_table
from bench.workloads import WORKLOADS, Workload
from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.jars import SPARK_CONNECTOR, fetch
from sparkmirror.testing.kafka import KafkaCluster

SECONDS_MAX = 1800
CONTESTANTS = {"kafka-runs": "`kafka-runs`", "kafka-records": "`kafka-records`", "kafka": "Spark's connector"}
TITLES = {
    "read": "read a topic",
    "write": "write rows that Spark makes",
    "copy": "copy it to another topic",
}

Took = dict[str, tuple[float, float]]
"""By work: seconds, and CPU seconds."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.records_source", description=__doc__)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="a")
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    load_before = os.getloadavg()[0]
    workload = WORKLOADS[given.workload].quick() if given.quick else WORKLOADS[given.workload]
    jars = ",".join(str(jar) for jar in sorted(fetch(SPARK_CONNECTOR).glob("*.jar")))
    with bench_cluster("records") as cluster:
        load(cluster, "source", workload)
        took = {name: _run(name, cluster, workload, given.rounds, jars) for name in CONTESTANTS}
    print(f"## {today()}: records through Spark, {workload.title}, {workload.records:,} records\n")
    print("\n".join([*describe_run(load_before), f"- Spark's connector {SPARK_CONNECTOR}; {given.rounds} rounds\n"]))
    print(_table(took, workload))
    return 0


def _run(source: str, cluster: KafkaCluster, workload: Workload, rounds: int, jars: str) -> Took:
    """Raises SparkMirrorError where the program fails."""
    target = f"target-{source}"
    create_topic(cluster, target, partitions=workload.partitions)
    sizes = [str(number) for number in (workload.records, workload.value_bytes, rounds)]
    arguments = [source, cluster.bootstrap_servers, "source", target, *sizes, jars if source == "kafka" else ""]
    done = subprocess.run(
        [sys.executable, "-m", "bench.records_program", *arguments],
        capture_output=True, text=True, timeout=SECONDS_MAX, cwd=ROOT, check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(ROOT, 'src')}"},
    )  # fmt: skip
    if done.returncode:
        raise SparkMirrorError(f"The program of {source} ended with status {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for line in done.stdout.splitlines():
        if line.startswith("["):
            name, seconds, spent = json.loads(line)
            found[name].append((seconds, spent))
    return {
        name: (median(one for one, _ in all_of), median(two for _, two in all_of)) for name, all_of in found.items()
    }


def _table(took: dict[str, Took], workload: Workload) -> str:
    rows = []
    for name, title in TITLES.items():
        for source, called in CONTESTANTS.items():
            if name not in took[source]:
                continue
            seconds, spent = took[source][name]
            per_gigabyte = spent / workload.megabytes * 1000
            rows.append([title, called, f"{workload.records / seconds:,.0f}", f"{per_gigabyte:.1f}"])
    return render_table(["Work", "Source and sink", "records/s", "CPU s a GB"], rows)


if __name__ == "__main__":
    raise SystemExit(main())
