"""Two independent witnesses of the batch format: kafka-python's record classes, and batches from Kafka's Java code.

kafka-python leaves lz4, snappy and zstd to libraries of their own; pyarrow's codecs stand in for them here, so no line
of cramjam or of this project takes part in what the witness says.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import kafka.codec
import kafka.record.default_records as kafka_python
import pyarrow as pa
import pytest

# `MemoryRecordsBuilder` of Kafka 4.3.0, one batch an entry, in hex.
JAVA_BATCHES = Path(__file__).with_name("java_batches.json")


@pytest.fixture(scope="session")
def java_batches() -> dict[str, bytes]:
    return {name: bytes.fromhex(text) for name, text in json.loads(JAVA_BATCHES.read_text()).items()}


@pytest.fixture(scope="session", autouse=True)
def arrow_codecs_for_kafka_python() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka.codec, "snappy", SimpleNamespace(compress=_snappy, decompress=_unsnappy))
        for name in ("lz4", "zstd"):
            patch.setattr(kafka.codec, name, object())
            patch.setattr(kafka_python, f"{name}_encode", lambda data, name=name: pa.compress(data, name, asbytes=True))
            patch.setattr(kafka_python, f"{name}_decode", lambda data, name=name: _read_stream(data, name))
        yield


def _snappy(data: bytes) -> bytes:
    compressed: bytes = pa.compress(data, "snappy", asbytes=True)
    return compressed


def _unsnappy(block: bytes) -> bytes:
    size = 0
    for index, byte in enumerate(block):
        size |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            break
    content: bytes = pa.decompress(block, size, "snappy", asbytes=True)
    return content


def _read_stream(data: bytes, name: str) -> bytes:
    content: bytes = pa.CompressedInputStream(pa.BufferReader(data), name).read()
    return content
