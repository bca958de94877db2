"""Leaders of one cluster: asked about after a pause, forgotten with their broker, dialled by their address."""

from collections.abc import Callable, Hashable
from typing import Any
from uuid import UUID

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.leaders import LOOK_UP_KEYS, Leaders
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.model import NO_TOPIC_ID, TopicPartition

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
LOOK_UP, PREFETCH = LOOK_UP_KEYS


class Background:
    """Notes what is submitted, and runs nothing."""

    def __init__(self) -> None:
        self.keys: list[Hashable] = []
        self.topics: list[list[str]] = []
        self.servers: list[tuple[str, ...]] = []

    def submit(self, key: Hashable, work: Callable[[], Any]) -> None:
        self.keys.append(key)
        if key in LOOK_UP_KEYS:
            self.topics.append(sorted(work.args[1]))  # type: ignore[attr-defined]
            self.servers.append(work.args[0].bootstrap_servers)  # type: ignore[attr-defined]


class Cluster:
    """Leaders that are asked by `background`, with a clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.background = Background()
        settings = ClientSettings("B", ("one:9092",), "test")
        self.leaders = Leaders(settings, self.background, clock=self.clock)  # type: ignore[arg-type]

    def answers(self, leaders: dict[TopicPartition, int]) -> None:
        view = ClusterView({1: ("one", 9092), 2: ("two", 9092)}, leaders)
        assert self.leaders.take(Outcome(LOOK_UP, view, None)) is view

    def shows(self, node: int, epoch: int, topic_id: UUID) -> int | None:
        """Who leads, after an answer that shows this leader."""
        view = ClusterView({}, {ORDERS: node}, {"orders": topic_id}, epochs={ORDERS: epoch})
        self.leaders.take(Outcome(LOOK_UP, view, None))
        return self.leaders.of(ORDERS)

    def is_silent(self) -> None:
        assert self.leaders.take(Outcome(LOOK_UP, None, ClusterUnreachable("no broker answers"))) is None

    def seconds_until_asked(self) -> float:
        """How long the next look-up lets itself wait for, in steps of 50 ms."""
        before = len(self.background.keys)
        for step in range(100):
            self.leaders.of(ORDERS)
            self.leaders.poll()
            if len(self.background.keys) > before:
                return step * 0.05
            self.clock.now += 0.05
        raise AssertionError("never asked")


def test_only_topics_without_a_known_leader_are_asked_about() -> None:
    cluster = Cluster()
    cluster.leaders.poll()
    assert cluster.background.keys == []
    assert cluster.leaders.of(ORDERS) is None and cluster.leaders.of(BILLS) is None
    cluster.leaders.poll()
    assert cluster.background.topics == [["bills", "orders"]]
    cluster.answers({ORDERS: 1})
    assert (cluster.leaders.of(ORDERS), cluster.leaders.of(BILLS)) == (1, None)
    cluster.clock.now += 1
    cluster.leaders.poll()
    assert cluster.background.topics[1:] == [["bills"]]


def test_the_pause_doubles_while_no_broker_answers_and_is_short_again_after_an_answer() -> None:
    cluster = Cluster()
    assert cluster.seconds_until_asked() == 0
    pauses = []
    for _ in range(4):
        cluster.is_silent()
        pauses.append(cluster.seconds_until_asked())
    assert pauses == [pytest.approx(seconds, abs=0.06) for seconds in (0.2, 0.4, 0.8, 1.0)]
    assert cluster.leaders.problem == "no broker answers"
    cluster.answers({})
    cluster.seconds_until_asked()
    cluster.answers({})
    assert cluster.seconds_until_asked() == pytest.approx(0.2, abs=0.06)
    assert cluster.leaders.problem == ""


def test_a_broker_that_does_not_answer_leads_nothing_any_more() -> None:
    cluster = Cluster()
    cluster.answers({ORDERS: 1, BILLS: 2})
    cluster.leaders.forget_node(1)
    assert (cluster.leaders.of(ORDERS), cluster.leaders.of(BILLS)) == (None, 2)


def test_a_broker_is_dialled_once_in_a_pause_and_again_after_its_connection_broke() -> None:
    cluster = Cluster()
    cluster.answers({ORDERS: 1})
    key = ("dial", 1)
    for _ in range(3):
        assert cluster.leaders.dial(key, 1)
    assert cluster.background.keys == [key]
    cluster.clock.now += 10
    cluster.leaders.broke(key)
    cluster.leaders.dial(key, 1)
    assert cluster.background.keys == [key]
    cluster.clock.now += 1
    cluster.leaders.dial(key, 1)
    assert cluster.background.keys == [key, key]


def test_a_leader_without_a_known_address_is_looked_up_again() -> None:
    """A Metadata answer may name a leader that is not in its list of brokers: that was a KeyError in the sender."""
    cluster = Cluster()
    cluster.answers({ORDERS: 9})
    assert cluster.leaders.of(ORDERS) == 9
    assert not cluster.leaders.dial(("dial", 9, 0), 9)
    assert cluster.leaders.of(ORDERS) is None
    assert cluster.seconds_until_asked() == 0
    assert cluster.background.keys == [LOOK_UP]


def test_a_leader_of_an_epoch_that_is_over_is_not_taken() -> None:
    cluster, topic = Cluster(), UUID(int=1)
    assert cluster.shows(2, 7, topic) == 2
    assert cluster.shows(1, 5, topic) == 2, "a broker that is cut off still calls itself the leader"
    assert cluster.shows(1, 8, topic) == 1
    assert cluster.shows(3, 0, UUID(int=2)) == 3, "a topic that was made again begins at 0"
    assert (cluster.shows(4, 9, NO_TOPIC_ID), cluster.shows(5, 0, NO_TOPIC_ID)) == (4, 5), "nobody knows which topic"


def test_each_look_up_begins_with_another_server_and_knows_those_that_were_named() -> None:
    cluster = Cluster()
    cluster.leaders.addresses[3] = ("::1", 9093)
    for _ in range(3):
        cluster.seconds_until_asked()
    both = ("one:9092", "[::1]:9093")
    assert cluster.background.servers == [both, both[::-1], both]


def test_known_topics_are_looked_up_again_when_the_answers_are_old() -> None:
    cluster = Cluster()
    cluster.answers({ORDERS: 1, BILLS: 2})

    def asked_after(seconds: float) -> list[list[str]]:
        cluster.clock.now += seconds
        before = len(cluster.background.topics)
        cluster.leaders.refresh()
        cluster.leaders.poll()
        return cluster.background.topics[before:]

    assert asked_after(0) == []
    assert asked_after(299) == []
    assert asked_after(2) == [["bills", "orders"]]
    assert [asked_after(60) for _ in range(4)] == [[]] * 4, "once in five minutes"
    assert asked_after(60) == [["bills", "orders"]]
    cluster.is_silent()
    assert (asked_after(9), asked_after(2)) == ([], [["bills", "orders"]]), "no broker answered: again in a moment"
    assert cluster.leaders.of(ORDERS) == 1, "known all the time"
