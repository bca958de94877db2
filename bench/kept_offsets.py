"""What identical offsets cost: `python -m bench.kept_offsets`.

The part `copies` copies works at least once and with identical offsets, in turns, so that what the machine does slowly
falls on both. The part `fillers` fills offsets of one partition of brokers that have nothing else to do, by each kind
of filler, with one replica and with three.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.brokers import admin_of, bench_cluster, delete_topics, delete_traces
from bench.contestants import CONTESTANTS, Job
from bench.copying import Copy, measure_copy
from bench.loading import create_topic, load
from bench.machine import describe_run, today
from bench.markdown import render_table
from bench.noise import Compared, compare
from bench.results import KEPT, SPARK
from bench.workloads import WARM_UP, WORKLOADS, Workload
from sparkmirror.kafka.fencing import init_producer_ids
from sparkmirror.kafka.offset_fillers import FillerClients, HoleFiller
from sparkmirror.kafka.start_filler import fill_start
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.policy.fillers import FILLERS, MARKERS, WRITE_MARKERS, Hole
from sparkmirror.testing.guard import Guard
from sparkmirror.testing.kafka import KafkaCluster

COPIES, FILLERS_PART = "copies", "fillers"
START = "start"
"""Empty records that are deleted before the first record is mirrored."""
LONE = "markers-of-lone-holes"
"""Holes of one offset each, as behind each short transaction of the source: each begins when the one before is full."""
COUNTS = {MARKERS: 6_000, LONE: 1_000, WRITE_MARKERS: 30_000, START: 20_000_000}
MANY = 3_000_000
"""Offsets that the other kinds fill."""
REPLICAS = (1, 3)


class Filled(NamedTuple):
    """`offsets` of one partition, and what the log of its leader grew by."""

    kind: str
    replicas: int
    offsets: int
    seconds: float
    size_bytes: int


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.kept_offsets", description=__doc__)
    parser.add_argument("part", choices=(COPIES, FILLERS_PART))
    parser.add_argument("--workloads", metavar="a,b", default="a,b,c,d")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument(
        "--times", type=int, default=1, metavar="N", help="N times the records of each work (default: 1)"
    )
    given = parser.parse_args()
    load_before = os.getloadavg()[0]
    if given.part == COPIES:
        works = [WORKLOADS[name].times(given.times) for name in given.workloads.split(",")]
        title, table = f"identical offsets against at least once, {given.turns} turns", _copies(works, given.turns)
    else:
        title, table = "offsets that are filled, one partition", _filled_table(_fill_all())
    print(f"## {today()}, {title}\n")
    print("\n".join([*describe_run(load_before), "", table]))
    return 0


def _copies(works: list[Workload], turns: int) -> str:
    directory = Path(tempfile.mkdtemp(prefix="sparkmirror-bench-"))
    found: list[Compared] = []
    with Guard(directory) as guard, bench_cluster("source") as source, bench_cluster("target") as target:
        copy = partial(_copy, directory, guard, source, target)
        load(source, WARM_UP.name, WARM_UP)
        for kept in (False, True):
            copy(WARM_UP, WARM_UP.name, f"warm-{kept}".lower(), kept=kept)
        for work in works:
            topic = f"bench-{work.name}"
            _, records = load(source, topic, work)
            work = replace(work, records=records)
            pairs: list[tuple[Copy, Copy]] = []
            for turn in range(turns):
                plain = copy(work, topic, f"plain-{work.name}-{turn}", kept=False)
                pairs.append((plain, copy(work, topic, f"kept-{work.name}-{turn}", kept=True)))
            found.extend(_compared(work, pairs))
            delete_topics(source, topic.__eq__)
    return _copies_table(found)


def _copy(
    directory: Path,
    guard: Guard,
    source: KafkaCluster,
    target: KafkaCluster,
    work: Workload,
    topic: str,
    alias: str,
    *,
    kept: bool,
) -> Copy:
    job = Job(source, target, alias, topic, work.codec)
    try:
        return measure_copy(CONTESTANTS[KEPT if kept else SPARK], job, work, directory, guard)
    finally:
        delete_traces(target, alias)


def _compared(work: Workload, pairs: list[tuple[Copy, Copy]]) -> Iterator[Compared]:
    plain, kept = zip(*pairs, strict=True)
    rates = ([one.records_per_second for one in some] for some in (plain, kept))
    yield compare(f"{work.name}: records/s", *rates, is_more_better=True)
    spent = ([one.cpu_seconds_per_gigabyte for one in some] for some in (plain, kept))
    yield compare(f"{work.name}: CPU s a GB", *spent)


def _copies_table(found: list[Compared]) -> str:
    head = ["Work", "at least once", "identical offsets", "difference", "noise"]
    return render_table(
        head,
        [
            [one.subject, f"{one.before:,.1f}", f"{one.after:,.1f}", f"{one.difference:+.1%}", f"± {one.noise:.1%}"]
            for one in found
        ],
    )


def _fill_all() -> list[Filled]:
    found: list[Filled] = []
    for replicas in REPLICAS:
        with bench_cluster("target", replicas) as target:
            for kind in (*FILLERS, LONE, START):
                warm_up = COUNTS[LONE if kind == LONE else MARKERS] // 2  # the brokers' code has to be compiled
                _fill(target, kind, warm_up, "warm")
                found.append(_fill(target, kind, COUNTS.get(kind, MANY), "measured"))
    return found


def _fill(target: KafkaCluster, kind: str, offsets: int, turn: str) -> Filled:
    where = TopicPartition(f"{kind}-{turn}", 0)
    create_topic(target, where.topic, min(3, target.size), 1)
    cluster = Cluster("target", {"bootstrap.servers": target.bootstrap_servers})
    with admin_of(target) as admin, closing(FillerClients(cluster)) as clients:
        producer_id = init_producer_ids(admin, [None])[None].producer_id
        filler = HoleFiller(clients, f"{where.topic}-fillers", where, producer_id)
        began = time.monotonic()
        if kind == START:
            reached = fill_start(cluster, producer_id, where, Hole(0, offsets), 300.0)
        elif kind == LONE:
            reached = max(filler.fill(Hole(at, at + 1), MARKERS, 300.0) for at in range(offsets))
        else:
            reached = filler.fill(Hole(0, offsets), kind, 300.0)
        seconds = time.monotonic() - began
        filler.close()
    files = (file for broker in target.brokers for file in broker.data_directory.glob(f"{where}/*.log"))
    size_bytes = sum(file.stat().st_size for file in files) // min(3, target.size)
    return Filled(kind, min(3, target.size), reached, seconds, size_bytes)


def _filled_table(found: list[Filled]) -> str:
    rows = [
        [
            one.kind, str(one.replicas), f"{one.offsets:,}", f"{one.offsets / one.seconds:,.0f}",
            f"{one.size_bytes / one.offsets:.2f}",
        ]
        for one in found
    ]  # fmt: skip
    return render_table(["Filler", "replicas", "offsets", "offsets a second", "bytes an offset"], rows)


if __name__ == "__main__":
    raise SystemExit(main())
