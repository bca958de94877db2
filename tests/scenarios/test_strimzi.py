"""What Strimzi runs, taken over: Connect with MirrorMaker's connector, set up as the operator does it; and back."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

import pytest
import yaml
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import StartMirror

from sparkmirror.testing.guard import Guard
from sparkmirror.testing.jars import MIRROR_MAKER, class_path
from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.ports import PortReservation
from sparkmirror.testing.process import JavaProcess, JavaProgram

CONNECT_CLASS = "org.apache.kafka.connect.cli.ConnectDistributed"
CONNECTOR = "a->b.MirrorSourceConnector"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
CONNECT_SECONDS_MAX = 90.0
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
        yield tuple({"bootstrap.servers": one.bootstrap_servers} for one in (source, target))


class Connect:
    """The operator's part: a Connect worker with its default names, and the connector put to it."""

    def __init__(self, directory: Path, source: Client, target: Client, topics: str, guard: Guard, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}/connectors/{quote(CONNECTOR, safe='')}"
        self._config = connector_config(source, target, topics)
        file = directory / "connect.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in worker_config(target, port).items()))
        program = JavaProgram("Kafka Connect", CONNECT_CLASS, class_path(MIRROR_MAKER), [str(file)])
        self.process = JavaProcess(program, directory / "connect.log", guard)
        self._ask = build_opener(ProxyHandler({})).open

    def start(self) -> None:
        self.process.launch()
        self.process.wait_until(self._takes_the_connector, "takes the connector", CONNECT_SECONDS_MAX)

    def _takes_the_connector(self) -> bool:
        body = json.dumps(self._config).encode()
        order = Request(f"{self._address}/config", body, {"Content-Type": "application/json"}, method="PUT")
        try:
            with closing(self._ask(order, timeout=10)) as answer:
                return bool(answer.status in (200, 201))
        except (URLError, OSError):
            time.sleep(0.1)
            return False


def worker_config(target: Client, port: int) -> Mapping[str, str]:
    names = {"config": "configs", "offset": "offsets", "status": "status"}
    storage = {f"{part}.storage.topic": f"mirrormaker2-cluster-{name}" for part, name in names.items()}
    replicas = {f"{part}.storage.replication.factor": "1" for part in names}
    converters = {f"{part}.converter": BYTES for part in ("key", "value", "header")}
    return {
        **target, **storage, **replicas, **converters, "group.id": "mirrormaker2-cluster",
        "listeners": f"http://127.0.0.1:{port}", "offset.flush.interval.ms": "1000", "plugin.discovery": "only_scan",
    }  # fmt: skip


def connector_config(source: Client, target: Client, topics: str) -> Mapping[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector", "tasks.max": "2",
        "source.cluster.alias": "a", "target.cluster.alias": "b", "topics": topics, "replication.factor": "1",
        "source.cluster.bootstrap.servers": source["bootstrap.servers"], "offset-syncs.topic.replication.factor": "1",
        "target.cluster.bootstrap.servers": target["bootstrap.servers"], "sync.topic.acls.enabled": "false",
    }  # fmt: skip


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

    with PortReservation(1) as reservation, Guard(tmp_path / "connect") as guard:
        (tmp_path / "connect").mkdir(exist_ok=True)
        (port,) = reservation.ports
        connect = Connect(tmp_path / "connect", source, target, topic, guard, port)
        connect.start()
        write(source, topic, numbered(0, 3_000, partitions=3))
        connect.process.wait_until(lambda: arrived() == 3_000, "mirrors", CONNECT_SECONDS_MAX)

        beside = start_mirror(ours, "--once").finish()
        assert beside.status == 1
        assert "group mirrormaker2-cluster on b has members" in beside.errors
        connect.process.stop()

        write(source, topic, numbered(3_000, 4_500, partitions=3))
        ended = start_mirror(ours, "--once").finish()
        assert ended.status == 0, ended.errors
        assert arrived() == 4_500, "nothing came again"

        write(source, topic, numbered(4_500, 6_000, partitions=3))
        connect.start()
        connect.process.wait_until(lambda: arrived() >= 6_000, "goes on", CONNECT_SECONDS_MAX)
        connect.process.stop()
    assert_same(read_topic(source, topic), read_topic(target, f"a.{topic}"), topic)
