"""What a reader believes of the bounds of a log whose broker refused its position: not what a former leader says."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.leaders import Leaders
from sparkmirror.kafka.wire.lookup import ClusterView, Span
from sparkmirror.model import NO_EPOCH, NO_TOPIC_ID, TopicPartition
from sparkmirror.pipeline.fetch.log_bounds import KEY, LogBounds
from sparkmirror.pipeline.fetch.partitions import Partitions
from sparkmirror.pipeline.fetch.responses import FetchResponseReader
from sparkmirror.pipeline.fetch.topic_ids import take_leader
from sparkmirror.pipeline.relay.ring import Ring
from sparkmirror.pipeline.relay.schema import GAP

WHERE = TopicPartition("orders", 0)
TOPIC, OTHER = UUID(int=1), UUID(int=2)


class Background:
    """Notes the settings with which a question is asked."""

    def __init__(self) -> None:
        self.servers: list[str] = []

    def submit(self, key: object, work: Any) -> None:
        self.servers.append(work.args[0].bootstrap_servers[0])


class Field:
    """A reader at offset 100 of a log of the epochs 5 and 7, the latter from offset 80 on."""

    def __init__(self) -> None:
        self.ring = Ring(1 << 20)
        self.response_reader = FetchResponseReader(self.ring, lambda _: None, ManualClock())
        self.background = Background()
        settings = ClientSettings("A", ("one:9092", "two:9092"), "test")
        self.leaders = Leaders(settings, self.background)  # type: ignore[arg-type]
        self.bounds = LogBounds(self.leaders.settings_from, self.background)  # type: ignore[arg-type]
        at = Assigned(WHERE, 100, epochs=((5, 0), (7, 80)), topic_id=TOPIC)
        self.fetch_state = Partitions(1 << 20).add(at, 1)

    def told(self, span: Span) -> list[tuple[int, int]]:
        """The gaps that the answer brings."""
        self.bounds.take(self.fetch_state, Outcome((KEY, WHERE), span, None), self.response_reader)
        return [(row.first_offset, row.next_offset) for row in self.response_reader.take_rows() if row.kind == GAP]


@pytest.fixture
def field() -> Iterator[Field]:
    made = Field()
    yield made
    made.ring.close()


def test_a_former_leader_is_not_believed_that_its_log_ends_before_ours(field: Field) -> None:
    assert field.told(Span(0, 80, 5, TOPIC)) == []
    assert (field.fetch_state.offset, field.fetch_state.node) == (100, None), "the leader is looked up again"
    assert field.told(Span(90, 95, 6, TOPIC)) == []
    assert field.fetch_state.doubts == 0


def test_nor_one_of_an_epoch_before_that_of_a_look_up(field: Field) -> None:
    field.fetch_state.current_epoch = 9
    assert field.told(Span(0, 80, 8, TOPIC)) == []
    assert field.told(Span(0, 80, 9, TOPIC)) == [(100, 80)]


def test_a_leader_that_was_elected_since_says_where_the_log_was_cut(field: Field) -> None:
    assert field.told(Span(0, 80, 8, TOPIC)) == [(100, 80)]


def test_a_lone_broker_that_was_killed_leads_by_the_same_epoch_and_may_have_less(field: Field) -> None:
    """Kafka 3.0 raises no epoch when a broker with the only replica is killed and starts again."""
    assert field.told(Span(0, 90, 7, TOPIC)) == [(100, 90)]


def test_where_no_epoch_is_known_other_servers_are_asked_before_a_log_counts_as_cut(field: Field) -> None:
    """A position of MirrorMaker's has none: the first server that answers may be a former leader."""
    field.fetch_state.lineage = field.fetch_state.lineage._replace(epochs=())
    for _ in range(3):
        assert field.told(Span(0, 80, 8, TOPIC)) == []
        assert field.fetch_state.node is None, "the leader is looked up again"
    assert field.told(Span(0, 80, 8, TOPIC)) == [(100, 80)]


def test_retention_is_not_believed_of_a_former_leader_either(field: Field) -> None:
    assert field.told(Span(200, 300, 6, TOPIC)) == []
    assert field.told(Span(200, 300, 7, TOPIC)) == [(100, 200)]


def test_the_bounds_of_another_topic_of_that_name_are_none_of_ours(field: Field) -> None:
    assert field.told(Span(0, 80, 8, OTHER)) == []
    assert field.fetch_state.node is None


def test_where_topics_have_no_ids_an_epoch_may_be_of_another_log(field: Field) -> None:
    field.fetch_state.lineage = field.fetch_state.lineage._replace(topic_id=NO_TOPIC_ID)
    assert field.told(Span(0, 80, 0, NO_TOPIC_ID)) == [(100, 80)]


def test_each_question_begins_with_another_server(field: Field) -> None:
    field.bounds.ask(field.fetch_state)
    field.bounds.ask(field.fetch_state)
    assert field.background.servers == ["one:9092", "two:9092"]


def test_and_so_it_does_where_leaders_are_looked_up_between_them(field: Field) -> None:
    """Of two servers a former leader would get all questions, and the next one all look-ups of leaders."""
    for _ in range(2):
        field.leaders.settings_in_turn()
        field.bounds.ask(field.fetch_state)
    assert field.background.servers == ["one:9092", "two:9092"]


def test_what_a_leader_has_said_makes_those_before_it_former_ones(field: Field) -> None:
    """The next leader says that the position lies in its log; then the former one is asked, which ends before it."""
    field.fetch_state.lineage = field.fetch_state.lineage._replace(epochs=())
    for _ in range(2):
        assert field.told(Span(0, 200, 9, TOPIC)) == []
    for _ in range(6):
        assert field.told(Span(0, 80, 8, TOPIC)) == []
    assert field.fetch_state.offset == 100


def test_and_the_leader_of_that_epoch_is_looked_for_until_a_server_names_it(field: Field) -> None:
    """Not the former one, which refuses the position and would be asked all the time."""
    assert field.told(Span(0, 200, 9, TOPIC)) == []
    take_leader(field.fetch_state, ClusterView(leaders={WHERE: 1}, epochs={WHERE: 8}))
    assert field.fetch_state.node is None
    take_leader(field.fetch_state, ClusterView(leaders={WHERE: 2}, epochs={WHERE: 9}))
    assert (field.fetch_state.node, field.fetch_state.current_epoch) == (2, 9)


def test_the_epoch_of_a_topic_whose_id_is_not_known_yet_says_nothing(field: Field) -> None:
    """It may be of a topic that is made again meanwhile, which begins at epoch 0."""
    field.fetch_state.lineage = field.fetch_state.lineage._replace(topic_id=NO_TOPIC_ID, epochs=())
    assert field.told(Span(0, 200, 9, OTHER)) == []
    assert field.fetch_state.current_epoch == NO_EPOCH
