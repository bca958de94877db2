"""Positions that a person may set, and those that nobody sets since offsets are kept."""

from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest
from tests.flows import flow_of

from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.ledger.positions import Accepted, accepted_key, encode_accepted
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Topic, TopicPartition
from sparkmirror.operations.position_snapshot import Stored, refuse_kept

KEPT, OTHER = TopicPartition("orders", 0), TopicPartition("bills", 0)
THERE = UUID(int=2)
FLOW = flow_of(
    "preserve.offsets.enabled = true", "preserve.offsets.topics = orders", "A.consumer.isolation.level = read_committed"
)


def stored(topic_id: UUID) -> Stored:
    """A person has accepted for the topic `THERE` that the logs part; the target has one of `topic_id`."""
    view = LedgerView(FLOW.connector)
    view.take_ours(accepted_key("A", KEPT), encode_accepted(Accepted(7, THERE)))
    target = SimpleNamespace(list_topics=lambda names: {name: Topic(name, topic_id, 1, 1) for name in names})
    return Stored.read(FLOW, cast(Admin, target), view)


def test_a_position_of_a_topic_that_keeps_its_offsets_is_refused_with_what_to_do() -> None:
    with pytest.raises(SparkMirrorError, match="offsets are kept in orders-0, so each goes on at the end") as refused:
        refuse_kept(FLOW, Stored({}, {}), [OTHER, KEPT])
    assert "delete the topic on the target" in refused.value.hint


def test_others_may_be_set_and_those_whose_logs_part() -> None:
    refuse_kept(FLOW, Stored({}, {}), [OTHER])
    refuse_kept(FLOW, stored(THERE), [KEPT])
    with pytest.raises(SparkMirrorError, match="orders-0"):
        refuse_kept(FLOW, stored(UUID(int=3)), [KEPT])
