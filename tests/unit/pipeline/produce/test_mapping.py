"""The writer's record of where records went: what is stored, when, and again when it was not taken."""

from uuid import UUID

from sparkmirror.batch.piece import Span
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.ledger.map_records import CHUNK_SEGMENTS_MAX, ChunkName
from sparkmirror.ledger.offset_map import Chunk, Segment
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.mapping import OffsetMapping
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords

ORDERS = TopicPartition("orders", 3)
LOG = UUID(int=7)


def batch(base_offset: int, *spans: tuple[int, ...]) -> Batch:
    found = tuple(Span(*span) for span in spans)
    queued = QueuedRecords(memoryview(b""), 0, 0, lambda: None)
    count = sum(span.records + span.more for span in found)
    return Batch(memoryview(b""), 0, found, count, 0, Lineage(), queued, base_offset=base_offset)


def stored(mapping: OffsetMapping, position: int, generation: int = 4) -> list[tuple[ChunkName, Chunk]]:
    return [(name, chunk.map.as_chunk()) for _, chunk, name in mapping.changed({ORDERS: position}, generation, {})]


def test_nothing_is_stored_of_a_partition_that_copied_nothing() -> None:
    mapping = OffsetMapping()
    assert stored(mapping, 100) == []


def test_a_merged_batch_with_holes_is_mapped_span_by_span_from_where_the_task_began() -> None:
    mapping = OffsetMapping()
    assert stored(mapping, 5) == []
    mapping.add(ORDERS, batch(70, (7, 3), (11, 2)))
    ((_, chunk),) = stored(mapping, 20)
    assert chunk == Chunk((Segment(5, 70, 63), Segment(10, 73, 62)), 20, 75)
    assert stored(mapping, 20) == [], "nothing changed"
    ((_, advanced),) = stored(mapping, 25)
    assert advanced.end_source == 25


def test_a_place_that_the_broker_does_not_tell_is_uncertain() -> None:
    mapping = OffsetMapping()
    mapping.add(ORDERS, batch(0, (0, 5)))
    mapping.add(ORDERS, batch(-1, (5, 5)))
    ((_, chunk),) = stored(mapping, 10)
    assert chunk.segments == (Segment(0, 0, 0), Segment(5, 5, 0, exact=False))


def test_what_became_of_one_record_is_mapped_with_it_over_several_batches() -> None:
    """Record 4 became four, in three batches; a marker stands before record 5, which became two."""
    mapping = OffsetMapping()
    mapping.add(ORDERS, batch(10, (3, 2, 1)))
    mapping.add(ORDERS, batch(13, (5, 0, 1)))
    mapping.add(ORDERS, batch(14, (5, 0, 1)))
    ((_, chunk),) = stored(mapping, 5)
    assert chunk.segments == (Segment(3, 10, 7, splits=True), Segment(5, 15, 10)) and chunk.end_target == 15
    mapping.add(ORDERS, batch(16, (5, 1, 1), (6, 3)))
    ((_, chunk),) = stored(mapping, 9)
    assert chunk.segments[1:] == (Segment(5, 16, 11, splits=True), Segment(6, 18, 12))


def test_more_of_a_record_at_an_unknown_place_is_left_behind_with_it() -> None:
    mapping = OffsetMapping()
    mapping.add(ORDERS, batch(10, (3, 2)))
    mapping.add(ORDERS, batch(-1, (5, 0, 4)))
    mapping.add(ORDERS, batch(30, (5, 1)))
    ((_, chunk),) = stored(mapping, 6)
    assert chunk.segments == (Segment(3, 10, 7, splits=True), Segment(5, 30, 25))


def test_a_full_chunk_is_stored_once_more_and_the_next_one_goes_on() -> None:
    mapping = OffsetMapping()
    count = CHUNK_SEGMENTS_MAX + 3
    for number in range(count):
        mapping.add(ORDERS, batch(number, (number * 2, 1)))
    (first, full), (second, rest) = stored(mapping, count * 2)
    assert (len(full.segments), len(rest.segments)) == (CHUNK_SEGMENTS_MAX, 3)
    assert first < second
    assert full.end_source == rest.segments[0].first
    assert stored(mapping, count * 2) == []


def test_a_partition_that_begins_again_gets_another_chunk() -> None:
    mapping = OffsetMapping()
    mapping.add(ORDERS, batch(0, (0, 5)))
    mapping.close(ORDERS)
    mapping.add(ORDERS, batch(5, (2, 3)))
    chunks = stored(mapping, 5)
    assert [chunk.segments for _, chunk in chunks] == [(Segment(0, 0, 0),), (Segment(2, 5, 3),)]


def test_a_source_that_goes_back_begins_another_chunk_by_itself() -> None:
    mapping = OffsetMapping()
    mapping.add(ORDERS, batch(0, (0, 5)))
    mapping.add(ORDERS, batch(5, (0, 5)))
    assert len(stored(mapping, 5)) == 2


def test_what_was_not_taken_is_stored_again_under_its_name() -> None:
    mapping = OffsetMapping()
    mapping.add(ORDERS, batch(0, (0, 5)))
    ((_, chunk, name),) = mapping.changed({ORDERS: 5}, 4, {ORDERS: LOG})
    assert chunk.map.topic_id == LOG
    mapping.store_again(ORDERS, chunk)
    assert stored(mapping, 5, generation=9) == [(name, chunk.map.as_chunk())]
    mapping.close(ORDERS)
    mapping.store_again(ORDERS, chunk)
    assert stored(mapping, 5) == [(name, chunk.map.as_chunk())]
