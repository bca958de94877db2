"""A source whose log was compacted: most of its batches have holes. Called by `bench.loading`."""

import time
from collections.abc import Iterator
from itertools import cycle

from confluent_kafka import Consumer, TopicPartition

from bench.workloads import Workload, make_values
from sparkmirror.errors import SparkMirrorError

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),  # the active one is never compacted
    "min.cleanable.dirty.ratio": "0.001",
}
COMPACT_SECONDS_MAX = 180.0
COUNT_SECONDS_MAX = 120.0
_LOOK_SECONDS = 1.0


def keyed_batches(workload: Workload) -> Iterator[tuple[int, list[dict[str, bytes]]]]:
    """Each record under a key of its partition's own, then every so many-th once more."""
    values = cycle(make_values(workload.value_bytes))
    each = workload.records // workload.partitions
    for keys in (range(each), range(0, each, workload.superseded)):
        for start in range(0, len(keys), workload.batch_records):
            for partition in range(workload.partitions):
                block = keys[start : start + workload.batch_records]
                yield partition, [{"key": b"%d" % key, "value": next(values)} for key in block]


def wait_until_compacted(bootstrap_servers: str, topic: str, workload: Workload) -> int:
    """How many records are left once the brokers' cleaner finds no more; SparkMirrorError if it does not begin."""
    written = workload.records + workload.records // workload.superseded
    ends_at = time.monotonic() + COMPACT_SECONDS_MAX
    before = written
    while time.monotonic() < ends_at:
        left = count_records(bootstrap_servers, topic, workload.partitions)
        if left == before < written:
            return left
        before = left
        time.sleep(_LOOK_SECONDS)
    raise SparkMirrorError(f"The source's log was not compacted within {COMPACT_SECONDS_MAX:.0f} s.")


def count_records(bootstrap_servers: str, topic: str, partitions: int) -> int:
    """By reading them all."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "bench-count",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        wheres = [TopicPartition(topic, number, 0) for number in range(partitions)]
        ends = {where.partition: consumer.get_watermark_offsets(where, timeout=30)[1] for where in wheres}
        consumer.assign(wheres)
        ends_at = time.monotonic() + COUNT_SECONDS_MAX
        count = 0
        while ends and time.monotonic() < ends_at:
            for message in consumer.consume(10_000, 1.0):
                count += 1
                if message.offset() + 1 >= ends.get(message.partition(), 1 << 62):
                    del ends[message.partition()]
        if ends:
            raise SparkMirrorError(f"{topic} could not be read to its end within {COUNT_SECONDS_MAX:.0f} s.")
        return count
    finally:
        consumer.close()
