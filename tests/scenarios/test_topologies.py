"""Many flows of one file, over four clusters: both ways, fan-in, fan-out, a chain; each with its own naming."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from tests.oracle import Client, assert_same, count_records, list_topics, read_topic
from tests.scenarios.data import ORDER_SECONDS_MAX, Note, alter_topic, make_topics, numbered, write
from tests.scenarios.mirror import StartMirror

from sparkmirror.testing.kafka import KafkaCluster

# Nine queries start beside each other; a busy machine takes its time.
MANY_SECONDS_MAX = 240.0
OWN_CLASSES = """
from sparkmirror.policy.naming import DefaultReplicationPolicy


class Suffixed(DefaultReplicationPolicy):
    def format_remote_topic(self, source, topic):
        return f"{topic}{self.separator}{source}"

    def topic_source(self, topic):
        return topic.rpartition(self.separator)[2] if self.separator in topic else None

    def upstream_topic(self, topic):
        return topic.rpartition(self.separator)[0] if self.separator in topic else None


class Ending:
    def configure(self, properties):
        self.end = properties["acme.ending"]

    def should_replicate_topic(self, topic):
        return topic.endswith(self.end)
"""


@pytest.fixture(scope="module")
def clusters(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> Iterator[dict[str, Client]]:
    with KafkaCluster(name="c") as third, KafkaCluster(name="d") as fourth:
        four = zip("ABCD", (source_cluster, target_cluster, third, fourth), strict=True)
        yield {alias: {"bootstrap.servers": cluster.bootstrap_servers} for alias, cluster in four}


def mirror_file(clusters: dict[str, Client], flows: dict[str, str], lines: list[str]) -> str:
    """A file of these flows, each with its topics."""
    return "\n".join(
        [
            f"clusters = {', '.join(clusters)}",
            *(f"{alias}.bootstrap.servers = {client['bootstrap.servers']}" for alias, client in clusters.items()),
            *(f"{flow}.enabled = true\n{flow}.topics = {topics}" for flow, topics in flows.items()),
            "replication.factor = 1",
            "offset.storage.replication.factor = 1",
            "heartbeats.replication.enabled = false",
            *lines,
            "",
        ]
    )


def test_both_ways_fan_in_fan_out_and_a_chain_in_one_file(
    clusters: dict[str, Client], unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    story = unique("net")
    (tmp_path / "own_mirroring.py").write_text(OWN_CLASSES)
    flows = {
        "A->B": f".*{story}-ways.*, {story}-chain",
        "B->A": f".*{story}-ways.*",
        "B->C": f"A__{story}-chain",
        "A->D": f"{story}-in",
        "B->D": f"{story}-in",
        "C->D": f"{story}-in, B__A__{story}-chain",
        "D->A": f"{story}-out",
        "D->B": f"{story}-out",
        "D->C": "nothing",
    }
    lines = [
        "replication.policy.separator = __",
        "D->B.replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "D->C.replication.policy.class = own_mirroring:Suffixed",
        "D->C.topic.filter.class = own_mirroring:Ending",
        f"D->C.acme.ending = {story}-out",
        "D->C.consumer.auto.offset.reset = latest",
        "A->D.emit.offset-syncs.enabled = false",
    ]
    made = {
        "A": ["ways-a", "chain", "in"],
        "B": ["ways-b", "in"],
        "C": ["in"],
        "D": ["out"],
    }
    for alias, names in made.items():
        for name in names:
            make_topics(clusters[alias], {f"{story}-{name}": 1})
            write(clusters[alias], f"{story}-{name}", numbered(0, 50))
    copies = {
        ("B", f"A__{story}-ways-a"): ("A", f"{story}-ways-a"),
        ("A", f"B__{story}-ways-b"): ("B", f"{story}-ways-b"),
        ("B", f"A__{story}-chain"): ("A", f"{story}-chain"),
        ("C", f"B__A__{story}-chain"): ("A", f"{story}-chain"),
        ("D", f"C__B__A__{story}-chain"): ("A", f"{story}-chain"),
        **{("D", f"{alias}__{story}-in"): (alias, f"{story}-in") for alias in "ABC"},
        ("A", f"D__{story}-out"): ("D", f"{story}-out"),
        ("B", f"{story}-out"): ("D", f"{story}-out"),
    }

    def arrived() -> bool:
        return all(count_records(clusters[alias], topic) == 50 for alias, topic in copies)

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    mirror = start_mirror(mirror_file(clusters, flows, lines), environment=environment)
    mirror.wait_until(arrived, "all copies are complete", MANY_SECONDS_MAX)
    from_now_on = f"{story}-out__D"

    def has_a_late_one() -> bool:
        write(clusters["D"], f"{story}-out", [Note(b"late")])
        return count_records(clusters["C"], from_now_on) > 0

    mirror.wait_until(has_a_late_one, "what comes after the start is copied from the latest on")
    assert {seen.value for seen in read_topic(clusters["C"], from_now_on)[0]} == {b"late"}
    whole = count_records(clusters["D"], f"{story}-out")
    outs = {"A": f"D__{story}-out", "B": f"{story}-out"}
    mirror.wait_until(
        lambda: all(count_records(clusters[alias], topic) == whole for alias, topic in outs.items()),
        "and by the other flows as well",
    )
    alter_topic(clusters["A"], f"{story}-in", {"max.message.bytes": "123456"})
    mirror.wait_until(
        lambda: setting(clusters["D"], f"A__{story}-in", "max.message.bytes") == "123456", "a changed setting follows"
    )
    mirror.stop(seconds_max=60)
    for (alias, topic), (origin, name) in copies.items():
        assert_same(read_topic(clusters[origin], name), read_topic(clusters[alias], topic), f"{topic} on {alias}")
    for alias, client in clusters.items():
        wanted = {f"{story}-{name}" for name in made[alias]} | {topic for where, topic in copies if where == alias}
        wanted |= {from_now_on} if alias == "C" else set()
        assert {topic for topic in list_topics(client) if story in topic} == wanted, f"on {alias}"
    assert "mm2-offset-syncs__B__internal" in list_topics(clusters["A"])
    assert "mm2-offset-syncs__D__internal" not in list_topics(clusters["A"]), "emit.offset-syncs.enabled is off"


def setting(client: Client, topic: str, key: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient(dict(client))
    (described,) = admin.describe_configs([resource]).values()
    return str(described.result(ORDER_SECONDS_MAX)[key].value)
