"""The writer's end of a run that cannot be read from its middle on: what is before goes out, the rest waits."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.flows import flow_of
from tests.manual_clock import ManualClock
from tests.scenarios.odd_logs import java_batch, sealed

from sparkmirror.batch.header import CONTROL, Codec, parse_header
from sparkmirror.batch.piece import Piece
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka import clients
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch import record_rows
from sparkmirror.pipeline.produce import writer
from sparkmirror.pipeline.produce.assembly import SenderOptions
from sparkmirror.pipeline.produce.delivery import Arrival, Bundle, Delivery, MadeRange
from sparkmirror.pipeline.produce.kept_records import are_whole_run
from sparkmirror.pipeline.produce.limits import TopicLimits
from sparkmirror.pipeline.produce.record_pieces import Unroutable
from sparkmirror.pipeline.produce.record_writer import RecordTask, TopicSizes
from sparkmirror.pipeline.produce.repartition import NO_TOPIC, WAITS
from sparkmirror.pipeline.produce.writer import sender_options
from sparkmirror.pipeline.relay.options import CARRIED_COLUMNS
from sparkmirror.pipeline.relay.schema import MISFIT, RECORD, RECORD_SCHEMA, RUN, TRAIL, WRITTEN_COLUMNS, Row, padding

HOME = TopicPartition("A.orders", 2)
LEASE = 77


class Peer:
    """The reader's memory; a lease of it is given back by the sender, who is not here."""

    def __init__(self, payload: bytes) -> None:
        self.payload = memoryview(bytearray(payload))
        self.taken = 0

    def note_taken(self, batches: int) -> None:
        self.taken += batches

    def slice(self, lease: int, size: int) -> memoryview:
        assert (lease, size) == (LEASE, len(self.payload))
        return self.payload


class Task(RecordTask):
    def __init__(self, options: SenderOptions, flow: Any, returned: frozenset[str], payload: bytes | None) -> None:
        super().__init__(options, flow, returned)
        self.given: list[Arrival] = []
        peer: Any = None if payload is None else Peer(payload)
        self._peer = peer
        self.limits: dict[str, TopicLimits] = {}
        sender: Any = SimpleNamespace(limits_of=lambda topic: self.limits.get(topic, TopicLimits()), error=None)
        self._sender = sender

    def _put(self, *deliveries: Arrival, announced: int = 0) -> None:
        assert not announced
        self.given += deliveries


def _written(rows: pa.RecordBatch) -> pa.RecordBatch:
    """As a plan without steps gives them, whose writer has key, value and headers from the batches."""
    kept = rows.select([name for name in WRITTEN_COLUMNS if name in rows.schema.names])
    targets = [pa.nulls(rows.num_rows, pa.string()), pa.nulls(rows.num_rows, pa.int32())]
    return pa.RecordBatch.from_arrays(
        [*kept.columns, *targets], names=[*kept.schema.names, "target_topic", "target_partition"]
    )


