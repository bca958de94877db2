"""Where a group would go on by its checkpoints: in all logs that are chosen, or it is said which are not known."""

from collections.abc import Collection
from contextlib import nullcontext
from types import SimpleNamespace
from uuid import UUID

import pytest
from tests.flows import flow_of

from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.log_offsets import LogOffsets, OffsetsUnknown
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.model import Topic, TopicPartition
from sparkmirror.operations import translation
from sparkmirror.operations.translation import group_checkpoints

ORDERS, BILLS = TopicPartition("A.orders", 0), TopicPartition("A.bills", 0)
SILENT = "its leader, broker 2 (b2:9092), does not answer"


class Target:
    """One leader is away for a moment."""

    def latest_offsets(self, partitions: Collection[TopicPartition]) -> LogOffsets:
        known = {ORDERS: 100} if ORDERS in partitions else {}
        return LogOffsets("B", known, {BILLS: SILENT} if BILLS in partitions else {})

    def await_latest_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self.latest_offsets(partitions).all()

    def list_topics(self, names: Collection[str]) -> dict[str, Topic]:
        return {name: Topic(name, UUID(int=1), 1, 1) for name in names}


def test_no_partition_is_left_as_it_is_since_its_leader_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = {("g", where): Checkpoint("g", where, 40, 40, "note") for where in (ORDERS, BILLS)}
    state = SimpleNamespace(
        follow=set,
        checkpoints=checkpoints,
        sources=dict,
        now=lambda one, _, logs: one.downstream if one.partition in logs else None,
    )
    monkeypatch.setattr(translation, "open_admin", lambda *_: nullcontext(Target()))
    monkeypatch.setattr(translation, "OffsetState", lambda *_: nullcontext(state))
    with pytest.raises(OffsetsUnknown, match=r"Cluster B does not tell the offsets of A\.bills-0"):
        group_checkpoints(flow_of(), "g")
    assert group_checkpoints(flow_of(), "g", r"A\.orders") == {ORDERS: Committed(40, "note")}
    assert group_checkpoints(flow_of(), "another") == {}
