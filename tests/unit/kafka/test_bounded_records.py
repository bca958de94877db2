"""What the consumer makes of an answer whose batches become more than they may."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.record.memory_records import MemoryRecords

from sparkmirror.batch.header import Codec
from sparkmirror.batch.records import encode_batch
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.client_records import bound_batches

MEBIBYTE = 1 << 20


def take(data: bytes, *, passes_over: bool = True) -> tuple[list[bytes], int]:
    """The values that the consumer gives, and the offset that it goes on at."""
    consumer: Any = SimpleNamespace(_fetcher=SimpleNamespace())
    bound_batches(consumer, MEBIBYTE, passes_over=passes_over)
    part = consumer._fetcher.PartitionRecords(0, TopicPartition("internal", 0), MemoryRecords(data))
    return [record.value for record in part.take()], part.next_fetch_offset


@pytest.mark.parametrize("codec", list(Codec))
def test_what_is_too_large_is_skipped_and_reported(codec: Codec, caplog: pytest.LogCaptureFixture) -> None:
    small = encode_batch([(None, b"first"), (None, b"second")], codec)
    bomb = encode_batch([(None, bytes(2 * MEBIBYTE))], codec, base_offset=2)
    with caplog.at_level(logging.WARNING):
        assert take(small + bomb + encode_batch([(None, b"last")], codec, base_offset=3)) == (
            [b"first", b"second", b"last"],
            4,
        )
        assert take(small + bomb) == ([b"first", b"second"], 3), "not met again"
    assert "skipped, at offset 2: a" in caplog.text


def test_elsewhere_it_is_an_error_behind_what_is_before_it() -> None:
    bomb = encode_batch([(None, bytes(2 * MEBIBYTE))], Codec.ZSTD, base_offset=7)
    with pytest.raises(ProtocolError, match="batch at offset 7 cannot be read: a zstd record batch holds more"):
        take(bomb, passes_over=False)


def test_a_codec_that_nobody_knows_ends_no_reader(caplog: pytest.LogCaptureFixture) -> None:
    batch = bytearray(encode_batch([(None, b"value")]))
    batch[22] |= 6
    seal(batch)
    assert take(bytes(batch) + encode_batch([(None, b"last")], base_offset=1)) == ([b"last"], 2)
    assert "its codec is unknown" in caplog.text


def seal(batch: bytearray) -> None:
    from sparkmirror.batch import crc

    batch[17:21] = crc.value(bytes(batch[21:])).to_bytes(4, "big")