@pytest.mark.parametrize("is_leased", [True, False])
@pytest.mark.parametrize("whole", [0, 1, 2])
def test_the_batches_before_a_damaged_one_go_out_and_its_memory_is_held_once(
    whole: int, is_leased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_rows, "CHUNK_BYTES", 1)
    batches = [encode_batch([(b"k", b"%d" % (at + i)) for i in range(5)], base_offset=at) for at in (10, 15, 20)]
    damaged = bytearray(batches[whole])
    damaged[-2] ^= 1  # the checksum tells
    payload = b"".join([*batches[:whole], bytes(damaged)])
    run = Row(
        RUN, "orders", 2, 12, 25, len(batches), 15, len(payload), payload=None if is_leased else payload,
        lease=LEASE if is_leased else None,
    )  # fmt: skip
    flow = flow_of("transforms.where = true\n")
    task = Task(sender_options(flow), flow, frozenset(), payload if is_leased else None)
    for rows in record_rows.Decoding(frozenset()).records(run, memoryview(payload)):
        task.take(_written(rows))
    *before, rest = task.given
    assert isinstance(rest, MadeRange) and rest.problem and rest.pieces == ()
    stands_at = 10 + 5 * whole if whole else 12
    assert (rest.delivery.first_offset, rest.delivery.next_offset) == (stands_at, 25)
    passed = [one for one in before if isinstance(one, MadeRange)]
    pieces = [piece for one in passed for piece in one.pieces]
    values = [int(record.value or b"") for piece in pieces for record in decode_records(piece.data)]
    assert values == list(range(12, stands_at)), "from the first offset that was asked for"
    assert all(one.delivery.target_topic == HOME.topic for one in (*passed, rest))
    assert [(one.delivery.first_offset, one.delivery.next_offset) for one in passed] == (
        [(12, stands_at)] if whole else []
    )
    leases = [one.delivery.lease for one in (*passed, rest)]
    assert leases.count(LEASE) == is_leased, "given back once, by what comes last"
    assert rest.delivery.lease == (LEASE if is_leased else None)
    assert sum(one.size_bytes for one in (*passed, rest)) == len(payload), "each byte is accounted for once"


