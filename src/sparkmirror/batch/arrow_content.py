"""Keys, values and headers of records between numpy columns over their bytes and Arrow arrays. Pure.

Called by `pipeline.fetch.record_rows`, `pipeline.produce.kept_records` and `records`.
"""

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparkmirror.batch.columns import Columns
from sparkmirror.batch.record_headers import decode_headers, encode_headers

CONTENT: Final = ("key", "value", "headers")
"""In the order of the places of `batch.columns.Columns`."""


def content_arrays(columns: Columns, names: Collection[str]) -> dict[str, pa.Array]:
    """Those of CONTENT that are named: key and value binary, headers as lists. The bytes are copied."""
    if not names:
        return {}
    segments = _segments(columns)
    arrays = {}
    for place, name in enumerate(CONTENT):
        if name in names:
            lengths = columns.places[:, 2 * place + 1]
            found = segments.take(_every_third(place, lengths))
            arrays[name] = decode_headers(found) if name == "headers" else found
    return arrays


def repeat(text: str | None, count: int) -> pa.Array:
    """A column of one string."""
    if text is None:
        return pa.nulls(count, pa.string())
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([text])).cast(pa.string())


def _segments(columns: Columns) -> pa.Array:
    """Key, value and headers of each record and what lies between them, as one binary array over the content.

    The places ascend, so their edges serve as Arrow's offsets without a copy, until `take` picks columns.
    """
    edges = np.empty((len(columns), 6), np.int32)
    for place in range(3):
        start, length = columns.places[:, 2 * place], columns.places[:, 2 * place + 1]
        edges[:, 2 * place] = start
        edges[:, 2 * place + 1] = start + np.maximum(length, 0)
    offsets = np.append(edges.reshape(-1), edges[-1, 5])
    return pa.Array.from_buffers(pa.binary(), edges.size, [None, pa.py_buffer(offsets), pa.py_buffer(columns.content)])


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
