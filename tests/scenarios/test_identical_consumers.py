"""Consumers that move to the other cluster with the offsets that they have: Java groups, and a Spark query over and
back with its own checkpoint."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition as Partition
from pyspark.sql import DataFrame, SparkSession
from tests.oracle import Client
from tests.scenarios.data import Note, make_topics, numbered, write
from tests.scenarios.java_reader import read_on_with_java, read_with_java
from tests.scenarios.mirror import MirrorOnce, StartMirror
from tests.scenarios.test_identical_failback import one_way
from tests.scenarios.test_identical_offsets import START, begin_at, commit, committed, file_of, places, spans
from tests.scenarios.test_transactions import write_transactions

from sparkmirror.cli.main import main
from sparkmirror.spark.cluster import SparkCluster
from sparkmirror.spark.session import launch_context
from sparkmirror.testing.kafka import KafkaCluster

pytestmark = pytest.mark.long

EPOCH = 50
READS_ON_SECONDS_MAX = 5.0
"""From the assignment on. With the epoch of the source a Java consumer reads nothing for 15 s and more."""
PROTOCOLS = ("classic", "consumer")


@pytest.fixture(scope="module")
def two_sources() -> Iterator[Client]:
    with KafkaCluster(2, name="old-source") as cluster:
        yield {"bootstrap.servers": cluster.bootstrap_servers}


def lead_by_turns(client: Client, topic: str, epoch: int) -> None:
    """Move the one replica of partition 0 to and fro, until the log has that leader epoch."""
    admin = KafkaAdminClient(bootstrap_servers=client["bootstrap.servers"])
    try:
        where, turn, ends_at = Partition(topic, 0), 0, time.monotonic() + 120
        while (leader := _leader(admin, topic))[1] < epoch:
            assert time.monotonic() < ends_at, f"{topic}-0: {leader}"
            if leader[0] == 1 + turn % 2 or not turn:
                turn += 1
                admin.alter_partition_reassignments({where: [1 + turn % 2]})
            time.sleep(0.02)
    finally:
        admin.close()


def _leader(admin: KafkaAdminClient, topic: str) -> tuple[int, int]:
    """Who leads partition 0, and the leader epoch."""
    (partition,) = admin.describe_topics([topic])[0]["partitions"]
    return partition["leader_id"], partition["leader_epoch"]


def test_java_groups_of_a_source_of_many_leaders_read_on_at_once(
    two_sources: Client, target: Client, unique: Callable[[str], str], mirror_once: MirrorOnce
) -> None:
    topic, alias = unique("old"), unique("same")
    remote = f"{alias}.{topic}"
    make_topics(two_sources, {topic: 1})
    write(two_sources, topic, numbered(0, 100))
    lead_by_turns(two_sources, topic, EPOCH)
    write(two_sources, topic, numbered(100, 300))
    groups = {protocol: unique(protocol) for protocol in PROTOCOLS}
    for protocol, group in groups.items():
        commit(two_sources, group, topic, {0: 50})
        read_on_with_java(two_sources, topic, group, protocol, 100)
        offset, epoch = committed(two_sources, group, topic, 1)[0]
        assert offset == 150 and (epoch or 0) >= EPOCH

    transactional = unique("transactional")
    commit_in_transaction(two_sources, transactional, topic, 120)

    lines = ["sync.group.offsets.enabled = true", f"groups = {', '.join([*groups.values(), transactional])}"]
    mirror_once(file_of(two_sources, target, alias, topic, lines))

    expected = read_with_java(two_sources, topic)[0]
    assert [one[0] for one in expected] == list(range(300))
    for protocol, group in groups.items():
        read = read_on_with_java(target, remote, group, protocol, 150, READS_ON_SECONDS_MAX)
        print(f"{protocol}: {read.said}")
        assert read.log == {0: expected[150:]}, read.said

    assert committed(target, transactional, remote, 1) == {0: (120, None)}

    naive = unique("naive")
    consumer = Consumer({**target, "group.id": naive})
    consumer.commit(offsets=[Place(remote, 0, 150, leader_epoch=EPOCH)], asynchronous=False)
    consumer.close()
    read = read_on_with_java(target, remote, naive, "classic", 150, READS_ON_SECONDS_MAX)
    assert read.log == {}, "a consumer that trusts the source's epoch stands still"


def commit_in_transaction(client: Client, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({**client, "group.id": group})
    producer = Producer({**client, "transactional.id": group})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([Place(topic, 0, offset)], consumer.consumer_group_metadata(), 60)
    producer.commit_transaction(60)
    consumer.close()


def test_java_sees_each_record_where_librdkafka_does(
    source: Client, target: Client, unique: Callable[[str], str], mirror_once: MirrorOnce
) -> None:
    topic, alias = unique("seen"), unique("same")
    make_topics(source, {topic: 2})
    begin_at(source, topic, START)
    write_transactions(source, topic, unique("writer"))
    odd = (("h", b"1"), ("h", None), ("", b""))
    write(source, topic, [Note(None, b"k", 0, headers=odd), Note(b"", b"", 1), *numbered(0, 2000, 2)])
    mirror_once(file_of(source, target, alias, topic))
    for client, name in ((source, topic), (target, f"{alias}.{topic}")):
        assert read_with_java(client, name, "read_committed") == places(
            {**client, "isolation.level": "read_committed"}, name
        )
    assert read_with_java(target, f"{alias}.{topic}") == places(source, topic) | places(
        {**source, "isolation.level": "read_committed"}, topic
    ), "markers alone fill what is not mirrored"


def test_a_group_that_is_ahead_of_the_mirror_stands_at_the_targets_end_until_its_records_have_come(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    topic, alias, group = unique("ahead"), unique("same"), unique("readers")
    remote = f"{alias}.{topic}"
    make_topics(source, {topic: 1})
    write(source, topic, numbered(0, 3000, size_bytes=1000), batch_size=20_000)
    commit(source, group, topic, {0: 2950})
    lines = [
        "sync.group.offsets.enabled = true", f"groups = {group}", "sync.group.offsets.interval.seconds = 1",
        "emit.checkpoints.interval.seconds = 1", "rate.limit.bytes.per.second = 150000",
    ]  # fmt: skip
    mirror = start_mirror(file_of(source, target, alias, topic, lines))
    seen: set[int] = set()

    def has_come() -> bool:
        at = committed(target, group, remote, 1)[0][0]
        if at < 0:
            return False
        _, end = spans(target, remote, 1)[0]
        assert at <= end, f"the group stands at {at}, and the target ends at {end}"
        seen.add(at)
        return at == 2950

    mirror.wait_until(has_come, "the group stands where it does on the source", 120)
    assert len(seen) > 2, f"it followed the mirror: {sorted(seen)}"
    mirror.stop()
    assert committed(target, group, remote, 1) == {0: (2950, None)}


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkSession]:
    context = launch_context(2, tmp_path / "spark", SparkCluster("local[2]"))
    session = SparkSession(context)
    try:
        yield session
    finally:
        context.stop()


class Query:
    """A Spark program that keeps its own offsets, and what it has read; a batch is kept when it is over."""

    def __init__(self, spark: SparkSession, topic: str, checkpoint: Path) -> None:
        self._spark = spark
        self._topic = topic
        self._checkpoint = checkpoint
        self.read: list[tuple[int, int, bytes]] = []
        self._fails = False

    def run(self, client: Client, *, dies_after: int | None = None) -> None:
        """To the present end; or it fails in the batch after so many, as a process that is killed there."""
        options = {f"kafka.{name}": value for name, value in client.items()}
        frame = self._spark.readStream.format("kafka-records").options(**options).options(
            subscribe=self._topic, startingOffsets="earliest", maxOffsetsPerTrigger="150", identicalOffsets="true",
        ).load()  # fmt: skip
        left = [dies_after]

        def keep(batch: DataFrame, _: int) -> None:
            rows = [(row.partition, row.offset, bytes(row.value)) for row in batch.collect()]
            if left[0] is not None and left[0] <= 0:
                raise ValueError("killed here")
            left[0] = None if left[0] is None else left[0] - 1
            self.read.extend(rows)

        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(self._checkpoint))
        query: Any = writer.trigger(availableNow=True).start()
        if dies_after is None:
            query.awaitTermination(120)
            return
        with pytest.raises(Exception, match="killed here"):
            query.awaitTermination(120)


def test_a_spark_query_moves_over_and_back_with_its_checkpoint(
    spark: SparkSession,
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    mirror_once: MirrorOnce,
    tmp_path: Path,
) -> None:
    topic, a, b = unique("ledger"), unique("east"), unique("west")
    clients = {a: source, b: target}
    over, back = one_way(clients, a, b, topic), one_way(clients, b, a, topic)
    query = Query(spark, topic, tmp_path / "checkpoint")
    make_topics(source, {topic: 2})
    begin_at(source, topic, 5000)
    write(source, topic, numbered(0, 600, 2))
    query.run(source, dies_after=2)

    write(source, topic, numbered(600, 900, 2))
    mirror_once(over)
    query.run(target)
    assert sorted(query.read) == values(target, topic), "what was in doubt came once"
    assert len(query.read) == 900

    file = tmp_path / "back.properties"
    file.write_text(over)
    assert main(["failback", "run", str(file)]) == 0
    write(target, topic, numbered(900, 1300, 2))
    query.run(target, dies_after=1)
    mirror_once(back)
    query.run(source)
    assert sorted(query.read) == values(source, topic)
    assert len(query.read) == 1300


def values(client: Client, topic: str) -> list[tuple[int, int, bytes | None]]:
    return [(number, one[0], one[2]) for number, log in sorted(places(client, topic).items()) for one in log]
