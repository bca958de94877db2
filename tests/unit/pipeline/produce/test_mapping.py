"""The writer's record of where records went: what is stored, when, and again when it was not taken."""

from uuid import UUID

import numpy as np

from sparkmirror.batch.encoding import find_spans
from sparkmirror.batch.piece import Span
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.ledger.map_records import CHUNK_WEIGHT_MAX, ChunkName, decode_chunk, encode_chunk
from sparkmirror.ledger.map_segments import Chunk, Segment
from sparkmirror.ledger.offset_map import OffsetMap, Translation
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.mapping import OffsetMapping
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords

QUEUED = QueuedRecords(memoryview(b""), 0, 0, lambda: None)
ORDERS = TopicPartition("orders", 3)
LOG = UUID(int=7)


def batch(base_offset: int, *spans: tuple[int, ...]) -> Batch:
    found = tuple(Span(*span) for span in spans)
    queued = QueuedRecords(memoryview(b""), 0, 0, lambda: None)
    count = sum(span.records + span.more for span in found)
    return Batch(memoryview(b""), 0, found, count, 0, Lineage(), queued, base_offset=base_offset)


def opened() -> OffsetMapping:
    mapping = OffsetMapping(1)
    mapping.generation = 4
    return mapping


def stored(mapping: OffsetMapping, position: int) -> list[tuple[ChunkName, Chunk]]:
    return [(name, chunk.map.as_chunk()) for _, chunk, name in mapping.changed({ORDERS: position}, {})]


def test_nothing_is_stored_of_a_partition_that_copied_nothing() -> None:
    mapping = opened()
    assert stored(mapping, 100) == []


def test_a_merged_batch_with_holes_is_mapped_span_by_span_from_where_the_task_began() -> None:
    mapping = opened()
    assert stored(mapping, 5) == []
    mapping.add(ORDERS, batch(70, (7, 3), (51, 2), (55, 1), (56, 40)))
    ((_, chunk),) = stored(mapping, 100)
    segments = Segment(5, 70, 63), Segment(10, 73, 22, bits=0b10011), Segment(56, 76, 20)
    assert chunk == Chunk(segments, 100, 116)
    assert stored(mapping, 100) == [], "nothing changed"
    ((_, advanced),) = stored(mapping, 125)
    assert advanced.end_source == 125


def test_behind_records_of_others_all_translates_to_the_last_place_before_them() -> None:
    """On the way back too; the next task's records follow."""
    mapping = opened()
    mapping.add(ORDERS, batch(0, (0, 5)))
    for first in (5, 8):
        mapping.add(ORDERS, batch(first + 2, (first, 2), (first + 2, 0, 1)), is_alone=False)
    ((_, chunk),) = stored(mapping, 12)
    found = OffsetMap(0)
    found.extend(decode_chunk(encode_chunk(chunk)))
    for offset in range(5, 20):
        assert found.translate(offset) == Translation(5, False)
    assert [found.translate_back(offset) for offset in (4, 5, 9)] == [
        Translation(4, True), Translation(5, False), Translation(5, False),
    ]  # fmt: skip
    found.extend(Chunk((Segment(12, 20, 8),), 14, 22))
    assert [found.translate(offset) for offset in (4, 5, 11, 12, 14)] == [
        Translation(4, True), Translation(5, False), Translation(5, False), Translation(20, True),
        Translation(22, True),
    ]  # fmt: skip
    assert [found.translate_back(offset) for offset in (19, 20)] == [Translation(5, False), Translation(12, True)]


def test_where_records_of_others_come_first_nothing_is_stored() -> None:
    mapping = opened()
    mapping.add(ORDERS, batch(7, (0, 5)), is_alone=False)
    assert stored(mapping, 5) == []


def test_a_place_that_the_broker_does_not_tell_is_uncertain() -> None:
    mapping = opened()
    mapping.add(ORDERS, batch(0, (0, 5)))
    mapping.add(ORDERS, batch(-1, (5, 5)))
    ((_, chunk),) = stored(mapping, 10)
    assert chunk.segments == (Segment(0, 0, 0), Segment(5, 5, 0, exact=False))


def test_what_became_of_one_record_is_mapped_with_it_over_several_batches() -> None:
    """Record 4 became four, in three batches; a marker stands before record 5, which became two."""
    mapping = opened()
    mapping.add(ORDERS, batch(10, (3, 2, 1)))
    mapping.add(ORDERS, batch(13, (5, 0, 1)))
    mapping.add(ORDERS, batch(14, (5, 0, 1)))
    ((_, chunk),) = stored(mapping, 5)
    assert chunk.segments == (Segment(3, 10, 7, splits=True), Segment(5, 15, 10)) and chunk.end_target == 15
    mapping.add(ORDERS, batch(16, (5, 1, 1), (6, 3)))
    ((_, chunk),) = stored(mapping, 9)
    assert chunk.segments[1:] == (Segment(5, 16, 11, splits=True), Segment(6, 18, 12))


