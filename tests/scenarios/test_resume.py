"""Going on where MirrorMaker 2 stopped: in the middle of a source batch."""

import struct
from collections.abc import Callable

from confluent_kafka import Producer
from tests.oracle import Client, assert_same, read_topic
from tests.scenarios.data import make_topics
from tests.scenarios.mirror import MirrorOnce, flow_file

from sparkmirror.testing.kafka import KafkaCluster

CODECS = ("none", "lz4", "zstd")
RECORDS = 100
LAST_MIRRORED_OFFSET = 41
_RECORDS_COUNT_AT = 57


def test_records_after_mirrormakers_position_arrive_though_it_lies_inside_a_batch(
    source_cluster: KafkaCluster,
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    mirror_once: MirrorOnce,
) -> None:
    story, alias = unique("resume"), unique("east")
    topics = [f"{story}.{codec}" for codec in CODECS]
    make_topics(source, dict.fromkeys(topics, 1))
    for codec, topic in zip(CODECS, topics, strict=True):
        write_one_batch(source, topic, codec)
        assert records_in_first_batch(source_cluster, topic) == RECORDS, "the test needs all of it in one batch"
    pretend_that_mirrormaker_ran(target, alias, topics)

    mirror_once(flow_file(source, target, alias=alias, topics=rf"{story}\\..*"))
    for topic in topics:
        rest = {0: read_topic(source, topic)[0][LAST_MIRRORED_OFFSET + 1 :]}
        assert_same(rest, read_topic(target, f"{alias}.{topic}"), topic)


def write_one_batch(source: Client, topic: str, codec: str) -> None:
    """The producer knows the partition before the first record: it sends those that waited for it one by one."""
    producer = Producer({**source, "compression.type": codec, "linger.ms": 120_000})
    producer.list_topics(topic, 60)
    for at in range(RECORDS):
        producer.produce(topic, f"value {at}".encode(), f"key {at}".encode(), 0, timestamp=10**12 + at)
    assert producer.flush(60) == 0


def records_in_first_batch(cluster: KafkaCluster, topic: str) -> int:
    """From the broker's own file; see the record batch format in Kafka's protocol guide."""
    log = (cluster.broker(1).data_directory / f"{topic}-0" / f"{0:020}.log").read_bytes()
    (count,) = struct.unpack_from(">i", log, _RECORDS_COUNT_AT)
    return int(count)


def pretend_that_mirrormaker_ran(target: Client, alias: str, topics: list[str]) -> None:
    """The offsets topic as Connect makes it, with the record that MirrorMaker's task would have left."""
    offsets = f"mm2-offsets.{alias}.internal"
    make_topics(target, {offsets: 25}, {"cleanup.policy": "compact"})
    producer = Producer({**target, "partitioner": "murmur2"})
    for topic in topics:
        key = f'["MirrorSourceConnector",{{"cluster":"{alias}","partition":0,"topic":"{topic}"}}]'
        producer.produce(offsets, f'{{"offset":{LAST_MIRRORED_OFFSET}}}'.encode(), key.encode())
    assert producer.flush(60) == 0