@pytest.mark.parametrize(
    ("lines", "returned", "kind"),
    [
        ("transforms.where = true", (), MadeRange),
        ("transforms.set.value = key", ("value", "timestamp"), MadeRange),
        ("transforms.set.topic = 'audit'", ("target_topic",), Bundle),
        ("transforms.set.partition = 0", ("target_partition",), Bundle),
        ("transforms.explode = array(1)", (), Bundle),
        ("transforms.function = some:function", (), Bundle),
    ],
)
def test_ranges_are_routed_only_where_a_step_can_send_a_record_elsewhere_or_make_several_of_one(
    lines: str, returned: tuple[str, ...], kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = encode_batch([(b"k", b"v"), (b"k", b"w")])
    run = Row(RUN, "orders", 2, 0, 2, 1, 2, len(payload), payload=payload)
    flow = flow_of(f"{lines}\n")
    task = Task(sender_options(flow), flow, frozenset(returned), None)
    monkeypatch.setattr(task._sizes, "count", lambda _topic, _source: 3)
    for rows in record_rows.Decoding(CARRIED_COLUMNS).records(run, memoryview(payload)):
        task.take(_written(_without_first_record(rows)))
    (made,) = task.given
    assert isinstance(made, kind)
    assert not isinstance(made, Bundle) or made.is_mapped is ("target_partition" not in returned)


@pytest.mark.parametrize("lines", ["transforms.where = true", "transforms.explode = array(1)"])
def test_batches_are_what_the_flow_and_the_target_topic_ask_for(lines: str) -> None:
    much_later_ms = 1 << 50
    payload = encode_batch([Record(at, much_later_ms, b"k", bytes(1000)) for at in range(20)])
    run = Row(RUN, "orders", 2, 0, 20, 20, 20, len(payload), payload=payload)
    flow = flow_of(f"{lines}\nB.producer.compression.type = zstd\ntimestamps.clamp = true\n")
    task = Task(sender_options(flow), flow, frozenset(), None)
    task.limits["A.orders"] = TopicLimits(100)
    for rows in record_rows.Decoding(CARRIED_COLUMNS).records(run, memoryview(payload)):
        task.take(_written(_without_first_record(rows)))
    (made,) = task.given
    assert isinstance(made, Bundle | MadeRange)
    pieces = [one if isinstance(one, Piece) else one[1] for one in made.pieces]
    headers = [parse_header(memoryview(piece.data), 0) for piece in pieces]
    assert {one.codec for one in headers} == {Codec.ZSTD}
    assert max(one.max_timestamp for one in headers) < much_later_ms
    assert len(pieces) > 5 and sum(one.records for one in pieces) == 19


def _without_first_record(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.slice(1) if rows.column(0)[0].as_py() == RECORD else rows


WHERE = "transforms.where = true\n"


@pytest.mark.parametrize("is_large", [True, False])
@pytest.mark.parametrize("is_leased", [True, False])
def test_a_run_that_lost_nothing_goes_on_as_it_came_as_where_no_step_is(is_leased: bool, is_large: bool) -> None:
    """Its memory and its batches, which are merged and compressed as those of other flows."""
    value = bytes(1000) if is_large else b"v"
    payload = b"".join(encode_batch([(b"k", value)] * 50, base_offset=at) for at in (10, 60))
    run = Row(
        RUN, "orders", 2, 10, 110, 2, 100, len(payload), payload=None if is_leased else payload,
        lease=LEASE if is_leased else None,
    )  # fmt: skip
    task = Task(sender_options(flow_of(WHERE)), flow_of(WHERE), frozenset(), payload if is_leased else None)
    for rows in record_rows.Decoding(frozenset()).records(run, memoryview(payload)):
        task.take(_written(rows))
    (given,) = task.given
    assert isinstance(given, Delivery)
    assert (given.kind, given.target_topic, given.lease) == (RUN, HOME.topic, LEASE if is_leased else None)
    assert given.payload == payload and not given.payload.readonly


COMPACTED = sealed(encode_batch([(b"k", b"v"), (b"k", b"w")], base_offset=10), last_offset_delta=3)
"""Two records of four offsets; which ones the others had is no matter here."""
MARKER = sealed(encode_batch([(b"k", b"v")], base_offset=14), attributes=CONTROL)
OLD = java_batch("magic-1-none")


@pytest.mark.parametrize(
    ("payload", "first", "records", "kept", "is_whole"),
    [
        (COMPACTED, 10, 2, (10, 13), True),
        (COMPACTED, 10, 2, (10,), False),
        (COMPACTED, 10, 2, (13, 13), False),
        (COMPACTED, 10, 1, (10,), False),
        (COMPACTED, 11, 2, (13,), False),
        (COMPACTED, 11, 2, (10, 13), False),
        (COMPACTED + MARKER, 10, 2, (10, 13), True),
        (COMPACTED + MARKER, 10, 3, (10, 13), False),
        (OLD, 1000, 4, (1000, 1003, 1010, 1012), False),
        (COMPACTED, 10, 0, (), False),
    ],
)
def test_a_run_is_whole_where_each_record_of_its_batches_has_one_row(
    payload: bytes, first: int, records: int, kept: tuple[int, ...], is_whole: bool
) -> None:
    """`records` is what the reader has counted. A record that a filter dropped shall not come back with its batch."""
    delivery = Delivery(RUN, TopicPartition("orders", 2), None, first, 20, records, 20, 1, memoryview(payload), None)
    rows = pa.record_batch({"offset": pa.array(kept, pa.int64())})
    for some in ([rows], [rows.slice(0, 1), rows.slice(1)]):
        assert are_whole_run(some, delivery, frozenset(), HOME) is is_whole


@given(st.data())
def test_no_record_that_was_dropped_goes_on_with_its_run(data: st.DataObject) -> None:
    """However large the run is: small ones are looked at batch by batch, large ones as a table."""
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4), "records of each batch")
    value = bytes(data.draw(st.sampled_from([1, 30_000])))
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    payload = b"".join(encode_batch([(None, value)] * n, base_offset=at) for at, n in zip(starts, sizes, strict=True))
    there = list(range(sum(sizes)))
    kept = sorted(data.draw(st.lists(st.sampled_from(there), max_size=len(there) + 1) | st.just(there), "rows"))
    delivery = Delivery(RUN, HOME, None, 0, len(there), len(there), 0, 0, memoryview(payload), None)
    rows = pa.record_batch({"offset": pa.array(kept, pa.int64())})
    assert are_whole_run([rows], delivery, frozenset(), HOME) is (kept == there)


