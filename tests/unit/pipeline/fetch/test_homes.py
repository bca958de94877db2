"""A partition whose leader no look-up shows is not read up: after a moment it waits, with the reason."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.wire.leaderless import PATIENCE_SECONDS, UNASKED_SECONDS
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch.homes import Homes
from sparkmirror.pipeline.fetch.partitions import Partitions
from sparkmirror.pipeline.fetch.responses import FetchResponseReader
from sparkmirror.pipeline.relay.ring import Ring
from sparkmirror.pipeline.relay.schema import FAULT

WHERE = TopicPartition("orders", 0)
TOPIC = UUID(int=1)


class Field:
    """A reader in epoch 7 whose broker is gone."""

    def __init__(self) -> None:
        self.ring = Ring(1 << 20)
        self.clock = ManualClock()
        self.response_reader = FetchResponseReader(self.ring, lambda _: None, self.clock)
        self.homes = Homes(self.response_reader, self.clock)
        self.partitions = Partitions(1 << 20)
        self.fetch_state = self.partitions.add(Assigned(WHERE, 500, ((7, 80),), topic_id=TOPIC), None)

    def shows(self, node: int | None, epoch: int = 8, seconds: float = 1.0, **more: Any) -> list[str]:
        """The reasons that a look-up brings which shows this leader."""
        self.clock.now += seconds
        leaders = {} if node is None else {WHERE: node}
        told: dict[str, Any] = {"topic_ids": {"orders": TOPIC}, "epochs": {WHERE: epoch}, **more}
        self.homes.take(self.partitions, ClusterView({1: ("one", 9092)}, leaders, **told), {1: ("one", 9092)})
        rows = [row for row in self.response_reader.take_rows() if row.kind == FAULT]
        assert {row.high_watermark for row in rows} <= {-1}, "its end is not known"
        return [(row.payload or b"").decode() for row in rows]

    def shows_for_long(self, node: int | None, epoch: int = 8, **more: Any) -> list[str]:
        return [one for _ in range(int(PATIENCE_SECONDS) + 2) for one in self.shows(node, epoch, **more)]


@pytest.fixture
def field() -> Iterator[Field]:
    made = Field()
    yield made
    made.ring.close()


def test_a_partition_without_a_leader_waits_after_a_moment(field: Field) -> None:
    assert [field.shows(None) for _ in range(int(PATIENCE_SECONDS))] == [[]] * int(PATIENCE_SECONDS)
    assert field.shows(None) == ["it has no leader"]
    assert field.shows_for_long(None) == [], "once"


def test_an_election_is_no_news(field: Field) -> None:
    assert field.shows(None) == []
    assert field.shows(1, 9, seconds=PATIENCE_SECONDS) == []
    field.fetch_state.node = None
    assert field.shows(None, 9) == [], "and the next one has its own moment"


def test_a_partition_that_comes_back_without_a_leader_has_its_own_moment(field: Field) -> None:
    """It was released while it had none, and nothing was looked up for it meanwhile."""
    assert field.shows_for_long(None) != []
    field.partitions.remove(WHERE)
    field.fetch_state = field.partitions.add(Assigned(WHERE, 500, ((7, 80),), topic_id=TOPIC), None)
    assert field.shows(None, seconds=UNASKED_SECONDS + 1) == []


def test_a_leader_whose_address_is_not_known_is_none(field: Field) -> None:
    assert field.shows_for_long(2) == ["its leader, broker 2, has no address in the brokers' metadata"]
    assert field.fetch_state.node is None


def test_brokers_that_name_a_former_leader_are_not_believed_and_it_is_said(field: Field) -> None:
    assert field.shows_for_long(1, 6) == ["the brokers name a leader that was replaced"]
    assert field.fetch_state.node is None
    field.fetch_state.fault = ""
    assert field.shows(None, 6, former=frozenset({WHERE})) == ["the brokers name a leader that was replaced"]


def test_a_partition_that_the_metadata_lacks_waits_too(field: Field) -> None:
    assert field.shows_for_long(None, epochs={}) == ["it is not in the brokers' metadata"]


def test_a_partition_that_a_person_holds_says_nothing(field: Field) -> None:
    field.fetch_state.held_by_order = True
    assert field.shows_for_long(None) == []


def test_a_partition_leaves_its_broker_for_a_leader_of_a_later_epoch_alone(field: Field) -> None:
    """As a look-up shows it that is made from time to time: the broker may be cut off from the others."""
    field.fetch_state.node, field.fetch_state.current_epoch = 1, 7
    field.fetch_state.is_nearer = True
    field.shows(1, 7)
    assert field.fetch_state.is_nearer, "nothing has changed"
    field.shows(1, 8)
    assert (field.fetch_state.node, field.fetch_state.is_nearer, field.fetch_state.current_epoch) == (1, False, 8)
    field.shows(1, 6)
    assert field.fetch_state.current_epoch == 8
    field.shows(None, 9)
    assert field.fetch_state.node is None, "the later one is not elected yet"


def test_an_error_for_a_topic_takes_no_partition_from_its_broker(field: Field) -> None:
    field.fetch_state.node = 1
    assert field.shows(None, topic_ids={}, errors={"orders": 3}) == []
    assert field.fetch_state.node == 1
    field.fetch_state.node = None
    assert field.shows(None, topic_ids={}, errors={"orders": 3}) == ["the source answers error 3 for topic orders"]
