"""Which id of a topic a reader believes: stale metadata makes no log another one."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.model import ANOTHER_ID_SECONDS, NO_TOPIC_ID, TopicPartition
from sparkmirror.pipeline.fetch.partitions import Partitions
from sparkmirror.pipeline.fetch.responses import FetchResponseReader
from sparkmirror.pipeline.fetch.topic_ids import TopicIds
from sparkmirror.pipeline.relay.ring import Ring
from sparkmirror.pipeline.relay.schema import GAP

WHERE = TopicPartition("orders", 0)
FORMER, OLD, NEW = (UUID(int=number) for number in (1, 2, 3))


class Field:
    """A reader that stands at offset 500 of the topic with the id OLD, in epoch 7; its leader is not known."""

    def __init__(self) -> None:
        self.ring = Ring(1 << 20)
        self.clock = ManualClock()
        self.response_reader = FetchResponseReader(self.ring, lambda _: None, self.clock)
        self.topic_ids = TopicIds(self.response_reader, self.clock)
        self.fetch_state = Partitions(1 << 20).add(Assigned(WHERE, 500, ((7, 80),), topic_id=OLD), None)

    def look_up(
        self, found: UUID, after_seconds: float = 0.0, *, node: int = 1, epoch: int = 8
    ) -> list[tuple[int, int]]:
        """The gaps that a look-up brings, which begins after so many seconds."""
        self.clock.now += after_seconds
        view = ClusterView({}, {WHERE: node}, {"orders": found}, epochs={WHERE: epoch}, asked_at=self.clock.now)
        self.clock.now += 0.01
        self.topic_ids.settle(self.fetch_state, view)
        rows = self.response_reader.take_rows()
        return [(row.first_offset, row.next_offset) for row in rows if row.kind == GAP]


@pytest.fixture
def field() -> Iterator[Field]:
    made = Field()
    yield made
    made.ring.close()


def test_a_topic_that_is_shown_with_another_id_twice_was_made_again(field: Field) -> None:
    assert field.look_up(NEW) == []
    assert field.fetch_state.node is None, "nothing is fetched meanwhile"
    assert field.look_up(NEW) == [], "at once again: the same broker may have the same to say"
    assert field.look_up(NEW, ANOTHER_ID_SECONDS) == [(500, 0)]
    assert (field.fetch_state.topic_id, field.fetch_state.offset, field.fetch_state.node) == (NEW, 0, 1)


def test_what_a_broker_says_before_it_has_caught_up_makes_no_log_another_one(field: Field) -> None:
    assert field.look_up(FORMER) == []
    assert field.look_up(OLD, ANOTHER_ID_SECONDS) == []
    assert (field.fetch_state.offset, field.fetch_state.node) == (500, 1)
    assert field.look_up(FORMER, ANOTHER_ID_SECONDS) == [], "that it was shown once before does not count"


def test_an_id_that_was_left_is_never_believed(field: Field) -> None:
    field.look_up(NEW)
    field.look_up(NEW, ANOTHER_ID_SECONDS)
    for _ in range(3):
        assert field.look_up(OLD, ANOTHER_ID_SECONDS) == []
    assert field.fetch_state.node is None
    assert "as it was before it was made again" in field.fetch_state.fault
    assert field.look_up(NEW) == []
    assert (field.fetch_state.topic_id, field.fetch_state.node) == (NEW, 1)


def test_a_broker_that_knows_no_ids_makes_no_log_another_one(field: Field) -> None:
    assert [field.look_up(NO_TOPIC_ID, ANOTHER_ID_SECONDS) for _ in range(3)] == [[]] * 3
    assert (field.fetch_state.topic_id, field.fetch_state.offset, field.fetch_state.node) == (OLD, 500, 1)


def test_a_broker_that_knows_no_ids_ends_no_doubt(field: Field) -> None:
    assert field.look_up(NEW) == []
    assert field.look_up(NO_TOPIC_ID, ANOTHER_ID_SECONDS) == []
    assert field.fetch_state.node is None, "by its name, the new topic would be read from the old one's offset"
    assert field.look_up(NEW, ANOTHER_ID_SECONDS) == [(500, 0)]


def test_a_broker_that_led_before_the_last_record_was_written_is_not_the_leader(field: Field) -> None:
    field.look_up(OLD, node=1, epoch=6)
    assert field.fetch_state.node is None
    field.look_up(OLD, node=2, epoch=7)
    assert (field.fetch_state.node, field.fetch_state.current_epoch) == (2, 7)


def test_nor_is_one_that_led_before_the_last_that_was_seen(field: Field) -> None:
    field.look_up(OLD, node=2, epoch=9)
    field.fetch_state.node = None
    field.look_up(OLD, node=1, epoch=8)
    assert field.fetch_state.node is None


def test_a_topic_that_was_made_again_begins_at_epoch_0(field: Field) -> None:
    field.look_up(OLD, node=2, epoch=9)
    field.look_up(NEW, epoch=0)
    assert field.look_up(NEW, ANOTHER_ID_SECONDS, node=3, epoch=0) == [(500, 0)]
    assert (field.fetch_state.node, field.fetch_state.current_epoch) == (3, 0)
