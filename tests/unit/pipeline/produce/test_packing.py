"""What a partition buffer makes of batches that cannot pass, and of many small ones; checked by reading what it
sends."""

import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels import load_kernels
from tests.unit.batch.witnesses import source_offsets
from tests.unit.pipeline.produce.known_producer import known

from sparkmirror.batch import crc
from sparkmirror.batch.encoding import find_spans
from sparkmirror.batch.header import APPEND_TIME, ATTRIBUTES_AT, HEADER, HEADER_BYTES, Codec, parse_header
from sparkmirror.batch.merging import IN_FLIGHT_MAX
from sparkmirror.batch.piece import Span
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.batch.unpacking import Unpacking, UnpackingBudget, UnpackingBusy
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import ContentTooLarge, ProtocolError, RecordTooLarge
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.acked_position import Place
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.limits import TopicLimits
from sparkmirror.pipeline.produce.packing import Packing
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords, slice_spans

WHERE = TopicPartition("orders", 0)
TARGET = TopicPartition("A.orders", 0)
NOW_MS = time.time_ns() // 1_000_000


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """Merging waits for nobody: where kernels are not loaded yet, batches pass."""
    load_kernels()


def new_buffer(
    packing: Packing, position: int = 0, limits: TopicLimits | None = None, clock: Clock = SYSTEM_CLOCK
) -> PartitionBuffer:
    buffer = PartitionBuffer(WHERE, None, position, 5, packing=packing, clock=clock)
    buffer.aim(TARGET.topic, limits or TopicLimits())
    return known(buffer, 1000, 7)


def batch(first: int, values: list[bytes], codec: Codec = Codec.NONE, timestamp: int = NOW_MS) -> bytes:
    return encode_batch([(b"k", value) for value in values], codec, base_offset=first, timestamp=timestamp)


def accept(buffer: PartitionBuffer, following: int, *batches: bytes, freed: list[int] | None = None) -> None:
    data = memoryview(bytearray(b"".join(batches)))
    free = (lambda: None) if freed is None else (lambda: freed.append(following))
    buffer.accept(QueuedRecords(data, buffer.position, following, free))


def send_all(buffer: PartitionBuffer) -> Iterator[Batch]:
    """Send and acknowledge, one batch after the other."""
    offset = 0
    while (sent := buffer.next_batch(1000, 7)) is not None:
        buffer.succeed(sent, offset)
        offset += sent.records
        yield sent


def values_of(sent: list[Batch]) -> list[bytes | None]:
    return [record.value for one in sent for record in decode_records(one.data)]


def test_one_record_a_batch_becomes_few_batches_with_every_offset_accounted_for() -> None:
    buffer = new_buffer(Packing())
    accept(buffer, 3000, *(batch(offset, [b"%d" % offset]) for offset in range(3000)))
    sent = list(send_all(buffer))
    assert len(sent) < 5
    assert values_of(sent) == [b"%d" % offset for offset in range(3000)]
    assert [one.spans for one in sent] == [(Span(0, 3000),)]
    assert [parse_header(one.data, 0).base_sequence for one in sent] == [0]
    assert buffer.acknowledged == 3000


def test_small_runs_that_wait_become_one_and_their_memory_is_free_when_it_is_acknowledged() -> None:
    buffer = new_buffer(Packing())
    freed: list[int] = []
    accept(buffer, 10, batch(0, [b"v"] * 10), freed=freed)
    for _ in range(3):
        first = buffer.next_batch(1000, 7)
        assert first is not None
        for start in range(buffer.position, buffer.position + 200):
            accept(buffer, start + 1, batch(start, [b"w"]), freed=freed)
        merged = buffer.next_batch(1000, 7)
        assert merged is not None
        assert merged.spans == (Span(merged.next_offset - 200, 200),)
        before = len(freed)
        buffer.succeed(first)
        buffer.succeed(merged)
        assert len(freed) == before + 201
        assert buffer.idle
        accept(buffer, buffer.position + 10, batch(buffer.position, [b"v"] * 10), freed=freed)
    assert buffer.sendable


