"""A simulated broker answers what a real one answers: one script of requests is put to both, and compared."""

import socket
import struct
from typing import Any
from uuid import uuid4

import pytest
from tests.simulation.cluster import Cluster
from tests.simulation.conversation import Conversation, converse, framed
from tests.simulation.scheduler import World
from tests.simulation.wire import KAFKA_3_0, KAFKA_4_3, Known

from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.clients import open_admin
from sparkmirror.model import Cluster as ClusterConfig
from sparkmirror.testing.kafka import KafkaCluster


def simulated_answers(known: Known, versions: tuple[int, int], *, second: bool) -> list[tuple[str, Any]]:
    world = World(1)
    cluster = Cluster(world, "S", 1, known)
    cluster.create_topic("talk", 1)

    def exchange(frame: bytes) -> bytes:
        found: list[bytes] = []
        cluster.handle(0, frame, found.append)
        while not found:
            world.run(world.now + 0.01)
        return found[0][4:]

    def nap(seconds: float) -> None:
        world.run(world.now + seconds)

    talk = Conversation(exchange, *versions, nap=nap)
    return converse(talk, "talk", second=second)


def real_answers(servers: str, versions: tuple[int, int], *, second: bool) -> list[tuple[str, Any]]:
    topic = f"talk-{uuid4().hex[:8]}"
    with open_admin(ClusterConfig("B", {"bootstrap.servers": servers}), "test") as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    host, _, port = servers.rpartition(":")
    with socket.create_connection((host, int(port)), 60) as link:

        def receive(size: int) -> bytes:
            data = b""
            while len(data) < size:
                some = link.recv(size - len(data))
                assert some, "the broker closed the connection"
                data += some
            return data

        def exchange(frame: bytes) -> bytes:
            link.sendall(framed(frame))
            return receive(struct.unpack(">i", receive(4))[0])

        return converse(Conversation(exchange, *versions), topic, second=second)


def differences(simulated: list[tuple[str, Any]], real: list[tuple[str, Any]]) -> list[str]:
    pairs = zip(simulated, real, strict=True)
    return [f"{one[0]}: simulated {one[1]}, real {other[1]}" for one, other in pairs if one != other]


def test_a_simulated_broker_answers_as_one_of_4_3(source_cluster: KafkaCluster) -> None:
    real = real_answers(source_cluster.bootstrap_servers, (18, 13), second=True)
    assert "\n".join(differences(simulated_answers(KAFKA_4_3, (18, 13), second=True), real)) == ""


@pytest.mark.long
def test_a_simulated_broker_answers_as_one_of_3_0() -> None:
    with KafkaCluster(name="talk", version="3.0.0") as cluster:
        real = real_answers(cluster.bootstrap_servers, (12, 9), second=False)
    assert "\n".join(differences(simulated_answers(KAFKA_3_0, (12, 9), second=False), real)) == ""
