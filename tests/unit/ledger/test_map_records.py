"""Offset maps in their topic: bytes, folding, lost and damaged chunks, joining."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batch.offset_bits import BITS_MAX
from sparkmirror.errors import ProtocolError
from sparkmirror.ledger.map_records import (
    CHUNKS_MAX,
    ChunkName,
    MapRecord,
    MapView,
    decode_chunk,
    decode_key,
    encode_chunk,
    encode_key,
)
from sparkmirror.ledger.map_segments import Chunk, Segment
from sparkmirror.ledger.offset_map import OffsetMap, Translation
from sparkmirror.model import NO_TOPIC_ID, TopicPartition

ORDERS = TopicPartition("orders", 3)
int64 = st.integers(-(1 << 62), 1 << 62)
bits = st.just(0) | st.integers(0, (1 << BITS_MAX - 1) - 1).map(lambda number: number << 1 | 1)
segments = st.builds(Segment, st.integers(0, 1 << 62), int64, int64, st.booleans(), st.booleans(), bits)


def record(first: int, records: int, target: int, name: ChunkName, topic_id: UUID = NO_TOPIC_ID) -> MapRecord:
    found = OffsetMap(first, topic_id)
    found.append(first, records, target)
    return MapRecord(encode_key("A", ORDERS, name), encode_chunk(found.as_chunk()))


def folded(*records: MapRecord) -> OffsetMap:
    view = MapView("A")
    for one in records:
        assert view.take(one.key, one.value) == ORDERS
    found = view.map_of(ORDERS)
    assert found is not None
    return found


@given(
    st.lists(segments, min_size=1, max_size=20), st.integers(0, 2**62 - 1), int64, st.uuids() | st.just(NO_TOPIC_ID),
    st.booleans(), st.uuids() | st.just(NO_TOPIC_ID),
)  # fmt: skip
def test_every_chunk_survives_its_encoding(
    found: list[Segment], more: int, end_target: int, topic_id: UUID, is_renewed: bool, source_id: UUID
) -> None:
    ordered = sorted(found, key=lambda segment: segment.first)
    chunk = Chunk(
        tuple(ordered),
        ordered[-1].first + more,
        end_target,
        topic_id,
        is_renewed and topic_id != NO_TOPIC_ID,
        source_id,
    )
    assert decode_chunk(encode_chunk(chunk)) == chunk


@pytest.mark.parametrize(
    "chunk",
    [
        Chunk((), 0, 0),
        Chunk((Segment(9, 0, 0), Segment(5, 0, 0)), 10, 0),
        Chunk((Segment(9, 0, 0),), 8, 0),
        Chunk((Segment(-1, 0, 0),), 8, 0),
        Chunk((Segment(1, 1 << 63, 0),), 8, 0),
    ],
)
def test_a_chunk_that_no_writer_makes_is_none(chunk: Chunk) -> None:
    with pytest.raises(ProtocolError):
        decode_chunk(encode_chunk(chunk))


def test_a_number_without_end_is_given_up_at_once() -> None:
    with pytest.raises(ProtocolError):
        decode_chunk(b"\x01\x01" + b"\xff" * (1 << 20))


def test_a_segment_of_a_transactional_topic_takes_a_few_bytes() -> None:
    found = OffsetMap(0)
    for number in range(200):
        found.append(5_000_000_000 + number * 101, 100, 4_000_000_000 + number * 100)
    assert len(found.segments) == 200
    assert len(encode_chunk(found.as_chunk())) < 200 * 5


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x01",
        b"\x02\x00",
        b"\x01\x05\x00",
        b"\x01\x00\x00\x00",
        b"\x01\x01\x01\x00\x00\x00\x00half an id",
        b"\x03\x01\x06\x00\x00\x01\x02\x04\x00",
        b"\x03\x01\x06\x00\x00\x05\x01",
        b"\x04\x01\x01\x00\x00\x00\x00",
        b"\x03\x01\x06\x00\x00\x81\x04" + b"\x01" * 513 + b"\x00\x00",
    ],
)
def test_bytes_that_are_no_chunk_are_refused(value: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_chunk(value)


@pytest.mark.parametrize(
    "key", [None, b"", b"[]", b'["A","orders",3]', b'["A","orders",3,[1,2]]', b'["A","orders",3,7]']
)
def test_other_keys_are_not_ours(key: bytes | None) -> None:
    assert decode_key(key) is None


def test_a_chunk_of_another_topic_begins_another_log() -> None:
    """Also where others have written to the new log before: its offsets do not go back then."""
    one, two = UUID(int=1), UUID(int=2)
    known = [record(0, 50, 0, ChunkName(1, 1, 0)), record(50, 50, 50, ChunkName(1, 1, 1), one)]
    assert folded(*known).translate(40) == Translation(40, True), "where a chunk does not say it is of the same log"
    again = folded(*known, record(100, 10, 500, ChunkName(2, 1, 0), two))
    assert (again.topic_id, again.begin) == (two, 100)
    assert (again.translate(40), again.translate(105)) == (Translation(0, False), Translation(505, True))
    assert folded(*known, record(100, 10, 0, ChunkName(2, 1, 0), two)).translate(40) == Translation(0, True)
    assert folded(*known, record(100, 10, 100, ChunkName(1, 1, 2), one)).translate(40) == Translation(40, True)


def test_a_chunk_of_another_topic_of_the_source_forgets_what_was_known() -> None:
    """Its offsets may begin behind those of the former one, where retention has removed some."""

    def piece(number: int, first: int, target: int, source_id: UUID) -> MapRecord:
        found = OffsetMap(first, source_id=source_id)
        found.append(first, 10, target)
        return MapRecord(encode_key("A", ORDERS, ChunkName(1, 1, number)), encode_chunk(found.as_chunk()))

    one, two = UUID(int=1), UUID(int=2)
    known = [piece(0, 0, 0, one), piece(1, 10, 10, NO_TOPIC_ID), piece(2, 20, 20, one)]
    assert (folded(*known).begin, folded(*known).source_id) == (0, one)
    again = folded(*known, piece(3, 40, 30, two))
    assert (again.begin, again.source_id, again.translate(45)) == (40, two, Translation(35, True))


def test_chunks_count_in_the_order_of_their_names_whatever_the_order_of_their_records() -> None:
    older, newer = record(0, 100, 0, ChunkName(1, 50, 0)), record(90, 30, 100, ChunkName(2, 40, 0))
    for found in (folded(older, newer), folded(newer, older)):
        assert found.translate(95) == Translation(105, True)
        assert found.translate(80) == Translation(80, True)


def test_a_chunk_that_grows_replaces_what_it_was() -> None:
    name = ChunkName(1, 1, 0)
    assert folded(record(0, 10, 0, name), record(0, 20, 0, name)).translate(15) == Translation(15, True)


def test_a_new_owner_after_a_clean_stop_adds_no_segment() -> None:
    found = folded(*(record(at * 10, 10, at * 10, ChunkName(at, 1, 0)) for at in range(5)))
    assert found.segments == [Segment(0, 0, 0)]


def test_a_damaged_or_deleted_chunk_counts_as_lost() -> None:
    lost = ChunkName(2, 1, 0)
    records = [record(0, 10, 0, ChunkName(1, 1, 0)), record(10, 10, 10, lost), record(20, 10, 20, ChunkName(3, 1, 0))]
    for value in (b"\x01\x07", None):
        found = folded(*records, MapRecord(encode_key("A", ORDERS, lost), value))
        assert found.translate(15) == Translation(10, False)
        assert found.translate(25) == Translation(25, True)


def test_other_flows_are_left_alone() -> None:
    view = MapView("B")
    one = record(0, 10, 0, ChunkName(1, 1, 0))
    assert view.take(one.key, one.value) is None
    assert view.map_of(ORDERS) is None


def test_many_chunks_are_joined_and_translate_as_before_even_after_a_crash_in_between() -> None:
    view = MapView("A")
    count = CHUNKS_MAX + 5
    for at in range(count):
        one = record(at * 11, 10, at * 10, ChunkName(at, 1, 0))
        view.take(one.key, one.value)
    before = view.map_of(ORDERS)
    assert before is not None
    expected = {offset: before.translate(offset) for offset in range(count * 11)}
    plan = view.plan_compaction({ORDERS: 0})
    assert plan[0].value is not None
    assert [one.value for one in plan[1:]] == [None] * (count - 2)
    for one in plan:
        view.take(one.key, one.value)
        now = view.map_of(ORDERS)
        assert now is not None
        assert {offset: now.translate(offset) for offset in range(count * 11)} == expected
    assert view.plan_compaction({}) == []


def test_a_log_that_follows_another_is_known_as_such_when_its_chunks_are_joined() -> None:
    """What offset syncs say of lower offsets is of the former log: nothing below the map may be asked of them."""
    one, two = UUID(int=1), UUID(int=2)
    known = [record(0, 50, 0, ChunkName(1, 1, 0), one)]
    known += [record(100 + 10 * at, 5, 500 + 9 * at, ChunkName(2, 1, at), two) for at in range(CHUNKS_MAX + 1)]
    view = MapView("A")
    for item in known:
        view.take(item.key, item.value)
    joined = view.plan_compaction({})
    assert joined
    for item in joined:
        view.take(item.key, item.value)
    found = view.map_of(ORDERS)
    assert found is not None
    assert (found.translate(40), found.translate(100)) == (Translation(0, False), Translation(500, True))
