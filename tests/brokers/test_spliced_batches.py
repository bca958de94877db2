"""Batches that librdkafka compressed by lz4 become one without being compressed again: a broker takes it, whose Java
code reads each record to check it, and librdkafka reads what it wrote."""

import random
from collections.abc import Callable

import pytest
from tests.oracle import assert_same, read_topic
from tests.scenarios.data import Note, make_topics, write
from tests.tampering import append, batches_of

from sparkmirror.batch.header import HEADER_BYTES, Codec, parse_header
from sparkmirror.batch.headers import read_headers
from sparkmirror.batch.splicing import splice
from sparkmirror.batch.unpacking import Unpacking
from sparkmirror.testing.kafka import KafkaCluster

RECORDS, BATCH_RECORDS = 600, 15
LONG_AGO_MS = 1_000_000_000_000


def orders() -> list[Note]:
    """Alike but for their numbers and some noise, with headers, and times that go back and forth."""
    drawn = random.Random(3)
    times_ms = [LONG_AGO_MS + drawn.randrange(10**8) for _ in range(RECORDS)]
    values = [
        b'{"order": %d, "note": "%s", "state": "sent"}' % (at, drawn.randbytes(400).hex().encode())
        for at in range(RECORDS)
    ]
    return [
        Note(value, b"k%d" % (at % 9), 0, time_ms, (("trace", b"%d" % at), ("none", None)))
        for at, (value, time_ms) in enumerate(zip(values, times_ms, strict=True))
    ]


@pytest.mark.parametrize("level", [0, 9])
def test_a_broker_and_its_readers_take_what_was_not_compressed_again(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, unique: Callable[[str], str], level: int
) -> None:
    topic = unique("spliced")
    source, target = ({"bootstrap.servers": one.bootstrap_servers} for one in (source_cluster, target_cluster))
    make_topics(source, {topic: 1})
    make_topics(target, {topic: 1})
    write(
        source, topic, orders(),
        compression_type="lz4", compression_level=level, batch_num_messages=BATCH_RECORDS, linger_ms=500,
    )  # fmt: skip
    came = batches_of(source_cluster, topic, 0)
    data = memoryview(b"".join(came))
    headers = read_headers(data, 0, len(data))
    assert len(headers) >= RECORDS // BATCH_RECORDS
    made, row = [], 0
    while row < len(headers):
        found = splice(data, headers, row, 100_000, Unpacking())
        assert found is not None, f"at row {row} of {len(headers)}: {bytes(came[row][HEADER_BYTES:][:16]).hex(' ')}"
        piece, row = found
        made.append(bytes(piece.data))
    append(target, topic, 0, made)

    assert 1 < len(made) < len(came) / 3
    there = batches_of(target_cluster, topic, 0)
    assert [parse_header(batch, 0).codec for batch in there] == [Codec.LZ4] * len(made)
    assert [batch[HEADER_BYTES:] for batch in there] == [batch[HEADER_BYTES:] for batch in made]
    assert_same(read_topic(source, topic), read_topic(target, topic), topic)
