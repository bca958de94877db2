"""Brokers of 3.0 that take a former controller for the present one give no producer ids (KAFKA-14167) until they are
made to look for it: writers get theirs all the same, by each way to ask for one."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse
from tests.faults.numbered import create_topic
from tests.faults.task_attempt import PARTITIONS, Task, assert_once
from tests.waiting import wait_until

from sparkmirror.errors import ClusterError, ProtocolError
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.coordinators import GROUP, TRANSACTION
from sparkmirror.kafka.errors import UNKNOWN_SERVER_ERROR
from sparkmirror.kafka.fencing import init_producer_ids
from sparkmirror.kafka.former_controller import make_look_for_controller
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.coordinator import find
from sparkmirror.kafka.wire.link import dial
from sparkmirror.kafka.wire.producer_ids import fresh_producer
from sparkmirror.model import Cluster
from sparkmirror.testing.kafka import Broker, KafkaCluster

pytestmark = pytest.mark.long


class Misled:
    """`brokers` take the one that was killed for the controller. It runs again. `topic` is there, and so are the topics
    of coordinators: to make one makes a broker look for the controller."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        create_topic(cluster.bootstrap_servers, topic, PARTITIONS, replicas=3)
        for kind in (TRANSACTION, GROUP):
            wait_until(lambda kind=kind: coordinator(cluster, topic, kind) != "", "coordinators are there")
        for broker in cluster.brokers:
            with closing(dial("127.0.0.1", broker.port, settings_of(server_of(broker)))) as link:
                make_look_for_controller(link)
        former = cluster.broker(controller_of(cluster))
        self.brokers = [broker for broker in cluster.brokers if broker is not former]
        former.kill()
        wait_until(lambda: controller_of(cluster) not in (0, former.node.node_id), "another controller is elected")
        former.start()
        cluster.wait_ready()
        for broker in self.brokers:
            assert code_of_asking(broker) == UNKNOWN_SERVER_ERROR, "this broker is not misled"

    def id_of_one(self) -> str:
        """A transactional id that one of them coordinates."""
        servers = {server_of(broker) for broker in self.brokers}
        names = (f"{self.topic}-{at}" for at in range(100))
        return next(name for name in names if coordinator(self.cluster, f"{name}-0", TRANSACTION) in servers)


@pytest.fixture
def misled(unique: Callable[[str], str]) -> Iterator[Misled]:
    with KafkaCluster(3, name="misled", version="3.0.0") as cluster:
        yield Misled(cluster, unique("misled"))


def controller_of(cluster: KafkaCluster) -> int:
    """By the word of the newest of those that run; 0 while that knows none."""
    files = [one.data_directory / "__cluster_metadata-0" / "quorum-state" for one in cluster.brokers if one.running]
    states = [json.loads(file.read_text()) for file in files]
    return max(0, int(max(states, key=lambda state: int(state["leaderEpoch"]))["leaderId"]))


def server_of(broker: Broker) -> str:
    return f"127.0.0.1:{broker.port}"


def settings_of(servers: str) -> ClientSettings:
    return Task(servers, "any", "any").options.settings


def code_of_asking(broker: Broker) -> int:
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    with closing(dial("127.0.0.1", broker.port, settings_of(server_of(broker)))) as link:
        return int(link.ask(request, InitProducerIdResponse, link.version(22, (3, 4))).error_code)


def coordinator(cluster: KafkaCluster, key: str, kind: int) -> str:
    """Its address; empty where none is known."""
    try:
        with closing(find(settings_of(cluster.bootstrap_servers), key, kind)) as link:
            return link.address
    except (ClusterError, ProtocolError):
        return ""


def test_a_task_of_a_transactional_write_gets_its_producer_id(misled: Misled) -> None:
    servers = misled.cluster.bootstrap_servers
    task = Task(servers, misled.topic, misled.id_of_one())
    assert task.attempt()
    assert not task.attempt()
    assert_once(servers, misled.topic)


def test_a_task_without_transactions_gets_one_of_each_broker(misled: Misled) -> None:
    found = [fresh_producer(settings_of(server_of(broker))) for broker in misled.brokers]
    assert len({identity.producer_id for identity in found}) == len(misled.brokers)


def test_a_mirror_s_planner_gets_those_that_it_takes_over(misled: Misled) -> None:
    with open_admin(Cluster("B", {"bootstrap.servers": misled.cluster.bootstrap_servers}), "test") as admin:
        found = init_producer_ids(admin, [f"{misled.id_of_one()}-0", None])
    assert len({identity.producer_id for identity in found.values()}) == 2
