"""The headers of records between their bytes in a batch and Arrow's lists. Pure.

Called by `pipeline.fetch.record_rows` and `pipeline.produce.record_pieces`. Names pass as the bytes they are: a broker
does not check that they are UTF-8, and neither Arrow nor Spark does.
"""

from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa

NO_HEADERS = b"\0"
HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

Header = tuple[bytes, bytes | None]


def decode_headers(raw: pa.Array) -> pa.Array:
    """A list of (key, value) for each element of `raw`, a binary array of headers as they stand in a record."""
    lists = [split_headers(data) if data is not None and len(data) > 1 else () for data in raw.to_pylist()]
    flat = [header for headers in lists for header in headers]
    offsets = pa.array(list(accumulate(map(len, lists), initial=0)), pa.int32())
    keys = pa.array([key for key, _ in flat], pa.binary())
    keys = pa.Array.from_buffers(pa.string(), len(flat), keys.buffers())
    values = pa.array([value for _, value in flat], pa.binary())
    structs = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
    return pa.ListArray.from_arrays(offsets, structs)


def encode_headers(lists: pa.Array) -> list[bytes]:
    """The counterpart of `decode_headers`; an absent list is an empty one. An absent name counts as empty."""
    if lists.null_count == len(lists) or not len(lists.flatten()):
        return [NO_HEADERS] * len(lists)
    keys = lists.values.field("key")
    names = pa.Array.from_buffers(pa.binary(), len(keys), keys.buffers(), offset=keys.offset).to_pylist()
    values = lists.values.field("value").to_pylist()
    offsets = lists.offsets.to_pylist()
    present = lists.is_valid().to_pylist()
    return [
        _join(names[offsets[at] : offsets[at + 1]], values[offsets[at] : offsets[at + 1]]) if there else NO_HEADERS
        for at, there in enumerate(present)
    ]


def split_headers(data: bytes) -> list[Header]:
    """The batch was decoded: its numbers and lengths have been found right."""
    count, at = _read_varint(data, 0)
    headers: list[Header] = []
    for _ in range(count):
        length, at = _read_varint(data, at)
        key = data[at : at + length]
        length, at = _read_varint(data, at + length)
        value = None if length < 0 else data[at : at + length]
        at += max(length, 0)
        headers.append((key, value))
    return headers


def _join(names: Sequence[bytes | None], values: Sequence[bytes | None]) -> bytes:
    data = bytearray(_varint(len(names)))
    for name, value in zip(names, values, strict=True):
        key = name or b""
        data += _varint(len(key)) + key
        data += _varint(-1 if value is None else len(value)) + (value or b"")
    return bytes(data)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at
        shift += 7


def _varint(number: int) -> bytes:
    rest = number << 1 if number >= 0 else ~(number << 1)
    data = bytearray()
    while rest > 0x7F:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    data.append(rest)
    return bytes(data)
