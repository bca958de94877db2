"""The group on the source beside the ledger, with real brokers and without Spark."""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from sparkmirror.cli.main import main
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.formats.mm1 import MirrorMaker1, translate_mm1
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.groups import commit_group_offsets, read_group_offsets
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.model import Position, TopicPartition
from sparkmirror.policy.partitioner import murmur2_partition
from sparkmirror.sync.source_group import SourceGroup, mark_of
from sparkmirror.testing.kafka import KafkaCluster


@pytest.fixture
def flow(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, unique: Callable[[str], str], tmp_path: Path
) -> FlowConfig:
    """A MirrorMaker 1 of one topic with two partitions; its ledger's topics are there."""
    topic, consumer, producer = unique("grouped"), tmp_path / "consumer.config", tmp_path / "producer.config"
    consumer.write_text(f"bootstrap.servers={source_cluster.bootstrap_servers}\ngroup.id={unique('mirror')}\n")
    producer.write_text(f"bootstrap.servers={target_cluster.bootstrap_servers}\n")
    (flow,) = translate_mm1(MirrorMaker1((str(consumer),), str(producer), include=topic)).flows
    with open_admin(flow.source, "test") as source, open_admin(flow.target, "test") as target:
        assert source.create_topics([NewTopic(topic, 2, 1, {})]) == {topic: None}
        ensure_ledger_topics(target, flow.ledger_topics)
    return flow


def stands_at(flow: FlowConfig) -> dict[int, Position]:
    topics = flow.ledger_topics
    with LedgerReader(flow.target, topics, flow.connector) as ledger:
        return {where.partition: position for where, position in ledger.read_to_end().items()}


def test_offsets_of_the_group_go_into_the_ledger_and_come_back_under_our_mark(flow: FlowConfig) -> None:
    (topic,) = flow.topics.include
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with open_admin(flow.source, "test") as source, open_admin(flow.target, "test") as target:
        assert read_group_offsets(source, flow.progress_group) == {}
        left = {first: Committed(10), TopicPartition("of-somebody-else", 0): Committed(3)}
        commit_group_offsets(source, flow.progress_group, left)
        SourceGroup(flow).begin(target)
        assert stands_at(flow) == {0: Position(10)}
        marked = read_group_offsets(source, flow.progress_group)
        assert marked[first] == Committed(10, mark_of(flow.name.source))

        # An operator resets one partition while the mirror runs, and sets one that the mirror has not reached.
        group = SourceGroup(flow)
        commit_group_offsets(source, flow.progress_group, {first: Committed(2), second: Committed(5)})
        group.end()
        assert read_group_offsets(source, flow.progress_group)[first] == Committed(2)
        SourceGroup(flow).begin(target)
        assert stands_at(flow) == {0: Position(2), 1: Position(5)}
        group = SourceGroup(flow)
        group()
        assert {one.offset for one in read_group_offsets(source, flow.progress_group).values()} == {2, 5}
        group.end()


def test_a_position_of_a_topic_that_is_no_more_is_not_committed(flow: FlowConfig) -> None:
    """The topic was made again; the ledger goes on saying 4,000 while its partition is held."""
    (topic,) = flow.topics.include
    topics = flow.ledger_topics
    with open_admin(flow.source, "test") as source:
        topic_id = source.list_topics([topic])[topic].topic_id
        for number, known in enumerate((uuid4(), topic_id)):
            where = TopicPartition(topic, number)
            key = connect.encode_key(flow.connector, where)
            partition = murmur2_partition(key, flow.offset_storage_partitions)
            publish(flow.target, topics.offsets, [(key, connect.encode_value(4000))], place=lambda _, at=partition: at)
            ours = positions.encode_value(PositionRecord(Position(4000, (), known), 1, 0))
            publish(flow.target, topics.positions, [(positions.encode_key(flow.name.source, where), ours)])
        SourceGroup(flow)()
        committed = read_group_offsets(source, flow.progress_group)
    assert {where.partition: one.offset for where, one in committed.items()} == {1: 4000}


def test_lag_asks_the_clusters_of_a_mirrormaker_2_file(
    flow: FlowConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (topic,) = flow.topics.include
    file = tmp_path / "mm2.properties"
    addresses = {"A": flow.source.bootstrap_servers, "B": flow.target.bootstrap_servers}
    lines = [f"{alias}.bootstrap.servers = {servers}" for alias, servers in addresses.items()]
    file.write_text("\n".join(["clusters = A, B", "A->B.enabled = true", *lines]))
    with open_admin(flow.source, "test") as source:
        commit_group_offsets(source, flow.progress_group, {TopicPartition(topic, 1): Committed(0)})
    assert main(["lag", str(file), "--group", flow.progress_group, "--topic", topic, "--cluster", "A"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["Group", "Topic", "Pid", "Offset", "logSize", "Lag"],
        [flow.progress_group, topic, "0", "unknown", "0", "unknown"],
        [flow.progress_group, topic, "1", "0", "0", "0"],
    ]
    assert main(["lag", str(file), "--group", "nobody"]) == 1
    assert "Group nobody has committed no offsets on A, B." in capsys.readouterr().err
    assert main(["lag", str(file)]) == 2
    assert main(["lag", str(file), "--group", "g", "--cluster", "C"]) == 2
    said = capsys.readouterr().err
    assert "--group is missing" in said and "known are A, B" in said


def test_a_mirror_whose_source_is_its_target_does_not_begin(
    flow: FlowConfig, source_cluster: KafkaCluster, tmp_path: Path
) -> None:
    port = source_cluster.bootstrap_servers.rpartition(":")[2]
    (tmp_path / "producer.config").write_text(f"bootstrap.servers=localhost:{port}\n")
    files = (str(tmp_path / "consumer.config"),), str(tmp_path / "producer.config")
    (loop,) = translate_mm1(MirrorMaker1(*files, include="x")).flows
    with (
        open_admin(loop.target, "test") as target,
        pytest.raises(SparkMirrorError, match="source and target are the same cluster"),
    ):
        ensure_ledger_topics(target, loop.ledger_topics)
        SourceGroup(loop).begin(target)
