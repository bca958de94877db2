"""Records for property tests, and what kafka-python makes of them; its codecs are replaced in conftest.py."""

from collections.abc import Iterable
from io import BytesIO

import google_crc32c
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from sparkmirror.batch.columns import Columns
from sparkmirror.batch.header import ATTRIBUTES_AT, Codec
from sparkmirror.batch.piece import Span
from sparkmirror.batch.records import Record

ONE_MEBIBYTE = 1024 * 1024
data = st.none() | st.binary(max_size=40)
text = st.text(max_size=10).map(str.encode)
timestamps = st.integers(-1, 2**45)


def records_with(keys: st.SearchStrategy[bytes], stamps: st.SearchStrategy[int]) -> st.SearchStrategy[list[Record]]:
    headers = st.lists(st.tuples(keys, data), max_size=3).map(tuple)
    record = st.builds(Record, st.just(0), stamps, data, data, headers)
    return st.lists(record, min_size=1, max_size=12).map(number)


def number(records: list[Record], base: int = 100) -> list[Record]:
    return [Record(base + index, r.timestamp, r.key, r.value, r.headers) for index, r in enumerate(records)]


any_records = records_with(st.binary(max_size=10), st.integers(-(2**63), 2**63 - 1))
kafka_python_records = records_with(text, timestamps)


def kafka_python_batch(records: list[Record], codec: Codec, base_offset: int) -> bytes:
    """Records with growing offsets from `base_offset` on; there may be holes between them."""
    builder = DefaultRecordBatchBuilder(2, codec, False, 9, 1, 3, ONE_MEBIBYTE)
    for r in records:
        headers = [(key.decode(), value) for key, value in r.headers]
        assert builder.append(r.offset - base_offset, r.timestamp, r.key, r.value, headers)
    batch = bytearray(builder.build())
    batch[:8] = base_offset.to_bytes(8, "big")  # outside the checksum: a broker sets it
    return bytes(batch)


def read_by_kafka_python(batch: bytes) -> list[Record]:
    witness = DefaultRecordBatch(batch)
    assert witness.validate_crc()
    return [
        Record(r.offset, r.timestamp, r.key, r.value, tuple((key.encode(), value) for key, value in r.headers))
        for r in witness
    ]


def java_records(offsets: list[int], value: bytes) -> list[Record]:
    time = 1_700_000_000_000
    headers = ((b"a", b"1"), (b"a", None), (b"", b""), ("clé".encode(), b"\xff\0"))
    return [
        Record(offsets[0], time, b"key-0", value),
        Record(offsets[1], time - 5, None, b"only a value"),
        Record(offsets[2], time + 100_000, b"only a key", None),
        Record(offsets[3], time + 1, b"", b"", headers),
    ]


def sealed(batch: bytes | bytearray) -> bytes:
    """The batch with its length and checksum made right, so that only its inside is wrong."""
    whole = bytearray(batch)
    whole[8:12] = (len(whole) - 12).to_bytes(4, "big")
    whole[17:21] = google_crc32c.value(bytes(whole[ATTRIBUTES_AT:])).to_bytes(4, "big")
    return bytes(whole)


def with_attributes(batch: bytes, extra: int) -> bytes:
    changed = bytearray(batch)
    changed[22] |= extra
    return sealed(changed)


def numbered_from(batch: bytes, base_offset: int) -> bytes:
    """As a broker numbers it: the base offset is outside the checksum."""
    return base_offset.to_bytes(8, "big") + batch[8:]


def source_offsets(spans: Iterable[Span]) -> list[int]:
    """The source offset of each record of a batch with these spans."""
    found: list[int] = []
    for span in spans:
        found += [first + at for first, records in span.ranges() for at in range(records)]
        found += [span.next_offset - 1] * span.more
    return found


def records_of(columns: Columns) -> list[Record]:
    """Columns as plain records, read by a few lines of Python."""
    content = columns.content.tobytes()
    rows = zip(columns.offsets.tolist(), columns.timestamps.tolist(), columns.places.tolist(), strict=True)
    return [
        Record(
            offset, time, _part(content, at[0], at[1]), _part(content, at[2], at[3]), _headers(content, at[4], at[5])
        )
        for offset, time, at in rows
    ]


def _part(content: bytes, start: int, length: int) -> bytes | None:
    return None if length < 0 else content[start : start + length]


def _headers(content: bytes, start: int, length: int) -> tuple[tuple[bytes, bytes | None], ...]:
    numbers = BytesIO(content[start : start + length])
    headers = []
    for _ in range(_varint(numbers) if length else 0):
        name = numbers.read(_varint(numbers))
        size = _varint(numbers)
        headers.append((name, None if size < 0 else numbers.read(size)))
    assert not numbers.read()
    return tuple(headers)


def _varint(stream: BytesIO) -> int:
    number = shift = 0
    while True:
        byte = stream.read(1)[0]
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number >> 1 ^ -(number & 1)
