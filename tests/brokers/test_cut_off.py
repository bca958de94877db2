"""A broker that is cut off from its controller, and takes itself for the leader, is not believed."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kafka.protocol.metadata import MetadataRequest
from tests.brokers.cut_off import CutOff, divisible_cluster
from tests.brokers.offset_story import told
from tests.oracle import DEADLINE_SECONDS_LEAST
from tests.waiting import wait_until

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.settings import client_settings, split_address
from sparkmirror.kafka.wire import broker_links
from sparkmirror.kafka.wire.broker_links import BrokerLinks
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.model import Cluster, Position, TopicPartition
from sparkmirror.operations.reverse_ledger import ReverseLedger
from sparkmirror.testing.kafka import KafkaCluster

REQUEST = MetadataRequest(topics=[], allow_auto_topic_creation=False)
PARTITIONS = 50
"""Their keys lie on partitions of the offsets topic that either broker leads."""
SILENCE_SECONDS = 5.0


@pytest.fixture
def divided() -> Iterator[CutOff]:
    with divisible_cluster("source") as cluster:
        yield cluster


def links_to(*servers: str) -> BrokerLinks:
    return BrokerLinks(client_settings(Cluster("A", {"bootstrap.servers": ",".join(servers)}), "test"))


def seen_by(links: BrokerLinks) -> set[int]:
    return {broker.node_id for broker in links.ask(REQUEST, None, DEADLINE_SECONDS_LEAST).brokers}


def test_the_ledger_of_the_way_back_is_read_from_no_former_leader(
    divided: CutOff, target_cluster: KafkaCluster, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_through = LedgerReader.read_through
    monkeypatch.setattr(
        LedgerReader, "read_through", lambda self, admin, **_: read_through(self, admin, SILENCE_SECONDS)
    )
    target = {"bootstrap.servers": target_cluster.bootstrap_servers}
    orders = [TopicPartition("orders", number) for number in range(PARTITIONS)]

    @contextmanager
    def ledger_by(*servers: str) -> Iterator[ReverseLedger]:
        with told({"bootstrap.servers": ",".join(servers)}, target, unique("east")) as story:
            yield ReverseLedger(story.flow, story.source)

    with ledger_by(divided.newest) as ledger:
        ledger.ensure()
        ledger.write(dict.fromkeys(orders, 100))
        assert ledger.read().positions == dict.fromkeys(orders, Position(100))
        divided.cut()
        ledger.write(dict.fromkeys(orders, 200))

    newest = dict.fromkeys(orders, Position(200))
    for servers in ([divided.newest], [divided.former, divided.newest], [divided.former]):
        with ledger_by(*servers) as ledger:
            try:
                assert ledger.read().positions == newest
            except ClusterUnreachable:
                assert divided.former in servers, "its tail may have followed the former leader, which has no more"


def test_a_server_that_is_cut_off_is_given_up(divided: CutOff, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_links, "_LOOK_SECONDS", 0.0)
    links = links_to(divided.former, divided.newest)
    links.open(DEADLINE_SECONDS_LEAST)
    (asked,) = {line.address for line in links._free}
    assert asked == split_address(divided.former)
    for _ in range(5):
        assert seen_by(links) == {1, 2}
    assert links._free[-1].address == asked, "none is given up while all agree"
    divided.cut()
    wait_until(lambda: seen_by(links) == {2}, "the other server is asked")
    for _ in range(5):
        assert seen_by(links) == {2}, "it stays so"
    links.close()


def test_where_only_the_one_that_is_cut_off_answers_it_is_asked(
    divided: CutOff, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_links, "_LOOK_SECONDS", 0.0)
    links = links_to(divided.former, divided.newest)
    links.open(DEADLINE_SECONDS_LEAST)
    divided.cut()
    wait_until(lambda: seen_by(links) == {2}, "the other server is asked")
    divided.cluster.broker(2).kill()
    ends_at, found = time.monotonic() + DEADLINE_SECONDS_LEAST, set[int]()
    while not found and time.monotonic() < ends_at:
        try:
            found = seen_by(links)
        except (OSError, ClusterUnreachable):
            continue
    assert found == {1, 2}
    links.close()


def test_a_topic_is_known_where_the_broker_that_is_asked_first_does_not_know_it(divided: CutOff) -> None:
    former, newest = (Cluster("A", {"bootstrap.servers": one}) for one in (divided.former, divided.newest))
    with open_admin(former, "test") as admin, open_admin(newest, "test") as other:
        divided.cut()
        assert other.create_topics([NewTopic("late", 3, 1)]) == {"late": None}
        assert admin.list_topics(["late"]) == {}
        assert admin.list_known_topics(["late"])["late"].partitions == 3
