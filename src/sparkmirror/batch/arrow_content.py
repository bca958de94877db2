"""Keys, values and headers of records between numpy columns over their bytes and Arrow arrays. Pure.

Called by `pipeline.fetch.record_rows`, `pipeline.produce.kept_records` and `records`.
"""

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparkmirror.batch.columns import Columns
from sparkmirror.batch.record_headers import HEADER_TYPE, encode_headers

CONTENT: Final = ("key", "value", "headers")
"""In the order of the places of `batch.columns.Columns`."""


def content_arrays(columns: Columns, names: Collection[str], members: Collection[str] = ()) -> dict[str, pa.Array]:
    """Those of CONTENT that are named: key and value binary, headers as lists. The bytes are copied, of JSON objects
    as values the `members` alone, if there are any."""
    if not names:
        return {}
    segments = None
    arrays = {}
    for place, name in enumerate(CONTENT):
        if name == "headers" and name in names:
            arrays[name] = decode_headers(columns)
        elif name == "value" and name in names and members:
            from sparkmirror.batch.json_members import member_arrays

            arrays[name] = member_arrays(columns, members)
        elif name in names:
            segments = _segments(columns) if segments is None else segments
            arrays[name] = segments.take(_every_third(place, columns.places[:, 2 * place + 1]))
    return arrays


def decode_headers(columns: Columns) -> pa.Array:
    """A list of (key, value) for each record. The bytes are copied."""
    from sparkmirror.batch import kernels

    count = kernels.count_headers(columns.content, columns.places)
    first, edges = np.empty(len(columns) + 1, np.int32), np.empty((count, 4), np.int32)
    are_null = np.empty(count, np.uint8)
    kernels.read_record_headers(columns.content, columns.places, first, edges, are_null)
    segments = _segments_between(columns.content, edges)
    at = np.arange(count, dtype=np.int64) * 4
    keys = segments.take(pa.array(at))
    keys = pa.Array.from_buffers(pa.string(), count, keys.buffers())
    values = segments.take(pa.array(at + 2, mask=are_null.view(np.bool_)))
    structs = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
    return pa.ListArray.from_arrays(pa.array(first), structs)


def repeat(text: str | None, count: int) -> pa.Array:
    """A column of one string."""
    if text is None:
        return pa.nulls(count, pa.string())
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _segments(columns: Columns) -> pa.Array:
    """Key, value and headers of each record and what lies between them."""
    edges = np.empty((len(columns), 6), np.int32)
    for place in range(3):
        start, length = columns.places[:, 2 * place], columns.places[:, 2 * place + 1]
        edges[:, 2 * place] = start
        edges[:, 2 * place + 1] = start + np.maximum(length, 0)
    return _segments_between(columns.content, edges)


def _segments_between(content: NDArray[np.uint8], edges: NDArray[np.int32]) -> pa.Array:
    """What lies between each two neighbours of the edges, which ascend row by row, as a binary array over the content.
    It has one element for each edge; the last is empty.

    They serve as Arrow's offsets without a copy, until `take` picks some.
    """
    if not edges.size:
        return pa.array([], pa.binary())
    offsets = np.append(edges.reshape(-1), edges[-1, -1])
    return pa.Array.from_buffers(pa.binary(), edges.size, [None, pa.py_buffer(offsets), pa.py_buffer(content)])


def _every_third(place: int, lengths: NDArray[np.int32]) -> pa.Array:
    return pa.array(np.arange(len(lengths), dtype=np.int64) * 6 + 2 * place, mask=lengths < 0)


def put_content(arrays: Mapping[str, pa.Array], content: list[NDArray[np.uint8]], places: NDArray[np.int32]) -> None:
    """Append the bytes of these columns, by their names in CONTENT, to `content`, and note in `places` where they
    stand."""
    base = sum(map(len, content))
    for name, array in arrays.items():
        found = pa.array(encode_headers(array), pa.binary()) if name == "headers" else array
        data, starts, lengths = _bytes_of(found)
        content.append(data)
        at = 2 * CONTENT.index(name)
        places[:, at] = starts + base
        places[:, at + 1] = lengths
        base += len(data)


def _bytes_of(array: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32]]:
    """All bytes of a binary array, and the place and length of each element; a length of -1 is null."""
    _, edges, data = array.buffers()
    offsets = np.frombuffer(edges, np.int32)[array.offset : array.offset + len(array) + 1]
    first, stop = int(offsets[0]), int(offsets[-1])
    content = np.frombuffer(data, np.uint8)[first:stop] if stop > first else np.zeros(0, np.uint8)
    lengths = np.where(array.is_null().to_numpy(zero_copy_only=False), -1, np.diff(offsets))
    return content, offsets[:-1] - first, lengths.astype(np.int32)
