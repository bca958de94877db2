"""Which batches are merged: small ones, and far away all that wait; never for nothing."""

from dataclasses import replace

import pytest
from tests.unit.batch.witnesses import numbered_from, with_attributes

from sparkmirror.batch.header import APPEND_TIME, CONTROL, Codec
from sparkmirror.batch.headers import Headers, read_headers
from sparkmirror.batch.merging import MERGED_BYTES_MAX, PASSED_BYTES_MIN, Traffic, choose, may_pay
from sparkmirror.batch.records import encode_batch
from sparkmirror.batch.rewrite import Limits, rewrite

MEGABYTE = 1_000_000
NEAR = Traffic(in_flight=0, round_trip_seconds=0.002, max_batch_bytes=MEGABYTE)
FAR = Traffic(in_flight=4, round_trip_seconds=0.1, max_batch_bytes=MEGABYTE)


def queue(value_bytes: int, count: int, codec: Codec = Codec.NONE) -> Headers:
    """`count` batches of so many bytes each, incompressible enough for the sizes to be about true."""
    batch = with_attributes(encode_batch([(None, bytes(value_bytes))]), codec)  # only headers are looked at
    data = b"".join(numbered_from(batch, offset) for offset in range(count))
    return read_headers(memoryview(data), 0, len(data))


def chosen(value_bytes: int, count: int, traffic: Traffic, codec: Codec = Codec.NONE) -> int:
    headers = queue(value_bytes, count, codec)
    size = int(headers.table[0, 1])
    number = choose(headers, 0, traffic)
    if not may_pay(size, codec, size * count, traffic):
        assert number == 1 or (count < 8 and traffic is NEAR)
        return 1
    assert number > 1
    return number


def test_batches_of_one_small_record_are_merged_up_to_the_limit() -> None:
    assert chosen(100, 3000, NEAR) == 3000
    assert chosen(100, 10_000, NEAR) == MEGABYTE // len(encode_batch([(None, bytes(100))]))
    assert chosen(100, 8, NEAR) == 8


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("count", [2, 8, 80, 100_000])
def test_large_batches_are_never_worth_it_near_by(codec: Codec, count: int) -> None:
    traffic = replace(NEAR, max_batch_bytes=1 << 30, filled_bytes_max=1 << 30)
    assert not may_pay(PASSED_BYTES_MIN, codec, PASSED_BYTES_MIN * count, traffic)


def test_few_batches_are_not_worth_it_near_by_and_one_never_is() -> None:
    assert chosen(100, 7, NEAR) == chosen(100, 2, NEAR) == 1
    assert chosen(100, 3, FAR) == 3
    assert chosen(100, 1, NEAR) == chosen(100, 1, FAR) == 1


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.SNAPPY])
def test_batches_of_java_s_default_size_are_merged_where_the_codec_is_cheap(codec: Codec) -> None:
    assert chosen(11_000, 50, NEAR, codec) == 50


@pytest.mark.parametrize(("codec", "value_bytes"), [(Codec.ZSTD, 11_000), (Codec.GZIP, 11_000), (Codec.LZ4, 160_000)])
def test_what_costs_more_than_it_saves_passes_through_near_by(codec: Codec, value_bytes: int) -> None:
    assert chosen(value_bytes, 50, NEAR, codec) == 1
    assert chosen(160_000, 50, NEAR) == 1


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("value_bytes", [100, 11_000, 90_000])
def test_far_away_all_that_waits_is_merged(codec: Codec, value_bytes: int) -> None:
    fitting = MEGABYTE if codec is Codec.NONE else MEGABYTE * 9 // 10  # packed again they must fit into one, too
    assert chosen(value_bytes, 40, FAR, codec) == min(40, fitting // (value_bytes + 69))


def test_far_away_what_has_room_in_flight_need_not_wait_for_others() -> None:
    idle = Traffic(in_flight=0, round_trip_seconds=0.1, max_batch_bytes=MEGABYTE)
    assert chosen(160_000, 5, idle) == 1
    assert chosen(160_000, 6, idle) == 6


def test_no_merged_batch_is_larger_than_the_topic_or_memory_allow() -> None:
    wide = Traffic(in_flight=5, round_trip_seconds=0.2, max_batch_bytes=1 << 30)
    assert chosen(160_000, 100, wide) == MERGED_BYTES_MAX // (160_000 + 70)
    narrow = Traffic(in_flight=5, round_trip_seconds=0.2, max_batch_bytes=1000)
    assert chosen(900, 100, narrow) == 1


def test_only_neighbours_of_one_codec_are_merged_and_markers_do_not_part_them() -> None:
    batches = [encode_batch([(None, b"v")], Codec.LZ4, offset) for offset in range(8)]
    batches[3] = numbered_from(with_attributes(encode_batch([(None, b"v")]), CONTROL), 3)
    batches[6] = encode_batch([(None, b"v")], Codec.NONE, 6)
    data = memoryview(b"".join(batches))
    headers = read_headers(data, 0, len(data))
    assert choose(headers, 0, NEAR) == 6
    assert choose(headers, 6, NEAR) == 1
    assert len(list(rewrite(data[: headers.rows(0, 6).stop], 0, Limits(MEGABYTE)))) == 1


def test_a_batch_that_is_rewritten_anyway_takes_its_neighbours_along() -> None:
    batches = [numbered_from(encode_batch([(None, bytes(160_000))]), offset) for offset in range(4)]
    batches[0] = with_attributes(batches[0], APPEND_TIME)
    data = memoryview(b"".join(batches))
    headers = read_headers(data, 0, len(data))
    assert choose(headers, 0, NEAR) == 4
    assert choose(headers, 1, NEAR) == 1
