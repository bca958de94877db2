"""MirrorMaker 2 as connectors of a real Kafka Connect, taken over by their own files, and beside ours."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.connect import (
    BYTES,
    SECONDS_MAX,
    as_properties,
    cluster_pair,
    connect_worker,
    source_connector,
    worker_settings,
)
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import COMMAND, Ended, Mirror, StartMirror

from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.connect_group import is_run_by_connect
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.groups import commit_group_offsets, read_group_offsets
from sparkmirror.model import Cluster, Connector, TopicPartition

EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}


def write_json(directory: Path, name: str, config: Mapping[str, str], stem: str) -> str:
    """As Connect's REST interface gives it."""
    file = directory / f"{stem}.json"
    file.write_text(json.dumps({"name": name, "config": {**config, "name": name}, "tasks": [], "type": "source"}))
    return str(file)


def is_run(target: Client, group: str, name: str) -> bool:
    with open_admin(Cluster("backup", target), "test") as admin:
        return is_run_by_connect(admin, Connector("any", group, name))


@pytest.mark.long
@pytest.mark.parametrize("guarantee", [{}, EXACTLY_ONCE], ids=["at least once", "exactly once"])
def test_connectors_are_taken_over_and_go_on_themselves_afterwards(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    tmp_path: Path,
    guarantee: Mapping[str, str],
) -> None:
    alias, topic, connector = unique("us"), unique("orders"), unique("my-source")
    make_topics(source, {topic: 3})
    config = source_connector(source, target, alias, topic)
    file = write_json(tmp_path, connector, config, "source")

    def arrived() -> int:
        return count_records(target, f"{alias}.{topic}")

    with connect_worker(tmp_path, {**worker_settings(target, unique("connect")), **guarantee}) as connect:

        def mirror(*options: str) -> Mirror:
            return start_mirror("", program=(str(COMMAND), "run", str(connect.file), file, *options))

        connect.start({connector: config})
        write(source, topic, numbered(0, 3_000, partitions=3))
        connect.process.wait_until(lambda: arrived() >= 3_000, "mirrors", SECONDS_MAX)
        beside = mirror("--once").finish()
        assert beside.status == 1
        assert "has members" in beside.errors
        connect.delete(connector)
        before = arrived()

        write(source, topic, numbered(3_000, 4_500, partitions=3))
        connect.process.wait_until(lambda: not is_run(target, connect.group, connector), "lets it go", SECONDS_MAX)
        ended = mirror("--once").finish()
        assert ended.status == 0, ended.errors
        assert arrived() >= before + 1_500
        assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)

        write(source, topic, numbered(4_500, 6_000, partitions=3))
        before = arrived()
        connect.put({connector: config})
        connect.process.wait_until(lambda: arrived() >= before + 1_500, "goes on", SECONDS_MAX)
        connect.process.stop()
    assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)


@pytest.mark.long
def test_checkpoints_and_heartbeats_run_alone_beside_the_source_connector_of_connect(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    alias, topic, group = unique("us"), unique("orders"), unique("billing")
    make_topics(source, {topic: 1})
    common = cluster_pair(source, target, alias)
    checkpoint = {
        "connector.class": "MirrorCheckpointConnector", **common, "groups": group, "topics": topic,
        "sync.group.offsets.enabled": "true", "sync.group.offsets.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1", "checkpoints.topic.replication.factor": "1",
    }  # fmt: skip
    heartbeat = {"connector.class": "MirrorHeartbeat", **common, "heartbeats.topic.replication.factor": "1"}
    files = [
        write_json(tmp_path, "c", checkpoint, "checkpoint"),
        write_json(tmp_path, "h", heartbeat, "heartbeat"),
    ]
    here, there = TopicPartition(topic, 0), TopicPartition(f"{alias}.{topic}", 0)

    def moved_to() -> int:
        with open_admin(Cluster("backup", target), "test") as admin:
            return read_group_offsets(admin, group).get(there, Committed(0)).offset

    def commit(offset: int) -> None:
        with open_admin(Cluster(alias, source), "test") as admin:
            commit_group_offsets(admin, group, {here: Committed(offset)})

    with connect_worker(tmp_path, worker_settings(target, unique("connect"))) as connect:
        connect.start({"s": source_connector(source, target, alias, topic)})
        ours = start_mirror("", program=(str(COMMAND), "run", *files))
        for end in (100, 200):
            write(source, topic, numbered(end - 100, end))
            commit(end)
            ours.wait_until(lambda end=end: moved_to() == end, f"moves the group to {end}", SECONDS_MAX)
        assert count_records(target, f"{alias}.{topic}") == 200, "one MirrorMaker alone has mirrored"
        assert not ours.jvms()
        ended = ours.stop()
        connect.process.stop()
    assert f"only the checkpoints of {alias}->backup and the heartbeats of {alias}->backup are written" in ended.errors


@pytest.mark.long
def test_a_standalone_worker_s_file_is_read_once(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    alias, topic = unique("us"), unique("orders")
    make_topics(source, {topic: 3})
    file, worker, offsets = (tmp_path / name for name in ("source.properties", "worker.properties", "connect.offsets"))
    file.write_text(as_properties({"name": "my-source", **source_connector(source, target, alias, topic)}))
    converters = {f"{part}.converter": BYTES for part in ("key", "value", "header")}
    settings = {
        **target, **converters, "offset.storage.file.filename": str(offsets), "offset.flush.interval.ms": "1000",
        "plugin.discovery": "only_scan",
    }  # fmt: skip

    def arrived() -> int:
        return count_records(target, f"{alias}.{topic}")

    with connect_worker(tmp_path, settings, file) as connect:
        connect.start({})
        write(source, topic, numbered(0, 3_000, partitions=3))
        connect.process.wait_until(lambda: arrived() == 3_000, "mirrors", SECONDS_MAX)
        connect.process.stop()
        worker.write_text(connect.file.read_text())

    def ours(*words: str) -> Ended:
        """FILE stands for both files."""
        files = (str(worker), str(file))
        at = words.index("FILE")
        ended = start_mirror("", program=(str(COMMAND), *words[:at], *files, *words[at + 1 :])).finish()
        assert ended.status == 0, ended.errors
        return ended

    assert f"set FILE --from-file {offsets} --execute" in ours("config", "check", "FILE").output
    rehearsed = ours("positions", "set", "FILE", "--from-file", str(offsets))
    assert "3 positions would be set. Nothing was changed" in rehearsed.errors
    ours("positions", "set", "FILE", "--from-file", str(offsets), "--execute")
    write(source, topic, numbered(3_000, 4_500, partitions=3))
    ours("run", "FILE", "--once")
    assert arrived() == 4_500, "nothing came again"
    (status,) = json.loads(ours("status", "FILE", "--format", "json").output)
    assert (status["flow"], status["lag"]) == (f"{alias}->backup", 0)
    acked_positions = json.loads(ours("positions", "show", "FILE", "--format", "json").output)
    assert sum(one["position"] for one in acked_positions) == 4_500
    assert f"mirror {topic} to {alias}.{topic}, 3 partitions" in ours("plan", "FILE").output
    assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)
