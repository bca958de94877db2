"""Logs that no client of today would write, laid into a killed broker's directory, which takes them for its own.

A broker that was not shut down cleanly reads its segments again and rebuilds their indexes; that is how it finds these.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import google_crc32c

from sparkmirror.batch.header import (
    APPEND_TIME,
    ATTRIBUTES_AT,
    HEADER_BYTES,
    BatchHeader,
    Codec,
    iterate_headers,
    parse_header,
)
from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.testing.kafka import KafkaCluster

JAVA_BATCHES = Path(__file__).parents[1] / "unit" / "batch" / "java_batches.json"
TIME = 1_700_000_000_000
OLD_KINDS = ("magic-0-none", "magic-0-gzip", "magic-0-snappy", "magic-0-lz4",
             "magic-1-none", "magic-1-gzip", "magic-1-snappy-append-time", "magic-1-lz4")  # fmt: skip


def lay_logs(cluster: KafkaCluster, logs: Mapping[str, bytes]) -> None:
    """Kill the cluster's one broker, make `logs` (by "topic-partition") its segments, and start it again. A log begins
    with its first batch."""
    (broker,) = cluster.brokers
    directories = {name: broker.data_directory / name for name in logs}
    made = [directory / "partition.metadata" for directory in directories.values()]
    broker.wait_until(lambda: all(file.exists() for file in made), "made the topics' directories", 60)
    broker.kill()
    for name, log in logs.items():
        directory = directories[name]
        for file in directory.glob("0000*"):
            file.unlink()
        (directory / "leader-epoch-checkpoint").unlink(missing_ok=True)
        (directory / f"{parse_header(log, 0).base_offset:020d}.log").write_bytes(log)
    (broker.data_directory / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    broker.start()


def java_batch(name: str, first_offset: int | None = None) -> bytes:
    """A batch that Kafka's own Java code wrote; renumbered, which its checksum does not cover."""
    batch = bytes.fromhex(json.loads(JAVA_BATCHES.read_text())[name])
    return batch if first_offset is None else first_offset.to_bytes(8, "big") + batch[8:]


def numbered_records(first: int, count: int, timestamp: int = TIME) -> list[Record]:
    return [Record(0, timestamp + at % 3, b"k%d" % at, b"value %d" % at) for at in range(first, first + count)]


def compacted_log() -> bytes:
    """Batches of all codecs with holes inside and at their ends, emptied ones, and offsets with no batch at all."""
    batches = []
    for number, codec in enumerate(list(Codec) * 2):
        first = number * 200
        whole = encode_batch(numbered_records(first, 40), codec, first)
        batches.append(sealed(whole, last_offset_delta=60 + number))  # its last records are gone
        batches.append(emptied(first + 80, first + 95))
        batches.append(java_batch("holes", first + 100))
    batches.append(emptied(5000, 5007))  # a log may end so
    return b"".join(batches)


def moved(log: bytes, by: int) -> bytes:
    """The same batches that many offsets later, which their checksums do not cover."""
    found = bytearray(log)
    for at, header in iterate_headers(log, 0, len(log)):
        found[at : at + 8] = (header.base_offset + by).to_bytes(8, "big")
    return bytes(found)


def sealed(batch: bytes, last_offset_delta: int | None = None, attributes: int = 0) -> bytes:
    changed = bytearray(batch)
    changed[22] |= attributes
    if last_offset_delta is not None:
        changed[23:27] = last_offset_delta.to_bytes(4, "big")
    changed[8:12] = (len(changed) - 12).to_bytes(4, "big")
    changed[17:21] = google_crc32c.value(bytes(changed[ATTRIBUTES_AT:])).to_bytes(4, "big")
    return bytes(changed)


def emptied(first: int, last: int) -> bytes:
    """What compaction leaves of the last batch of a producer: its header."""
    header = bytearray(encode_batch(numbered_records(0, 1), Codec.NONE, first)[:HEADER_BYTES])
    header[57:61] = bytes(4)
    return sealed(bytes(header), last - first)


def stamped_log() -> bytes:
    """Batches that a broker stamped with append time, between others; the topic stamps no more."""
    parts = [encode_batch(numbered_records(at, 10, TIME + at), Codec.LZ4, at) for at in range(0, 50, 10)]
    return b"".join(sealed(part, attributes=APPEND_TIME if at % 2 else 0) for at, part in enumerate(parts))


def horizon_log() -> bytes:
    """Tombstones that log compaction has marked to be deleted later (KIP-534)."""
    return b"".join(java_batch("delete-horizon", first) for first in range(0, 100, 20))


def timeless_log() -> bytes:
    """Records without a timestamp, as the oldest clients sent them."""
    records = [Record(0, -1, b"k%d" % at, b"value %d" % at) for at in range(20)]
    return encode_batch(records[:10]) + encode_batch(records[10:], Codec.GZIP, 10)


def headers_of(cluster: KafkaCluster, topic: str) -> list[BatchHeader]:
    """Of all batches in the broker's own files."""
    (broker,) = cluster.brokers
    files = sorted(broker.data_directory.glob(f"{topic}-[0-9]*/*.log"))
    return [header for file in files for _, header in iterate_headers(file.read_bytes(), 0, file.stat().st_size)]
