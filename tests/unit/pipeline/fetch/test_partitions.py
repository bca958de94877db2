"""What a task reads, by name, by slot and by broker."""

import random
from collections.abc import Callable
from math import inf
from typing import Any
from uuid import UUID

import pytest

from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.wire.data_requests import FetchPosition, FetchResponse
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import NO_TOPIC_ID, TopicPartition
from sparkmirror.pipeline.fetch.fetch_session import FetchSession, PartitionKey
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState, Partitions

TOPIC = UUID(int=7)


def fetch_state(
    partitions: Partitions, number: int, *, topic_id: UUID = TOPIC, end: int | None = None
) -> PartitionFetchState:
    return partitions.add(Assigned(TopicPartition("orders", number), 100, ((3, 0),), topic_id, end), node=1)


def test_a_broker_is_asked_for_what_it_leads_and_what_moves() -> None:
    partitions = Partitions(bytes_max=1 << 20)
    flowing, paused, resting, done, elsewhere = (fetch_state(partitions, n, end=200) for n in range(5))
    paused.held_by_writer = True
    resting.not_before = 50.0
    done.offset = 200
    elsewhere.node = 2
    assert list(partitions.wanted(1, by_id=True, now=40.0)) == [(TOPIC.bytes, 0)]
    assert list(partitions.wanted(1, by_id=False, now=50.0)) == [("orders", 0), ("orders", 2)]
    (position,) = partitions.wanted(2, by_id=True, now=40.0).values()
    assert (position.offset, position.last_epoch, position.bytes_max) == (100, 3, 1 << 20)
    assert not partitions.all_done()
    assert not flowing.done


def test_a_topic_whose_id_is_not_known_yet_is_looked_up_before_it_is_asked_for_by_id() -> None:
    """Two such topics would stand under one key."""
    partitions = Partitions(bytes_max=1)
    unknown = fetch_state(partitions, 0, topic_id=NO_TOPIC_ID)
    assert partitions.wanted(1, by_id=True, now=0.0) == {}
    assert list(partitions.wanted(1, by_id=False, now=0.0)) == [("orders", 0)]
    assert partitions.leaderless(0.0) == [unknown]


def test_a_slot_is_never_given_to_another_partition() -> None:
    """An order that comes late must not reach its slot's next owner."""
    partitions = Partitions(bytes_max=1)
    first, second = fetch_state(partitions, 0), fetch_state(partitions, 1)
    assert [first.slot, second.slot, list(partitions.slots)] == [0, 1, [0, 1]]
    assert partitions.remove(first.partition) is first
    assert partitions.remove(first.partition) is None
    assert partitions.in_slot(0) is None
    again = fetch_state(partitions, 0)
    assert again.slot == 2
    assert partitions.in_slot(2) is partitions.get(again.partition) is again
    assert len(partitions) == 2


def test_partitions_without_a_broker_are_looked_up_unless_they_rest() -> None:
    partitions = Partitions(bytes_max=1)
    leaderless, paused, resting = (fetch_state(partitions, n) for n in range(3))
    for each in (leaderless, paused, resting):
        each.node = None
    paused.held_by_writer = True
    resting.not_before = 10.0
    assert partitions.leaderless(5.0) == [leaderless]
    assert partitions.leaderless(10.0) == [leaderless, resting]


Pause = Callable[[PartitionFetchState, bool], None]


def rest(each: PartitionFetchState, pauses: bool) -> None:
    each.not_before = inf if pauses else 0.0


PAUSES: list[Pause] = [
    lambda each, pauses: setattr(each, "held_by_writer", pauses),
    lambda each, pauses: setattr(each, "held_by_order", pauses),
    rest,
]


@pytest.mark.parametrize("pause", PAUSES)
def test_a_topic_that_may_be_another_one_since_it_was_fetched_is_looked_up_where_its_id_is_not_asked_for(
    pause: Pause,
) -> None:
    partitions = Partitions(bytes_max=1)
    each = fetch_state(partitions, 0)
    assert list(partitions.wanted(1, by_id=False, now=5.0)) == [("orders", 0)]
    pause(each, True)
    for now in (10.0, 20.0):
        assert partitions.wanted(1, by_id=False, now=now) == {}
    pause(each, False)
    assert partitions.wanted(1, by_id=False, now=20.1) == {}
    assert partitions.leaderless(20.1) == [each]
    each.node = 1
    assert list(partitions.wanted(1, by_id=False, now=20.2)) == [("orders", 0)]


@pytest.mark.parametrize(("by_id", "seconds"), [(True, 60.0), (False, 0.5)])
def test_a_topic_that_is_asked_for_by_its_id_or_was_away_for_a_moment_is_not_looked_up(
    by_id: bool, seconds: float
) -> None:
    partitions = Partitions(bytes_max=1)
    each = fetch_state(partitions, 0)
    assert partitions.wanted(1, by_id=by_id, now=5.0)
    each.held_by_writer = True
    assert not partitions.wanted(1, by_id=by_id, now=10.0)
    each.held_by_writer = False
    assert partitions.wanted(1, by_id=by_id, now=10.0 + seconds)


