"""Batches of empty records, which take up offsets of the target. Called by `kafka.filler_batches`.

Each record has an empty key, since compacted topics refuse a null one, an empty value, no headers and one time for all.
A million takes 763 kB with zstd.
"""

from functools import lru_cache
from typing import Final

import numpy as np

from sparkmirror.batch import codecs
from sparkmirror.batch.header import HEADER_BYTES, Codec, write_header

_DELTA_SIZES: Final = ((1, 1 << 6), (2, 1 << 13), (3, 1 << 20))
"""Bytes of a varint, and the first offset delta that takes more."""
_RECORD_BYTES: Final = 5
"""Of a record beside its length and its offset delta: attributes, time delta, key, value, headers, all zero."""
_DELTA_AT: Final = 3
RECORDS_MAX: Final = _DELTA_SIZES[-1][1]


def encode_empty(records: int, timestamp_ms: int) -> bytearray:
    """One zstd batch without producer. Raises ValueError beyond `RECORDS_MAX`."""
    if not 0 < records <= RECORDS_MAX:
        raise ValueError(f"a batch of {records} empty records")
    batch = bytearray(HEADER_BYTES) + _body(records)
    write_header(batch, Codec.ZSTD, records, timestamp_ms, timestamp_ms)
    return batch


def is_empty(body: memoryview, records: int) -> bool:
    """Whether a batch's bytes behind its header are those of `encode_empty`."""
    return 0 < records <= RECORDS_MAX and body == _body(records)


@lru_cache(maxsize=2)
def _body(records: int) -> bytes:
    """Most batches of a long hole are of one size."""
    content = bytearray()
    first = 0
    for delta_bytes, end in _DELTA_SIZES:
        deltas = np.arange(first, min(end, records), dtype=np.int64)
        table = np.zeros((len(deltas), 1 + _RECORD_BYTES + delta_bytes), np.uint8)
        table[:, 0] = 2 * (_RECORD_BYTES + delta_bytes)
        for place in range(delta_bytes):
            septet = (2 * deltas >> (7 * place)) & 0x7F
            table[:, _DELTA_AT + place] = septet | (0x80 if place < delta_bytes - 1 else 0)
        content += table.tobytes()
        first = min(end, records)
    return codecs.compress(Codec.ZSTD, bytes(content))
