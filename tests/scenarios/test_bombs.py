"""Batches that nobody may unpack, and those that nobody can, fail alone where they cannot pass as they are."""

import random
from collections.abc import Callable

import pytest
from tests.faults.numbered import end_offsets
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import Note, make_topics, numbered, write
from tests.scenarios.mirror import StartMirror, flow_file
from tests.scenarios.odd_logs import java_batch, lay_logs, numbered_records, sealed

from sparkmirror.batch.header import Codec
from sparkmirror.batch.records import encode_batch
from sparkmirror.testing.kafka import KafkaCluster

MEBIBYTE = 1 << 20
BOMBS, CALM = 150, 60_000
NO_SYNC = "sync.topic.configs.enabled = false"
LARGE = {"message_max_bytes": 100 * MEBIBYTE, "compression_type": "zstd"}
"""Kafka limits what a batch takes on the wire, librdkafka what a record takes before."""


def test_bombs_that_cannot_pass_fail_their_partition_alone_and_say_so(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    topic, alias = unique("packed"), unique("north")
    make_topics(source, {topic: 2})
    write(source, topic, numbered(0, 50), compression_type="zstd")
    write(source, topic, [Note(bytes(50 * MEBIBYTE))], **LARGE)  # in some 2 KB
    write(source, topic, [note._replace(partition=1) for note in numbered(0, 1000)], compression_type="zstd")
    lines = [NO_SYNC, "backup.producer.compression.type = lz4"]
    mirror = start_mirror(flow_file(source, target, alias=alias, topics=topic, lines=lines))
    mirror.wait_until(lambda: f"{topic}-0: FAILED: record batch at offset 50" in mirror.errors, "the failure is told")
    assert "a zstd record batch holds more than 16777216 bytes once decompressed; it is not unpacked" in mirror.errors
    assert "raise unpacked.bytes.max" in mirror.errors
    mirror.wait_until(lambda: count_records(target, f"{alias}.{topic}") == 1050, "all else arrives")
    mirror.stop()


@pytest.mark.long
def test_another_topic_does_not_wait_for_bombs_that_pass(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    bombs, calm, alias = unique("bombs"), unique("calm"), unique("west")
    make_topics(source, {bombs: 1, calm: 1})
    write(source, bombs, [Note(bytes(50 * MEBIBYTE))] * BOMBS, **LARGE, batch_num_messages=1)
    values = random.Random(1)
    write(source, calm, (Note(values.randbytes(1000)) for _ in range(CALM)), compression_type="lz4")
    mirror = start_mirror(flow_file(source, target, alias=alias, topics=f"{bombs},{calm}", lines=["tasks.max = 1"]))
    mirror.wait_until(lambda: count_records(target, f"{alias}.{calm}") == CALM, "the other topic arrives")
    assert end_offsets(target["bootstrap.servers"], f"{alias}.{bombs}", 1)[0] < BOMBS, "it came before them"
    mirror.stop()
    assert_same(read_topic(source, calm), read_topic(target, f"{alias}.{calm}"), calm)


def test_an_unknown_codec_fails_its_partition_alone(
    target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    """In a log with holes too, whose batches have to be made again."""
    strange = sealed(encode_batch(numbered_records(10, 10), Codec.NONE, 10), last_offset_delta=12, attributes=5)
    log = encode_batch(numbered_records(0, 10), Codec.NONE, 0) + strange
    with KafkaCluster(name="strange", config={"log.cleaner.enable": "false"}) as cluster:
        source = {"bootstrap.servers": cluster.bootstrap_servers}
        make_topics(source, {"strange": 2, "sound": 1})
        write(source, "sound", numbered(0, 500))
        lay_logs(cluster, {"strange-0": log, "strange-1": java_batch("holes", 0)})
        alias = unique("odd")
        mirror = start_mirror(flow_file(source, target, alias=alias, topics="strange,sound", lines=[NO_SYNC]))
        mirror.wait_until(lambda: "strange-0: FAILED: " in mirror.errors, "the failure is told")
        assert "record batch at offset 10 names an unknown codec, number 5" in mirror.errors
        mirror.wait_until(lambda: count_records(target, f"{alias}.sound") == 500, "the other topic arrives")
        write(source, "sound", numbered(500, 600))
        mirror.wait_until(lambda: count_records(target, f"{alias}.sound") == 600, "the other topic goes on")
        mirror.wait_until(
            lambda: count_records(target, f"{alias}.strange") == 14, "the batch before, and its neighbour"
        )
        mirror.stop()
        assert_same(read_topic(source, "sound"), read_topic(target, f"{alias}.sound"), "sound")
