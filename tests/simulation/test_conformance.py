"""A simulated broker answers what a real one answers: one script of requests is put to both, and compared."""

import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from tests.simulation.cluster import Cluster
from tests.simulation.conversation import Conversation, converse, converse_of_acls, framed
from tests.simulation.fetch_limits import converse_of_limits
from tests.simulation.scheduler import World
from tests.simulation.wire import KAFKA_3_0, KAFKA_3_9, KAFKA_4_3, Known

from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.clients import open_admin
from sparkmirror.model import Cluster as ClusterConfig
from sparkmirror.testing.kafka import KafkaCluster

Script = Callable[[Conversation, str], list[tuple[str, Any]]]
_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def _first(talk: Conversation, topic: str) -> list[tuple[str, Any]]:
    converse(talk, topic, second=False)
    converse_of_limits(talk, topic)
    return converse_of_acls(talk, topic)


def _both(talk: Conversation, topic: str) -> list[tuple[str, Any]]:
    converse(talk, topic, second=True)
    converse_of_limits(talk, topic)
    return converse_of_acls(talk, topic)


def simulated_link(world: World, cluster: Cluster, versions: tuple[int, int]) -> Conversation:
    """With its only broker."""

    def exchange(frame: bytes) -> bytes:
        found: list[bytes] = []
        cluster.handle(0, frame, found.append)
        while not found:
            world.run(world.now + 0.01)
        return found[0][4:]

    def nap(seconds: float) -> None:
        world.run(world.now + seconds)

    return Conversation(exchange, *versions, nap=nap)


def simulated_answers(
    known: Known, versions: tuple[int, int], script: Script, *, is_guarded: bool = False
) -> list[tuple[str, Any]]:
    world = World(1)
    cluster = Cluster(world, "S", 1, known)
    cluster.acls.is_on, cluster.rotates = is_guarded, True
    cluster.create_topic("talk", 1)
    return script(simulated_link(world, cluster, versions), "talk")


@contextmanager
def real_link(
    servers: str, topic: str, versions: tuple[int, int], configs: Mapping[str, str] | None = None
) -> Iterator[Conversation]:
    """With a broker, on which the topic is made."""
    with open_admin(ClusterConfig("B", {"bootstrap.servers": servers}), "test") as admin:
        admin.create_topics([NewTopic(topic, 1, 1, configs or {})])
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

        yield Conversation(exchange, *versions)


def real_answers(servers: str, versions: tuple[int, int], script: Script) -> list[tuple[str, Any]]:
    topic = f"talk-{uuid4().hex[:8]}"
    with real_link(servers, topic, versions) as talk:
        return list(_renamed(script(talk, topic), topic))


def _renamed(told: Any, topic: str) -> Any:
    """As if the topic had been the simulated one."""
    if isinstance(told, str):
        return told.replace(topic, "talk")
    return type(told)(_renamed(one, topic) for one in told) if isinstance(told, list | tuple) else told


def differences(simulated: list[tuple[str, Any]], real: list[tuple[str, Any]]) -> list[str]:
    pairs = zip(simulated, real, strict=True)
    return [f"{one[0]}: simulated {one[1]}, real {other[1]}" for one, other in pairs if one != other]


def test_a_simulated_broker_answers_as_one_of_4_3(source_cluster: KafkaCluster) -> None:
    real = real_answers(source_cluster.bootstrap_servers, (18, 13), _both)
    assert "\n".join(differences(simulated_answers(KAFKA_4_3, (18, 13), _both), real)) == ""


def test_a_simulated_authorizer_answers_as_one_of_4_3() -> None:
    with KafkaCluster(name="acls", config=_AUTHORIZER) as cluster:
        real = real_answers(cluster.bootstrap_servers, (18, 13), converse_of_acls)
    simulated = simulated_answers(KAFKA_4_3, (18, 13), converse_of_acls, is_guarded=True)
    assert "\n".join(differences(simulated, real)) == ""


@pytest.mark.long
def test_a_simulated_broker_answers_as_one_of_3_9() -> None:
    with KafkaCluster(name="talk", version="3.9.1") as cluster:
        real = real_answers(cluster.bootstrap_servers, (17, 11), _first)
    assert "\n".join(differences(simulated_answers(KAFKA_3_9, (17, 11), _first), real)) == ""


@pytest.mark.long
def test_a_simulated_broker_answers_as_one_of_3_0() -> None:
    with KafkaCluster(name="talk", version="3.0.0") as cluster:
        real = real_answers(cluster.bootstrap_servers, (12, 9), _first)
    assert "\n".join(differences(simulated_answers(KAFKA_3_0, (12, 9), _first), real)) == ""
