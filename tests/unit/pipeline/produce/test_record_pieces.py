"""From rows to batches: where each record goes, and that it arrives there as it is."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batch.header import Codec, parse_header
from sparkmirror.batch.piece import Span
from sparkmirror.batch.record_headers import HEADER_TYPE
from sparkmirror.batch.records import Record, decode_records
from sparkmirror.batch.rewrite import Limits
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce import record_pieces
from sparkmirror.pipeline.produce.kept_records import Kept
from sparkmirror.pipeline.produce.record_pieces import UNLIMITED, Origin, Unroutable, make_pieces
from sparkmirror.policy.partitioner import murmur2_partition

SOURCE = TopicPartition("orders", 1)
HOME = TopicPartition("A.orders", 1)
ORIGIN = Origin(SOURCE, "A.orders", Codec.NONE)
NOTHING_KEPT = Kept(memoryview(b""))


def rows(*records: dict[str, Any]) -> pa.RecordBatch:
    """Rows as the plan gives them; what is not said is that of a record that nobody touched."""
    usual: dict[str, Any] = {
        "timestamp": 5,
        "key": None,
        "value": b"v",
        "headers": [],
        "topic": "A.orders",
        "partition": 1,
    }
    columns = [usual | {"offset": at} | record for at, record in enumerate(records)]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([row["offset"] for row in columns], pa.int64()),
            pa.array([row["timestamp"] for row in columns], pa.int64()),
            pa.array([row["key"] for row in columns], pa.binary()),
            pa.array([row["value"] for row in columns], pa.binary()),
            pa.array([row["headers"] for row in columns], pa.list_(HEADER_TYPE)),
            pa.array([row["topic"] for row in columns], pa.string()),
            pa.array([row["partition"] for row in columns], pa.int32()),
        ],
        names=["offset", "timestamp", "key", "value", "headers", "target_topic", "target_partition"],
    )


def no_sizes(topic: str, source: TopicPartition) -> int:
    raise AssertionError(f"nobody needs to know how many partitions {topic} has, for {source}")


def sorted_out(batches: Sequence[pa.RecordBatch], partitions: int = 3) -> dict[TopicPartition, list[Record]]:
    found: dict[TopicPartition, list[Record]] = {}
    for where, piece in make_pieces(batches, NOTHING_KEPT, ORIGIN, lambda _topic, _source: partitions):
        found.setdefault(where, []).extend(decode_records(piece.data))
    return found


def test_untouched_records_go_to_their_own_partition_as_they_are() -> None:
    batch = rows(
        {"key": b"k", "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]},
        {"value": None, "timestamp": -1},
        {"key": b"", "value": b"", "offset": 7},
    )
    ((where, piece),) = make_pieces([batch], NOTHING_KEPT, ORIGIN, no_sizes)
    assert where == HOME
    assert piece.spans == (Span(0, 3, bits=0b10000011),)
    assert decode_records(piece.data) == [
        Record(0, 5, b"k", b"v", ((b"a", b"1"), (b"a", None))),
        Record(1, -1, None, None),
        Record(2, 5, b"", b""),
    ]


def test_slices_of_a_larger_batch_are_taken_alone() -> None:
    batch = rows(*({"key": b"%d" % at, "value": b"v%d" % at} for at in range(10)))
    ((_, piece),) = make_pieces([batch.slice(2, 3), batch.slice(7, 1)], NOTHING_KEPT, ORIGIN, no_sizes)
    assert [record.key for record in decode_records(piece.data)] == [b"2", b"3", b"4", b"7"]


def test_routed_records_go_to_the_partition_that_is_asked_for() -> None:
    found = sorted_out([rows({"topic": "x", "partition": 2}, {}, {"topic": "x", "partition": 0})])
    assert set(found) == {TopicPartition("x", 2), HOME, TopicPartition("x", 0)}


def test_without_a_partition_or_with_one_that_is_not_there_the_key_decides() -> None:
    found = sorted_out(
        [rows(*({"topic": "x", "partition": part, "key": b"k%d" % at} for at in range(9) for part in (None, 8)))]
    )
    for where, records in found.items():
        assert {murmur2_partition(record.key or b"", 3) for record in records} == {where.partition}
    assert sum(map(len, found.values())) == 18


def test_records_without_a_key_stay_together() -> None:
    assert set(sorted_out([rows({"topic": "x", "partition": None}, {"topic": "x", "partition": 9})], 1)) == {
        TopicPartition("x", 0)
    }


def test_order_within_a_target_partition_is_the_source_s() -> None:
    batch = rows(*({"value": b"%d" % at, "topic": "x" if at % 3 else "y", "partition": 0} for at in range(50)))
    for records in sorted_out([batch]).values():
        values = [int(record.value or b"") for record in records]
        assert values == sorted(values)


def test_a_record_larger_than_a_batch_goes_alone_and_the_others_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_pieces, "BATCH_BYTES_MAX", 400)
    sizes = [10, 10, 1000, 10, 10, 300, 10]
    pieces = make_pieces([rows(*({"value": bytes(size)} for size in sizes))], NOTHING_KEPT, ORIGIN, no_sizes)
    assert [len(record.value or b"") for _, piece in pieces for record in decode_records(piece.data)] == sizes


def test_pieces_of_one_record_are_counted_to_it_wherever_a_batch_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_pieces, "BATCH_BYTES_MAX", 400)
    sizes = {0: [10], 1: [150, 150, 150, 1000, 10], 2: [10, 10], 3: [10]}
    split = rows(*({"offset": at, "value": bytes(size)} for at, of_one in sizes.items() for size in of_one))
    pieces = make_pieces([split], NOTHING_KEPT, ORIGIN, no_sizes)
    assert [piece.spans for _, piece in pieces] == [
        (Span(0, 2, 1),), (Span(2, 0, 1),), (Span(2, 0, 1),), (Span(2, 0, 1), Span(2, 1, 1), Span(3, 1)),
    ]  # fmt: skip
    assert [len(record.value or b"") for _, piece in pieces for record in decode_records(piece.data)] == [
        size for of_one in sizes.values() for size in of_one
    ]


def test_the_first_of_a_record_s_pieces_at_home_stands_for_it_there() -> None:
    split = rows({"offset": 4, "topic": "x"}, {"offset": 4}, {"offset": 4}, {"offset": 5, "topic": "x"}, {"offset": 6})
    found = {where: piece.spans for where, piece in make_pieces([split], NOTHING_KEPT, ORIGIN, lambda *_: 3)}
    assert found == {HOME: (Span(4, 1, 1), Span(6, 1)), TopicPartition("x", 1): (Span(4, 2),)}


def test_more_than_can_be_counted_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_pieces, "RANGE_BYTES_MAX", 1 << 20)
    vast = [rows(*({"offset": 8, "value": bytes(300_000)} for _ in range(2))) for _ in range(2)]
    make_pieces(vast[:1], NOTHING_KEPT, ORIGIN, no_sizes)
    with pytest.raises(Unroutable, match=r"orders-1: .* up to offset 8, more than 1$"):
        make_pieces(vast, NOTHING_KEPT, ORIGIN, no_sizes)


@given(
    st.lists(st.tuples(st.integers(0, 900), st.sampled_from(["A.orders", "x"])), min_size=1, max_size=60),
    st.dictionaries(st.sampled_from(["A.orders", "x"]), st.integers(100, 2000)),
)
def test_no_batch_but_a_record_alone_is_larger_than_its_topic_takes(
    records: list[tuple[int, str]], sizes: dict[str, int]
) -> None:
    batch = rows(*({"value": bytes(size), "topic": topic} for size, topic in records))
    limits = {topic: Limits(size) for topic, size in sizes.items()}
    found: dict[str, list[int]] = {}
    for where, piece in make_pieces([batch], NOTHING_KEPT, ORIGIN, lambda *_: 3, lambda it: limits.get(it, UNLIMITED)):
        assert piece.records == 1 or len(piece.data) <= sizes.get(where.topic, 1 << 30)
        found.setdefault(where.topic, []).extend(len(one.value or b"") for one in decode_records(piece.data))
    assert found == {name: [size for size, topic in records if topic == name] for name in {name for _, name in records}}


def test_batches_have_the_codec_and_the_times_that_the_flow_asks_for() -> None:
    batch = rows({"timestamp": 7}, {"timestamp": 900}, {"topic": "x", "timestamp": 900})
    limits = {"A.orders": Limits(1 << 30, Codec.ZSTD, 100), "x": Limits(1 << 30, Codec.ZSTD, 800)}
    found = dict(make_pieces([batch], NOTHING_KEPT, ORIGIN, lambda *_: 3, limits.__getitem__))
    assert {parse_header(piece.data, 0).codec for piece in found.values()} == {Codec.ZSTD}
    times = {where.topic: [one.timestamp for one in decode_records(piece.data)] for where, piece in found.items()}
    assert times == {"A.orders": [7, 100], "x": [800]}


def test_nothing_left_is_nothing_to_send() -> None:
    assert make_pieces([rows().slice(0, 0)], NOTHING_KEPT, ORIGIN, no_sizes) == ()
    assert make_pieces([], NOTHING_KEPT, ORIGIN, no_sizes) == ()


@pytest.mark.parametrize("topic", ["", "a b", "..", "__consumer_offsets", "mm2-offsets.A.internal", "x" * 250])
def test_a_topic_that_cannot_be_is_refused(topic: str) -> None:
    with pytest.raises(Unroutable, match=r"orders-1: the transforms send records to"):
        make_pieces([rows({"topic": topic})], NOTHING_KEPT, ORIGIN, no_sizes)


def test_a_record_without_a_topic_is_refused_with_its_offset() -> None:
    with pytest.raises(Unroutable, match="give the record at offset 1 no topic"):
        make_pieces([rows({}, {"topic": None})], NOTHING_KEPT, ORIGIN, no_sizes)


def test_a_topic_whose_name_is_no_text_is_refused_with_its_first_record() -> None:
    batch = rows({}, {"topic": "ab"}, {"topic": "x"}, {"topic": "ab"})
    names = pa.array([b"A.orders", b"a\xff", b"x", b"a\xff"]).view(pa.string())
    broken = batch.set_column(batch.schema.get_field_index("target_topic"), "target_topic", names)
    with pytest.raises(Unroutable, match=r"orders-1: .* at offset 1 to a topic whose name is no text: b'a\\xff'"):
        sorted_out([broken])
