"""Compiled code makes of a small run what Python makes of it, byte for byte, or leaves it as it is."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.batch.witnesses import records_with, sealed, timestamps, with_attributes

from sparkmirror.batch import crc
from sparkmirror.batch.append_time import settle_append_time
from sparkmirror.batch.header import (
    APPEND_TIME,
    ATTRIBUTES_AT,
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    TRANSACTIONAL,
    Codec,
    parse_header,
    stamp,
)
from sparkmirror.batch.joining import join, leading_batches
from sparkmirror.batch.ready_rows import AT, BASE_OFFSET, BYTES, COLUMNS, JOINED, OUTCOME, PASSES, RECORDS, REFUSED
from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.batch.small_runs import make_ready
from sparkmirror.batch.unpacking import Unpacking

EPOCH = 4
STAMP = (1000, 7, 12345)
BYTES_MAX = 1 << 20
_LEASE = 64
_BEGIN = 10


class Made:
    """What became of a run that lies in memory with other bytes around it."""

    def __init__(self, run: bytes, *, first: int = 100, bytes_max: int = BYTES_MAX, joined_bytes_max: int = 1 << 16):
        self.memory = np.frombuffer(bytearray(_LEASE) + run + bytes(7), np.uint8).copy()
        row = [_LEASE, len(run), first, EPOCH, bytes_max, joined_bytes_max, *STAMP]
        runs = np.array([row + [0] * (COLUMNS - len(row))], np.int64)
        room = np.empty(_BEGIN + len(run) + 4096, np.uint8)
        used = make_ready(self.memory, runs, room, 1, _BEGIN)
        self.outcome = int(runs[0, OUTCOME])
        assert used - _BEGIN == (runs[0, BYTES] if self.outcome == JOINED else 0)
        at, size = int(runs[0, AT]), int(runs[0, BYTES])
        place = room if self.outcome == JOINED else self.memory
        self.batch = bytes(place[at : at + size]) if self.outcome != REFUSED else b""
        self.told = runs[0, [BASE_OFFSET, RECORDS]].tolist()
        self.left = bytes(self.memory[_LEASE : _LEASE + len(run)])
        around = bytes(self.memory[:_LEASE]) + bytes(self.memory[_LEASE + len(run) :])
        assert around == bytes(_LEASE + 7), "nothing else is written"


def batch(records: list[Record], first: int, *, codec: Codec = Codec.NONE, attributes: int = 0) -> bytes:
    made = bytearray(encode_batch(records, codec, first))
    made[12:16] = EPOCH.to_bytes(4, "big")
    return with_attributes(bytes(made), attributes) if attributes else bytes(made)


def small(records: int = 1, first: int = 100, **given: Any) -> bytes:
    return batch([Record(0, 1_700_000_000_000 + at, b"k", b"value") for at in range(records)], first, **given)


def by_python(run: bytes) -> bytes | None:
    """What the general way makes of it."""
    data = memoryview(bytearray(run))
    header = parse_header(data, 0)
    if header.total_bytes == len(run):
        if header.has_append_time:
            settled = settle_append_time(data, header)
            if settled is None:
                return None
            header = settled
    else:
        joined = join(leading_batches(data), Unpacking())
        if joined is None:
            return None
        data = memoryview(joined)
        header = parse_header(data, 0)
    stamp(data, 0, header, *STAMP)
    return bytes(data)


some_records = records_with(st.binary(max_size=10), timestamps)
attributes_of_few = st.sampled_from([0, 0, APPEND_TIME, TRANSACTIONAL])


@given(runs=st.lists(st.tuples(some_records, attributes_of_few), min_size=1, max_size=5))
def test_it_is_what_python_makes_of_it_byte_for_byte(runs: list[tuple[list[Record], int]]) -> None:
    run, first = b"", 100
    for records, attributes in runs:
        run += batch(records, first, attributes=attributes)
        first += len(records)
    made, expected = Made(run), by_python(run)
    if made.outcome == REFUSED:
        assert made.left == run, "the general way finds it as it came"
        return
    assert made.batch == expected
    assert made.told == [100, first - 100]
    assert made.outcome == (PASSES if len(runs) == 1 else JOINED)
    assert crc.value(made.batch[ATTRIBUTES_AT:]) == parse_header(made.batch, 0).crc


@given(records=st.integers(1, 16), batches=st.integers(1, 6), attributes=attributes_of_few)
def test_what_is_usual_is_not_refused(records: int, batches: int, attributes: int) -> None:
    run = b"".join(small(records, 100 + records * at, attributes=attributes) for at in range(batches))
    made = Made(run)
    assert made.outcome == (PASSES if batches == 1 else JOINED)
    assert made.batch == by_python(run)


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD, Codec.SNAPPY, Codec.GZIP])
def test_a_compressed_batch_passes_and_several_are_left_to_python(codec: Codec) -> None:
    alone = small(40, codec=codec)
    assert Made(alone).batch == by_python(alone)
    assert Made(small(2, codec=codec) + small(2, 102, codec=codec)).outcome == REFUSED


def changed(run: bytes, at: int, value: bytes) -> bytes:
    return run[:at] + value + run[at + len(value) :]


@pytest.mark.parametrize(
    "run",
    [
        small(attributes=CONTROL), small(attributes=DELETE_HORIZON), small(first=99), small()[:-1], small()[:50], b"",
        changed(small(), 12, b"\0\0\0\5"), changed(small(), 16, b"\1"), changed(small(), 8, b"\x7f\xff\xff\xff"),
        changed(small(), 8, b"\xff\xff\xff\xff"), sealed(changed(small(), 23, b"\0\0\0\5")),
        sealed(changed(small(), 22, b"\5")), small() + small(first=102), small() + small(first=101)[:-1],
        small() + changed(small(first=101), 12, b"\0\0\0\5"), small() + small(first=101, attributes=CONTROL),
        small() + small(17, 101), small() + changed(small(first=101), len(small()) - 3, b"?"),
        small() + small(first=101, codec=Codec.LZ4), small(20, attributes=APPEND_TIME),
        small() + sealed(changed(small(first=101), HEADER_BYTES + 3, b"\x09")),
    ],
)  # fmt: skip
def test_what_is_unusual_is_refused_and_stays_as_it_was(run: bytes) -> None:
    made = Made(run)
    assert made.outcome == REFUSED
    assert made.left == run


def test_the_targets_limits_are_kept() -> None:
    alone, several = small(), small() + small(first=101)
    assert Made(alone, bytes_max=len(alone)).outcome == PASSES
    assert Made(alone, bytes_max=len(alone) - 1).outcome == REFUSED
    assert Made(several, joined_bytes_max=len(several)).outcome == JOINED
    assert Made(several, joined_bytes_max=len(several) - 1).outcome == REFUSED
    assert Made(several, joined_bytes_max=0).outcome == REFUSED
    assert Made(several, bytes_max=len(alone)).outcome == REFUSED
    assert Made(several).left == several, "what is joined is made elsewhere"


def test_damage_stays_recognisable() -> None:
    run = changed(small(), HEADER_BYTES + 8, b"?")
    made = Made(run)
    assert made.batch == by_python(run)
    assert crc.value(made.batch[ATTRIBUTES_AT:]) != parse_header(made.batch, 0).crc


@given(st.binary(max_size=300), st.integers(-5, 400))
def test_whatever_lies_there_nothing_is_read_or_written_beyond_it(noise: bytes, lease: int) -> None:
    memory = np.frombuffer(bytearray(noise), np.uint8)
    row = [lease, len(noise), 0, 0, BYTES_MAX, 1 << 16, *STAMP]
    runs = np.array([row + [0] * (COLUMNS - len(row))], np.int64)
    make_ready(memory, runs, np.empty(4096, np.uint8), 1, 0)
    assert runs[0, OUTCOME] in (REFUSED, PASSES)
