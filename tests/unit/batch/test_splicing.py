"""Several lz4 batches become one batch, and their records are not compressed again. Each record stays what it was,
whichever client compressed it."""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import lz4.block
import lz4.frame
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.batch.witnesses import (
    ONE_MEBIBYTE,
    numbered_from,
    read_by_kafka_python,
    sealed,
    source_offsets,
    with_attributes,
)

from sparkmirror.batch import lz4_blocks
from sparkmirror.batch.codecs import decompress
from sparkmirror.batch.columns import PLACE_COLUMNS
from sparkmirror.batch.header import APPEND_TIME, ATTRIBUTES_AT, DELETE_HORIZON, HEADER_BYTES, Codec, parse_header
from sparkmirror.batch.headers import Headers, read_headers
from sparkmirror.batch.merging import MERGED_BYTES_MAX
from sparkmirror.batch.piece import Piece
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.batch.rewrite import Limits, rewrite
from sparkmirror.batch.splicing import splice
from sparkmirror.batch.unpacking import Unpacking, UnpackingBudget
from sparkmirror.errors import ProtocolError

FILLER_BYTES = 6000
"""Of random bytes in each batch, so that it does not count as a small one."""
SIZES, FIRST_BLOCK = 5, 7


class Client(NamedTuple):
    """How a client compresses the records of a batch."""

    name: str
    compress: Callable[[bytes], bytes]


def framed(block: bytes, *, is_raw: bool = False, begin: str = "04224d18604082") -> bytes:
    """A frame of one block, as Java's client begins it: independent blocks of up to 64 KB, no checksums."""
    word = len(block) | is_raw << 31
    return bytes.fromhex(begin) + word.to_bytes(4, "little") + block + bytes(4)


def in_one_raw_block(content: bytes) -> bytes:
    return framed(content, is_raw=True)


def as_java_does(content: bytes) -> bytes:
    return framed(lz4.block.compress(content, store_size=False))


def thoroughly(content: bytes) -> bytes:
    packed = lz4.block.compress(content, mode="high_compression", compression=9, store_size=False)
    return framed(packed, begin="04224d18607073")


def by_frames(**options: object) -> Callable[[bytes], bytes]:
    return lambda content: lz4.frame.compress(content, block_linked=False, **options)


CLIENTS = [
    Client("Java's", as_java_does),
    Client("uncompressed block", in_one_raw_block),
    Client("plain", by_frames(store_size=False)),
    Client("with its size", by_frames(store_size=True)),
    Client("with checksums", by_frames(block_checksum=True, content_checksum=True)),
    Client("large blocks, high compression", thoroughly),
]
any_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


def batch_by(client: Client, records: Sequence[Record], base_offset: int) -> bytes:
    batch = bytearray(numbered_from(encode_batch(records), base_offset))
    packed = client.compress(bytes(batch[HEADER_BYTES:]))
    return with_attributes(bytes(batch[:HEADER_BYTES]) + packed, Codec.LZ4)


def numbered(batches: Sequence[Sequence[Record]], base_offset: int = 0) -> list[Record]:
    records = [record for batch in batches for record in batch]
    return [Record(base_offset + at, r.timestamp, r.key, r.value, r.headers) for at, r in enumerate(records)]


def batches_by(client: Client, batches: Sequence[Sequence[Record]], base_offset: int = 0) -> bytes:
    made, offset = [], base_offset
    for records in batches:
        made.append(batch_by(client, records, offset))
        offset += len(records)
    return b"".join(made)


def headers_of(data: bytes) -> Headers:
    return read_headers(memoryview(data), 0, len(data))


def spliced(data: bytes, max_bytes: int = ONE_MEBIBYTE, clamp_to_ms: int | None = None) -> tuple[Piece, int] | None:
    found = splice(memoryview(data), headers_of(data), 0, max_bytes, Unpacking(), clamp_to_ms)
    if found is not None:
        frame = memoryview(found[0].data)[HEADER_BYTES:]
        blocks = raw_blocks(found[0].data)
        content = b"".join(unpacked(block) if is_packed else block for is_packed, block in blocks)
        assert content == decompress(Codec.LZ4, frame, len(content))
    return found


