"""MirrorMaker 1's command: a chain of two over three clusters, as its manual builds them, and what operators do."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.oracle import Client, Log, Seen, assert_same, count_records, list_topics, read_topic
from tests.scenarios.data import Note, make_topics, numbered, write
from tests.scenarios.mirror import COMMAND, Mirror, StartMirror
from tests.scenarios.odd_logs import headers_of

from sparkmirror.batch.header import Codec
from sparkmirror.cli.main import main
from sparkmirror.testing.kafka import KafkaCluster

ASK_SECONDS_MAX = 60.0
PROGRAM = (
    sys.executable,
    "-c",
    "import sys; from sparkmirror.cli.main import mirror_maker_1; sys.exit(mirror_maker_1())",
)
PRODUCER = "compression.type=lz4\nlinger.ms=100\nbatch.size=65536\nacks=-1\n"
CONSUMER = (
    "auto.offset.reset=earliest\nenable.auto.commit=false\nsocket.receive.buffer.bytes=1048576\n"
    "partition.assignment.strategy=org.apache.kafka.clients.consumer.RoundRobinAssignor\n"
    "key.deserializer=org.apache.kafka.common.serialization.ByteArrayDeserializer\n"
)
MANY = [Note(f"{at}".encode(), None, at % 3, 10**12 + at, (("n", str(at).encode()), ("n", None))) for at in range(300)]


KEYED = [Note(f"{at}".encode(), f"key {at % 40}".encode() if at % 9 else None, at % 40 % 3) for at in range(600)]


@pytest.fixture(scope="module")
def middle() -> Iterator[Client]:
    """The cluster between: it creates topics when they are asked for, with two partitions each."""
    with KafkaCluster(name="middle", config={"auto.create.topics.enable": "true", "num.partitions": "2"}) as cluster:
        yield {"bootstrap.servers": cluster.bootstrap_servers}


class MirrorMaker1:
    """One of the chain: its two files, and how it is started."""

    def __init__(self, directory: Path, name: str, source: Client, target: Client, start: StartMirror) -> None:
        self.group = name
        self.consumer = directory / f"{name}.consumer.config"
        producer = directory / f"{name}.producer.config"
        self.consumer.write_text(f"bootstrap.servers={source['bootstrap.servers']}\ngroup.id={name}\n{CONSUMER}")
        producer.write_text(f"bootstrap.servers={target['bootstrap.servers']}\n{PRODUCER}")
        self.files = ("--consumer.config", str(self.consumer), "--producer.config", str(producer))
        self._start = start

    def start(self, topics: str, *options: str) -> Mirror:
        every = ("--offset.commit.interval.ms", "300")
        return self._start("", *self.files, "--whitelist", topics, *every, *options, program=PROGRAM)


def committed(client: Client, group: str) -> dict[tuple[str, int], int]:
    """By librdkafka, as Kafka's own tools see it."""
    admin = AdminClient(dict(client))
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return {(one.topic, one.partition): one.offset for one in asked[group].result(ASK_SECONDS_MAX).topic_partitions}


def set_offset(client: Client, group: str, topic: str, partition: int, offset: int) -> None:
    """What `kafka-consumer-groups --reset-offsets` does; a cluster's first group waits for its coordinator."""
    admin = AdminClient(dict(client))
    deadline = time.monotonic() + ASK_SECONDS_MAX
    while True:
        where = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset)])
        (answer,) = admin.alter_consumer_group_offsets([where])[group].result(ASK_SECONDS_MAX).topic_partitions
        if answer.error is None:
            return
        assert time.monotonic() < deadline, answer.error
        time.sleep(0.05)


def by_key(log: Log) -> dict[bytes | None, list[Seen]]:
    """The records of each key, in order; partitions one after the other."""
    records = [seen for _, partition in sorted(log.items()) for seen in partition]
    return {key: [seen for seen in records if seen.key == key] for key in {seen.key for seen in records}}


