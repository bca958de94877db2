"""Small batches joined into one have the same records, at the same offsets and times; all others are left alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.batch.witnesses import sealed, with_attributes

from sparkmirror.batch.header import APPEND_TIME, CONTROL, DELETE_HORIZON, HEADER_BYTES, Codec, parse_header
from sparkmirror.batch.joining import JOINED_BYTES_MAX, join, leading_batches
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.batch.unpacking import Unpacking
from sparkmirror.errors import ProtocolError

CODECS = [Codec.NONE, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
NOW_MS = 1_700_000_000_000
EPOCH = 4

records = st.builds(
    Record,
    offset=st.just(0),
    timestamp=st.integers(NOW_MS - 5000, NOW_MS + 5000),
    key=st.none() | st.binary(max_size=70),
    value=st.none() | st.binary(max_size=200),
    headers=st.lists(st.tuples(st.binary(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(tuple),
)


def batch(content: list[Record], first: int, codec: Codec = Codec.NONE) -> bytes:
    made = bytearray(encode_batch(content, codec, base_offset=first))
    made[12:16] = EPOCH.to_bytes(4, "big")
    return bytes(made)


def one(first: int, codec: Codec = Codec.NONE, size: int = 5, count: int = 1) -> bytes:
    return batch([Record(0, NOW_MS + first, b"k", b"v" * size)] * count, first, codec)


def neighbours(groups: list[list[Record]], codec: Codec, stamped: int) -> tuple[list[bytes], int]:
    """A batch of each group from offset 40 on, with append time where `stamped` has a bit; and where they end."""
    batches, first = [], 40
    for at, group in enumerate(groups):
        made = batch(group, first, codec)
        batches.append(with_attributes(made, APPEND_TIME | codec) if stamped >> at & 1 else made)
        first += len(group)
    return batches, first


def joined(*batches: bytes) -> tuple[int, bytearray | None]:
    """How many were put together, and into what."""
    found = leading_batches(memoryview(b"".join(batches)))
    return len(found), join(found, Unpacking())


@given(
    groups=st.lists(st.lists(records, min_size=1, max_size=16), min_size=2, max_size=6),
    codec=st.sampled_from(CODECS),
    stamped=st.integers(0, 63),
)
def test_the_records_are_the_same_with_their_offsets_and_times(
    groups: list[list[Record]], codec: Codec, stamped: int
) -> None:
    batches, first = neighbours(groups, codec, stamped)
    count, made_one = joined(*batches)
    assert count == len(batches)
    assert made_one is not None
    assert decode_records(made_one) == [record for made in batches for record in decode_records(made)]
    header = parse_header(made_one, 0)
    assert (header.base_offset, header.next_offset, header.records_count) == (40, first, first - 40)
    assert (header.codec, header.partition_leader_epoch, header.producer_id) == (codec, EPOCH, -1)
    assert header.attributes == codec
    assert header.max_timestamp == max(parse_header(made, 0).max_timestamp for made in batches)


@given(
    groups=st.lists(st.lists(records, min_size=1, max_size=16), min_size=1, max_size=6),
    codec=st.sampled_from(CODECS),
    stamped=st.integers(0, 63),
    data=st.data(),
)
def test_of_some_records_alone_times_and_contents_are_the_same(
    groups: list[list[Record]], codec: Codec, stamped: int, data: st.DataObject
) -> None:
    batches, first = neighbours(groups, codec, stamped)
    wanted = data.draw(st.sets(st.integers(40, first - 1), min_size=1))
    made_one = join(leading_batches(memoryview(b"".join(batches))), Unpacking(), wanted)
    assert made_one is not None
    there = [record for made in batches for record in decode_records(made) if record.offset in wanted]
    assert decode_records(made_one) == [replace(record, offset=40 + at) for at, record in enumerate(there)]
    header = parse_header(made_one, 0)
    assert (header.records_count, header.next_offset) == (len(wanted), 40 + len(wanted))
    assert header.max_timestamp == max(record.timestamp for record in there)


@pytest.mark.parametrize(
    "second",
    [
        one(42), one(41, Codec.LZ4), bytes(one(41)[:12] + b"\0\0\0\x05" + one(41)[16:]), one(41, Codec.GZIP),
        one(41, count=17), one(41, size=16 << 10), with_attributes(one(41), CONTROL),
        with_attributes(one(41), DELETE_HORIZON), one(41)[:-1], one(41)[:HEADER_BYTES],
        sealed(one(41)[:23] + b"\0\0\0\x05" + one(41)[27:]),
    ],
    ids=["behind a hole", "another codec", "another epoch", "gzip", "many records", "large", "control",
         "delete horizon", "cut off", "a header alone", "with holes"],
)  # fmt: skip
def test_what_is_unlike_the_batch_before_or_not_small_is_left_for_itself(second: bytes) -> None:
    found = leading_batches(memoryview(one(40) + second))
    assert [bytes(data) for data, _ in found] == [one(40)]


def test_no_more_than_so_many_bytes_become_one() -> None:
    run = memoryview(b"".join(one(at, size=8000) for at in range(40, 60)))
    assert sum(len(data) for data, _ in leading_batches(run)) <= JOINED_BYTES_MAX
    assert len(leading_batches(run)) == 8
    assert len(leading_batches(run, bytes_max=20_000)) == 2


@pytest.mark.parametrize("codec", CODECS)
def test_a_damaged_batch_is_joined_to_no_other(codec: Codec) -> None:
    damaged = bytearray(one(41, codec))
    damaged[-2] ^= 1
    count, made = joined(one(40, codec), bytes(damaged), one(42, codec))
    assert (count, made) == (3, None)


@pytest.mark.parametrize("at", range(HEADER_BYTES, len(one(41))))
def test_of_a_record_that_is_strange_nothing_changes_but_its_place_or_nothing_is_joined(at: int) -> None:
    """The checksum fits: so it came from the producer, and to judge it is the target's business."""
    strange = bytearray(one(41))
    strange[at] ^= 0x81
    second = sealed(bytes(strange))
    _, made = joined(one(40), second)
    if made is not None:
        assert bytes(made).endswith(second[-4:])
        assert outcome(bytes(made))[1:] == outcome(second)


def outcome(made: bytes) -> list[Record]:
    try:
        return decode_records(made)
    except ProtocolError:
        return []


def test_batches_that_become_too_much_are_not_joined_and_known_as_such() -> None:
    """100 bytes that become 100,000 each."""
    unpacking = Unpacking()
    bombs = b"".join(one(at, Codec.ZSTD, size=100_000) for at in range(40, 60))
    assert join(leading_batches(memoryview(bombs)), unpacking) is None
    assert unpacking.is_poor
