"""Kafka's own record classes read the batches that the deep path makes: sizes, checksums, and each record."""

import random
import subprocess
from pathlib import Path

from sparkmirror.batch.header import Codec
from sparkmirror.batch.records import encode_batch
from sparkmirror.batch.rewrite import Limits, rewrite
from sparkmirror.java import find_java
from sparkmirror.testing.jars import KAFKA, class_path
from sparkmirror.testing.process import QUICK_START

PROGRAM = Path(__file__).with_name("DumpLog.java")
TIME_MS = 1_700_000_000_000
RECORDS = 200


def small_batches() -> bytes:
    """One record each, of growing size, their times apart; every fifth without a key."""
    return b"".join(
        encode_batch([(b"k%d" % at if at % 5 else None, b"v%d-" % at + b"x" * at)], Codec.NONE, at, TIME_MS + at)
        for at in range(RECORDS)
    )


def test_merged_batches_of_every_codec_are_read_by_kafka_itself(tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    wanted = []
    offset = 0
    with log.open("wb") as segment:
        for codec in Codec:
            for piece in rewrite(memoryview(small_batches()), 0, Limits(9_000, codec)):
                segment.write(offset.to_bytes(8, "big") + bytes(piece.data)[8:])
                wanted.append(f"batch {offset} {offset + piece.records - 1} {piece.records} {codec.name.lower()}")
                wanted += [record(at) for at in range(offset, offset + piece.records)]
                offset += piece.records
    assert offset == RECORDS * len(Codec)
    assert dump(log) == wanted


def test_lz4_batches_that_become_one_uncompressed_are_read_by_kafka_itself(tmp_path: Path) -> None:
    """`batch.splicing` leaves a block for each, in which only the beginnings of records change."""
    drawn = random.Random(7)
    values = [f"order {at} of a customer, {drawn.randbytes(150).hex()}, order {at} of a customer" for at in range(900)]
    batches = b"".join(
        encode_batch([(b"k%d" % at, values[at].encode()) for at in range(first, first + 30)], Codec.LZ4, first, TIME_MS)
        for first in range(0, len(values), 30)
    )
    log = tmp_path / "00000000000000000000.log"
    (piece,) = rewrite(memoryview(batches), 0, Limits(1 << 20))
    log.write_bytes(piece.data)
    assert piece.records == len(values)
    records = [f"record {at} {TIME_MS} k{at} {value}" for at, value in enumerate(values)]
    assert dump(log) == [f"batch 0 {len(values) - 1} {len(values)} lz4", *records]


def record(offset: int) -> str:
    at = offset % RECORDS
    return f"record {offset} {TIME_MS + at} {f'k{at}' if at % 5 else 'null'} v{at}-{'x' * at}"


def dump(log: Path) -> list[str]:
    command = [str(find_java()), *QUICK_START, "-cp", class_path(KAFKA), str(PROGRAM), str(log)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith(("batch ", "record "))]
