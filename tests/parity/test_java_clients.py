"""Java's own client library and formatters of MirrorMaker 2 4.3.0 read what our jobs write."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.brokers.offset_story import told
from tests.scenarios.data import make_topics

from sparkmirror.client import MirrorClient
from sparkmirror.java import find_java
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.sync.heartbeat_job import HeartbeatJob
from sparkmirror.testing.jars import MIRROR_MAKER, class_path
from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.process import QUICK_START

PROGRAM = Path(__file__).with_name("Clients.java")


@pytest.mark.parametrize("location", ["source", "target"])
def test_java_gives_the_right_answers_about_our_topics_and_python_the_same(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, unique: Callable[[str], str], location: str
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    alias = unique("east")
    topic, group, other = f"orders-{alias}", f"billing-{alias}", f"other-{alias}"
    partition = TopicPartition(topic, 0)
    lines = f"offset-syncs.topic.location = {location}"
    before = _syncs_of_all(source)
    with told({"bootstrap.servers": source}, {"bootstrap.servers": target}, alias, lines) as story:
        story.make_topic(topic)
        make_topics({"bootstrap.servers": target}, {f"{alias}.heartbeats": 1, f"{alias}.far.heartbeats": 1})
        story.map(partition, (0, 100, 0), (101, 100, 100))
        story.commit(group, {partition: Committed(150, "a note")})
        story.commit(other, {partition: Committed(20)})
        story.job()
        beat = next(one for one in story.config.heartbeats if one.flow == story.flow.name)
        job = HeartbeatJob(beat)
        job()
        job.close()

    if location == "target":
        assert _syncs_of_all(source) == before, "nothing is written to the source"
    # The cluster at the other end names the topic.
    syncs = (source, "backup") if location == "source" else (target, alias)
    said = _run_java(target, alias, group, syncs[0], f"mm2-offset-syncs.{syncs[1]}.internal")
    assert f"hops {1}" in said
    assert f"offsets {{{alias}.{topic}-0=149/a note}}" in said
    assert f"groups [{group}, {other}]" in said
    assert f"remote [{alias}.far.heartbeats, {alias}.heartbeats, {alias}.{topic}]" in said
    assert f"Checkpoint{{consumerGroupId={group}, topicPartition={alias}.{topic}-0, upstreamOffset=150, " \
        "downstreamOffset=149, metadata=a note}" in said  # fmt: skip
    assert f"OffsetSync{{topicPartition={topic}-0, upstreamOffset=101, downstreamOffset=100}}" in said
    beats = [
        line for line in said if line.startswith(f"Heartbeat{{sourceClusterAlias={alias}, targetClusterAlias=backup")
    ]
    assert len(beats) == 1

    with MirrorClient({"bootstrap.servers": target}) as client:
        assert client.replication_hops(alias) == 1
        assert client.replication_hops("far") == 2
        assert client.replication_hops("nowhere") == -1
        assert f"heartbeats [{', '.join(sorted(client.heartbeat_topics()))}]" in said
        assert f"checkpoints [{', '.join(sorted(client.checkpoint_topics()))}]" in said
        assert f"upstream [{', '.join(sorted(client.upstream_clusters()))}]" in said
        assert {alias, "far"} <= client.upstream_clusters()
        assert f"remote [{', '.join(sorted(client.remote_topics(alias)))}]" in said
        expected = {TopicPartition(f"{alias}.{topic}", 0): Committed(149, "a note")}
        assert client.remote_consumer_offsets(group, alias) == expected
        assert client.remote_group_offsets(".*", alias).keys() == {group, other}
        assert client.remote_consumer_offsets("nobody", alias) == {}
        assert client.remote_consumer_offsets(group, "nowhere") == {}


def _syncs_of_all(servers: str) -> dict[TopicPartition, int]:
    """The topics of offset syncs of a cluster, whoever's, and how much has been written to each."""
    with open_admin(Cluster("any", {"bootstrap.servers": servers}), "test") as admin:
        found = [TopicPartition(name, 0) for name in admin.list_topics() if name.startswith("mm2-offset-syncs.")]
        return admin.await_latest_offsets(found)


def _run_java(*arguments: str) -> list[str]:
    java = [str(find_java()), *QUICK_START, "-cp", class_path(MIRROR_MAKER), str(PROGRAM), *arguments]
    done = subprocess.run(java, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
