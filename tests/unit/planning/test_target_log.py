"""Does the target still have what the ledger says was mirrored?"""

from collections.abc import Iterable
from uuid import UUID

from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.log_offsets import LogOffsets
from sparkmirror.ledger.committed_end import CommittedEnd
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import NO_TOPIC_ID, Position, Topic, TopicPartition
from sparkmirror.planning.starts import look_at_target

ONE, OTHER = UUID(int=1), UUID(int=2)
PARTITIONS = {
    name: TopicPartition(name, 0) for name in ("whole", "cut", "again", "gone", "away", "renamed", "reset", "unknown")
}


TOPICS = {"A.whole": ONE, "A.cut": ONE, "A.again": OTHER, "A.away": ONE}
ENDS = {"A.whole": 350, "A.cut": 200, "A.again": 7}


class Target:
    """Stands for the target's admin: its topics, and where they end."""

    def list_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        return {name: Topic(name, TOPICS[name], 1, 1) for name in names if name in TOPICS}

    def latest_offsets(self, partitions: Iterable[TopicPartition]) -> LogOffsets:
        return LogOffsets("B", {where: ENDS[where.topic] for where in partitions if where.topic in ENDS})


def test_only_where_the_target_was_cut_back_is_anything_found() -> None:
    records = {
        where: PositionRecord(Position(300), 1, 0, extent=Extent(f"A.{name}", ONE, 300))
        for name, where in PARTITIONS.items()
        if name != "unknown"
    }
    items = [Assigned(where, 0 if name == "reset" else 300) for name, where in PARTITIONS.items()]
    remote = {name: f"A.{name}" for name in PARTITIONS} | {"renamed": "B.renamed"}
    judged = look_at_target(Target(), items, records, remote.__getitem__)  # type: ignore[arg-type]
    assert [item.partition for item in judged] == list(PARTITIONS.values())
    assert {item.partition.topic for item in judged if item.extent is None} == {"renamed", "reset", "unknown"}
    assert {item.partition.topic: item.found for item in judged if item.found is not None} == {
        "cut": Extent("A.cut", ONE, 200),
        "again": Extent("A.again", OTHER, 7),
        "gone": Extent("A.gone", NO_TOPIC_ID, 0),
    }


def test_what_was_committed_is_known_where_the_position_still_counts_for_that_topic() -> None:
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
        for item in look_at_target(Target(), items, records, remote.__getitem__)  # type: ignore[arg-type]
    }
    assert (judged[first], judged[second]) == (end, end), "with an extent, or before it is known"
    assert {where.topic for where, found in judged.items() if found is None} == {"renamed", "reset"}