def records_of(piece: Piece) -> list[Record]:
    inside = decode_records(piece.data)
    assert read_by_kafka_python(bytes(piece.data)) == inside
    offsets = source_offsets(piece.spans)
    return [Record(offset, r.timestamp, r.key, r.value, r.headers) for offset, r in zip(offsets, inside, strict=True)]


def raw_blocks(batch: bytes | bytearray) -> list[tuple[bool, bytes]]:
    """Of a frame without checksums: whether each is compressed, and its bytes."""
    at, found = HEADER_BYTES + FIRST_BLOCK, []
    while word := int.from_bytes(batch[at : at + 4], "little"):
        size = word & ~(1 << 31)
        found.append((word == size, bytes(batch[at + 4 : at + 4 + size])))
        at += 4 + size
    return found


def blocks_of(batch: bytes | bytearray) -> list[int]:
    return [len(block) for _, block in raw_blocks(batch)]


def unpacked(block: bytes) -> bytes:
    """By the letter of the block format, with what it asks of a block's end, which readers need not look at."""
    content, at, last_match_at = bytearray(), 0, 0

    def length(short: int) -> int:
        nonlocal at
        while short >= 15:
            short, at = short + block[at], at + 1
            if block[at - 1] != 255:
                break
        return short

    while True:
        token, at = block[at], at + 1
        literals = length(token >> 4)
        content += block[at : at + literals]
        at += literals
        if at == len(block):
            assert not last_match_at or (literals >= 5 and last_match_at <= len(content) - 12)
            return bytes(content)
        back, at = int.from_bytes(block[at : at + 2], "little"), at + 2
        last_match_at = len(content)
        assert 0 < back <= len(content)
        for _ in range(length(token & 15) + 4):
            content.append(content[-back])


def filler(seed: int, size_bytes: int = FILLER_BYTES) -> bytes:
    return random.Random(seed).randbytes(size_bytes)


def orders(batch: int, records: int = 15) -> list[Record]:
    """Of a few hundred bytes each, alike but for their numbers and some noise."""
    noise = random.Random(batch)
    value = b'{"order": %d, "customer": %d, "status": "shipped", "note": "%s", "status": "shipped"}'
    return [
        Record(0, 1_700_000_000_000 + at, b"k%d" % at, value % (batch, at, noise.randbytes(300).hex().encode()))
        for at in range(records)
    ]


pieces_of_values = st.sampled_from([b"a", b"abcabcabc", b'{"order": 1, ', b"\0" * 70, b"0123456789abcdef"])
values = st.lists(pieces_of_values, max_size=12).map(b"".join)
times = st.integers(-1, 2**45)
headers = st.lists(st.tuples(st.sampled_from([b"h", b"header"]), st.none() | values), max_size=2).map(tuple)
records = st.lists(st.builds(Record, st.just(0), times, st.none() | values, values, headers), min_size=1, max_size=40)


@any_client
@given(drawn=st.lists(records, min_size=2, max_size=5), base_offset=st.integers(0, 2**40), first=st.booleans())
def test_records_stay_what_they_were(client: Client, drawn: list[list[Record]], base_offset: int, first: bool) -> None:
    for at, batch in enumerate(drawn):
        batch.insert(0 if first else len(batch), Record(0, 5, None, filler(at)))
    found = spliced(batches_by(client, drawn, base_offset))
    assert found is not None
    piece, rows = found
    assert rows == len(drawn)
    assert len(blocks_of(piece.data)) == len(drawn)
    assert records_of(piece) == numbered(drawn, base_offset)
    assert parse_header(piece.data, 0).codec is Codec.LZ4
    assert parse_header(piece.data, 0).max_timestamp == max(r.timestamp for batch in drawn for r in batch)


@any_client
def test_the_batch_is_about_as_large_as_those_it_was_made_of(client: Client) -> None:
    drawn = [orders(at) for at in range(50)]
    data = batches_by(client, drawn)
    found = spliced(data)
    assert found is not None
    piece, rows = found
    assert (rows, records_of(piece)) == (50, numbered(drawn))
    assert len(piece.data) < len(data) * 1.01


