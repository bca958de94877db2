"""The headers of records as their bytes in a batch, from Arrow's lists or for people. Pure.

Called by `batch.arrow_content`, which has the way into lists, and `verify`. Names pass as the bytes they are: a broker
does not check that they are UTF-8, and neither Arrow nor Spark does.
"""

from collections.abc import Sequence

import pyarrow as pa

NO_HEADERS = b"\0"
HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

Header = tuple[bytes, bytes | None]


def encode_headers(lists: pa.Array) -> list[bytes]:
    """The counterpart of `batch.arrow_content.decode_headers`; an absent list is an empty one, an absent name too."""
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
