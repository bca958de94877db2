"""A Strimzi resource on real brokers: the same flows, topics and names as the properties that say the same."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkmirror.cli.main import main
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.clients import open_admin
from sparkmirror.model import Cluster
from sparkmirror.testing.kafka import KafkaCluster

RESOURCE = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {{name: mm2}}
spec:
  connectCluster: b
  clusters:
  - {{alias: a, bootstrapServers: "{source}"}}
  - {{alias: b, bootstrapServers: "{target}"}}
  mirrors:
  - sourceCluster: a
    targetCluster: b
    topicsPattern: {topic}.*
    sourceConnector:
      tasksMax: 3
      config:
        replication.factor: 1
        sync.topic.acls.enabled: false
"""
PROPERTIES = """\
clusters = a, b
a.bootstrap.servers = {source}
b.bootstrap.servers = {target}
a->b.enabled = true
a->b.topics = {topic}.*
a->b.tasks.max = 3
a->b.replication.factor = 1
a->b.sync.topic.acls.enabled = false
"""


def test_a_resource_plans_what_the_properties_plan(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    unique: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = unique("strimzi")
    servers = {"source": source_cluster.bootstrap_servers, "target": target_cluster.bootstrap_servers, "topic": topic}
    with open_admin(Cluster("a", {"bootstrap.servers": servers["source"]}), "test") as admin:
        admin.create_topics([NewTopic(topic, 5, 1), NewTopic(f"{topic}.replica", 1, 1)])

    def plan(name: str, text: str) -> object:
        (tmp_path / name).write_text(text.format(**servers))
        assert main(["plan", str(tmp_path / name), "--format", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    by_resource, by_properties = plan("mm2.yaml", RESOURCE), plan("mm2.properties", PROPERTIES)
    assert by_resource == by_properties
    flow = by_resource["a->b"]  # type: ignore[index]
    assert flow["tasks"] == 3
    assert f"a.{topic}" in [one["remote_topic"] for one in flow["topics"]]
    sentences = [one["sentence"] for one in flow["changes"]]
    assert any(one.startswith(f"create a.{topic} for {topic}: 5 partitions") for one in sentences)
    assert flow["warnings"] == [
        f"{topic}.replica: not mirrored, as the default of `topics.exclude` says; set it to change that."
    ]
