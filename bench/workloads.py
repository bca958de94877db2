"""What is copied, and what SparkMirror is asked to reach on it. Pure; read by every other module of the benchmark."""

import base64
import json
import random
from dataclasses import dataclass, replace
from typing import Any, Literal

from sparkmirror.testing.proxy import LongLink

PARTITIONS = 4
LINK = LongLink(round_trip_seconds=0.1, window_bytes=4 << 20)
"""How far away one side is in the works over a long link; Linux lets a send buffer grow to 4 MiB."""
VALUES = 4096
QUICK_DIVISOR = 10


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked of SparkMirror against MirrorMaker 2 tuned: times its rate, and at most this part of its CPU; and
    against the bare loop."""

    rate_min: float
    cpu_max: float
    bare_rate_min: float = 0.7
    bare_cpu_max: float = 2.0


@dataclass(frozen=True, slots=True)
class Workload:
    """`records` values of `value_bytes` each, in batches of `batch_records`, over `partitions` partitions.

    `far` names the side that is reached over LINK, if one is.
    `settings` are lines of the flow that SparkMirror alone is given, `smt` those by which MirrorMaker 2 does the same,
    where it can. With `superseded` each so many-th record is written once more, under its key, and the source's log is
    compacted before it is copied. `marked` records are JSON documents with keys, each other one with the header MARK.
    One of `keep_one_of` records arrives, in the mirrored topic, or in one with `routed` behind its name.
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
    smt: tuple[tuple[str, str], ...] = ()
    marked: bool = False
    keep_one_of: int = 1
    routed: str = ""

    @property
    def changes_records(self) -> bool:
        """Whether it asks what transforms cost."""
        return self.marked

    @property
    def arriving(self) -> int:
        """How many of its records the target gets."""
        return self.records // self.keep_one_of

    @property
    def megabytes(self) -> float:
        """Of values as applications see them: uncompressed, without keys and headers; 1 MB is 1,000,000 bytes."""
        return self.records * self.value_bytes / 1e6

    def quick(self) -> "Workload":
        """A tenth of it."""
        return replace(self, records=self.records // QUICK_DIVISOR)

    def times(self, number: int) -> "Workload":
        """So many times as many records: of a copy that lasts seconds the JVMs' compilers take a part."""
        return replace(self, records=self.records * number)


MARK = "internal"
_ROUTED = "-routed"
_IN_JSON = "get_json_object(cast(value AS string), '$.{}')"
_MASKED = """regexp_replace(cast(value AS string), '"customer": "[^"]*"', '"customer": "***"')"""


def _drop(predicate: str, *settings: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Connect's Filter, with a predicate."""
    return (
        ("transforms", "drop"), ("transforms.drop.type", "org.apache.kafka.connect.transforms.Filter"),
        ("transforms.drop.predicate", "dropped"), ("predicates", "dropped"), ("predicates.dropped.type", predicate),
        *((f"predicates.dropped.{key}", value) for key, value in settings),
    )  # fmt: skip


_DROP_MARKED = _drop("org.apache.kafka.connect.transforms.predicates.HasHeaderKey", ("name", MARK))
_DROP_KEY = _drop("bench.KeyBegins", ("prefix", "south"))
_DROP_FIELD = _drop("bench.FieldIs", ("field", "region"), ("value", "south"))
_MASK = (("transforms", "mask"), ("transforms.mask.type", "bench.MaskCustomer"))
_REKEY = (
    ("transforms", "key,route"), ("transforms.key.type", "bench.CustomerToKey"),
    ("transforms.route.type", "org.apache.kafka.connect.transforms.RegexRouter"),
    ("transforms.route.regex", "(?!.*heartbeats)(.*)"), ("transforms.route.replacement", f"$1{_ROUTED}"),
)  # fmt: skip


def _changing(
    name: str,
    title: str,
    goal: Goal,
    settings: tuple[tuple[str, str], ...],
    smt: tuple[tuple[str, str], ...] = (),
    *,
    keep_one_of: int = 1,
    routed: str = "",
) -> Workload:
    """A work for flows with transforms."""
    return Workload(
        name, f"1 KB of JSON, uncompressed, 160 KB batches; {title}", 400_000, 1000, "none", 144, goal,
        settings=settings, smt=smt, marked=True, keep_one_of=keep_one_of, routed=routed,
    )  # fmt: skip


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("a", "1 KB, lz4, 160 KB batches", 1_000_000, 1000, "lz4", 225, Goal(3.5, 1 / 8, 0.75)),
        Workload("b", "1 KB, uncompressed, 160 KB batches", 1_000_000, 1000, "none", 160, Goal(2.5, 1 / 5)),
        Workload("c", "100 B, uncompressed, 160 KB batches", 4_000_000, 100, "none", 1500, Goal(8.0, 1 / 15, 0.9)),
        Workload("d", "1 KB, lz4, 11 KB batches", 500_000, 1000, "lz4", 15, Goal(2.2, 1 / 5, 0.9)),
        Workload("e", "100 B, one record a batch", 200_000, 100, "none", 1, Goal(1.5, 1 / 2)),
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
        _changing(
            "filter-header",
            "each other record is dropped by a header",
            Goal(2.0, 1 / 2),
            _DROP_MARKED,
            _DROP_MARKED,
            keep_one_of=2,
        ),
        _changing(
            "filter-key",
            "each other record is dropped by its key",
            Goal(2.0, 1 / 2),
            (("transforms.where", "key LIKE 'north%'"),),
            _DROP_KEY,
            keep_one_of=2,
        ),
        _changing(
            "filter-json",
            "each other record is dropped by a field of the value",
            Goal(1.0, 1.0),
            (("transforms.where", f"{_IN_JSON.format('region')} = 'north'"),),
            _DROP_FIELD,
            keep_one_of=2,
        ),
        _changing(
            "mask-json",
            "a field of the value is masked",
            Goal(0.8, 1.2),
            (("transforms.set.value", _MASKED),),
            _MASK,
        ),
        _changing(
            "rekey",
            "a field becomes the key, all go to another topic",
            Goal(1.0, 2.0),
            (
                ("transforms.set.key", _IN_JSON.format("customer")),
                ("transforms.set.topic", f"concat(target_topic, '{_ROUTED}')"),
            ),
            _REKEY,
            routed=_ROUTED,
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


def make_records(value_bytes: int, count: int = VALUES, seed: int = 1) -> list[dict[str, Any]]:
    """Records whose values are JSON documents of about `value_bytes`, by turns of the regions north and south, which
    also begin their keys; those of the south have the header MARK."""
    source = random.Random(seed)
    return [_make_record(source, value_bytes, ("north", "south")[number % 2]) for number in range(count)]


def _make_record(source: random.Random, value_bytes: int, region: str) -> dict[str, Any]:
    customer = f"c-{source.randrange(10**6):06}"
    order = {
        "order": source.randrange(10**9), "region": region, "customer": customer,
        "lines": [_make_line(source) for _ in range(max(0, value_bytes - 400) // 200)],
    }  # fmt: skip
    room = value_bytes - len(json.dumps({**order, "note": ""}))
    order["note"] = base64.b64encode(source.randbytes(max(room, 0)))[: max(room, 0)].decode()
    headers = [(MARK, b"1")] if region == "south" else [("trace", b"1")]
    return {"key": f"{region}-{customer}".encode(), "value": json.dumps(order).encode(), "headers": headers}


def _make_line(source: random.Random) -> dict[str, object]:
    return {
        "article": f"{source.randrange(10**8):08}",
        "quantity": source.randrange(1, 20),
        "price": {"amount": round(source.uniform(1, 500), 2), "currency": "EUR"},
        "warehouse": source.choice(("north", "south", "east", "west")),
    }