def test_a_lone_record_with_append_time_passes_in_its_own_memory() -> None:
    buffer = new_buffer(Packing())
    data = bytearray(batch(0, [b"v"]))
    header = parse_header(data, 0)._replace(attributes=APPEND_TIME, max_timestamp=NOW_MS + 5)
    data[:HEADER_BYTES] = HEADER.pack(*header)
    data[17:21] = crc.value(bytes(data[ATTRIBUTES_AT:])).to_bytes(4, "big")
    accept(buffer, 1, bytes(data))
    waiting = buffer._waiting.runs[0].data
    (sent,) = send_all(buffer)
    assert sent.data.obj is waiting.obj
    assert [(record.timestamp, record.value) for record in decode_records(sent.data)] == [(NOW_MS + 5, b"v")]


@pytest.mark.parametrize(("waiting", "sent_batches"), [(2, 2), (7, 7), (8, 1)])
def test_a_few_batches_of_many_records_that_wait_pass_near_the_target(waiting: int, sent_batches: int) -> None:
    buffer = new_buffer(Packing())
    accept(buffer, 20 * waiting, *(batch(20 * at, [b"%d" % at] * 20) for at in range(waiting)))
    sent = list(send_all(buffer))
    assert [one.records for one in sent] == [20 * waiting // sent_batches] * sent_batches
    assert values_of(sent) == [b"%d" % at for at in range(waiting) for _ in range(20)]


def test_a_few_batches_of_few_records_that_wait_become_one_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkmirror.pipeline.produce.packing.kernels_pay", lambda _: False)
    buffer = new_buffer(Packing())
    accept(buffer, 2, batch(0, [b"0"]), batch(1, [b"1"]))
    accept(buffer, 3, batch(2, [b"2"]))
    (sent,) = send_all(buffer)
    assert sent.spans == (Span(0, 3),)
    assert values_of([sent]) == [b"0", b"1", b"2"]
    assert (buffer.acknowledged, buffer.idle) == (3, True)


def test_large_batches_pass_untouched_however_many_wait() -> None:
    buffer = new_buffer(Packing())
    large = [batch(offset * 10, [b"x" * 10_000] * 10) for offset in range(8)]
    accept(buffer, 80, *large)
    sent = list(send_all(buffer))
    assert [one.records for one in sent] == [10] * 8


def test_compressed_batches_pass_near_and_merge_far() -> None:
    """Far away, at most five batches a round trip: there time is worth more than the codec's work."""

    def run(round_trip_seconds: float) -> int:
        buffer = new_buffer(Packing())
        buffer.round_trip.measure(round_trip_seconds)
        incompressible = [random.Random(seed).randbytes(11_000) for seed in range(40)]
        accept(buffer, 40, *(batch(offset, [value], Codec.GZIP) for offset, value in enumerate(incompressible)))
        first = [buffer.next_batch(1000, 7) for _ in range(IN_FLIGHT_MAX)]
        return sum(one.records for one in first if one is not None)

    assert run(0.001) == IN_FLIGHT_MAX
    assert run(0.2) == 40


def test_holes_are_closed_and_the_end_of_the_last_batch_is_reached() -> None:
    """As compaction leaves them: offsets 2, 5 and 9 of a batch over 0 … 11, then a batch without any record."""
    records = [Record(offset, NOW_MS, b"k", b"%d" % offset) for offset in (2, 5, 9)]
    holes = with_offsets(records, 0, 11)
    buffer = new_buffer(Packing())
    accept(buffer, 20, holes, empty_batch(12, 15), batch(16, [b"16", b"17", b"18", b"19"]))
    sent = list(send_all(buffer))
    assert values_of(sent) == [b"2", b"5", b"9", b"16", b"17", b"18", b"19"]
    spans = [span for one in sent for span in one.spans]
    assert spans == [Span(2, 7, bits=0b111100000010001001)]
    assert (buffer.acknowledged, buffer.idle) == (20, True)


def test_a_run_of_nothing_but_empty_batches_is_accounted_for() -> None:
    buffer = new_buffer(Packing())
    accept(buffer, 8, empty_batch(0, 3), empty_batch(4, 7))
    assert list(send_all(buffer)) == []
    assert (buffer.acknowledged, buffer.idle) == (8, True)


def test_a_batch_is_cut_where_the_position_lies_inside_it() -> None:
    buffer = new_buffer(Packing(), position=3)
    accept(buffer, 6, batch(0, [b"%d" % offset for offset in range(6)], Codec.LZ4))
    sent = list(send_all(buffer))
    assert values_of(sent) == [b"3", b"4", b"5"]
    assert sent[0].spans == (Span(3, 3),)


def test_what_the_target_does_not_take_is_split_once_its_limit_is_known() -> None:
    limits = TopicLimits()
    buffer = new_buffer(Packing(), limits=limits)
    whole = batch(0, [b"x" * 400] * 10)
    accept(buffer, 10, whole)
    sent = buffer.next_batch(1000, 7)
    assert sent is not None and sent.records == 10, "nobody has said yet that it is too large"
    sent.waiting = False
    buffer.rewind()
    limits.max_message_bytes = 1000
    accept(buffer, 10, whole)
    split = list(send_all(buffer))
    assert all(len(one.data) <= 1000 for one in split)
    assert [one.records for one in split] == [2] * 5
    assert [one.next_offset for one in split] == [2, 4, 6, 8, 10]
    assert [parse_header(one.data, 0).base_sequence for one in split] == [0, 2, 4, 6, 8]


def test_a_record_that_never_fits_is_named_after_all_before_it_went_out() -> None:
    buffer = new_buffer(Packing(), limits=TopicLimits(max_message_bytes=1000))
    accept(buffer, 3, batch(0, [b"a", b"b" * 2000, b"c"]))
    sent = buffer.next_batch(1000, 7)
    assert sent is not None and values_of([sent]) == [b"a"]
    for _ in range(2):
        with pytest.raises(RecordTooLarge, match=r"source offset 1 .* max.message.bytes is 1000"):
            buffer.next_batch(1000, 7)
    buffer.succeed(sent)
    buffer.rewind()
    assert (buffer.acknowledged, buffer.position) == (1, 1)


def test_all_records_get_the_codec_that_the_flow_asks_for() -> None:
    buffer = new_buffer(Packing(codec=Codec.ZSTD))
    accept(buffer, 30, *(batch(at * 10, [b"v" * 50] * 10, codec) for at, codec in enumerate([0, 3, 4])))  # type: ignore[arg-type]
    sent = list(send_all(buffer))
    assert {parse_header(one.data, 0).codec for one in sent} == {Codec.ZSTD}
    assert values_of(sent) == [b"v" * 50] * 30


def test_timestamps_of_the_far_future_get_the_latest_that_the_target_takes_where_asked() -> None:
    day_ms = 86_400_000
    buffer = new_buffer(Packing(clamp_timestamps=True), limits=TopicLimits(timestamp_after_max_ms=day_ms))
    accept(buffer, 3, batch(0, [b"near"]), batch(1, [b"far"], timestamp=NOW_MS + 3 * day_ms), batch(2, [b"near"]))
    records = [record for one in send_all(buffer) for record in decode_records(one.data)]
    assert [record.value for record in records] == [b"near", b"far", b"near"]
    assert records[0].timestamp == records[2].timestamp == NOW_MS
    assert NOW_MS + day_ms // 2 < records[1].timestamp <= time.time_ns() // 1_000_000 + day_ms


def test_a_damaged_batch_behind_good_ones_fails_after_they_went_out() -> None:
    buffer = new_buffer(Packing())
    good = [batch(offset, [b"v"]) for offset in range(500)]
    broken = bytearray(batch(500, [b"v"]))
    broken[-1] ^= 1
    accept(buffer, 501, *good, bytes(broken))
    with pytest.raises(ProtocolError, match="500"):
        list(send_all(buffer))
    assert buffer.acknowledged <= 500


def test_an_eviction_in_the_middle_of_a_split_keeps_the_next_piece_alone() -> None:
    buffer = new_buffer(Packing(), limits=TopicLimits(max_message_bytes=1000))
    freed: list[int] = []
    accept(buffer, 10, batch(0, [b"x" * 400] * 10), freed=freed)
    first = buffer.next_batch(1000, 7)
    assert first is not None
    buffer.succeed(first)
    buffer.evict()
    assert (freed, buffer.position) == ([10], 4)
    kept = list(send_all(buffer))
    assert [one.spans for one in kept] == [(Span(2, 2),)]
    assert buffer.acknowledged == 4


def with_offsets(records: list[Record], first: int, last: int) -> bytes:
    """A batch over `first` … `last` with holes: the offset deltas of a dense one, rewritten (each is one byte)."""
    data = bytearray(encode_batch(records, base_offset=first))
    at = 61
    for record in records:
        length = data[at] >> 1
        assert data[at + 2] == 0, "all records have the same time"
        data[at + 3] = (record.offset - first) << 1
        at += 1 + length
    return with_fields(bytes(data), last_offset_delta=last - first)


def empty_batch(first: int, last: int) -> bytes:
    """What compaction keeps of a batch for its producer's sake: a header."""
    data = encode_batch([(b"k", b"v")], base_offset=first)[:61]
    return with_fields(data, batch_length=49, last_offset_delta=last - first, records_count=0)


def with_fields(data: bytes, **fields: int) -> bytes:
    """The batch with other header fields and the checksum that goes with them."""
    header = parse_header(data, 0)._replace(**fields)
    covered = HEADER.pack(*header)[ATTRIBUTES_AT:] + data[HEADER_BYTES:]
    return HEADER.pack(*header._replace(crc=crc.value(covered)))[:ATTRIBUTES_AT] + covered


def test_control_batches_among_small_ones_vanish() -> None:
    buffer = new_buffer(Packing())
    marker = bytearray(batch(5, [b"m"]))
    marker[ATTRIBUTES_AT + 1] |= 0x30
    accept(
        buffer,
        401,
        batch(0, [b"v"] * 5),
        bytes(marker),
        *(batch(offset, [b"v"]) for offset in range(6, 400)),
        bytes(with_base(bytes(marker), 400)),
    )
    sent = list(send_all(buffer))
    assert [span for one in sent for span in one.spans] == [Span(0, 5), Span(6, 394)]
    assert (buffer.acknowledged, buffer.idle) == (401, True)


def with_base(data: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + data[8:]


def test_a_refused_batch_is_split_where_it_stands_and_what_follows_keeps_its_sequence() -> None:
    """Without reading it again: a bounded read may be over by then."""
    limits = TopicLimits()
    buffer = new_buffer(Packing(merging=False), limits=limits)
    accept(buffer, 12, batch(0, [b"x" * 400] * 10), batch(10, [b"y"] * 2))
    first, second = (buffer.next_batch(1000, 7) for _ in range(2))
    assert first is not None and second is not None
    buffer.await_limits(first)
    buffer.retry(second)
    assert not buffer.sendable, "nobody knows yet how large it may be"
    limits.max_message_bytes = 1000
    buffer.know_limits()
    sent: list[Any] = []
    while buffer.sendable and (again := buffer.next_batch(1000, 7)) is not None:
        sent.append(again)
    assert len(sent) == IN_FLIGHT_MAX, "no more than may be on their way"
    for one in sent:
        buffer.succeed(one)
    rest = buffer.next_batch(1000, 7)
    assert rest is second
    buffer.succeed(rest)
    assert [parse_header(one.data, 0).base_sequence for one in [*sent, rest]] == [0, 2, 4, 6, 8, 10]
    assert [one.spans for one in sent] == [(Span(first, 2),) for first in range(0, 10, 2)]
    assert values_of(sent) == [b"x" * 400] * 10
    assert (buffer.acknowledged, buffer.idle) == (12, True)


def test_the_spans_of_a_part_are_those_of_its_records() -> None:
    spans = (Span(2, 3), Span(9, 1), Span(20, 4))
    assert slice_spans(spans, 0, 8) == spans
    assert slice_spans(spans, 1, 4) == (Span(3, 2), Span(9, 1), Span(20, 1))
    assert slice_spans(spans, 4, 2) == (Span(20, 2),)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=80), st.data())
