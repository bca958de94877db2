"""A consumer group that moves from A to B in mid-stream and back again; checkpoints, syncs, heartbeats on the way."""

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.oracle import Client, list_topics
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import StartMirror, two_way_file

from sparkmirror.cli.main import main
from sparkmirror.kafka.clients import open_tail
from sparkmirror.ledger.mirror_records import Checkpoint, Heartbeat, OffsetSync
from sparkmirror.model import Cluster
from sparkmirror.model import TopicPartition as Partition

PARTITIONS = 3
SYNC_SECONDS_MAX = 60.0


def consumer(client: Client, group: str) -> Consumer:
    return Consumer(
        {**client, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
         "session.timeout.ms": 45_000}
    )  # fmt: skip


def read_some(client: Client, group: str, topic: str, records: int) -> list[int]:
    """The next records that the group reads, committed; it leaves at once."""
    member = consumer(client, group)
    member.subscribe([topic])
    seen: list[int] = []
    problem: object = ""
    ends_at = time.monotonic() + SYNC_SECONDS_MAX
    while len(seen) < records:
        assert time.monotonic() < ends_at, f"{group} read {len(seen)} of {records} from {topic} {problem}"
        for message in member.consume(min(50, records - len(seen)), 0.1):
            if problem := message.error():
                continue  # librdkafka tries again by itself
            seen.append(int(message.value() or b""))
    member.commit(asynchronous=False)
    member.close()
    return seen


def committed(client: Client, group: str, topic: str) -> dict[int, int]:
    """A cluster's first group takes a moment: the topic of all groups' offsets is created then."""
    asker = consumer(client, group)
    ends_at = time.monotonic() + SYNC_SECONDS_MAX
    try:
        while True:
            try:
                found = asker.committed([TopicPartition(topic, number) for number in range(PARTITIONS)], timeout=10)
                return {one.partition: one.offset for one in found if one.offset >= 0}
            except KafkaException as problem:
                assert time.monotonic() < ends_at, f"{group}: {problem}"
                time.sleep(0.05)
    finally:
        asker.close()


@contextmanager
def stream(client: Client, topic: str) -> Iterator[list[int]]:
    """Records that go on and on; the list holds how many were written."""
    written = [0]
    ending = threading.Event()

    def produce() -> None:
        while not ending.wait(0.05):
            write(client, topic, numbered(written[0], written[0] + 20, partitions=PARTITIONS), linger_ms=0)
            written[0] += 20

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield written
    finally:
        ending.set()
        thread.join()


def wait_for(condition: Callable[[], bool], what: str, seconds_max: float = SYNC_SECONDS_MAX) -> float:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds_max, f"not in {seconds_max:g} s: {what}"
        time.sleep(0.05)
    return time.monotonic() - began


def records_of(client: Client, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    with open_tail(Cluster("x", client), "test", [Partition(topic, 0)]) as tail:
        return [(record.key, record.value) for record in tail.read_to_end()]


def test_a_group_that_moves_and_comes_back_sees_every_record(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, group, a, b = unique("orders"), unique("billing"), unique("east"), unique("west")
    make_topics(source, {topic: PARTITIONS})
    flows = two_way_file({a: source, b: target}, topics=topic, groups=group, lines=["offset.lag.max = 10"])
    mirror = start_mirror(flows)
    remote = f"{a}.{topic}"
    seen: list[int] = []
    with stream(source, topic) as written:
        seen += read_some(source, group, topic, 150)
        left_at = committed(source, group, topic)
        # Exactly where it left, though records keep coming: the map knows every offset.
        mirror.wait_until(lambda: committed(target, group, remote) == left_at, f"the group stands at {left_at} on B")

        again = read_some(source, group, topic, 30)
        seen += again
        moved_to = committed(source, group, topic)
        seconds = wait_for(lambda: committed(target, group, remote) == moved_to, "a commit reaches B", 60)
        print(f"{seconds:.1f} s from a commit on A to its translation on B", file=sys.stderr)

        moved = read_some(target, group, remote, 200)
        assert not set(moved) & set(seen), "the group went on exactly where it had left"
        seen += moved
        stands = committed(target, group, remote)
        wait_for(lambda: committed(source, group, topic) == stands, f"the group stands at {stands} back on A")
        seen += read_some(source, group, topic, 100)
    count = written[0]
    seen += read_some(source, group, topic, count - len(set(seen)))
    repeated = [number for number, times in Counter(seen).items() if times > 1]
    assert sorted(set(seen)) == list(range(count)), "every record was seen"
    assert repeated == []

    checkpoints = [Checkpoint.parse(*record) for record in records_of(target, f"{a}.checkpoints.internal")]
    assert {one.partition.topic for one in checkpoints if one.group == group} == {remote}
    homeward = [Checkpoint.parse(*record) for record in records_of(source, f"{b}.checkpoints.internal")]
    assert {one.partition.topic for one in homeward if one.group == group} == {topic}
    syncs = [OffsetSync.parse(*record) for record in records_of(source, f"mm2-offset-syncs.{b}.internal")]
    assert all(sync.upstream == sync.downstream for sync in syncs if sync.partition.topic == topic)
    assert {sync.partition for sync in syncs} >= {Partition(topic, number) for number in range(PARTITIONS)}
    beats = [Heartbeat.parse(*record) for record in records_of(target, "heartbeats")]
    assert {a, b} <= {alias for beat in beats for alias in (beat.flow.source, beat.flow.target)}
    assert f"{a}.heartbeats" in list_topics(target)
    file = tmp_path / "two-ways.properties"
    file.write_text(flows)
    assert main(["topology", str(file), "--cluster", b, "--format", "json"]) == 0
    feeds = {(feed["source"], feed["target"]): feed for feed in json.loads(capsys.readouterr().out)["feeds"]}
    assert (feeds[a, b]["hops"], feeds[a, b]["silent"]) == (1, False)
    assert (feeds[b, a]["records_arrive"], feeds[b, a]["silent"]) == (False, False), "announced by A's own heartbeats"
    mirror.stop(20)