def assert_by_key(source: Client, target: Client, topic: str) -> None:
    """All records, each key's in order, where librdkafka's copy of Java's partitioner puts the key."""
    arrived = read_topic(target, topic)
    wanted, found = by_key(read_topic(source, topic)), by_key(arrived)
    keyless, others = wanted.pop(None), found.pop(None)
    assert found == wanted
    assert sorted(map(repr, others)) == sorted(map(repr, keyless))
    reference = f"{topic}.reference"
    make_topics(target, {reference: len(arrived)})
    producer = Producer({**target, "partitioner": "murmur2"})
    for key in wanted:
        producer.produce(reference, b"", key)
    assert producer.flush(ASK_SECONDS_MAX) == 0
    homes = {seen.key: number for number, log in read_topic(target, reference).items() for seen in log}
    assert {seen.key: number for number, log in arrived.items() for seen in log if seen.key} == homes


def assert_verbs_work(mirror: MirrorMaker1, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The verbs of a running mirror, with its two files in the place of FILE."""

    def run(*words: str, status: int = 0) -> str:
        capsys.readouterr()
        assert main([*words]) == status, capsys.readouterr().err
        return capsys.readouterr().out

    files = mirror.files
    (flow,) = json.loads(run("status", *files, "--format", "json", "--partitions"))
    assert flow["state"] == "RUNNING" and any(one["topic"] == topic for one in flow["partitions"])
    assert json.loads(run("gaps", *files, "--format", "json")) == {flow["flow"]: []}
    assert "can be used; it mirrors" in run("config", "check", *files)
    assert "connections.per.broker" in run("config", "explain", *files)
    assert "SameNamePolicy" in run("config", "convert", *files, "--to", "properties")
    assert topic in run("topics", *files, "--whitelist", topic)
    assert "sparkmirror_" in run("metrics", *files, "--format", "prometheus")
    run("pause", *files, "--topic", topic)
    run("resume", *files, "--topic", topic)
    run("retry", *files)
    run("throttle", *files, flow["flow"], "none")
    assert "it mirrors" in run("doctor", *files)
    verify = [str(COMMAND), "verify", *files, "--whitelist", topic, "--format", "json"]
    verified = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert verified.returncode == 0, verified.stdout + verified.stderr


@pytest.mark.long
def test_a_chain_of_two_mirror_makers_over_three_clusters(
    source: Client,
    middle: Client,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    story = unique("chain")
    orders, notes, lost, spread = (f"{story}.{name}" for name in ("orders", "heartbeats", "lost", "spread"))
    make_topics(source, {orders: 3, notes: 2, lost: 2, spread: 3})
    make_topics(middle, {orders: 3})
    make_topics(target, {orders: 3, notes: 2, spread: 5}, {"max.message.bytes": "20000"})
    write(source, orders, MANY)
    write(source, spread, KEYED, compression_type="lz4")
    write(source, notes, [*numbered(0, 100, partitions=2), Note(None, b"tombstone")])
    first = MirrorMaker1(tmp_path, unique("first"), source, middle, start_mirror)
    second = MirrorMaker1(tmp_path, unique("second"), middle, target, start_mirror)
    # Where a MirrorMaker 1 of old stopped.
    set_offset(source, first.group, notes, 0, 10)

    topics = f"{story}.*"
    one = first.start(topics, "--num.streams", "2", "--num.producers", "2")
    two = second.start(topics)
    two.wait_until(lambda: count_records(target, orders) == 300, "the whole of one topic is at the chain's end")
    two.wait_until(lambda: count_records(target, notes) >= 91, "the other one from where the group stood")
    assert_same(read_topic(source, orders), read_topic(target, orders), orders)
    left = read_topic(source, notes)
    left[0] = left[0][10:]
    assert_same(left, read_topic(target, notes), notes)

    two.wait_until(lambda: count_records(target, spread) == len(KEYED), "and one whose number of partitions changes")
    assert len(read_topic(middle, spread)) == 2, "as many as the middle gives a new topic"
    assert_by_key(source, target, spread)

    one.wait_until(lambda: lost in list_topics(middle), "the middle creates topics that are asked for")
    two.wait_until(lambda: f"has no topic {lost} and does not create it" in two.errors, "the end does not, and says so")

    def all_committed() -> bool:
        found = committed(source, first.group)
        return sum(found.values()) == 401 + len(KEYED) and len(found) == 10

    one.wait_until(all_committed, "the group on the source shows all progress", 30)
    assert main(["lag", str(first.consumer), "--format", "json", "--topic", orders]) == 0
    lags = json.loads(capsys.readouterr().out)
    assert [(lag["partition"], lag["offset"], lag["log_size"], lag["lag"]) for lag in lags] == [
        (at, 100, 100, 0) for at in range(3)
    ]

    assert_verbs_work(first, orders, capsys)

    # Of random bytes: both mirror makers compress, and what fits then is taken.
    write(source, orders, [Note(random.Random(1).randbytes(50_000))])
    ended = two.finish(60)
    assert ended.status == 1, "--abort.on.send.failure is on by default"
    (last_words,) = [line for line in ended.errors.splitlines() if line.startswith("kafka-mirror-maker: ")]
    assert f"{orders}-0: the record at source offset 100 is " in last_words, ended.errors
    one.stop()
    assert committed(source, first.group)[orders, 0] == 101, "the end commits what came last"

    set_offset(source, first.group, orders, 1, 40)
    ended = first.start(topics, "--once").finish()
    assert ended.status == 0, ended.errors
    assert committed(source, first.group)[orders, 1] == 100
    again = read_topic(source, orders)
    again[1] = again[1] + again[1][40:]
    assert_same(again, read_topic(middle, orders), "what an operator asked for came again, and nothing else")


def test_two_sources_are_merged_into_one_target_and_sets_of_one_stay_compressed(
    source: Client,
    middle: Client,
    target: Client,
    target_cluster: KafkaCluster,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    tmp_path: Path,
) -> None:
    """`compression.codec=0` with shallow iteration of one source alone, by a blacklist, with several producers."""
    story = unique("merge")
    east, west, both, left_out = (f"{story}.{name}" for name in ("east", "west", "both", "secret"))
    make_topics(source, {east: 1, both: 2, left_out: 1})
    make_topics(middle, {west: 1, both: 2})
    make_topics(target, {east: 1, west: 1, both: 2, left_out: 1})
    write(source, east, numbered(0, 500), compression_type="gzip")
    write(middle, west, numbered(0, 500), compression_type="gzip")
    write(source, left_out, numbered(0, 5))
    write(source, both, [note._replace(key=b"east") for note in numbered(0, 200, partitions=2)])
    write(middle, both, [note._replace(key=b"west") for note in numbered(0, 300, partitions=2)])
    first = MirrorMaker1(tmp_path, unique("east"), source, target, start_mirror)
    second = MirrorMaker1(tmp_path, unique("west"), middle, target, start_mirror)
    with first.consumer.open("a") as consumer:
        consumer.write("shallowiterator.enable=true\n")
    producer = tmp_path / "producer.config"
    producer.write_text(f"bootstrap.servers={target['bootstrap.servers']}\ncompression.codec=0\n")
    files = ("--consumer.config", str(first.consumer), "--consumer.config", str(second.consumer))
    options = ("--producer.config", str(producer), "--num.producers", "3", "--abort.on.send.failure", "false")
    excluded = f"(?!{story}).*,{left_out}"
    ended = start_mirror("", *files, *options, "--blacklist", excluded, "--once", program=PROGRAM).finish()

    assert ended.status == 0, ended.errors
    assert f"compressed sets of {second.consumer} are unpacked" in ended.errors
    assert "`shallowiterator.enable = true`: compressed sets stay as they are" in ended.errors
    assert_same(read_topic(source, east), read_topic(target, east), east)
    assert_same(read_topic(middle, west), read_topic(target, west), west)
    assert {header.codec for header in headers_of(target_cluster, east)} == {Codec.GZIP}
    assert {header.codec for header in headers_of(target_cluster, west)} == {Codec.NONE}
    arrived = read_topic(target, both)
    for client, key in ((source, b"east"), (middle, b"west")):
        merged = {at: [seen for seen in log if seen.key == key] for at, log in arrived.items()}
        assert_same(read_topic(client, both), merged, f"{both} of {key!r}")
    assert sum(map(len, arrived.values())) == 500
    assert count_records(target, left_out) == 0
    for client, mirror in ((source, first), (middle, second)):
        assert committed(client, mirror.group)[both, 0] == len(read_topic(client, both)[0])


def test_source_and_target_may_not_be_one_cluster_under_two_names(
    source: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    elsewhere = {"bootstrap.servers": source["bootstrap.servers"].replace("127.0.0.1", "localhost")}
    ended = MirrorMaker1(tmp_path, unique("loop"), source, elsewhere, start_mirror).start("nothing").finish()
    assert ended.status == 1
    assert "source and target are the same cluster" in ended.errors
    assert "Traceback" not in ended.errors
