"""Where a group is set to: within the log, and only what moves is committed."""

import pytest
from tests.unit.kafka.test_passing import LOADING, Brokers, groups

from sparkmirror.kafka.errors import RequestRefused
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.groups import GroupIsActive
from sparkmirror.model import TopicPartition
from sparkmirror.operations.offset_reset import Move, plan_reset, refuse_active

ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
STARTS, ENDS = {ORDERS: 100, OTHER: 0}, {ORDERS: 300, OTHER: 50}


def test_a_group_goes_back_forward_or_stays() -> None:
    committed = {ORDERS: Committed(250, "note"), OTHER: Committed(20)}
    plan = plan_reset(committed, {ORDERS: 120, OTHER: 30}, STARTS, ENDS)
    assert [move.effect for move in plan.moves] == ["130 again", "10 skipped"]
    assert plan.commits == {ORDERS: Committed(120), OTHER: Committed(30)}
    assert plan.warnings == ()

    plan = plan_reset(committed, {ORDERS: 250}, STARTS, ENDS)
    assert [move.effect for move in plan.moves] == ["as it is"]
    assert plan.commits == {}


def test_a_partition_without_an_offset_gets_one() -> None:
    plan = plan_reset({}, {OTHER: 0}, STARTS, ENDS)
    assert plan.moves == (Move(OTHER, None, 0),)
    assert plan.commits == {OTHER: Committed(0)}
    assert plan.moves[0].as_json() == {
        "topic": "orders", "partition": 1, "before": None, "after": 0, "effect": "set"
    }  # fmt: skip


def test_an_offset_outside_of_the_log_becomes_its_nearer_end_and_is_reported() -> None:
    plan = plan_reset({}, {ORDERS: 5, OTHER: 70}, STARTS, ENDS)
    assert plan.commits == {ORDERS: Committed(100), OTHER: Committed(50)}
    assert ["its start, 100" in plan.warnings[0], "its end, 50" in plan.warnings[1]] == [True, True]


def test_a_partition_that_is_gone_is_left_out_and_named() -> None:
    gone = TopicPartition("deleted", 0)
    plan = plan_reset({gone: Committed(7)}, {gone: 3, OTHER: 1}, STARTS, ENDS)
    assert [move.partition for move in plan.moves] == [OTHER]
    assert str(gone) in plan.warnings[0]


def test_a_group_whose_coordinator_is_loading_is_not_taken_for_one_without_members() -> None:
    brokers = Brokers(groups(0), [*[groups(LOADING)] * 9, groups(0, "billing")])
    with pytest.raises(GroupIsActive, match="Group billing on A has members"):
        refuse_active(brokers, "billing")  # type: ignore[arg-type]
    assert brokers.pauses == 9
    brokers = Brokers(groups(0), [groups(LOADING)], patience_seconds=0.0)
    with pytest.raises(RequestRefused, match="does not list the groups that it coordinates"):
        refuse_active(brokers, "billing")  # type: ignore[arg-type]
