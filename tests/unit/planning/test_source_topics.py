"""What the planner has seen before, and what it hands out later."""

from collections.abc import Iterable
from uuid import UUID

import pytest
from tests.flows import flow_of
from tests.manual_clock import ManualClock

from sparkmirror.model import Topic, TopicPartition
from sparkmirror.planning.source_topics import SourceTopics, Withheld, partitions_of


def topics(*names: str, partitions: int = 10) -> dict[str, Topic]:
    return {name: Topic(name, UUID(int=1), partitions, 1) for name in names}


class Cluster:
    """Stands for an admin: the topics that are there."""

    def __init__(self, *names: str, partitions: int = 10) -> None:
        self.topics = topics(*names, partitions=partitions)

    def list_topics(self) -> dict[str, Topic]:
        return dict(self.topics)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_look_that_finds_nothing_new_returns_the_same_object() -> None:
    source, seen = Cluster("orders", "__internal"), SourceTopics(flow_of())
    before = seen.read(source)  # type: ignore[arg-type]
    assert list(before) == ["orders"]
    assert seen.read(source) is before  # type: ignore[arg-type]
    source.topics |= topics("__more")
    assert seen.read(source) is before, "what is not mirrored is no news"  # type: ignore[arg-type]
    source.topics |= topics("orders", partitions=11)
    assert seen.read(source)["orders"].partitions == 11  # type: ignore[arg-type]


def test_tasks_are_sent_topics_that_are_new_grown_or_deleted() -> None:
    seen = SourceTopics(flow_of())
    assert seen.changed_counts(topics("a", "b")) == {"a": 10, "b": 10}
    assert seen.changed_counts(topics("a", "b")) == {"a": 10, "b": 10}, "the order was not written: it is repeated"
    seen.note_known(topics("a", "b"))
    assert seen.changed_counts(topics("a", "b")) == {}
    assert seen.changed_counts(topics("b", partitions=12) | topics("c")) == {"a": 0, "b": 12, "c": 10}


def names_of(partitions: Iterable[TopicPartition]) -> set[str]:
    return {where.topic for where in partitions}


def test_partitions_wait_for_their_topics_while_very_many_are_being_made(clock: ManualClock) -> None:
    fresh = partitions_of(topics(*(f"t{number:02}" for number in range(60))))
    withheld, target = Withheld(flow_of(), clock), Cluster("A.t00", "A.t01")
    assert len(names_of(withheld.pick(fresh, target))) == 58  # type: ignore[arg-type]
    assert withheld, "there is something to look for"
    target.topics |= topics(*(f"A.t{number:02}" for number in range(30)))
    fresh = [where for where in fresh if where.topic > "t01"]
    clock.now += 29
    assert len(names_of(withheld.pick(fresh, target))) == 30  # type: ignore[arg-type]
    target.topics |= topics(*(f"A.t{number:02}" for number in range(35)))
    fresh = [where for where in fresh if where.topic > "t29"]
    clock.now += 29
    assert not withheld.pick(fresh, target), "the last 250 are a matter of a moment"  # type: ignore[arg-type]
    assert not withheld


def test_a_task_says_what_is_missing_when_nobody_makes_the_topics(clock: ManualClock) -> None:
    fresh = partitions_of(topics(*(f"t{number:02}" for number in range(60))))
    withheld, target = Withheld(flow_of(), clock), Cluster()
    assert len(withheld.pick(fresh, target)) == 600  # type: ignore[arg-type]
    clock.now += 29
    assert len(withheld.pick(fresh, target)) == 600  # type: ignore[arg-type]
    clock.now += 2
    assert not withheld.pick(fresh, target)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("count", "setting"),
    [(25, "topics = .*"), (60, "refresh.topics.enabled = false")],
    ids=["few are handed out before their topics are seen", "where no job makes topics, nothing waits for one"],
)
def test_partitions_are_handed_out_at_once_where_no_topic_is_waited_for(
    count: int, setting: str, clock: ManualClock
) -> None:
    fresh = partitions_of(topics(*(f"t{number:02}" for number in range(count))))
    assert not Withheld(flow_of(setting), clock).pick(fresh, Cluster())  # type: ignore[arg-type]


def test_a_partition_whose_start_is_being_filled_is_looked_at_again_at_once(clock: ManualClock) -> None:
    (where,) = partitions_of(topics("orders", partitions=1))
    withheld = Withheld(flow_of(), clock)
    withheld.note_filling(where)
    withheld.back_off([where])
    assert withheld and withheld.is_filling
    assert withheld.pick([where], Cluster()) == set()  # type: ignore[arg-type]
    assert not withheld.is_filling


def test_a_partition_whose_start_no_broker_gave_is_looked_at_again_after_half_a_minute(clock: ManualClock) -> None:
    (where,) = partitions_of(topics("orders", partitions=1))
    withheld = Withheld(flow_of(), clock)
    withheld.back_off([where])
    assert withheld.pick([where], Cluster()) == {where}  # type: ignore[arg-type]
    clock.now += 31
    assert withheld.pick([where], Cluster()) == set()  # type: ignore[arg-type]
    assert not withheld


def test_a_partition_that_an_epoch_ended_for_is_looked_at_as_the_next_one_begins(clock: ManualClock) -> None:
    one, other = partitions_of(topics("orders", partitions=2))
    withheld = Withheld(flow_of(), clock)
    withheld.back_off([one, other])
    withheld.look_again({one})
    assert withheld.pick([one, other], Cluster()) == {other}  # type: ignore[arg-type]


def test_without_looks_for_topics_no_look_is_due_for_a_start_that_is_being_filled() -> None:
    """None would fill it: the planner's thread would look again and again."""
    for setting, is_due in (("", True), ("refresh.topics.enabled = false", False)):
        withheld = Withheld(flow_of(setting))
        withheld.note_filling(TopicPartition("orders", 0))
        assert bool(withheld)
        assert withheld.is_filling is is_due