def test_parts_of_a_batch_have_the_offsets_of_its_records(offsets: list[int], data: st.DataObject) -> None:
    """Also of several records that were made of one, and of those a filter left."""
    ordered = sorted(offsets)
    spans = find_spans(np.array(ordered))
    assert source_offsets(spans) == ordered
    first = data.draw(st.integers(0, len(ordered) - 1))
    records = data.draw(st.integers(1, len(ordered) - first))
    assert source_offsets(slice_spans(spans, first, records)) == ordered[first : first + records]


def test_what_a_filter_leaves_takes_a_bit_for_each_offset() -> None:
    every_other = np.arange(7, 20_007, 2)
    spans = find_spans(every_other)
    starts = [(span.first_offset, span.records) for span in spans]
    assert starts == [(7, 2048), (4103, 2048), (8199, 2048), (12_295, 2048), (16_391, 1808)]
    assert spans[0].bits == int("01" * 2048, 2)
    far = np.array([0, 1, 5000, 5001, 10_000])
    assert find_spans(far) == (Span(0, 2), Span(5000, 2), Span(10_000, 1))
    parted = np.append(np.arange(0, 1000, 2), np.arange(600_000, 601_000, 2))
    assert [(span.first_offset, span.records) for span in find_spans(parted)] == [(0, 500), (600_000, 500)]


