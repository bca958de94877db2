"""What is copied, and what SparkMirror is asked to reach on it. Pure; read by every other module of the benchmark."""

import base64
import json
import random
from dataclasses import dataclass, replace
from typing import Literal

from sparkmirror.testing.proxy import LongLink

PARTITIONS = 4
LINK = LongLink(round_trip_seconds=0.1, window_bytes=4 << 20)
"""How far away one side is in the works over a long link; Linux lets a send buffer grow to 4 MiB."""
VALUES = 4096
QUICK_DIVISOR = 10


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked of SparkMirror against MirrorMaker 2 tuned: times its rate, and at most this part of its CPU."""

    rate_min: float
    cpu_max: float


@dataclass(frozen=True, slots=True)
class Workload:
    """`records` values of `value_bytes` each, in batches of `batch_records`, over `partitions` partitions.

    `far` names the side that is reached over LINK, if one is.
    `settings` are lines of the flow that SparkMirror alone is given. With `superseded` each so many-th record is
    written once more, under its key, and the source's log is compacted before it is copied.
    """

    name: str
    title: str
    records: int
    value_bytes: int
    codec: str
    batch_records: int
    goal: Goal | None = None
    partitions: int = PARTITIONS
    far: Literal["", "source", "target"] = ""
    settings: tuple[tuple[str, str], ...] = ()
    superseded: int = 0

    @property
    def megabytes(self) -> float:
        """Of values as applications see them: uncompressed, without keys and headers; 1 MB is 1,000,000 bytes."""
        return self.records * self.value_bytes / 1e6

    def quick(self) -> "Workload":
        """A tenth of it."""
        return replace(self, records=self.records // QUICK_DIVISOR)


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("a", "1 KB, lz4, 160 KB batches", 1_000_000, 1000, "lz4", 225, Goal(3.5, 1 / 6)),
        Workload("b", "1 KB, uncompressed, 160 KB batches", 1_000_000, 1000, "none", 160, Goal(2.0, 1 / 3.5)),
        Workload("c", "100 B, uncompressed, 160 KB batches", 4_000_000, 100, "none", 1500, Goal(5.0, 1 / 10)),
        Workload("d", "1 KB, lz4, 11 KB batches", 500_000, 1000, "lz4", 15, Goal(1.8, 1 / 4)),
        Workload("e", "100 B, one record a batch", 200_000, 100, "none", 1),
        Workload("f", "1 KB, 160 KB batches, source far", 500_000, 1000, "none", 160, None, 1, "source"),
        Workload("g", "1 KB, 160 KB batches, target far", 150_000, 1000, "none", 160, None, 1, "target"),
        Workload("h", "1 KB, lz4, 11 KB batches, target far", 60_000, 1000, "lz4", 15, None, 1, "target"),
        Workload("compacted", "1 KB, lz4, 160 KB batches, a third gone", 400_000, 1000, "lz4", 225, superseded=3),
        Workload(
            "transform",
            "1 KB, uncompressed, 160 KB batches; SparkMirror decodes, filters by Spark SQL and encodes each record",
            1_000_000,
            1000,
            "none",
            160,
            settings=(("transforms.where", "offset >= 0"),),
        ),
    )
}
WARM_UP = Workload("warm-up", "1 KB, lz4, 11 KB batches", 300_000, 1000, "lz4", 15)
"""Copied and forgotten before anything is measured: the brokers' code has to be compiled."""
BACKLOG = Workload("large", "1 KB, uncompressed, 160 KB batches", 10_000_000, 1000, "none", 160)


def make_values(value_bytes: int, count: int = VALUES, seed: int = 1) -> list[bytes]:
    """Distinct values of exactly `value_bytes`: an order as JSON, filled up with random base64.

    Names and structure repeat, identifiers and the filling do not. lz4 makes 160 KB of 225 values of 1 KB and 11 KB of
    15 of them: 70 %, an ordinary ratio for application events.
    """
    source = random.Random(seed)
    return [_make_value(source, value_bytes) for _ in range(count)]


def _make_value(source: random.Random, value_bytes: int) -> bytes:
    order = {
        "order": source.randrange(10**9),
        "at": f"2026-01-{source.randrange(1, 29):02}T{source.randrange(24):02}:00:00Z",
        "customer": f"c-{source.randrange(10**6):06}",
        "lines": [_make_line(source) for _ in range(max(0, value_bytes - 200) // 260)],
    }
    text = json.dumps(order).encode()[:value_bytes]
    return text + base64.b64encode(source.randbytes(value_bytes))[: value_bytes - len(text)]


def _make_line(source: random.Random) -> dict[str, object]:
    return {
        "article": f"{source.randrange(10**8):08}",
        "quantity": source.randrange(1, 20),
        "price": {"amount": round(source.uniform(1, 500), 2), "currency": "EUR"},
        "warehouse": source.choice(("north", "south", "east", "west")),
    }