class SlowSender:
    """Frees what it has been given when it is asked for the third time."""

    def __init__(self) -> None:
        self.given: list[Bundle] = []
        self.has_waited = self.row_thread_waits = False
        self.inline_bytes = self.freed = self.looks = 0
        self.error = None

    def limits_of(self, _topic: str) -> TopicLimits:
        return TopicLimits()

    def put(self, *ranges: Bundle, announced: int = 0) -> None:
        assert not announced
        self.given += ranges

    @property
    def freed_extra_bytes(self) -> int:
        self.has_waited |= self.row_thread_waits
        self.looks += 1
        if not self.looks % 3:
            self.freed += sum(one.extra_bytes for one in self.given)
            self.given.clear()
        return self.freed


@pytest.mark.parametrize(("times", "has_waited"), [(1, False), (60, True)])
def test_what_records_multiply_to_is_waited_for_and_a_range_beyond_all_room_goes_on(
    times: int, has_waited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_INLINE_BYTES_MAX", 50_000)
    payload = encode_batch([Record(at, at, b"k", bytes(100)) for at in range(10)])
    flow = flow_of("transforms.explode = array(1)\n")
    task: Any = RecordTask(sender_options(flow), flow, frozenset())
    sender = task._sender = SlowSender()
    for at in range(3):
        run = Row(RUN, "orders", 2, 10 * at, 10 * at + 10, 10, 10, len(payload), payload=payload)
        for rows in record_rows.Decoding(CARRIED_COLUMNS).records(run, memoryview(payload)):
            is_record = rows.column(0)[0].as_py() == RECORD
            task.take(_written(rows.take(np.repeat(np.arange(len(rows)), times)) if is_record else rows))
    assert (sender.has_waited, sender.row_thread_waits) == (has_waited, False)


def test_each_batch_of_the_readers_counts_as_taken_when_its_padding_begins() -> None:
    flow = flow_of("transforms.where = true\n")
    task = Task(sender_options(flow), flow, frozenset(), b"")
    pushing = _written(padding(RECORD_SCHEMA))
    taken = []
    for first, rows in ((0, 1), (1, 998), (999, 1), (0, 1000), (0, 400), (400, 600)):
        task.take(pushing.slice(first, rows))
        taken.append(task._peer.taken)  # type: ignore[union-attr]
    assert taken == [1, 1, 1, 2, 3, 3]
    task.take(_written(padding(RECORD_SCHEMA, TRAIL)))
    assert task._peer.taken == 3, "padding for further stages is not counted"  # type: ignore[union-attr]
    assert not task.given


def test_a_record_for_which_a_step_cannot_be_done_fails_its_own_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its run: one before it in the same batch of rows, and one behind it, go out."""
    monkeypatch.setattr(record_rows, "CHUNK_BYTES", 1)
    flow = flow_of("transforms.where = true\n")
    task = Task(sender_options(flow), flow, frozenset(), None)
    decoding, taken = record_rows.Decoding(frozenset()), []
    for first, is_misfit in ((0, False), (5, True), (10, False)):
        payload = encode_batch([(b"k", b"%d" % at) for at in range(5)], base_offset=first)
        run = Row(RUN, "orders", 2, first, first + 5, 1, 5, len(payload), payload=payload)
        rows = [_written(one) for one in decoding.records(run, memoryview(payload))]
        taken += [_as_misfit(one) if is_misfit and at == 0 else one for at, one in enumerate(rows)]
    task.take(pa.concat_batches(taken[:3]))
    for rows in taken[3:]:
        task.take(rows)
    made = [one for one in task.given[:2] if isinstance(one, MadeRange)]
    assert [(one.delivery.first_offset, one.problem, len(one.pieces)) for one in made] == [
        (0, "", 1), (5, "its subject is odd", 0),
    ]  # fmt: skip
    last = task.given[2]
    assert isinstance(last, Delivery)
    assert (last.first_offset, last.records) == (10, 5), "the next batch of rows has no such record"


def _as_misfit(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The second record is one."""
    kinds, payloads = rows.column("kind").to_pylist(), rows.column("payload").to_pylist()
    kinds[1], payloads[1] = MISFIT, b"its subject is odd"
    changed = {"kind": pa.array(kinds), "payload": pa.array(payloads, pa.binary())}
    return pa.RecordBatch.from_arrays(
        [changed.get(name, rows.column(name)) for name in rows.schema.names], names=rows.schema.names
    )


class Admin:
    """A cluster's topics, by the number of their partitions."""

    def __init__(self, **topics: int) -> None:
        self.topics = topics
        self.looks = 0
        self.is_silent = False

    def list_topics(self, names: list[str]) -> dict[str, Any]:
        self.looks += 1
        if self.is_silent:
            raise ClusterUnreachable("Cluster B does not answer.")
        return {name: SimpleNamespace(partitions=self.topics[name]) for name in names if name in self.topics}

    def close(self) -> None:
        """Nothing."""

    def create_topics(self, topics: list[NewTopic]) -> dict[str, None]:
        self.topics |= {one.name: one.partitions for one in topics}
        return dict.fromkeys([one.name for one in topics])


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> dict[str, Admin]:
    found = {"A": Admin(orders=12), "B": Admin()}
    monkeypatch.setattr(clients, "open_admin", lambda cluster, _: found[cluster.alias])
    return found


def test_a_topic_that_records_are_routed_to_gets_as_many_partitions_as_the_source_s_before_the_mirrored_one_is_there(
    clusters: dict[str, Admin],
) -> None:
    sizes = TopicSizes(flow_of(""))
    assert sizes.count("orders-x", TopicPartition("orders", 0)) == 12
    clusters["B"].topics["A.orders"] = 5
    assert sizes.count("orders-y", TopicPartition("orders", 2)) == 5
    assert clusters["B"].topics == {"A.orders": 5, "orders-x": 12, "orders-y": 5}


def test_the_mirrored_topic_is_not_created_for_routed_records_but_waited_for(
    clusters: dict[str, Admin],
) -> None:
    """The topic job makes it with its source's settings. Not each range asks for it meanwhile."""
    clock = ManualClock()
    sizes = TopicSizes(flow_of(""), clock)
    for _ in range(3):
        with pytest.raises(Unroutable, match=f"^{NO_TOPIC} A.orders"):
            sizes.count("A.orders", TopicPartition("orders", 0))
    assert (clusters["B"].topics, clusters["B"].looks) == ({}, 1)
    clusters["B"].topics["A.orders"] = 12
    clock.now += 5.0
    assert sizes.count("A.orders", TopicPartition("orders", 0)) == 12


def test_while_the_target_is_silent_what_is_known_of_topics_counts_and_other_partitions_wait_alone(
    clusters: dict[str, Admin],
) -> None:
    """An error that is no partition's would end the query, and all partitions would start again together."""
    clock, target = ManualClock(), clusters["B"]
    target.topics = {"audit": 4, "late": 6}
    sizes = TopicSizes(flow_of(""), clock)
    assert sizes.count("audit", TopicPartition("orders", 0)) == 4
    target.is_silent = True
    clock.now += 61.0
    looks = target.looks
    for _ in range(3):
        assert sizes.count("audit", TopicPartition("orders", 0)) == 4
        with pytest.raises(Unroutable, match=r"topic late has.* of orders-1 go: Cluster B does not answer") as caught:
            sizes.count("late", TopicPartition("orders", 1))
        assert str(caught.value).startswith(WAITS), "no reason to end a mirror that ends where a record is refused"
    assert target.looks - looks == 2, "one try, on a new connection the second time"
    target.is_silent = False
    target.topics["audit"] = 5
    clock.now += 31.0
    assert [sizes.count(name, TopicPartition("orders", 0)) for name in ("late", "audit")] == [6, 5]
