"""What a task reads, by name, by slot and by broker."""

from uuid import UUID

from sparkmirror.model import NO_TOPIC_ID, TopicPartition
from sparkmirror.source.partitions import Partitions, Reading
from sparkmirror.source.plan import Assigned

TOPIC = UUID(int=7)


def reading(partitions: Partitions, number: int, *, topic_id: UUID = TOPIC, end: int | None = None) -> Reading:
    return partitions.add(Assigned(TopicPartition("orders", number), 100, 3, topic_id, end), node=1)


def test_a_broker_is_asked_for_what_it_leads_and_what_moves() -> None:
    partitions = Partitions(bytes_max=1 << 20)
    flowing, paused, resting, done, elsewhere = (reading(partitions, n, end=200) for n in range(5))
    paused.held_by_writer = True
    resting.not_before = 50.0
    done.offset = 200
    elsewhere.node = 2
    assert list(partitions.wanted(1, by_id=True, now=40.0)) == [(TOPIC, 0)]
    assert list(partitions.wanted(1, by_id=False, now=50.0)) == [("orders", 0), ("orders", 2)]
    (position,) = partitions.wanted(2, by_id=True, now=40.0).values()
    assert (position.offset, position.last_epoch, position.bytes_max) == (100, 3, 1 << 20)
    assert not partitions.all_done()
    assert not flowing.done


def test_a_topic_whose_id_is_not_known_yet_is_looked_up_before_it_is_asked_for_by_id() -> None:
    """Two such topics would stand under one key."""
    partitions = Partitions(bytes_max=1)
    unknown = reading(partitions, 0, topic_id=NO_TOPIC_ID)
    assert partitions.wanted(1, by_id=True, now=0.0) == {}
    assert list(partitions.wanted(1, by_id=False, now=0.0)) == [("orders", 0)]
    assert partitions.homeless(0.0) == [unknown]


def test_a_slot_is_never_given_to_another_partition() -> None:
    """An order that comes late must not reach its slot's next owner."""
    partitions = Partitions(bytes_max=1)
    first, second = reading(partitions, 0), reading(partitions, 1)
    assert [first.slot, second.slot, list(partitions.slots)] == [0, 1, [0, 1]]
    assert partitions.remove(first.partition) is first
    assert partitions.remove(first.partition) is None
    assert partitions.in_slot(0) is None
    again = reading(partitions, 0)
    assert again.slot == 2
    assert partitions.in_slot(2) is partitions.get(again.partition) is again
    assert len(partitions) == 2


def test_partitions_without_a_broker_are_looked_up_unless_they_rest() -> None:
    partitions = Partitions(bytes_max=1)
    homeless, paused, resting = (reading(partitions, n) for n in range(3))
    for each in (homeless, paused, resting):
        each.node = None
    paused.held_by_writer = True
    resting.not_before = 10.0
    assert partitions.homeless(5.0) == [homeless]
    assert partitions.homeless(10.0) == [homeless, resting]