def test_what_comes_again_from_as_far_back_as_may_be_is_cut_where_it_moves_away() -> None:
    """Records between that get one byte more each move it beyond the 65,535 bytes that a block can tell."""
    thorough, known = CLIENTS[-1], filler(0, 40)
    begin = [Record(0, 5, None, b"") for _ in range(64)]
    begin.append(Record(0, 5, None, filler(1)))
    sizes = []
    for more in range(40):
        between = [Record(0, 5, None, filler(2 + at, 13_080 + (more if at == 1 else 0))) for at in range(5)]
        batch = [Record(0, 5, None, bytes(2000)), Record(0, 5, None, known), *between, Record(0, 5, None, known)]
        found = spliced(batches_by(thorough, [begin, batch]))
        assert found is not None
        assert records_of(found[0]) == numbered([begin, batch])
        sizes.append(len(found[0].data) - more)
    assert max(sizes) > min(sizes) + 20, "in some it was near enough, in some too far"


@any_client
@pytest.mark.parametrize("value_bytes", range(4, 16))
def test_the_end_of_a_block_is_as_the_format_asks_where_the_last_record_is_small(
    client: Client, value_bytes: int
) -> None:
    """It stood in a value before, beginning included, which a compressor finds out."""
    last = Record(0, 5, None, bytes(range(value_bytes)))
    small = encode_batch([Record(0, 5, None, b""), last])[HEADER_BYTES:]
    batch = [Record(0, 5, None, filler(1) + small + bytes(40)), last]
    found = spliced(batches_by(client, [batch, batch]))
    assert found is not None
    assert records_of(found[0]) == numbered([batch, batch])


def test_blocks_that_grow_beyond_64_kb_say_so() -> None:
    """64 records that were numbered in a byte each are numbered in two."""
    empty = [Record(0, 5, None, b"") for _ in range(200)]
    without = len(encode_batch([*empty, Record(0, 5, None, filler(2, 64_000))])) - HEADER_BYTES
    full = [*empty, Record(0, 5, None, filler(2, 64_000 + (64 << 10) - without))]
    assert len(encode_batch(full)) - HEADER_BYTES == 64 << 10
    drawn = [orders(0, 70), full]
    found = spliced(batches_by(CLIENTS[0], drawn))
    assert found is not None
    assert records_of(found[0]) == numbered(drawn)
    assert found[0].data[HEADER_BYTES + SIZES] == 0x50, "blocks of up to 256 KB"


def test_a_piece_takes_what_fits_and_says_what_is_left() -> None:
    drawn = [orders(at) for at in range(30)]
    data = batches_by(CLIENTS[0], drawn)
    limit = len(data) // 3
    made = list(rewrite(memoryview(data), 0, Limits(limit)))
    assert [len(piece.data) <= limit for piece in made] == [True] * len(made)
    assert [len(blocks_of(piece.data)) for piece in made] == [10, 10, 10]
    assert [record for piece in made for record in records_of(piece)] == numbered(drawn)


@pytest.mark.parametrize("max_bytes", range(20_000, 20_200, 7))
def test_no_piece_is_larger_than_the_target_takes(max_bytes: int) -> None:
    data = batches_by(CLIENTS[0], [orders(at) for at in range(5)])
    found = spliced(data, max_bytes)
    assert found is not None
    assert len(found[0].data) <= max_bytes


def test_where_a_size_limit_is_not_known_no_room_is_made_for_it() -> None:
    data = batches_by(CLIENTS[2], [[Record(0, 5, None, filler(at, 60_000))] for at in range(75)])
    found = spliced(data, 1 << 40)
    assert found is not None
    assert MERGED_BYTES_MAX - 100_000 < len(found[0].data) <= MERGED_BYTES_MAX


def test_batches_of_one_block_are_spliced_where_neighbours_are_merged() -> None:
    """The test of `batch.rewrite`: as many blocks as batches, where compressing again would fill blocks of 64 KB."""
    data = batches_by(CLIENTS[0], [orders(at) for at in range(40)])
    (piece,) = rewrite(memoryview(data), 0, Limits(ONE_MEBIBYTE))
    assert len(blocks_of(piece.data)) == 40
    first_block = int.from_bytes(data[HEADER_BYTES + FIRST_BLOCK : HEADER_BYTES + FIRST_BLOCK + 4], "little")
    assert blocks_of(piece.data)[0] == pytest.approx(first_block, rel=0.02)


