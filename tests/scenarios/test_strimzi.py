"""What Strimzi runs, taken over: Connect with MirrorMaker's connector, set up as the operator does it; and back."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.connect import SECONDS_MAX, connect_worker, source_connector, worker_settings
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import StartMirror

from sparkmirror.testing.kafka import KafkaCluster

CONNECTOR = "a->b.MirrorSourceConnector"
EXAMPLE = Path(__file__).parents[2] / "deploy" / "strimzi" / "mirror.yaml"


def resource(source: Client, target: Client, topics: str) -> str:
    """The example of deploy/ for these clusters, which have one broker and no security."""
    document = yaml.safe_load(EXAMPLE.read_text().replace(": 3\n", ": 1\n"))
    for cluster, client in zip(document["spec"]["clusters"], (source, target), strict=True):
        cluster["bootstrapServers"] = client["bootstrap.servers"]
        del cluster["tls"], cluster["authentication"]
    document["spec"]["mirrors"][0]["topicsPattern"] = topics
    return yaml.safe_dump(document)


@pytest.fixture
def pair() -> Iterator[tuple[Client, Client]]:
    """Clusters of its own: the names of Strimzi's group and topics are the same for everybody."""
    with KafkaCluster(name="a") as source, KafkaCluster(name="b") as target:
        yield {"bootstrap.servers": source.bootstrap_servers}, {"bootstrap.servers": target.bootstrap_servers}


@pytest.mark.long
def test_a_mirror_maker_that_strimzi_ran_is_taken_over_and_goes_on_itself_afterwards(
    pair: tuple[Client, Client], unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    source, target = pair
    topic = unique("orders")
    make_topics(source, {topic: 3})
    ours = resource(source, target, topic)

    def arrived() -> int:
        return count_records(target, f"a.{topic}")

    connectors = {CONNECTOR: source_connector(source, target, "a", topic, "b")}
    with connect_worker(tmp_path, worker_settings(target, "mirrormaker2-cluster")) as connect:
        connect.start(connectors)
        write(source, topic, numbered(0, 3_000, partitions=3))
        connect.process.wait_until(lambda: arrived() == 3_000, "mirrors", SECONDS_MAX)

        beside = start_mirror(ours, "--once").finish()
        assert beside.status == 1
        assert "group mirrormaker2-cluster on b has members" in beside.errors
        connect.process.stop()

        write(source, topic, numbered(3_000, 4_500, partitions=3))
        ended = start_mirror(ours, "--once").finish()
        assert ended.status == 0, ended.errors
        assert arrived() == 4_500, "nothing came again"

        write(source, topic, numbered(4_500, 6_000, partitions=3))
        connect.start(connectors)
        connect.process.wait_until(lambda: arrived() >= 6_000, "goes on", SECONDS_MAX)
        connect.process.stop()
    assert_same(read_topic(source, topic), read_topic(target, f"a.{topic}"), topic)
