"""What kafka-python's consumer makes of a batch, bounded: its own decoder unpacks whatever it is sent, to the end.

Used by `kafka.tail`. An internal topic's batch of more than its bound is passed over and told of: no writer of ours
makes such. One of a mirrored topic is an error, for what is in it is not known.
"""

import logging
from typing import Any, Final

from kafka.consumer.fetcher import Fetcher
from kafka.record import legacy_records
from kafka.record.default_records import DefaultRecordBatch

from sparkmirror.batch import codecs
from sparkmirror.batch.header import Codec
from sparkmirror.errors import ProtocolError

log = logging.getLogger(__name__)


_OLD_BYTES_MAX: Final = 16 << 20
"""Of a wrapper of an old format, which brokers from Kafka 4.0 on take from nobody."""


def bound_batches(consumer: Any, content_bytes_max: int, *, passes_over: bool) -> None:
    """Have the batches that `consumer` receives take no more than so many bytes each, unpacked.

    `passes_over` leaves out larger ones, and those that cannot be read; else polling raises ProtocolError.
    """
    kind = type("_BoundedBatch", (_BoundedBatch,), {"__slots__": (), "content_bytes_max": content_bytes_max,
                                                    "passes_over": passes_over})  # fmt: skip
    bounded = type("_BoundedPartition", (_BoundedPartition,), {"kind": kind})
    consumer._fetcher.PartitionRecords = bounded
    legacy_records.gzip_decode = _unpack_old  # of the old formats' codecs it has this one alone here


def _unpack_old(data: bytes) -> bytes:
    return codecs.decompress(Codec.GZIP, data, _OLD_BYTES_MAX)


class _BoundedBatch(DefaultRecordBatch):
    """The same bytes and fields; only unpacking differs."""

    __slots__ = ()
    content_bytes_max = 0
    passes_over = True

    def _maybe_uncompress(self: Any) -> None:
        if self._decompressed:
            return
        try:
            data = memoryview(self._buffer)[self._pos :]
            content = codecs.decompress(Codec(self.compression_type), data, self.content_bytes_max)
        except (ProtocolError, ValueError) as problem:
            reason = str(problem) if isinstance(problem, ProtocolError) else "its codec is unknown"
            if not self.passes_over:
                raise ProtocolError(f"record batch at offset {self.base_offset} cannot be read: {reason}") from None
            log.warning(
                "A record batch of an internal topic is passed over, at offset %d: %s", self.base_offset, reason
            )
            content = b""
            self._num_records = 0
        self._buffer, self._pos, self._decompressed = bytearray(content), 0, True


class _Bounded:
    """The batches of an answer, bounded."""

    def __init__(self, records: Any, kind: type[_BoundedBatch]) -> None:
        self._records = records
        self._kind = kind

    def next_batch(self) -> Any:
        batch = self._records.next_batch()
        if isinstance(batch, DefaultRecordBatch):
            batch.__class__ = self._kind
        return batch


class _BoundedPartition(Fetcher.PartitionRecords):
    """What an answer brought of one partition."""

    kind = _BoundedBatch

    def _unpack_records(self, tp: Any, records: Any, *deserializers: Any) -> Any:
        return super()._unpack_records(tp, _Bounded(records, self.kind), *deserializers)
