"""What cannot pass through arrives all the same: every kind of batch that a broker may hold, record for record."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.oracle import Client, Log, assert_same, count_records, read_messages, read_topic
from tests.scenarios.data import Note, make_topics, write
from tests.scenarios.mirror import MirrorOnce, StartMirror, Verify, flow_file
from tests.scenarios.odd_logs import (
    OLD_KINDS,
    compacted_log,
    headers_of,
    horizon_log,
    java_batch,
    lay_logs,
    stamped_log,
    timeless_log,
)

from sparkmirror.batch.header import Codec
from sparkmirror.cli.main import main
from sparkmirror.kafka.clients import open_admin
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.policy.fillers import ABORTED, MARKERS
from sparkmirror.testing.kafka import KafkaCluster

LOGS = {
    "compacted-0": compacted_log(),
    "horizon-0": horizon_log(),
    "stamped-0": stamped_log(),
    "timeless-0": timeless_log(),
    **{f"old-{number}": java_batch(kind) for number, kind in enumerate(OLD_KINDS)},
}
TOPICS = ("compacted", "horizon", "stamped", "timeless", "old", "heavy")
MEGABYTE = 1_000_000
HOUR_MS = 3_600_000
NO_SYNC = "sync.topic.configs.enabled = false"  # target topics have limits of their own here


@pytest.fixture(scope="module")
def odd_source() -> Iterator[Client]:
    """A broker whose logs hold what no client of today would write."""
    with KafkaCluster(name="odd", config={"log.cleaner.enable": "false"}) as cluster:
        client = {"bootstrap.servers": cluster.bootstrap_servers}
        make_topics(client, {"compacted": 1, "horizon": 1, "stamped": 1, "timeless": 1, "old": len(OLD_KINDS)})
        make_topics(client, {"heavy": 1, "large": 1}, {"max.message.bytes": str(8 * MEGABYTE)})
        make_topics(client, {"future": 1}, {"message.timestamp.after.max.ms": str(10**15)})
        lay_logs(cluster, LOGS)
        write_large_ones(client)
        write_from_the_future(client)
        yield client


def write_from_the_future(client: Client) -> None:
    now_ms = int(time.time() * 1000)
    days = [0, 100, -1, 2, 0]
    write(client, "future", [Note(b"day %d" % day, timestamp_ms=now_ms + day * 24 * HOUR_MS - HOUR_MS) for day in days])


def write_large_ones(client: Client) -> None:
    heavy = [Note(bytes([at]) * (5 * MEGABYTE), b"k%d" % at) for at in range(3)]
    write(client, "heavy", heavy, message_max_bytes=8 * MEGABYTE, compression_type="none")
    values = [b"order %d of many, " % (at * at) * 20 for at in range(6000)]
    for codec in ("none", "lz4", "zstd"):
        write(client, "large", [Note(value, codec.encode()) for value in values], compression_type=codec,
              batch_size=2 * MEGABYTE, batch_num_messages=6000, linger_ms=500)  # fmt: skip


def test_every_odd_batch_arrives_record_for_record(
    odd_source: Client,
    target: Client,
    target_cluster: KafkaCluster,
    unique: Callable[[str], str],
    mirror_once: MirrorOnce,
) -> None:
    alias, packed = unique("odd"), unique("packed")
    make_topics(target, {f"{alias}.heavy": 1}, {"max.message.bytes": str(6 * MEGABYTE)})
    make_topics(target, {f"{alias}.stamped": 1}, {"compression.type": "gzip"})
    make_topics(target, {f"{alias}.old": len(OLD_KINDS)}, {"message.timestamp.after.max.ms": str(10**15)})
    mirror_once(flow_file(odd_source, target, alias=alias, topics=",".join(TOPICS), lines=[NO_SYNC]))
    for topic in TOPICS:
        assert_same(seen(odd_source, topic), seen(target, f"{alias}.{topic}"), topic)

    make_topics(target, {f"{packed}.future": 1})
    lines = [NO_SYNC, "backup.producer.compression.type = zstd", "timestamps.clamp = true"]
    topics = ("compacted", "old", "future")
    mirror_once(flow_file(odd_source, target, alias=packed, topics=",".join(topics), lines=lines))
    latest_ms = int(time.time() * 1000) + HOUR_MS
    for topic in topics:
        assert_same(seen(odd_source, topic, latest_ms), seen(target, f"{packed}.{topic}", latest_ms), topic)
        assert {header.codec for header in headers_of(target_cluster, f"{packed}.{topic}")} == {Codec.ZSTD}


@pytest.mark.long
@pytest.mark.parametrize(
    "line",
    ["transforms.where = value IS NULL OR octet_length(value) >= 0", "transforms.set.headers = headers"],
    ids=["dropped", "set"],
)
def test_every_odd_batch_passes_transforms_record_for_record(
    odd_source: Client, target: Client, unique: Callable[[str], str], mirror_once: MirrorOnce, line: str
) -> None:
    alias = unique("seen")
    make_topics(target, {f"{alias}.heavy": 1}, {"max.message.bytes": str(6 * MEGABYTE)})
    make_topics(target, {f"{alias}.old": len(OLD_KINDS)}, {"message.timestamp.after.max.ms": str(10**15)})
    mirror_once(flow_file(odd_source, target, alias=alias, topics=",".join(TOPICS), lines=[NO_SYNC, line]))
    for topic in TOPICS:
        assert_same(seen(odd_source, topic), seen(target, f"{alias}.{topic}"), topic)


@pytest.mark.parametrize(
    ("filler", "topics"),
    [
        (ABORTED, ("compacted", "horizon", "old")),
        pytest.param(MARKERS, ("compacted", "horizon"), marks=pytest.mark.long),  # 5,000 of them
    ],
)
def test_what_compaction_has_left_keeps_its_offsets(
    odd_source: Client,
    target: Client,
    unique: Callable[[str], str],
    mirror_once: MirrorOnce,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    filler: str,
    topics: tuple[str, ...],
) -> None:
    alias = unique("same")
    lines = [NO_SYNC, "preserve.offsets.enabled = true", f"preserve.offsets.filler = {filler}"]
    make_topics(target, {f"{alias}.old": len(OLD_KINDS)}, {"message.timestamp.after.max.ms": str(10**15)})
    text = flow_file(odd_source, target, alias=alias, topics=",".join(topics), lines=lines)
    file = tmp_path / "plan.properties"
    file.write_text(text)
    assert main(["plan", str(file), "--format", "json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out).values()
    holes = {one["topic"]: one for one in plan["kept_offsets"]["holes"] if one["topic"] != "old"}
    for topic in ("compacted", "horizon"):
        assert holes[topic]["missing"] == ends(odd_source, topic)[0] - len(places(odd_source, topic)[0])
    mirror_once(text)

    committed = {**target, "isolation.level": "read_committed"}
    for topic in topics:
        for client in (target, committed) if filler == MARKERS else (committed,):
            assert places(client, f"{alias}.{topic}") == places(odd_source, topic)
        assert ends(target, f"{alias}.{topic}") == ends(odd_source, topic)


def places(client: Client, topic: str) -> dict[int, list[tuple[object, ...]]]:
    """Each record with its offset, as `seen`."""
    log = read_messages(client, topic, has_old_lz4=True)
    return {
        number: [(one.offset(), one.key(), one.value(), one.headers(), max(one.timestamp()[1], 0)) for one in messages]
        for number, messages in log
    }


def ends(client: Client, topic: str) -> dict[int, int]:
    with open_admin(Cluster("any", client), "test") as admin:
        logs = [TopicPartition(topic, number) for number in range(admin.list_topics([topic])[topic].partitions)]
        return {where.partition: end for where, end in admin.log_ends(logs).all().items()}


def test_what_is_too_large_is_split_and_what_is_too_far_in_the_future_fails_alone_and_says_so(
    odd_source: Client,
    target: Client,
    target_cluster: KafkaCluster,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
) -> None:
    alias = unique("early")
    make_topics(target, {f"{alias}.future": 1})
    make_topics(target, {f"{alias}.large": 1}, {"max.message.bytes": "20000"})
    mirror = start_mirror(flow_file(odd_source, target, alias=alias, topics="future,large", lines=[NO_SYNC]))
    mirror.wait_until(lambda: "future-0: FAILED: " in mirror.errors, "the failure is told")
    assert "message.timestamp" in mirror.errors
    mirror.wait_until(lambda: count_records(target, f"{alias}.large") >= 18_000, "the other topic arrives")
    mirror.stop()
    assert_same(seen(odd_source, "large"), seen(target, f"{alias}.large"), "large")
    assert max(header.total_bytes for header in headers_of(target_cluster, f"{alias}.large")) <= 20_000


@pytest.mark.long
def test_every_odd_batch_is_proven_equal_by_verify(
    odd_source: Client, target: Client, unique: Callable[[str], str], mirror_once: MirrorOnce, verify: Verify
) -> None:
    alias = unique("proven")
    make_topics(target, {f"{alias}.heavy": 1}, {"max.message.bytes": str(6 * MEGABYTE)})
    make_topics(target, {f"{alias}.large": 1}, {"max.message.bytes": "20000"})
    make_topics(target, {f"{alias}.future": 1})
    make_topics(target, {f"{alias}.old": len(OLD_KINDS)}, {"message.timestamp.after.max.ms": str(10**15)})
    lines = [NO_SYNC, "backup.producer.compression.type = zstd", "timestamps.clamp = true"]
    text = flow_file(odd_source, target, alias=alias, topics=",".join([*TOPICS, "large", "future"]), lines=lines)
    mirror_once(text)
    status, output, errors = verify(text)
    assert status == 0, output + errors
    assert "; 0 % of the bytes in identical batches" in output
    assert "records have a timestamp lowered by timestamps.clamp" in output


def seen(client: Client, topic: str, latest_ms: int = 1 << 62) -> Log:
    """The records with their time, but not its kind: an append time of the source is a record's own on the target.

    Times from near `latest_ms` on count as that: which exactly a record got that was clamped depends on when it came.
    """
    log = read_topic(client, topic, has_old_lz4=True)
    return {number: [replace(record, timestamp=(0, _rounded(record.timestamp[1], latest_ms))) for record in records]
            for number, records in log.items()}  # fmt: skip


def _rounded(time_ms: int, latest_ms: int) -> int:
    return latest_ms if time_ms > latest_ms - HOUR_MS else max(time_ms, 0)