def test_more_of_a_record_at_an_unknown_place_is_left_behind_with_it() -> None:
    mapping = opened()
    mapping.add(ORDERS, batch(10, (3, 2)))
    mapping.add(ORDERS, batch(-1, (5, 0, 4)))
    mapping.add(ORDERS, batch(30, (5, 1)))
    ((_, chunk),) = stored(mapping, 6)
    assert chunk.segments == (Segment(3, 10, 7, splits=True), Segment(5, 30, 25))


def test_a_full_chunk_is_stored_once_more_and_the_next_one_goes_on() -> None:
    mapping = opened()
    count = CHUNK_WEIGHT_MAX + 3
    for number in range(count):
        mapping.add(ORDERS, batch(number, (number * 50, 1)))
    (first, full), (second, rest) = stored(mapping, count * 50)
    assert (len(full.segments), len(rest.segments)) == (CHUNK_WEIGHT_MAX, 3)
    assert first < second
    assert full.end_source == rest.segments[0].first
    assert stored(mapping, count * 50) == []


def test_a_chunk_of_what_a_filter_left_is_full_when_it_has_as_many_bytes() -> None:
    mapping = opened()
    spans = find_spans(np.arange(0, 100_000, 2))
    for at, span in enumerate(spans):
        mapping.add(ORDERS, Batch(memoryview(b""), 0, (span,), 2048, 0, Lineage(), QUEUED, base_offset=at * 2048))
    chunks = [encode_chunk(chunk) for _, chunk in stored(mapping, 100_000)]
    assert max(map(len, chunks)) < 2000 and len(chunks) == -(-len(spans) // 2)


def test_a_partition_that_begins_again_gets_another_chunk() -> None:
    mapping = opened()
    mapping.add(ORDERS, batch(0, (0, 5)))
    mapping.close(ORDERS)
    mapping.add(ORDERS, batch(5, (2, 3)))
    chunks = stored(mapping, 5)
    assert [chunk.segments for _, chunk in chunks] == [(Segment(0, 0, 0),), (Segment(2, 5, 3),)]


def test_a_source_topic_that_was_made_again_begins_another_chunk_wherever_it_begins() -> None:
    mapping = opened()
    for first, base, log in ((0, 0, LOG), (5, 5, LOG), (12, 10, UUID(int=8))):
        one = batch(base, (first, 5))
        one.lineage = Lineage(log)
        mapping.add(ORDERS, one)
    (_, former), (_, now) = stored(mapping, 17)
    assert (former.segments, former.source_id) == ((Segment(0, 0, 0),), LOG)
    assert (now.segments, now.source_id) == ((Segment(12, 10, -2),), UUID(int=8))


def test_a_source_that_goes_back_begins_another_chunk_by_itself() -> None:
    mapping = opened()
    mapping.add(ORDERS, batch(0, (0, 5)))
    mapping.add(ORDERS, batch(5, (0, 5)))
    assert len(stored(mapping, 5)) == 2


def test_a_cut_is_said_also_where_nothing_but_the_position_moved() -> None:
    mapping = opened()
    assert stored(mapping, 100) == []
    mapping.cut(ORDERS, 90, 70, LOG)
    ((_, chunk),) = stored(mapping, 100)
    assert (chunk.segments, chunk.end_source) == ((Segment(90, 70, -20),), 100)


def test_a_chunk_belongs_to_the_generation_that_it_was_begun_in() -> None:
    mapping = opened()
    mapping.add(ORDERS, batch(0, (0, 5)))
    mapping.settle()
    mapping.generation = 9
    mapping.add(ORDERS, batch(5, (5, 5)))
    mapping.close(ORDERS)
    mapping.add(ORDERS, batch(10, (10, 5)))
    assert [name.generation for name, _ in stored(mapping, 15)] == [4, 9]


def test_what_was_not_taken_is_stored_again_under_its_name() -> None:
    mapping = opened()
    mapping.add(ORDERS, batch(0, (0, 5)))
    ((_, chunk, name),) = mapping.changed({ORDERS: 5}, {ORDERS: LOG})
    assert chunk.map.topic_id == LOG
    mapping.store_again(ORDERS, chunk)
    assert stored(mapping, 5) == [(name, chunk.map.as_chunk())]
    mapping.close(ORDERS)
    mapping.store_again(ORDERS, chunk)
    assert stored(mapping, 5) == [(name, chunk.map.as_chunk())]


def test_what_is_noted_of_many_spans_is_entered_before_long() -> None:
    """Also where nothing is stored for a while."""
    mapping = OffsetMapping(1)
    for at in range(2000):
        mapping.add_spans(ORDERS, 100 + 2 * at, (Span(at, 1),), LOG)
    assert len(mapping._noted) < 1000