def test_what_is_left_of_a_run_is_merged_with_the_runs_behind_it() -> None:
    """Or each run would end in a small batch, which costs far targets their rate."""
    buffer = new_buffer(Packing())
    freed: list[int] = []
    buffer.round_trip.measure(0.2)
    for run in range(3):
        batches = [batch(run * 8 + at, [b"x" * 160_000]) for at in range(8)]
        accept(buffer, run * 8 + 8, *batches, freed=freed)
    accept(buffer, 30)  # a gap
    sent = [buffer.next_batch(1000, 7) for _ in range(5)]
    whole = [one for one in sent if one is not None]
    assert [one.spans for one in whole] == [(Span(first, 6),) for first in range(0, 24, 6)]
    reached = []
    for one in whole:
        buffer.succeed(one)
        reached.append((buffer.acknowledged, list(freed)))
    assert reached == [(6, []), (12, [8]), (18, [8, 16]), (30, [8, 16, 24])]
    assert buffer.idle


def test_a_damaged_header_behind_runs_that_are_merged_loses_none_of_them() -> None:
    """The batches before it go out; it fails its partition when its turn comes."""
    for spoilt_run in (1, 2):
        buffer = new_buffer(Packing())
        buffer.round_trip.measure(0.2)
        for run in range(1, 4):
            batches = [batch(run * 20 + at, [b"v"]) for at in range(20)]
            if run == spoilt_run:
                batches[10] = b"\x07" * 100
            if run == 1:
                buffer.restart_at(Place(20))
            accept(buffer, run * 20 + 20, *batches)
        sent: list[Any] = []
        with pytest.raises(ProtocolError):
            for one in send_all(buffer):
                sent.append(one)
        records = spoilt_run * 20 - 20 + 10
        assert sent[0].spans[0].first_offset == 20
        assert sum(one.records for one in sent) == records
        assert buffer.acknowledged == 20 + records


