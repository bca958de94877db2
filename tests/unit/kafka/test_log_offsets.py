"""Where logs begin and end: what a leader does not tell is said, with the reason."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.consumer import ListOffsetsRequest

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import LATEST
from sparkmirror.kafka.log_offsets import LogOffsets, OffsetsUnknown, list_log_offsets
from sparkmirror.model import NO_TOPIC_ID, TopicPartition

NONE = -1
NOT_LEADER, FORBIDDEN = 6, 29
FIRST, SECOND, THIRD = (TopicPartition("orders", number) for number in range(3))
GONE = TopicPartition("gone", 0)


class Brokers:
    """Partition n of `orders` is led by `leaders[n]`; those of `silent` do not answer, others with code and offset."""

    alias = "A"

    def __init__(self, leaders: Sequence[int], answers: Mapping[int, tuple[int, int]], silent: set[int]) -> None:
        self.leaders, self.answers, self.silent = list(leaders), answers, silent
        self.asked: list[int] = []
        self.pauses = 0
        self.at_pause: Callable[[], None] = lambda: None

    def describe(self, names: list[str]) -> Any:
        partitions = [
            SimpleNamespace(partition_index=number, leader_id=leader, leader_epoch=7, replica_nodes=[3, 5])
            for number, leader in enumerate(self.leaders)
        ]
        topics = [
            SimpleNamespace(name=name, error_code=0 if name == "orders" else 3, partitions=partitions) for name in names
        ]
        return SimpleNamespace(topics=topics, brokers=[SimpleNamespace(node_id=3, host="c", port=9092)])

    def ask(self, make: Callable[[], Any], _doing: str, node_id: int, _seconds: float) -> Any:
        self.asked.append(node_id)
        if node_id in self.silent:
            raise ClusterUnreachable("nothing came")
        (topic,) = make().topics
        assert {one.current_leader_epoch for one in topic.partitions} == {7}, "a former leader would refuse that"
        found = [(one.partition_index, *self.answers[one.partition_index]) for one in topic.partitions]
        results = [
            SimpleNamespace(partition_index=at, error_code=code, offset=end, leader_epoch=at - 1)
            for at, code, end in found
        ]
        return SimpleNamespace(topics=[SimpleNamespace(name=topic.name, partitions=results)])

    def wait(self, _seconds: float) -> bool:
        self.pauses += 1
        self.at_pause()
        return False

    def ends(self, *partitions: TopicPartition, seconds_max: float = 0.0) -> LogOffsets:
        wanted = dict.fromkeys(partitions, LATEST)
        return list_log_offsets(
            self,  # type: ignore[arg-type]
            self.describe,
            wanted,
            read_committed=False,
            seconds_max=seconds_max,
        )


def test_each_partition_is_known_or_unknown_with_the_reason_or_does_not_exist() -> None:
    brokers = Brokers([1, 3, NONE], {0: (0, 40)}, silent={3})
    found = brokers.ends(FIRST, SECOND, THIRD, GONE, TopicPartition("orders", 9))
    assert found.known == {FIRST: 40}
    leaderless = "it has no leader; its replicas are on broker 3, 5"
    silent = "its leader, broker 3 (c:9092), does not answer"
    assert found.unknown == {SECOND: silent, THIRD: leaderless}
    with pytest.raises(OffsetsUnknown) as told:
        found.all()
    named = f"orders-1 ({silent}); orders-2 ({leaderless})"
    assert f"Cluster A does not tell the offsets of {named}." in str(told.value)
    assert brokers.ends(FIRST, GONE).all() == {FIRST: 40}
    with pytest.raises(OffsetsUnknown, match="no partition gone-0"):
        brokers.ends(GONE).of(GONE)


def test_the_leader_that_takes_a_silent_ones_place_is_asked() -> None:
    brokers = Brokers([3, 3, 1], {0: (0, 40), 1: (0, 7), 2: (0, 0)}, silent={3})

    def elect() -> None:
        brokers.leaders[:2] = [1, 1]

    brokers.at_pause = elect
    assert brokers.ends(FIRST, SECOND, THIRD, seconds_max=60).all() == {FIRST: 40, SECOND: 7, THIRD: 0}
    assert brokers.asked.count(3) == 1, "once for all that it leads"


def test_what_is_refused_for_good_is_not_asked_again() -> None:
    brokers = Brokers([1, 1], {0: (FORBIDDEN, NONE), 1: (0, 5)}, silent=set())
    found = brokers.ends(FIRST, SECOND, seconds_max=60)
    assert found.unknown == {FIRST: "the answer is TOPIC_AUTHORIZATION_FAILED"}
    assert (found.known, brokers.pauses) == ({SECOND: 5}, 0)


def test_a_former_leader_is_not_believed() -> None:
    answers = {0: (NOT_LEADER, NONE)}
    brokers = Brokers([1], answers, silent=set())
    brokers.at_pause = lambda: answers.update({0: (0, 12)})
    assert brokers.ends(FIRST, seconds_max=60).all() == {FIRST: 12}
    assert brokers.pauses == 1


class Divided:
    """A connection to a cluster from which broker 1 is cut off. It still leads `orders-0`, by epoch 4, with a log that
    ends at 70; brokers 2 and 3 know that 2 leads by epoch 5, with a log that ends at 90. Any broker is broker 1."""

    alias = "B"

    def __init__(self, topic_id: UUID, away: set[int]) -> None:
        self.topic_id = topic_id
        self.away = away

    def ask(
        self, make: Callable[[], Any], _doing: str, node_id: int | None = None, _seconds: float | None = None
    ) -> Any:
        number = node_id or 1
        if number in self.away:
            raise ClusterUnreachable("nothing came")
        return self._end(number) if isinstance(make(), ListOffsetsRequest) else self._metadata(number)

    def _metadata(self, number: int) -> Any:
        leader, epoch = (1, 4) if number == 1 else (2, 5)
        partition = SimpleNamespace(partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2, 3])
        topic = SimpleNamespace(name="orders", error_code=0, topic_id=self.topic_id, partitions=[partition])
        brokers = [SimpleNamespace(node_id=one, host=f"b{one}", port=9092) for one in (1, 2, 3)]
        return SimpleNamespace(topics=[topic], brokers=brokers)

    def _end(self, number: int) -> Any:
        result = SimpleNamespace(partition_index=0, error_code=0, offset=70 if number == 1 else 90, leader_epoch=None)
        return SimpleNamespace(topics=[SimpleNamespace(name="orders", partitions=[result])])

    def wait(self, _seconds: float) -> bool:
        return True


@pytest.mark.parametrize(
    ("topic_id", "away", "end"),
    [(UUID(int=1), set(), 90), (UUID(int=1), {3}, 90), (UUID(int=1), {2, 3}, 70), (NO_TOPIC_ID, set(), 70)],
    ids=["all answer", "two answer", "one answers", "without ids"],
)
def test_the_end_is_that_of_the_newest_leader_that_brokers_know(topic_id: UUID, away: set[int], end: int) -> None:
    connection: Any = Divided(topic_id, away)
    for _ in range(4):
        assert Admin(connection).newest_ends([FIRST]).all() == {FIRST: end}
    assert Admin(connection).latest_offsets([FIRST]).all() == {FIRST: 70}, "what one of them says"


def test_where_the_newest_leader_is_away_the_end_is_not_known() -> None:
    class Silent(Divided):
        def _end(self, number: int) -> Any:
            if number == 2:
                raise ClusterUnreachable("nothing came")
            return super()._end(number)

    connection: Any = Silent(UUID(int=1), set())
    with pytest.raises(OffsetsUnknown, match="its leader, broker 2"):
        Admin(connection).newest_ends([FIRST]).all()


class Grown(Divided):
    """Broker 1 slept while `orders` grew and `late` was made; of `gone` it does not know that it was deleted."""

    def ask(
        self, make: Callable[[], Any], _doing: str, node_id: int | None = None, _seconds: float | None = None
    ) -> Any:
        request = make()
        if not isinstance(request, ListOffsetsRequest):
            return self._of(node_id or 1, [topic.name for topic in request.topics])
        asked = [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
        end = {"error_code": 0, "offset": 7, "leader_epoch": None}
        ends = [(name, SimpleNamespace(partition_index=at, **end)) for name, at in asked]
        return SimpleNamespace(topics=[SimpleNamespace(name=name, partitions=[one]) for name, one in ends])

    def _of(self, number: int, names: list[str]) -> Any:
        sizes = {"orders": 1, "gone": 1} if number == 1 else {"orders": 3, "late": 2}
        topics = [
            SimpleNamespace(
                name=name, error_code=0 if name in sizes else 3, topic_id=self.topic_id, is_internal=False,
                partitions=[self._partition(at) for at in range(sizes.get(name, 0))],
            )
            for name in names
        ]  # fmt: skip
        return SimpleNamespace(topics=topics, brokers=self._metadata(number).brokers)

    @staticmethod
    def _partition(at: int) -> Any:
        return SimpleNamespace(partition_index=at, replica_nodes=[1], leader_id=2, leader_epoch=5)


def test_a_topic_is_known_where_any_of_the_brokers_knows_it() -> None:
    connection: Any = Grown(UUID(int=1), set())
    admin = Admin(connection)
    sizes = {name: topic.partitions for name, topic in admin.list_known_topics(["orders", "late", "gone"]).items()}
    assert sizes == {"orders": 3, "late": 2, "gone": 1}
    assert "late" not in admin.list_topics(["late"]), "what one of them says"


def test_ends_are_those_of_all_partitions_that_most_brokers_know() -> None:
    connection: Any = Grown(UUID(int=1), set())
    late, gone = TopicPartition("late", 1), TopicPartition("gone", 0)
    found = Admin(connection).newest_ends([FIRST, THIRD, late, TopicPartition("never", 0)])
    assert found.all() == {FIRST: 7, THIRD: 7, late: 7}
    assert gone in Admin(connection).newest_ends([gone]).known, "where the first one shows it, its leader decides"