def test_holes_between_batches_are_known() -> None:
    drawn = [orders(at) for at in range(4)]
    data = b"".join(batch_by(CLIENTS[0], batch, at) for batch, at in zip(drawn, (0, 15, 40, 55), strict=True))
    found = spliced(data)
    assert found is not None
    assert [r.offset for r in records_of(found[0])] == [*range(30), *range(40, 70)]


@pytest.mark.parametrize("attributes", [APPEND_TIME, DELETE_HORIZON])
def test_batches_with_other_times_than_their_records_end_it(attributes: int) -> None:
    other = with_attributes(batch_by(CLIENTS[0], orders(2), 30), Codec.LZ4 | attributes)
    data = batches_by(CLIENTS[0], [orders(0), orders(1)]) + other
    found = spliced(data)
    assert found is not None
    assert found[1] == 2


def test_linked_blocks_several_blocks_and_several_frames_end_it() -> None:
    linked = Client("linked", lambda content: lz4.frame.compress(content, block_linked=True))
    twice = Client("two frames", lambda content: as_java_does(content[:99]) + as_java_does(content[99:]))
    begin = batches_by(CLIENTS[0], [orders(0), orders(1)])
    large = [Record(0, 5, None, filler(at, 30_000)) for at in range(4)]
    for client, records in ((linked, large), (twice, orders(2)), (CLIENTS[2], large)):
        data = begin + batch_by(client, records, 30)
        found = spliced(data)
        assert found is not None
        assert found[1] == 2
        made = list(rewrite(memoryview(data), 0, Limits(ONE_MEBIBYTE)))
        assert [r.offset for piece in made for r in records_of(piece)] == list(range(30 + len(records)))


def test_small_batches_are_compressed_together() -> None:
    data = batches_by(CLIENTS[0], [orders(at, 1) for at in range(100)])
    assert spliced(data) is None
    (piece,) = rewrite(memoryview(data), 0, Limits(ONE_MEBIBYTE))
    assert len(piece.data) < len(data) * 0.9


def test_records_from_later_than_allowed_are_left_to_others() -> None:
    drawn = [orders(0), orders(1)]
    data = batches_by(CLIENTS[0], drawn)
    latest_ms = max(r.timestamp for r in drawn[0])
    assert spliced(data, clamp_to_ms=latest_ms) is not None
    assert spliced(data, clamp_to_ms=latest_ms - 1) is None
    (piece,) = rewrite(memoryview(data), 0, Limits(ONE_MEBIBYTE, clamp_to_ms=latest_ms - 1))
    assert max(r.timestamp for r in records_of(piece)) == latest_ms - 1


def test_what_unpacked_batches_become_is_known_behind_it() -> None:
    data = batches_by(CLIENTS[0], [[*orders(0), Record(0, 5, None, bytes(50_000))], orders(1)])
    unpacking = Unpacking()
    assert splice(memoryview(data), headers_of(data), 0, ONE_MEBIBYTE, unpacking, None) is not None
    assert unpacking.share > 2
    small = Unpacking(UnpackingBudget(100_000))
    assert splice(memoryview(data), headers_of(data), 0, ONE_MEBIBYTE, small, None) is None


@any_client
def test_nothing_is_written_behind_the_room_that_there_is(client: Client) -> None:
    """Which is as large as the block: steps of 16 bytes would go beyond."""
    batch = orders(0, 5)
    content_bytes = len(encode_batch(batch)) - HEADER_BYTES
    data = batches_by(client, [batch, batch])
    matches, edges = (np.empty((2000, 3), np.int64) for _ in range(2))
    place, room = np.empty((1, PLACE_COLUMNS), np.int32), np.empty(3 * content_bytes, np.uint8)
    for room_bytes, spliced_batches in ((content_bytes, 2), (content_bytes - 1, 0)):
        whole, fresh = np.full(content_bytes + 100, 0xAA, np.uint8), np.empty(2 * content_bytes, np.uint8)
        done, *_ = lz4_blocks.splice(
            np.frombuffer(data, np.uint8), headers_of(data).table, 1 << 20,
            room, whole[:room_bytes], fresh, matches, edges, place,
        )  # fmt: skip
        assert done == spliced_batches
        assert (whole[room_bytes:] == 0xAA).all()