def test_many_small_batches_wait_for_kernels_that_are_being_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkmirror.pipeline.produce.packing.kernels_pay", lambda _: False)
    monkeypatch.setattr("sparkmirror.pipeline.produce.packing.kernels_soon", lambda: True)
    small = [batch(offset, [b"v"]) for offset in range(1200)]
    many, few, own, far = (
        new_buffer(Packing()),
        new_buffer(Packing()),
        new_buffer(Packing(merging=False)),
        new_buffer(Packing()),
    )
    accept(many, 1200, *small)
    accept(few, 300, *small[:300])
    accept(own, 1200, *small)
    assert many.awaits_kernels
    assert not few.awaits_kernels and not own.awaits_kernels
    accept(far, 1000, *(batch(20 * at, [b"v"] * 20) for at in range(50)))
    first = far.next_batch(1000, 7)
    assert first is not None
    first.sent_at -= 0.1
    far.succeed(first, 0)
    assert far.awaits_kernels, "49 batches are ten round trips"
    monkeypatch.setattr("sparkmirror.pipeline.produce.packing.kernels_soon", lambda: False)
    assert not many.awaits_kernels


def test_what_is_rebuilt_for_another_codec_takes_its_neighbours_along() -> None:
    buffer = new_buffer(Packing(codec=Codec.ZSTD))
    rng = random.Random(4)
    large = [batch(offset, [rng.randbytes(60_000)]) for offset in range(10)]
    accept(buffer, 10, *large)
    assert [sent.records for sent in send_all(buffer)] == [10], "it would not pay for batches that could pass"


