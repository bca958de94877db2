"""Changes two things in kafka-python's record batches: decoding is bounded, and checksums are computed in C.

Its own decoder unpacks whatever it receives, to the end, and its own checksum loop takes a fifth of the reading time.
Called by `kafka.tail`, `kafka.publish` before they open a client. An internal topic's batch above its bound is skipped
and reported: no writer of ours makes such. One of a mirrored topic is an error, because its content is not known.
"""

import logging
from typing import Any, Final

from kafka.consumer.fetcher import Fetcher
from kafka.record import default_records, legacy_records
from kafka.record.default_records import DefaultRecordBatch

from sparkmirror.batch import codecs, crc
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
            log.warning("A record batch of an internal topic is skipped, at offset %d: %s", self.base_offset, reason)
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


def use_fast_checksums() -> None:
    """kafka-python finds only one package by itself, `crc32c`, whose licence is not ours to ship. Idempotent."""
    default_records.calc_crc32c = _checksum


def _checksum(data: memoryview) -> int:
    return crc.value(bytes(data))
