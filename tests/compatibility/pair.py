"""One story for any two releases of brokers: what a mirror does between them, seen by librdkafka.

Three flows mirror the same topics at once, one in each promise. The mirror is killed while somebody writes, and a
bounded run brings the rest. Told by `tests.compatibility` for each pair, and by `test_oldest` for one.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource
from tests.oracle import Client, assert_same, assert_whole_repeats, count_records, list_topics, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import Mirror
from tests.scenarios.test_identical_offsets import START, assert_identical, begin_at
from tests.scenarios.test_moving_group import committed, read_some
from tests.scenarios.test_once import CODECS, odd_records
from tests.scenarios.test_transactions import write_transactions

from sparkmirror.errors import SparkMirrorError
from sparkmirror.spark.warm_start import archive_options
from sparkmirror.testing.kafka import KafkaCluster

RELEASES = ("3.0.0", "3.9.1", "4.3.0")
"""The oldest whose brokers run with KRaft and Java 17, the last minor release of 3, and the newest."""
FLOWS = {"east": "plain", "west": "safe", "north": "exact"}
"""At least once, exactly once, and with identical offsets."""
LARGEST = "2000000"
WRITTEN_FIRST = 9_000
CHECKS = (
    "records have the same key, value, headers, timestamp and order, in each codec",
    "remote topics have their partitions and settings, also a topic that is created while the mirror runs",
    "a consumer group continues at its record on the target",
    "no record is missing after a kill of the mirror at least once, and none is repeated after one exactly once",
    "with identical offsets each record, and the group, is where the source has it: behind a late start, over holes of "
    "transactions, and after a kill",
)


def tell_story(source: Client, target: Client, directory: Path) -> None:
    """Raises AssertionError with what is not as it should be."""
    archive_options()  # Else the first mirror on a machine would make it, and take 20 s longer.
    for codec in CODECS:
        make_topics(source, {f"odd.{codec}": 3}, {"max.message.bytes": LARGEST})
        write(source, f"odd.{codec}", odd_records(), compression_type=codec)
    make_topics(source, {"busy": 3, "holes": 2})
    begin_at(source, "holes", START)
    write_transactions(source, "holes", "first")
    write(source, "busy", numbered(0, WRITTEN_FIRST, 3))
    assert len(read_some(source, "billing", "busy", 100)) == 100
    text = _file(source, target)
    with _writing(source) as written:
        _run_and_kill(text, source, target, directory)
        first = len(written)
    assert first, "nobody wrote while the mirror was killed"
    write_transactions(source, "holes", "second")
    _run_once(text, directory)
    _judge(source, target)


def _file(source: Client, target: Client) -> str:
    """Each cluster has three names, one for a flow in each promise."""
    sources, targets = dict.fromkeys(FLOWS, source), dict.fromkeys(FLOWS.values(), target)
    names = sources | targets
    return "\n".join(
        [
            f"clusters = {', '.join(names)}",
            *(f"{name}.bootstrap.servers = {client['bootstrap.servers']}" for name, client in names.items()),
            *(f"{here}->{there}.enabled = true" for here, there in FLOWS.items()),
            "safe.exactly.once.source.support = enabled", "north->exact.preserve.offsets.enabled = true",
            "north.consumer.isolation.level = read_committed", r"topics = odd\\..*, busy, late, holes",
            "groups = billing", "sync.group.offsets.enabled = true",
            "emit.checkpoints.interval.seconds = 1", "sync.group.offsets.interval.seconds = 1",
            "refresh.topics.interval.seconds = 2", "replication.factor = 1", "offset.storage.replication.factor = 1",
            "emit.heartbeats.enabled = false", "",
        ]
    )  # fmt: skip


def _run_and_kill(text: str, source: Client, target: Client, directory: Path) -> None:
    mirror = Mirror(directory, text)
    try:
        for alias in FLOWS:
            mirror.wait_until(
                lambda alias=alias: count_records(target, f"{alias}.busy") >= WRITTEN_FIRST, f"{alias} has come"
            )
        places = committed(source, "billing", "busy").keys()
        make_topics(source, {"late": 2})
        write(source, "late", numbered(0, 100, 2))
        mirror.wait_until(lambda: count_records(target, "east.late") >= 100, "a topic is made on the way")
        for alias in FLOWS:
            mirror.wait_until(
                lambda alias=alias: committed(target, "billing", f"{alias}.busy").keys() == places,
                "the group is there",
            )
        mirror.kill()
    finally:
        mirror.close()


def _run_once(text: str, directory: Path) -> None:
    mirror = Mirror(directory, text, ["--once"])
    try:
        ended = mirror.finish()
        assert ended.status == 0 and "Traceback" not in ended.errors, ended.errors
    finally:
        mirror.close()


def _judge(source: Client, target: Client) -> None:
    committed_only = {**target, "isolation.level": "read_committed"}
    for topic in (f"odd.{codec}" for codec in CODECS):
        ours = read_topic(source, topic)
        assert_same(ours, read_topic(target, f"east.{topic}"), f"east.{topic}")
        assert_same(ours, read_topic(committed_only, f"west.{topic}"), f"west.{topic}")
    for alias in ("east", "west"):
        assert _setting(target, f"{alias}.odd.lz4", "max.message.bytes") == LARGEST
    for topic in ("late", "busy"):  # What was under way when the mirror was killed may come again, but not to west.
        ours, theirs = read_topic(source, topic), read_topic(target, f"east.{topic}")
        assert_whole_repeats(ours, theirs, f"east.{topic}")
        assert_same(ours, read_topic(committed_only, f"west.{topic}"), f"west.{topic}")
    places, remote_places = committed(source, "billing", "busy"), committed(target, "billing", "east.busy")
    for partition, offset in places.items():
        assert theirs[partition][remote_places[partition]] == ours[partition][offset], "the group reads on there"
    assert committed(target, "billing", "north.busy") == places
    for topic, partitions in {**{f"odd.{codec}": 3 for codec in CODECS}, "late": 2, "busy": 3, "holes": 2}.items():
        assert_identical(source, target, topic, f"north.{topic}", partitions)
    assert not [name for name in list_topics(target) if name.startswith(tuple(f"{name}." for name in FLOWS.values()))]


def _setting(client: Client, topic: str, name: str) -> str:
    admin, asked = AdminClient(dict(client)), ConfigResource(ConfigResource.Type.TOPIC, topic)
    (found,) = admin.describe_configs([asked]).values()
    return str(found.result(30)[name].value)


@contextmanager
def _writing(client: Client) -> Iterator[list[int]]:
    """Records that go on and on, ten at a time; the list has their numbers."""
    written: list[int] = []
    ending = threading.Event()

    def produce() -> None:
        at = WRITTEN_FIRST
        while not ending.wait(0.05):
            write(client, "busy", numbered(at, at + 12, 3), linger_ms=0)
            written.append(at)
            at += 12

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        yield written
    finally:
        ending.set()
        thread.join(60)


@contextmanager
def two_clusters(source: str, target: str) -> Iterator[tuple[Client, Client]]:
    """A broker of either release."""
    with KafkaCluster(name="source", version=source) as one, KafkaCluster(name="target", version=target) as other:
        yield {"bootstrap.servers": one.bootstrap_servers}, {"bootstrap.servers": other.bootstrap_servers}


def try_pair(source: str, target: str, directory: Path) -> str:
    """What is wrong between two releases, in a line; "" for nothing."""
    try:
        with two_clusters(source, target) as (one, other):
            tell_story(one, other, directory)
    except (AssertionError, KafkaException, SparkMirrorError) as problem:
        return " ".join(str(problem).split())[:500] or type(problem).__name__
    return ""