def bomb(first: int, codec: Codec = Codec.ZSTD) -> bytes:
    """50 MiB of zeros in 1.7 KB, or 50 KB of gzip."""
    return encode_batch([(b"k", bytes(50 << 20))], codec, base_offset=first, timestamp=NOW_MS)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_bombs_pass_as_they_are_however_small_they_are(codec: Codec) -> None:
    """Far away, where time is the cost, all that waits would be merged."""
    bombs = [bomb(at, codec) for at in range(12)]
    buffer = new_buffer(Packing())
    accept(buffer, 12, *bombs)
    buffer.round_trip.measure(0.2)
    began = time.process_time()
    sent = list(send_all(buffer))
    assert [bytes(one.data[HEADER_BYTES:]) for one in sent] == [one[HEADER_BYTES:] for one in bombs]
    assert buffer.unpacking.is_poor
    assert time.process_time() - began < 1, "12 of them take 2 s to be unpacked and packed"


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_what_a_broker_has_to_unpack_of_bombs_that_pass_is_counted(codec: Codec) -> None:
    buffer = new_buffer(Packing(merging=False))
    accept(buffer, 12, *[bomb(at, codec) for at in range(12)])
    list(send_all(buffer))
    assert buffer.unpacking.is_poor
    assert buffer.unpacking.owed_seconds == pytest.approx(12 * 50 / 1024, rel=0.05)