def test_a_wrong_checksum_is_an_error() -> None:
    data = bytearray(batches_by(CLIENTS[0], [orders(0), orders(1)]))
    data[len(data) // 2 + 2000] ^= 1
    with pytest.raises(ProtocolError, match="checksum is wrong"):
        list(rewrite(memoryview(data), 0, Limits(ONE_MEBIBYTE)))


@given(
    flips=st.lists(st.tuples(st.integers(0, 2**20), st.integers(1, 255)), min_size=1, max_size=4),
    near=st.booleans(),
    cut=st.integers(0, 40),
)
def test_damage_behind_a_right_checksum_is_left_to_others_or_carried_as_it_came(
    flips: list[tuple[int, int]], near: bool, cut: int
) -> None:
    """What is spliced says what the damaged batch says: nothing is invented, and nothing is read beyond the end. The
    first bytes of a frame are written newly, so that damage there is mended."""
    begin, batch = batch_by(CLIENTS[0], orders(0), 0), bytearray(batch_by(CLIENTS[0], orders(1), 15))
    begins_at = HEADER_BYTES + FIRST_BLOCK
    bytes_hit = 80 if near else len(batch) - begins_at
    for at, mask in flips:
        batch[begins_at + at % bytes_hit] ^= mask
    damaged = sealed(batch[: len(batch) - cut])
    found = spliced(begin + damaged)
    if found is None:
        return
    there = decode_records(found[0].data)[15:]
    assert [(r.key, r.value) for r in there] == [(r.key, r.value) for r in decode_records(damaged)]


def sequence(literals: bytes, back: int, match_bytes: int) -> bytes:
    """Of a block: so many literals and a match that do not fit into the token."""

    def rest(length: int) -> bytes:
        return b"\xff" * ((length - 15) // 255) + bytes([(length - 15) % 255])

    return b"\xff" + rest(len(literals)) + literals + back.to_bytes(2, "little") + rest(match_bytes - 4)


def batch_of(block: bytes, records: int, base_offset: int) -> bytes:
    header = numbered_from(encode_batch([Record(0, 5, None, b"")] * records), base_offset)[:HEADER_BYTES]
    return with_attributes(header + framed(block), Codec.LZ4)


@pytest.mark.parametrize(("back", "is_fine"), [(1, True), (2, True), (0, False), (FILLER_BYTES + 100, False)])
def test_a_match_from_nowhere_is_left_to_others(back: int, is_fine: bool) -> None:
    """Of 100 zeros in a value, 98 come from `back` bytes before: two bytes back there is a zero as well."""
    content = encode_batch([Record(0, 5, None, filler(0) + bytes(100)), Record(0, 5, None, bytes(range(9)))])
    content = content[HEADER_BYTES:]
    zeros_at = content.index(bytes(100))
    tail = content[zeros_at + 100 :]
    block = sequence(content[: zeros_at + 2], back, 98) + bytes([0xF0, len(tail) - 15]) + tail
    begin = batches_by(CLIENTS[0], [[Record(0, 5, None, filler(0) + bytes(100))] * 2, orders(1, 13)])
    found = spliced(begin + batch_of(block, 2, 15))
    assert found is not None
    assert found[1] == (3 if is_fine else 2)


def test_records_that_number_themselves_otherwise_are_left_to_others() -> None:
    content = encode_batch(orders(2, 20))[HEADER_BYTES:]
    second, third, fourth = (len(encode_batch(orders(2, at))) - HEADER_BYTES for at in (18, 19, 20))
    begin = batches_by(CLIENTS[0], [orders(0), orders(1)])
    for last, rows in ((content[second:third], 3), (content[third:fourth], 2)):
        client = Client("of these records", lambda _, last=last: in_one_raw_block(content[:second] + last))
        found = spliced(begin + batch_by(client, orders(2, 19), 30))
        assert found is not None
        assert found[1] == rows


@given(noise=st.binary(max_size=5000), records=st.integers(1, 2**31 - 1))
def test_noise_in_a_frame_is_left_to_others(noise: bytes, records: int) -> None:
    begin, batch = batch_by(CLIENTS[0], orders(0), 0), bytearray(batch_by(CLIENTS[0], orders(1), 15))
    header = batch[:HEADER_BYTES]
    header[23:27] = (records - 1).to_bytes(4, "big")
    header[57:61] = records.to_bytes(4, "big")
    other = sealed(header + framed(noise))
    assert other[ATTRIBUTES_AT + 1] == Codec.LZ4
    assert spliced(begin + other) is None
