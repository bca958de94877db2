"""What a filter left of batches, as one batch: every record as it was, from whatever batches."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.batch.witnesses import kafka_python_batch, kafka_python_records, source_offsets, with_attributes

from sparkmirror.batch.columns import decode
from sparkmirror.batch.header import APPEND_TIME, CONTROL, HEADER_BYTES, Codec, parse_header
from sparkmirror.batch.headers import NEXT_OFFSET, read_headers
from sparkmirror.batch.picking import Picked, pick
from sparkmirror.batch.piece import Piece
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.batch.unpacking import USUAL_BOUND
from sparkmirror.errors import ContentTooLarge, ProtocolError


class Logged(NamedTuple):
    """A batch, and its records as a consumer sees them."""

    data: bytes
    records: list[Record]


@st.composite
def logs(draw: st.DrawFn) -> list[Logged]:
    """Batches with holes in them and between them, some with append time, some of control records."""
    codec, at, found = draw(st.sampled_from(list(Codec))), draw(st.integers(0, 1000)), []
    for members in draw(st.lists(kafka_python_records, min_size=1, max_size=4)):
        numbered = []
        for record in members:
            numbered.append(replace(record, offset=at))
            at += draw(st.sampled_from([1, 1, 1, 2, 200]))
        kind = draw(st.sampled_from([0, 0, 0, APPEND_TIME, CONTROL]))
        data = with_attributes(kafka_python_batch(numbered, codec, numbered[0].offset), kind)
        latest = parse_header(data, 0).max_timestamp
        seen = [replace(one, timestamp=latest) for one in numbered] if kind == APPEND_TIME else numbered
        found.append(Logged(data, [] if kind == CONTROL else seen))
    return found


def pick_all(log: bytes, wanted: list[int], codec: Codec, enough_bytes: int = 1 << 20) -> Iterator[Piece]:
    headers, row, left = read_headers(memoryview(log), 0, len(log)), 0, np.array(wanted, np.int64)
    while len(left):
        while headers.table[row, NEXT_OFFSET] <= left[0]:  # batches without a wanted record are not asked for
            row += 1
        found: Picked = pick(memoryview(log), headers, row, left, codec, USUAL_BOUND, enough_bytes)
        yield found.piece
        row, left = found.reached, left[found.piece.records :]


@settings(deadline=None, max_examples=200)
@given(logs(), st.data())
def test_any_choice_of_records_stands_in_the_batch_as_it_was(log: list[Logged], data: st.DataObject) -> None:
    every = [record for batch in log for record in batch.records]
    chosen = [record for record in every if data.draw(st.booleans())]
    codec, enough_bytes = data.draw(st.sampled_from(list(Codec))), data.draw(st.sampled_from([1, 700, 1 << 20]))
    found = []
    for piece in pick_all(b"".join(batch.data for batch in log), [one.offset for one in chosen], codec, enough_bytes):
        header = parse_header(piece.data, 0)
        inside = decode_records(bytes(piece.data))
        assert (header.base_offset, header.codec, header.records_count) == (0, codec, piece.records)
        assert header.base_timestamp == inside[0].timestamp
        assert header.max_timestamp == max(record.timestamp for record in inside)
        assert len(decode(memoryview(piece.data), 0, len(piece.data))) == piece.records, "its checksum is right"
        pairs = zip(source_offsets(piece.spans), inside, strict=True)
        found += [replace(record, offset=offset) for offset, record in pairs]
    assert found == chosen


def test_a_record_that_is_not_there_is_named() -> None:
    log = kafka_python_batch([Record(7, 0, None, b"a"), Record(9, 0, None, b"b")], Codec.NONE, 7)
    with pytest.raises(ProtocolError, match="of the offset 8 is of no record of its run"):
        list(pick_all(log, [7, 8, 9], Codec.NONE))


def test_batches_without_any_of_the_records_are_refused() -> None:
    log = memoryview(encode_batch([(None, b"a")], base_offset=5))
    with pytest.raises(ProtocolError, match="of the offset 9 is of no record of the batches"):
        pick(log, read_headers(log, 0, len(log)), 0, np.array([9]), Codec.NONE, USUAL_BOUND, 1 << 20)


def test_what_is_damaged_or_becomes_too_much_is_refused() -> None:
    log = bytearray(encode_batch([Record(0, 0, None, b"a")], Codec.NONE))
    log[HEADER_BYTES] = 0x7E
    with pytest.raises(ProtocolError, match="record batch at offset 0 is damaged: a length reaches beyond"):
        list(pick_all(bytes(log), [0], Codec.NONE))
    bomb = encode_batch([Record(0, 0, None, bytes(64 << 20))], Codec.LZ4)
    with pytest.raises(ContentTooLarge):
        list(pick_all(bomb, [0], Codec.LZ4))