@pytest.mark.parametrize("codec", list(Codec))
def test_records_that_shrink_tenfold_count_as_no_bombs(codec: Codec) -> None:
    values = [b"value %d " % (at // 9) * 20 for at in range(5000)]
    buffer = new_buffer(Packing(merging=False))
    accept(buffer, 5000, batch(0, values, codec))
    list(send_all(buffer))
    assert not buffer.unpacking.is_poor
    assert buffer.unpacking.owed_seconds == 0


def test_a_bomb_behind_small_batches_parts_what_is_merged_from_what_passes() -> None:
    values = [b"value %d" % at for at in range(60)]
    batches = [batch(at, [value], Codec.ZSTD) for at, value in enumerate(values)]
    buffer = new_buffer(Packing())
    accept(buffer, 121, *batches, bomb(60), *[batch(61 + at, [value], Codec.ZSTD) for at, value in enumerate(values)])
    sent = list(send_all(buffer))
    assert sum(one.records for one in sent) == 121
    assert buffer.acknowledged == 121
    assert sent[0].records == 60, "merged up to the bomb"
    assert bytes(sent[1].data[HEADER_BYTES:]) == bomb(60)[HEADER_BYTES:]
    assert [one.records for one in sent[1:]] == [1] * 61, "passed through from then on"
    assert [span for one in sent for span in one.spans] == [Span(0, 60), *(Span(at, 1) for at in range(60, 121))]


def test_a_bomb_that_cannot_pass_is_named_after_all_before_it_went_out() -> None:
    buffer = new_buffer(Packing(codec=Codec.LZ4))
    accept(buffer, 31, batch(0, [b"v"] * 10, Codec.ZSTD), batch(10, [b"v"] * 20, Codec.ZSTD), bomb(30))
    sent = send_all(buffer)
    assert next(sent).records == 30
    with pytest.raises(
        ContentTooLarge, match=r"record batch at offset 30, of \d+ bytes: a zstd .* 16777216 bytes once"
    ):
        next(sent)
    assert buffer.acknowledged == 30
    buffer.rewind()
    assert buffer.unpacking.budget.held_bytes == 0


def test_a_poor_ratio_is_found_by_what_comes_out_where_each_batch_is_small() -> None:
    """100 bytes that become 100,000 each: no single one is refused, but what they cost is known after the first few."""
    batches = [encode_batch([(None, bytes(100_000))], Codec.ZSTD, at, timestamp=NOW_MS) for at in range(400)]
    assert max(map(len, batches)) < 200
    buffer = new_buffer(Packing())
    accept(buffer, 400, *batches)
    sent = list(send_all(buffer))
    assert buffer.unpacking.is_poor
    assert buffer.acknowledged == 400
    assert sum(one.records == 1 for one in sent) > 300


def test_a_buffer_waits_for_the_unpacking_budget_and_continues_where_it_was() -> None:
    budget = UnpackingBudget(8 << 20)
    busy = Unpacking(budget)
    buffer = new_buffer(Packing(codec=Codec.GZIP), limits=TopicLimits(max_message_bytes=3000))
    buffer.unpacking = Unpacking(budget)
    values = [random.Random(at).randbytes(500) for at in range(300)]
    accept(buffer, 300, *(batch(at * 100, values[at * 100 : at * 100 + 100], Codec.ZSTD) for at in range(3)))
    with busy.holding(8 << 20), pytest.raises(UnpackingBusy):
        buffer.next_batch(1000, 7)
    sent: list[Any] = []
    for one in send_all(buffer):
        sent.append(one)
        if len(sent) % 7 == 0:
            buffer.park()
            with busy.holding(8 << 20):
                assert budget.held_bytes == 8 << 20, "what was unpacked is given back while it is parked"
    assert values_of(sent) == values
    assert buffer.acknowledged == 300


@pytest.mark.parametrize("number", [5, 6, 7])
@pytest.mark.parametrize("packing", [Packing(), Packing(merging=False), Packing(codec=Codec.ZSTD)], ids=str)
@pytest.mark.parametrize("has_holes", [False, True])
def test_a_codec_that_kafka_does_not_have_is_this_partition_s_problem(
    number: int, packing: Packing, has_holes: bool
) -> None:
    strange = with_fields(batch(10, [b"v"] * 3), attributes=number, last_offset_delta=4 if has_holes else 2)
    buffer = new_buffer(packing)
    accept(buffer, 15, batch(0, [b"v"] * 10), strange)
    sent = send_all(buffer)
    assert next(sent).records == 10
    with pytest.raises(ProtocolError, match=f"offset 10 names an unknown codec, number {number}"):
        next(sent)
    assert buffer.acknowledged == 10
