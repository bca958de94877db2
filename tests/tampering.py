"""Changes what a target holds, batch by batch: all others stay what they were, byte for byte.

Logs are read from the brokers' own files and produced as raw batches: a client would make new ones.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from confluent_kafka.admin import AdminClient
from tests.oracle import Client
from tests.scenarios.data import make_topics

from sparkmirror.batch.header import iterate_headers, parse_header, stamp
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.link import Link, dial
from sparkmirror.model import Cluster
from sparkmirror.testing.kafka import KafkaCluster

Change = Callable[[list[Record]], list[Record]]
"""What to do to the records of the batch that is tampered with."""
_VANISH_SECONDS_MAX = 60.0
_LEADER_SECONDS_MAX = 60.0
_NO_LEADER_YET = (3, 6)
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER: nothing was written. A broker answers with its new metadata a
moment before it leads the partitions of a new topic."""


def batches_of(cluster: KafkaCluster, topic: str, partition: int) -> list[bytes]:
    """In the files of the cluster's one broker."""
    (broker,) = cluster.brokers
    files = sorted((broker.data_directory / f"{topic}-{partition}").glob("*.log"))
    logs = [file.read_bytes() for file in files]
    return [log[at : at + header.total_bytes] for log in logs for at, header in iterate_headers(log, 0, len(log))]


def change_batch(batches: Sequence[bytes], offset: int, change: Change) -> list[bytes]:
    """The same batches, but for the one in which an offset lies: its records are changed."""
    changed = list(batches)
    for at, batch in enumerate(batches):
        header = parse_header(batch, 0)
        if header.base_offset <= offset < header.next_offset:
            changed[at] = encode_batch(change(decode_records(batch)), header.codec)
    return changed


def replace_topic(client: Client, topic: str, partitions: int) -> None:
    """Deletes it and creates it again, empty."""
    admin = AdminClient(dict(client))
    for done in admin.delete_topics([topic]).values():
        done.result(_VANISH_SECONDS_MAX)
    give_up_at = time.monotonic() + _VANISH_SECONDS_MAX
    while topic in admin.list_topics(timeout=_VANISH_SECONDS_MAX).topics:
        assert time.monotonic() < give_up_at, f"{topic} is still there"
        time.sleep(0.05)
    make_topics(client, {topic: partitions})


def append(client: Client, topic: str, partition: int, batches: Iterable[bytes]) -> None:
    """Produces raw batches to a cluster of one broker, one after the other."""
    (server,) = client["bootstrap.servers"].split(",")
    host, _, port = server.rpartition(":")
    link = dial(host, int(port), client_settings(Cluster("target", client), "tamper"))
    try:
        for batch in batches:
            _produce(link, topic, partition, batch)
    finally:
        link.close()


def _produce(link: Link, topic: str, partition: int, batch: bytes) -> None:
    give_up_at = time.monotonic() + _LEADER_SECONDS_MAX
    while (answer := _produce_once(link, topic, partition, batch)).error in _NO_LEADER_YET:
        assert time.monotonic() < give_up_at, answer
        time.sleep(0.05)
    assert answer.error == 0, answer


def _produce_once(link: Link, topic: str, partition: int, batch: bytes) -> wire.ProducedPartition:
    data = memoryview(bytearray(batch))
    stamp(data, 0, parse_header(data, 0), -1, -1, -1)
    link.correlation += 1
    version = 12  # by name
    header = wire.request_header(wire.PRODUCE, version, link.correlation, link.client_id)
    body = wire.encode_produce([wire.ProduceItem(topic, partition, data)])
    link.socket.sendall(b"".join(wire.frame(header, *body)))
    (answer,) = wire.decode_produce(version, memoryview(_receive(link))).partitions
    return answer


def _receive(link: Link) -> bytes:
    size = int.from_bytes(link._receive(4), "big")
    return link._receive(size)


def flip_byte(record: Record) -> Record:
    """One bit of the value's first byte."""
    assert record.value
    return replace(record, value=bytes([record.value[0] ^ 1]) + record.value[1:])
