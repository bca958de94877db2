"""What a task says of target partitions that have no leader."""

from typing import Any
from uuid import UUID

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.leaderless import PATIENCE_SECONDS, UNASKED_SECONDS
from sparkmirror.kafka.wire.leaders import LOOK_UP_KEYS
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.brokers import Brokers

WHERE = TopicPartition("A.orders", 3)


class Background:
    def submit(self, *_: object) -> None:
        """Nothing is dialled or looked up."""


class Target:
    """A target to which one partition is to be sent."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        settings = ClientSettings("B", ("one:9092",), "test")
        self.brokers = Brokers(settings, Background(), 2, 0, 5.0, self.clock)  # type: ignore[arg-type]

    def shows(self, seconds: float = 1.0, **view: Any) -> str:
        """The problem after a look-up."""
        self.clock.now += seconds
        self.brokers.route(WHERE)
        self.brokers.take(Outcome(LOOK_UP_KEYS[0], ClusterView({1: ("one", 9092)}, **view), None))
        return self.brokers.problem


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        ({"topic_ids": {"A.orders": UUID(int=1)}, "epochs": {WHERE: 4}}, "it has no leader"),
        ({"errors": {"A.orders": 3}}, "the brokers answer UNKNOWN_TOPIC_OR_PARTITION for its topic"),
        (
            {"topic_ids": {"A.orders": UUID(int=1)}, "epochs": {WHERE: 4}, "leaders": {WHERE: 9}},
            "its leader, broker 9, has no address in the brokers' metadata",
        ),
    ],
    ids=["no leader", "no topic", "no address"],
)
def test_a_partition_that_stays_without_a_leader_is_the_tasks_problem(view: dict[str, Any], reason: str) -> None:
    target = Target()
    assert [target.shows(**view) for _ in range(int(PATIENCE_SECONDS))] == [""] * int(PATIENCE_SECONDS)
    assert target.shows(**view) == f"A.orders-3 of the target waits: {reason}"
    assert target.shows(topic_ids={"A.bills": UUID(int=2)}) == "", "a look-up of others says nothing of it"
    assert target.shows(**view) != ""
    found: dict[str, Any] = {"topic_ids": {"A.orders": UUID(int=1)}, "epochs": {WHERE: 5}, "leaders": {WHERE: 1}}
    assert target.shows(**found) == ""
    target.brokers.forget([WHERE])
    assert target.shows(**view) == "", "and the next time has its own moment"


WITHOUT_LEADER: dict[str, Any] = {"topic_ids": {"A.orders": UUID(int=1)}, "epochs": {WHERE: 4}}


def test_a_partition_that_left_without_a_leader_has_its_own_moment_when_it_comes_back() -> None:
    target = Target()
    assert [target.shows(**WITHOUT_LEADER) for _ in range(int(PATIENCE_SECONDS) + 1)][-1] != ""
    assert target.shows(UNASKED_SECONDS + 1, **WITHOUT_LEADER) == ""


def test_what_a_partition_that_left_had_waited_for_is_no_problem_any_more() -> None:
    """Nothing is looked up then that would say so."""
    target = Target()
    assert [target.shows(**WITHOUT_LEADER) for _ in range(int(PATIENCE_SECONDS) + 1)][-1] != ""
    target.clock.now += 59
    target.brokers.refresh()
    assert target.brokers.problem != ""
    target.clock.now += 2
    target.brokers.refresh()
    assert target.brokers.problem == ""


def test_a_partition_that_asks_for_no_route_waits_for_no_leader() -> None:
    target = Target()
    target.shows(**WITHOUT_LEADER)
    for _ in range(2 * int(PATIENCE_SECONDS)):
        target.clock.now += 1
        target.brokers.take(Outcome(LOOK_UP_KEYS[0], ClusterView({1: ("one", 9092)}, **WITHOUT_LEADER), None))
    assert target.brokers.problem == ""
