"""The connections that one asks a cluster over, when its broker was silent for a moment."""

import psutil
import pytest
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.settings import client_settings, split_address
from sparkmirror.kafka.wire.broker_links import BrokerLinks
from sparkmirror.model import Cluster
from sparkmirror.testing.kafka import KafkaCluster

REQUEST = MetadataRequest(topics=[], allow_auto_topic_creation=False)
ESTABLISHED = psutil.CONN_ESTABLISHED


def connections_to(port: int) -> set[object]:
    """Open ones of this process, by this end's address; those of former tests' clients may end at any time."""
    found = psutil.Process().net_connections(kind="tcp")
    return {one.laddr for one in found if one.raddr and one.raddr.port == port and one.status == ESTABLISHED}


def test_a_broker_that_answers_again_is_asked_over_the_connection_that_is_there(source_cluster: KafkaCluster) -> None:
    _, port = split_address(source_cluster.bootstrap_servers)
    before = connections_to(port)
    cluster = Cluster("A", {"bootstrap.servers": source_cluster.bootstrap_servers})
    links = BrokerLinks(client_settings(cluster, "test"))
    links.open(seconds_max=60.0)
    source_cluster.broker(1).pause()
    try:
        with pytest.raises(OSError, match="timed out"):
            links.ask(REQUEST, None, seconds_max=0.2)
    finally:
        source_cluster.broker(1).resume()

    for _ in range(5):
        links.ask(REQUEST, None, seconds_max=60.0)

    assert len(connections_to(port) - before) == 1
    links.close()


def test_servers_that_were_silent_are_asked_last() -> None:
    """Two of three accept connections and answer nothing: what looks like one that is asked again and again."""
    with KafkaCluster(brokers=3, name="silent") as cluster:
        client = {"bootstrap.servers": cluster.bootstrap_servers, "request.timeout.ms": "20000"}
        with open_admin(Cluster("A", client), "test") as admin:
            assert admin.brokers().keys() == {1, 2, 3}
            for number in (1, 2):
                cluster.broker(number).pause()
            try:
                assert 3 in admin.brokers()
            finally:
                for number in (1, 2):
                    cluster.broker(number).resume()
