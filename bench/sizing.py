"""What a mirror needs: cores, memory and tasks from rate, record size, partitions and round trip; pure.

`python -m bench.sizing` prints the tables of docs/sizing.md. The constants are measured, on the machine and by the runs
that the page names; `tests/unit/bench/test_sizing.py` holds the model against them.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

CPU_SECONDS_PER_GB = 1.5
"""Of batches as they lie in the log: fetched, passed on by lease, produced."""
TLS_SECONDS_PER_GB = 0.65
INLINE_SECONDS_PER_GB = 2.7
"""More, where reader and writer share no memory."""
EXACTLY_ONCE_FACTOR = 1.2
CPU_SECONDS_PER_BATCH = 35e-6
MERGED_BATCH_SECONDS = 7.5e-6
MERGED_BYTES_MAX = 2000
"""Batches below are made one in their hundreds, by compiled loops."""
IDLE_CORES = 0.035
IDLE_CORES_PER_PARTITION = 0.5e-6
TASK_BYTES_PER_SECOND = 200e6
"""Two tasks were seen to move 491 MB/s beside both clusters' brokers on two cores."""
LINK_SHARE = 0.9
"""Of what a TCP window lets through a long link."""
LANES_PER_BROKER = 4
CONNECTIONS_PER_BROKER = 2
PROCESS_BYTES = 720e6
TASK_BYTES = 130e6
PARTITION_BYTES = 30e3
RING_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Load:
    """`megabytes_per_second` and `batch_bytes` as they lie in the source's log, compressed where they are (1 MB is
    1,000,000 bytes). `round_trip_ms` is to the side that is far away; `window_bytes` what TCP may have under way."""

    megabytes_per_second: float
    batch_bytes: float
    partitions: int
    round_trip_ms: float = 0.0
    is_source_far: bool = False
    brokers: int = 3
    tls: bool = False
    inline: bool = False
    exactly_once: bool = False
    window_bytes: int = 4 << 20


@dataclass(frozen=True, slots=True)
class Need:
    """Of all processes of one mirror together; brokers are not in it. `connection_megabytes_per_second` is what one
    connection brings over the link, infinity where it is short."""

    cores: float
    memory_bytes: float
    tasks: int
    connection_megabytes_per_second: float


def size(load: Load) -> Need:
    """What a mirror of this load needs, while it runs."""
    through = _connection_rate(load)
    connections = (LANES_PER_BROKER if load.is_source_far else CONNECTIONS_PER_BROKER) * load.brokers
    rate = load.megabytes_per_second * 1e6
    wanted = max(ceil(rate / TASK_BYTES_PER_SECOND), ceil(rate / (through * connections)), 1)
    tasks = min(wanted, max(load.partitions, 1))
    memory = PROCESS_BYTES + tasks * (TASK_BYTES + 2 * RING_BYTES) + load.partitions * PARTITION_BYTES
    cores = idle_cores(load.partitions) + cpu_seconds(load, load.megabytes_per_second)
    return Need(cores, memory, tasks, through / 1e6)


def cpu_seconds(load: Load, megabytes: float) -> float:
    """To copy so much of it, beside what an idle mirror takes."""
    per_gb = CPU_SECONDS_PER_GB + load.tls * TLS_SECONDS_PER_GB + load.inline * INLINE_SECONDS_PER_GB
    is_merged = load.batch_bytes < MERGED_BYTES_MAX
    per_batch = MERGED_BATCH_SECONDS if is_merged else CPU_SECONDS_PER_BATCH
    batches = megabytes * 1e6 / load.batch_bytes
    return (megabytes / 1e3 * per_gb + batches * per_batch) * (EXACTLY_ONCE_FACTOR if load.exactly_once else 1.0)


def idle_memory(tasks: int, partitions: int) -> float:
    """Bytes of a mirror through which nothing goes: the rings' pages are not touched."""
    return PROCESS_BYTES + tasks * TASK_BYTES + partitions * PARTITION_BYTES


def idle_cores(partitions: int) -> float:
    """What a mirror takes through which nothing goes."""
    return IDLE_CORES + partitions * IDLE_CORES_PER_PARTITION


def _connection_rate(load: Load) -> float:
    """Bytes a second."""
    if not load.round_trip_ms:
        return float("inf")
    return LINK_SHARE * load.window_bytes / (load.round_trip_ms / 1000)


EXAMPLES = (
    ("a small flow", Load(1, 16_000, 100)),
    ("100 MB/s, Java's default batches", Load(100, 11_000, 200)),
    ("100 MB/s, large batches", Load(100, 160_000, 200)),
    ("100 MB/s, large batches, over 100 ms", Load(100, 160_000, 200, 100)),
    ("1 GB/s, TLS", Load(1000, 160_000, 2_000, tls=True)),
    ("1 GB/s, TLS, exactly once", Load(1000, 160_000, 2_000, tls=True, exactly_once=True)),
    ("10,000 partitions, 1 GB/s", Load(1000, 160_000, 10_000)),
    ("100,000 partitions, 10 GB/s", Load(10_000, 160_000, 100_000, brokers=30)),
    ("the same over 100 ms, TLS", Load(10_000, 160_000, 100_000, 100, brokers=30, tls=True)),
    ("the same in batches of 11 KB", Load(10_000, 11_000, 100_000, 100, brokers=30, tls=True)),
)


def render(rows: Sequence[tuple[str, Load]]) -> str:
    """A table for the page."""
    lines = [
        "| load | MB/s | batch bytes | partitions | round trip ms | cores | memory GB | tasks |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, load in rows:
        need = size(load)
        lines.append(
            f"| {name} | {load.megabytes_per_second:,.0f} | {load.batch_bytes:,.0f} | {load.partitions:,} | "
            f"{load.round_trip_ms:.0f} | {need.cores:.2f} | {need.memory_bytes / 1e9:.1f} | {need.tasks} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """The page's table, or one line for a load of one's own."""
    parser = argparse.ArgumentParser(prog="python -m bench.sizing", description=__doc__)
    parser.add_argument("--rate", type=float, metavar="MB/s", help="as it lies in the source's log")
    parser.add_argument("--batch", type=float, default=16_000, metavar="BYTES")
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--round-trip", type=float, default=0.0, metavar="MS")
    parser.add_argument("--brokers", type=int, default=3, help="of the side that is far away")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--exactly-once", action="store_true")
    args = parser.parse_args(arguments)
    if args.rate is None:
        print(render(EXAMPLES))
        return 0
    load = Load(
        args.rate, args.batch, args.partitions, args.round_trip, brokers=args.brokers, tls=args.tls,
        exactly_once=args.exactly_once,
    )  # fmt: skip
    print(render([("this load", load)]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
