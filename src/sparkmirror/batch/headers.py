"""The headers of many batches at once, as columns: for runs of so many small batches that a loop in Python is too slow.

Called by `pipeline.fetch.runs` (what a fetch brought), `batch.columns`, `batch.rewrite` and `batch.merge`. For a few
batches `batch.header` is faster and spares linking the kernels, which happens here at the first call.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparkmirror.batch.header import (
    APPEND_TIME,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    MAGIC,
    BatchHeader,
    Codec,
    parse_header,
    unknown_codec,
)
from sparkmirror.errors import ProtocolError

# Columns of the table, one row a batch.
POSITION, TOTAL_BYTES, BASE_OFFSET, NEXT_OFFSET, LEADER_EPOCH, MAGIC_NUMBER = range(6)
CRC, ATTRIBUTES, BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, RECORDS = range(6, 12)
COLUMNS = 12

MANY_BATCHES_MIN = 1000
MANY_BYTES_MIN = 64 * MANY_BATCHES_MIN
"""Above this size a kernel is faster than the loop, where kernels are loaded."""


@dataclass(frozen=True, slots=True, eq=False)
class Headers:
    """The complete batches of a range of bytes, in order, and where the last of them ends (`stop`).

    `table` is int64, one row a batch, in the columns of this module. A message of magic 0 or 1 counts as a batch of one
    record, as in `batch.header.parse_header`; for a compressed one `BASE_OFFSET` is its last record's offset.
    """

    table: NDArray[np.int64]
    stop: int

    def __len__(self) -> int:
        return len(self.table)

    def rows(self, first: int, stop: int) -> "Headers":
        """The batches `first` … `stop - 1`, without a copy. There must be one."""
        table = self.table[first:stop]
        return Headers(table, int(table[-1, POSITION] + table[-1, TOTAL_BYTES]))

    @property
    def codecs(self) -> NDArray[np.int64]:
        """The codec's number of each; up to 7, of which five exist."""
        return self.table[:, ATTRIBUTES] & CODEC_MASK

    def codec_of(self, row: int) -> Codec:
        """Raises ProtocolError for the three numbers that Kafka has not given out."""
        number = int(self.codecs[row])
        if number > Codec.ZSTD:
            raise unknown_codec(int(self.table[row, BASE_OFFSET]), number)
        return Codec(number)

    @property
    def are_control(self) -> NDArray[np.bool_]:
        control: NDArray[np.bool_] = self.table[:, ATTRIBUTES] & CONTROL != 0
        return control

    @property
    def going_back(self) -> NDArray[np.int64]:
        """The rows of the batches that begin before the end of the one before them."""
        return np.flatnonzero(self.table[1:, BASE_OFFSET] < self.table[:-1, NEXT_OFFSET]) + 1

    def passable(self, max_message_bytes: int) -> NDArray[np.bool_]:
        """Which batches pass through untouched: those that `batch.header.refusal` finds nothing against."""
        table = self.table
        spanned = table[:, NEXT_OFFSET] - table[:, BASE_OFFSET]
        passable: NDArray[np.bool_] = (
            (table[:, MAGIC_NUMBER] == MAGIC)
            & (table[:, ATTRIBUTES] & (APPEND_TIME | DELETE_HORIZON) == 0)
            & (self.codecs <= Codec.ZSTD)
            & (table[:, RECORDS] == spanned)
            & (table[:, TOTAL_BYTES] <= max_message_bytes)
        )
        return passable


def read_headers(buffer: memoryview, start: int, stop: int) -> Headers:
    """The headers of all complete batches in `buffer[start:stop]`.

    As `batch.header.iterate_headers`: a batch that is cut off at the end is left out in silence, and bytes that cannot
    be a batch raise the same ProtocolError. 10 ns a small batch.
    """
    from sparkmirror.batch import kernels

    content = np.frombuffer(buffer, np.uint8)
    if not 0 <= start <= stop <= len(content):
        raise ValueError(f"bytes {start} to {stop} are not in a buffer of {len(content)}")
    batches, end = kernels.count_batches(content, start, stop)
    if batches < 0:
        _refuse(buffer, end)
    table = np.empty((batches, COLUMNS), np.int64)
    kernels.read_headers(content, start, table)
    return Headers(table, end)


def _refuse(buffer: memoryview, position: int) -> BatchHeader:
    """Say what is wrong with the header there."""
    header = parse_header(buffer, position)
    raise ProtocolError(f"record batch at offset {header.base_offset} (byte {position}) cannot be a batch")
