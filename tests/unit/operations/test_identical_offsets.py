"""In which partitions offsets are said to be identical: where that is known, and nowhere else."""

from collections.abc import Collection, Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.flows import flow_of

from sparkmirror.cli.procedure import render_readiness
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import NO_TOPIC_ID, Position, Topic, TopicPartition
from sparkmirror.operations import cluster_pair
from sparkmirror.operations.failover import Readiness
from sparkmirror.operations.identical_offsets import Identical, judge_identical
from sparkmirror.stored_json import encode
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.records import encode_key
from sparkmirror.views.table import page_lines

FLOW = flow_of("preserve.offsets.enabled = true", "preserve.offsets.topics = orders")
FIRST, SECOND = (TopicPartition("orders", number) for number in range(2))
HERE, DELETED = UUID(int=1), UUID(int=2)
THERE = {"A.orders": Topic("A.orders", HERE, 2, 1)}


def stored(topic_id: UUID | None = HERE, *, is_aligned: bool = True) -> PositionRecord:
    extent = None if topic_id is None else Extent("A.orders", topic_id, 300)
    return PositionRecord(Position(300), 1, 0, extent=extent, is_aligned=is_aligned)


def board_of(*reports: Mapping[str, Any]) -> StatusBoard:
    board = StatusBoard("A")
    board.take(encode_key("task", "A", 0), encode({"run": "r", "epoch": 1}), 5)
    for number, report in enumerate(reports):
        told = {"run": "r", "task": 0, "epoch": 1, "offset": 300, **report}
        board.take(encode_key("partition", "A", "orders", number), encode(told), 5)
    return board


def judged(second: PositionRecord, topics: Mapping[str, Topic] = THERE, board: StatusBoard | None = None) -> Identical:
    return judge_identical(FLOW, {FIRST: stored(), SECOND: second}, topics, board or board_of({}, {}))


def test_a_partition_that_a_foreign_record_has_made_failed_is_not_counted() -> None:
    board = board_of({}, {"state": "FAILED", "reason": "somebody else has written to the topic"})
    found = judged(stored(), board=board)
    assert (found.partitions, dict(found.unknown)) == ({FIRST}, {})
    assert [found.of(where) for where in (FIRST, SECOND)] == [True, False]
    again = {"run": "s", "task": 0, "epoch": 1, "offset": 300}
    board.take(encode_key("task", "A", 0), encode({"run": "s", "epoch": 1}), 6)
    board.take(encode_key("partition", "A", "orders", 1), encode(again), 6)
    assert judged(stored(), board=board).partitions == {FIRST}, "a new run has not moved it yet"


def test_a_position_in_a_log_of_the_target_that_was_deleted_is_not_counted() -> None:
    assert judged(stored(DELETED)) == Identical(frozenset({FIRST}))
    assert judged(stored(), topics={}) == Identical(), "the topic is there no more"


def test_a_position_that_was_reached_otherwise_and_topics_of_others_are_not_counted() -> None:
    other = {TopicPartition("audit", 0): stored()}
    topics = {**THERE, "A.audit": Topic("A.audit", HERE, 1, 1)}
    assert judged(stored(is_aligned=False)).partitions == {FIRST}
    assert judge_identical(FLOW, other, topics, board_of({})) == Identical()


def test_what_nobody_has_reported_is_unknown() -> None:
    found = judged(stored(), board=board_of({}))
    assert (found.partitions, found.of(SECOND)) == ({FIRST}, None)
    assert "no task has reported" in found.unknown[SECOND]
    silent = judge_identical(FLOW, {FIRST: stored(), SECOND: stored(DELETED)}, THERE, None)
    assert [silent.of(where) for where in (FIRST, SECOND)] == [None, False], (
        "of a deleted log that is known all the same"
    )


def test_a_position_that_does_not_tell_its_log_is_unknown() -> None:
    for unclear in (stored(None), stored(NO_TOPIC_ID)):
        assert "in which log" in judged(unclear).unknown[SECOND]
    known = {"A.orders": Topic("A.orders", NO_TOPIC_ID, 2, 1)}
    assert judged(stored(), topics=known).unknown.keys() == {FIRST, SECOND}


def test_a_failover_promises_nothing_to_programs_where_offsets_are_not_known_to_be_identical() -> None:
    def said(identical: Identical) -> str:
        return "\n".join(page_lines(render_readiness(Readiness(FLOW.name, True, (), (), identical=identical))))

    text = said(Identical(frozenset({FIRST}), {SECOND: "nobody knows"}))
    assert "offsets are identical in 1 partition (of 1 it is not known): programs that keep their own go on" in text
    text = said(Identical(frozenset(), {SECOND: "nobody knows"}))
    assert "offsets are identical in 0 partitions (of 1 it is not known)" in text and "programs" not in text
    assert "identical" not in said(Identical())
    found = Readiness(FLOW.name, True, (), (), identical=Identical(frozenset({FIRST}), {SECOND: "nobody knows"}))
    assert (found.as_json()["identical_offsets"], found.as_json()["identical_offsets_unknown"]) == (1, 1)


@pytest.mark.parametrize(
    ("record", "topics", "mirrored"),
    [
        (stored(), THERE, 300),
        (stored(DELETED), THERE, None),
        (stored(), {}, None),
        (stored(None), THERE, 300),
        (stored(DELETED, is_aligned=False), THERE, 300),
    ],
)
def test_of_a_topic_that_the_target_has_not_any_more_nothing_is_mirrored(
    monkeypatch: pytest.MonkeyPatch, record: PositionRecord, topics: Mapping[str, Topic], mirrored: int | None
) -> None:
    """A drain or a plan of a failover would take the new, empty log for the one that was mirrored."""
    view = SimpleNamespace(records={FIRST: record}, positions={FIRST: record.position})
    monkeypatch.setattr(cluster_pair, "_read_ledger", lambda _: view)
    monkeypatch.setattr(cluster_pair, "open_admin", lambda *_: nullcontext(_Topics(topics)))
    found = cluster_pair.mirrored_offsets(FLOW, _Topics({}))  # type: ignore[arg-type]
    assert found.get(FIRST) == mirrored


class _Topics:
    def __init__(self, topics: Mapping[str, Topic]) -> None:
        self._topics = topics

    def list_topics(self, names: Collection[str]) -> dict[str, Topic]:
        return {name: topic for name, topic in self._topics.items() if name in names}
