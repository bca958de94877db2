"""Log compaction as a broker's cleaner does it: batches with holes, aborted records and old markers that go; no I/O.

Source of the rules: org.apache.kafka.storage.internals.log.Cleaner, CleanedTransactionMetadata and
org.apache.kafka.common.record.MemoryRecords (`filterTo`) of Apache Kafka 4.3, with `delete.retention.ms = 0`.
"""

from collections.abc import Sequence
from dataclasses import replace

from tests.simulation.log import PartitionLog, Stored

from sparkmirror.batch import codecs
from sparkmirror.batch import crc as crc32c
from sparkmirror.batch.header import ATTRIBUTES_AT, CODEC_MASK, HEADER, HEADER_BYTES, LOG_OVERHEAD_BYTES, parse_header
from sparkmirror.batch.records import Record, _write_record


def clean(log: PartitionLog) -> None:
    """Of each key the last value stays, at its offset; what is open or at the very end is left alone.

    Aborted records go at once. A marker stays as long as a pass has seen records of its transaction; the last batch of
    a producer stays as an empty one, whose sequence counts on.
    """
    end = log.last_stable
    cleanable = [one for one in log.batches[:-1] if one.last < end]
    newest = _newest(cleanable)
    last_batches = {id(producer.batches[-1]): pid for pid, producer in log.producers.items() if producer.batches}
    seen: set[int] = set()
    kept: list[Stored] = []
    for one in cleanable:
        if one.is_control:
            if _stays(log, one, seen):
                kept.append(one)
            continue
        if one.is_transactional:
            seen.add(one.producer_id)
        wanted = [] if one.is_aborted else [record for record in one.records if _is_newest(record, newest)]
        if wanted or id(one) in last_batches:
            cleaned = one if len(wanted) == len(one.records) else _without(one, wanted)
            kept.append(cleaned)
            if cleaned is not one and (producer := last_batches.get(id(one))) is not None:
                log.producers[producer].batches[-1] = cleaned
    log.batches = [*kept, *log.batches[len(cleanable) :]]
    log.is_compacted = True


def _newest(batches: Sequence[Stored]) -> dict[bytes | None, int]:
    found: dict[bytes | None, int] = {}
    for one in batches:
        if not one.is_control and not one.is_aborted:
            found.update({record.key: record.offset for record in one.records})
    return found


def _is_newest(record: Record, newest: dict[bytes | None, int]) -> bool:
    return record.key is None or newest[record.key] == record.offset


def _stays(log: PartitionLog, marker: Stored, seen: set[int]) -> bool:
    """Whether a marker stays. One that goes takes its line of the index of aborted transactions with it."""
    if marker.producer_id in seen:
        seen.discard(marker.producer_id)
        return True
    producer = log.producers.get(marker.producer_id)
    if producer is not None and not producer.batches and producer.epoch == marker.producer_epoch:
        return True
    log.aborted = [one for one in log.aborted if one.marker != marker.base]
    return False


def _without(one: Stored, kept: Sequence[Record]) -> Stored:
    """The batch with these of its records, at their offsets, or with none."""
    header = parse_header(one.data, 0)
    content = bytearray()
    for record in kept:
        _write_record(content, record, record.offset - header.base_offset, header.base_timestamp)
    body = codecs.compress(header.codec, bytes(content)) if kept else b""
    fields = header._replace(
        batch_length=HEADER_BYTES - LOG_OVERHEAD_BYTES + len(body),
        attributes=header.attributes if kept else header.attributes & ~CODEC_MASK,
        max_timestamp=max((record.timestamp for record in kept), default=header.max_timestamp),
        records_count=len(kept),
    )
    covered = HEADER.pack(*fields)[ATTRIBUTES_AT:] + body
    data = HEADER.pack(*fields._replace(crc=crc32c.value(covered)))[:ATTRIBUTES_AT] + covered
    return replace(one, data=data, _records=list(kept))
