"""A search asks another server first each time, and does not follow one that was cut off from the others."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire import leader_search, lookup
from sparkmirror.kafka.wire.leader_search import LeaderSearch
from sparkmirror.kafka.wire.lookup import ClusterView, Span
from sparkmirror.model import TopicPartition

WHERE = TopicPartition("orders", 0)
TOPIC = UUID(int=1)
ADDRESSES = {1: ("one", 9092), 2: ("two", 9092), 3: ("three", 9092)}


class Cluster:
    """Broker 1 is cut off: it still calls itself the leader, by epoch 4, with a log that ends at 70. The others know
    that broker 2 leads by epoch 5, with a log that ends at 90."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.away: set[str] = set()
        monkeypatch.setattr(leader_search, "look_up", self._look_up)
        monkeypatch.setattr(lookup, "dial", lambda host, *_: SimpleNamespace(address=host))
        monkeypatch.setattr(leader_search, "span_of", self._span)

    def _look_up(self, settings: ClientSettings, topics: Iterable[str], _: float) -> ClusterView:
        assert list(topics) == ["orders"]
        for server in settings.bootstrap_servers:
            host = server.partition(":")[0]
            self.asked.append(host)
            if host not in self.away:
                leader, epoch = (1, 4) if host == "one" else (2, 5)
                return ClusterView(ADDRESSES, {WHERE: leader}, {"orders": TOPIC}, epochs={WHERE: epoch})
        raise ClusterUnreachable("nobody answers")

    def _span(self, link: Any, *_: object) -> Span:
        return Span(0, 70 if link.address == "one" else 90)

    def search(self, first: int = 0) -> LeaderSearch:
        search = LeaderSearch(ClientSettings("B", ("one:9092", "two:9092"), "test"))
        search._turn = first
        return search


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def test_the_next_look_up_begins_with_another_server(cluster: Cluster) -> None:
    search = cluster.search()
    assert [search.dial(WHERE)[0].address for _ in range(2)] == ["one", "two"]
    assert cluster.asked == ["one", "two"]


def test_a_leader_that_was_replaced_is_not_dialled(cluster: Cluster) -> None:
    search = cluster.search(first=1)
    assert search.dial(WHERE)[0].address == "two"
    search._turn = 0
    with pytest.raises(
        ClusterUnreachable, match="orders-0: the broker that was asked names a leader that was replaced"
    ):
        search.dial(WHERE)


@pytest.mark.parametrize("first", [0, 1])
def test_where_a_log_ends_the_newest_leader_says_that_any_server_knows(cluster: Cluster, first: int) -> None:
    assert cluster.search(first).span(WHERE) == Span(0, 90)
    assert {"one", "two", "three"} <= set(cluster.asked)


def test_a_server_that_is_away_keeps_nobody_from_the_others(cluster: Cluster) -> None:
    cluster.away = {"two"}
    assert cluster.search().span(WHERE) == Span(0, 90), "broker 3 knows, which is no bootstrap server"
    cluster.away = {"one", "two", "three"}
    with pytest.raises(ClusterUnreachable, match="nobody answers"):
        cluster.search().span(WHERE)


def test_two_searches_do_not_begin_alike() -> None:
    """What reads one range makes a search of its own, and the next attempt another one."""
    settings = ClientSettings("B", ("one:9092",), "test")
    assert len({LeaderSearch(settings)._turn for _ in range(20)}) > 1
