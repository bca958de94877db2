"""Does the target still have what the ledger says was mirrored?"""

from collections.abc import Collection, Iterable, Mapping
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.log_offsets import LogOffsets
from sparkmirror.kafka.settings import ClientSettings, client_settings
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.ledger.committed_end import CommittedEnd
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import NO_TOPIC_ID, Cluster, Position, Topic, TopicPartition
from sparkmirror.planning import starts
from sparkmirror.planning.starts import look_at_target

ONE, OTHER = UUID(int=1), UUID(int=2)
PARTITIONS = {
    name: TopicPartition(name, 0) for name in ("whole", "cut", "again", "gone", "away", "renamed", "reset", "unknown")
}


TOPICS = {"A.whole": ONE, "A.cut": ONE, "A.again": OTHER, "A.away": ONE}
ENDS = {"A.whole": 350, "A.cut": 200, "A.again": 7}


class Target:
    """Stands for the target's admin: its topics, and where they end, by leaders of epoch 4. `views` are what its
    servers say when each is asked in its turn."""

    connection = SimpleNamespace(settings=client_settings(Cluster("B", {"bootstrap.servers": "one:1,two:2"}), "test"))

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **views: ClusterView) -> None:
        self.asked: list[str] = []
        self._views = {"one": view_of(TOPICS), "two": view_of(TOPICS)} | views
        monkeypatch.setattr(starts, "look_up", self._look_up)

    def _look_up(self, settings: ClientSettings, topics: Collection[str]) -> ClusterView:
        assert "A.whole" not in topics, "nobody doubts it"
        self.asked.append(settings.bootstrap_servers[0].partition(":")[0])
        return self._views[self.asked[-1]]

    def brokers(self) -> dict[int, tuple[str, int]]:
        return {1: ("one", 1), 2: ("two", 2)}

    def list_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        return {name: Topic(name, TOPICS[name], 1, 1) for name in names if name in TOPICS}

    def latest_offsets(self, partitions: Iterable[TopicPartition]) -> LogOffsets:
        ends = {where: ENDS[where.topic] for where in partitions if where.topic in ENDS}
        return LogOffsets("B", ends, epochs=dict.fromkeys(ends, 4))


def view_of(topics: Mapping[str, UUID], epoch: int = 4) -> ClusterView:
    return ClusterView(topic_ids=topics, epochs={TopicPartition(topic, 0): epoch for topic in topics})


def judge_all(target: Target) -> list[Assigned]:
    records = {
        where: PositionRecord(Position(300), 1, 0, extent=Extent(f"A.{name}", ONE, 300))
        for name, where in PARTITIONS.items()
        if name != "unknown"
    }
    items = [Assigned(where, 0 if name == "reset" else 300) for name, where in PARTITIONS.items()]
    remote = {name: f"A.{name}" for name in PARTITIONS} | {"renamed": "B.renamed"}
    return look_at_target(cast(Admin, target), items, records, remote.__getitem__, ManualClock())


def test_only_where_the_target_was_cut_back_is_anything_found(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(monkeypatch)
    judged = judge_all(target)
    assert target.asked == ["one", "two"]
    assert [item.partition for item in judged] == list(PARTITIONS.values())
    assert {item.partition.topic for item in judged if item.extent is None} == {"renamed", "reset", "unknown"}
    assert {item.partition.topic: item.found for item in judged if item.found is not None} == {
        "cut": Extent("A.cut", ONE, 200),
        "again": Extent("A.again", OTHER, 7),
        "gone": Extent("A.gone", NO_TOPIC_ID, 0),
    }


@pytest.mark.parametrize(
    ("view", "found"),
    [
        (view_of({**TOPICS, "A.gone": ONE}), {"cut", "again"}),
        (view_of({**TOPICS, "A.again": ONE}), {"cut", "gone"}),
        (view_of(TOPICS, epoch=5), {"gone"}),
        (view_of({}, epoch=5), {"cut", "again", "gone"}),
        (view_of(TOPICS, epoch=3), {"cut", "again", "gone"}),
    ],
)
def test_no_log_is_lost_of_which_a_server_says_something_else(
    view: ClusterView, found: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that was asked first has just woken up, or is cut off: it knows no new topic and no later leader."""
    judged = judge_all(Target(monkeypatch, two=view))
    assert {item.partition.topic for item in judged if item.found is not None} == found


def test_what_was_committed_is_known_where_the_position_still_counts_for_that_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another program may have committed more behind a position of ours that Connect's has left."""
    end = CommittedEnd(7, 3, 9)
    records = {
        where: PositionRecord(Position(300), 1, 0, extent=Extent(f"A.{name}", ONE, 300), committed_end=end)
        for name, where in PARTITIONS.items()
    }
    first, second = PARTITIONS["whole"], PARTITIONS["cut"]
    records[second] = PositionRecord(Position(300), 1, 0, committed_end=end)
    items = [Assigned(where, 0 if name == "reset" else 300) for name, where in PARTITIONS.items()]
    remote = {name: f"A.{name}" for name in PARTITIONS} | {"renamed": "B.renamed"}
    judged = {
        item.partition: item.committed_end
        for item in look_at_target(cast(Admin, Target(monkeypatch)), items, records, remote.__getitem__, ManualClock())
    }
    assert (judged[first], judged[second]) == (end, end), "with an extent, or before it is known"
    assert {where.topic for where, found in judged.items() if found is None} == {"renamed", "reset"}
