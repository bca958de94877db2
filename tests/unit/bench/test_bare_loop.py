"""The bare loop's own parts: cutting batches and frames."""

import socket
import struct

from bench.bare_loop import Frames, LargeFrame, take_append_time, whole_batches
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.batch.witnesses import with_attributes

from sparkmirror.batch.header import APPEND_TIME, parse_header
from sparkmirror.batch.records import Record, decode_records, encode_batch


def batch(base_offset: int, records: int, payload_bytes: int) -> bytes:
    rest = struct.pack(">ibIhi", 0, 2, 0, 0, records - 1) + bytes(34 + payload_bytes)
    return struct.pack(">qi", base_offset, len(rest)) + rest


def test_batches_are_found_with_the_offset_after_each() -> None:
    first, second = batch(100, 5, 10), batch(105, 1, 300)
    frame = memoryview(b"head" + first + second)
    end = 4 + len(first)
    assert list(whole_batches(frame, 4, len(frame))) == [(4, end, 105), (end, end + len(second), 106)]


@given(st.integers(0, 400))
def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch(kept: int) -> None:
    first, second = batch(0, 5, 10), batch(5, 1, 300)
    frame = memoryview(first + second)[: len(first) + min(kept, len(second) - 1)]
    assert list(whole_batches(frame, 0, len(frame))) == [(0, len(first), 5)]


def test_small_answers_are_cut_out_of_the_stream_wherever_it_is_split() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream = b"".join(struct.pack(">i", len(text)) + text for text in (b"one", b"", b"three"))
        frames = Frames(ours)
        found: list[bytes] = []
        for index in range(len(stream)):
            theirs.sendall(stream[index : index + 1])
            found += [bytes(frame) for frame in frames.read()]
        assert found == [b"one", b"", b"three"]


def test_a_large_frame_is_received_piece_by_piece_into_the_memory_given() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        body = bytes(range(256)) * 16
        stream = struct.pack(">i", len(body)) + body
        receiver, memory = LargeFrame(ours), bytearray(len(body))
        for start in range(0, len(stream) - 1, 3):
            theirs.sendall(stream[start : min(start + 3, len(stream) - 1)])
            assert receiver.read(memory) is None
        theirs.sendall(stream[-1:])
        frame = receiver.read(memory)
        assert frame is not None and bytes(frame) == body == bytes(memory)


def test_in_steady_mode_append_time_becomes_the_time_of_the_records() -> None:
    created = encode_batch([Record(0, 1_000, None, b"one"), Record(1, 1_002, None, b"two")])
    stamped = bytearray(with_attributes(created, APPEND_TIME))
    take_append_time(memoryview(stamped))
    header = parse_header(stamped, 0)
    assert not header.has_append_time
    records = decode_records(stamped)  # checks the checksum
    assert [(record.timestamp, record.value) for record in records] == [(1_002, b"one"), (1_004, b"two")]
    plain = bytearray(created)
    take_append_time(memoryview(plain))
    assert plain == created, "a batch with its producer's time passes as it is"