def test_a_partition_that_was_read_ahead_or_looked_up_meanwhile_is_not_looked_up_once_more() -> None:
    partitions = Partitions(bytes_max=1)
    chased, moved = fetch_state(partitions, 0), fetch_state(partitions, 1)
    assert len(partitions.wanted(1, by_id=False, now=5.0)) == 2
    chased.is_chased, moved.held_by_writer = True, True
    assert partitions.wanted(1, by_id=False, now=10.0) == {}
    chased.is_chased, moved.held_by_writer = False, False
    moved.node = None
    assert partitions.leaderless(20.0) == [moved]
    moved.node = 1
    assert len(partitions.wanted(1, by_id=False, now=20.0)) == 2


class Broker:
    """What a broker's fetch session knows after the requests that it got."""

    def __init__(self) -> None:
        self.session = FetchSession()
        self.known: dict[PartitionKey, FetchPosition] = {}

    def ask(self, partitions: Partitions, node: int, now: float) -> None:
        wanted = partitions.wanted(node, by_id=True, now=now)
        _, epoch, fresh, forgotten = self.session.step(wanted, partitions.take_changes(node))
        if not epoch:
            self.known.clear()
        for key in forgotten:
            del self.known[key]
        self.known.update({position[:2]: position for position in fresh})
        self.session.accept(FetchResponse(0, 0, 99, []))


def walked(partitions: Partitions, node: int, now: float) -> dict[PartitionKey, FetchPosition]:
    return {
        (each.topic_id.bytes, each.partition.partition): FetchPosition(
            each.topic_id.bytes, each.partition.partition, each.offset, each.leader_epoch, 1 << 20, each.current_epoch
        )
        for each in partitions
        if each.node == node and each.topic_id != NO_TOPIC_ID and not each.is_chased and each.may_read(now)
    }


@pytest.mark.parametrize("seed", range(8))
def test_whatever_changes_the_brokers_sessions_know_what_a_walk_over_all_partitions_would_ask(seed: int) -> None:
    """Pauses, rests that end, leaders that move, ends reached, ids found, partitions taken away and given again."""
    dice = random.Random(seed)
    partitions, brokers = Partitions(bytes_max=1 << 20), {1: Broker(), 2: Broker()}
    changes: dict[str, Callable[[], Any]] = {
        "offset": lambda: dice.randrange(100, 210),
        "node": lambda: dice.choice([1, 2, None]),
        "current_epoch": lambda: dice.randrange(-1, 3),
        "not_before": lambda: now + dice.randrange(-2, 5),
        "held_by_writer": lambda: dice.random() < 0.5,
        "held_by_order": lambda: dice.random() < 0.3,
        "is_chased": lambda: dice.random() < 0.3,
        "lineage": lambda: Lineage(dice.choice([TOPIC, TOPIC, NO_TOPIC_ID]), ((dice.randrange(3), 0),)),
    }
    for now in range(400):
        for number in dice.sample(range(12), 3):
            there = partitions.get(TopicPartition("orders", number))
            if there is None:
                fetch_state(partitions, number, end=dice.choice([None, 200]))
            elif dice.random() < 0.2:
                partitions.remove(there.partition)
            else:
                name = dice.choice(list(changes))
                setattr(there, name, changes[name]())
        if dice.random() < 0.7:
            for node, broker in brokers.items():
                broker.ask(partitions, node, now)
                assert broker.known == walked(partitions, node, now)
        assert partitions.nodes == {each.node for each in partitions} - {None}
        assert set(partitions.leaderless(now)) == {
            each for each in partitions
            if not each.done and not each.paused and each.not_before <= now
            and (each.node is None or each.topic_id == NO_TOPIC_ID)
        }  # fmt: skip


def test_one_partition_with_news_among_many_is_all_that_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = Partitions(bytes_max=1 << 20)
    many = [fetch_state(partitions, number) for number in range(1000)]
    assert len(partitions.wanted(1, by_id=True, now=0.0)) == len(partitions.take_changes(1)) == 1000
    looked_at: list[PartitionFetchState] = []
    may_read = PartitionFetchState.may_read
    monkeypatch.setattr(
        PartitionFetchState, "may_read", lambda self, now: looked_at.append(self) or may_read(self, now)
    )
    many[500].offset += 1
    assert partitions.wanted(1, by_id=True, now=1.0)[TOPIC.bytes, 500].offset == 101
    assert (partitions.take_changes(1), looked_at) == ({(TOPIC.bytes, 500)}, [many[500]])
