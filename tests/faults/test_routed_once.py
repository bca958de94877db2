"""With exactly-once, the records of one range go to several partitions and topics, and all of them come once, or none.

One task's sending end on real brokers, without Spark (`routed_task`). Where a record goes is decided again each time it
is read, as a transform with `rand()` does: what is left of an aborted attempt would show as a repetition.
"""

import random
from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.faults.numbered import create_topic
from tests.faults.one_task import Mirrored
from tests.faults.routed_task import Route, RoutedTask, assert_once
from tests.faults.test_refused_positions import allow_all, forbid_writing, guarded_flow
from tests.scenarios.data import alter_topic

from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.fencing import init_producer_ids, transactional_id
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce import range_admission
from sparkmirror.testing.kafka import KafkaCluster

__all__ = ["guarded_flow"]

BEFORE, AFTER, MUCH = 100, 400, 20_000
TAKE_OVERS = 4


@pytest.fixture(params=["target_cluster", pytest.param("first_protocol_target", marks=pytest.mark.long)])
def flow(request: pytest.FixtureRequest, unique: Callable[[str], str]) -> Mirrored:
    cluster: KafkaCluster = request.getfixturevalue(request.param)
    flow = Mirrored(cluster.bootstrap_servers, unique("A"), unique("numbers"))
    flow.create()
    return flow


def _anywhere(flow: Mirrored, other: str) -> Route:
    """Home, or to one of two partitions of the other topic; every seventh is dropped."""

    def route(source: TopicPartition, number: int) -> TopicPartition | None:
        if number % 7 == 0:
            return None
        home = TopicPartition(flow.remote, source.partition)
        return random.choice([home, TopicPartition(other, 0), TopicPartition(other, 1)])

    return route


def _of_partition_0(flow: Mirrored, other: str) -> Route:
    """From BEFORE on, every second record of partition 0 goes to the other topic, all else home."""

    def route(source: TopicPartition, number: int) -> TopicPartition:
        is_other = source.partition == 0 and number >= BEFORE and number % 2
        return TopicPartition(other if is_other else flow.remote, source.partition)

    return route


def _task(flow: Mirrored, route: Route) -> RoutedTask:
    """A task that takes over from the one before, as a planner has it: fenced first, then the positions are read."""
    with open_admin(flow.target, "test") as admin:
        init_producer_ids(admin, [transactional_id(flow.connector, number) for number in (0, 1)])
    task = RoutedTask(flow, exactly_once=True, starts=flow.positions())
    task.route = route
    return task


def test_tasks_that_take_over_in_mid_transaction_repeat_and_lose_nothing(
    flow: Mirrored, unique: Callable[[str], str]
) -> None:
    other = unique("other")
    create_topic(flow.servers, other, 2)
    route = _anywhere(flow, other)
    former: list[RoutedTask] = []
    for _ in range(TAKE_OVERS):
        task = _task(flow, route)
        former.append(task)
        task.sender.start()
        begin = sum(flow.positions())
        task.give(MUCH, MUCH)
        task.wait_until(lambda begin=begin: sum(flow.positions()) > begin, "some is committed")
        task.read_for(random.uniform(0.0, 0.5))
    with _task(flow, route) as last:
        for one in former:
            with suppress(AssertionError):  # it is fenced
                one.read_for(0.2)
        ends = [max(place) for place in zip(*(one.places() for one in (*former, last)), strict=True)]
        last.give(*ends)
        last.wait_for_ledger(*ends)
        for one in former:
            with suppress(SparkMirrorError):  # it was fenced
                one.__exit__(None, None, None)
    assert_once(flow, [flow.remote, other], ends, dropped=range(0, MUCH, 7))


def test_a_partition_some_of_whose_records_go_to_a_topic_that_is_missing_fails_alone(
    flow: Mirrored, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_admission, "UNREACHED_SECONDS_MAX", 2.0)
    other = unique("missing")
    with _task(flow, _of_partition_0(flow, other)) as task:
        task.give(AFTER, AFTER)
        why = f"its records for {other}-0 wait: {range_admission.AWAY}"
        task.wait_until(lambda: task.failed == {f"{flow.topic}-0": why}, "the partition alone is FAILED")
        task.wait_for_ledger(BEFORE, AFTER)
        create_topic(flow.servers, other, 2)
        task.wait_for_ledger(AFTER, AFTER)
        task.wait_until(lambda: not task.failed, "nothing is FAILED any more")
    assert_once(flow, [flow.remote, other], [AFTER, AFTER])


def _task_with_narrow_topic(flow: Mirrored, other: str) -> tuple[RoutedTask, str]:
    """A task of which a topic of two partitions gets some records, and takes batches of 200 bytes."""
    create_topic(flow.servers, other, 2)
    alter_topic({"bootstrap.servers": flow.servers}, other, {"max.message.bytes": "200"})
    return _task(flow, _of_partition_0(flow, other)), other


def test_a_partition_some_of_whose_records_are_refused_fails_and_none_of_the_range_is_committed(
    flow: Mirrored, unique: Callable[[str], str]
) -> None:
    task, other = _task_with_narrow_topic(flow, unique("small"))
    task.filler_bytes = 300  # each record alone is too large: what is too large together is sent apart
    with task:
        task.give(AFTER, AFTER)
        task.wait_until(lambda: f"{flow.topic}-0" in task.failed, "the partition is FAILED")
        assert "max.message.bytes" in task.failed[f"{flow.topic}-0"]
        task.wait_for_ledger(BEFORE, AFTER)
        assert_once(flow, [flow.remote], [BEFORE, AFTER])
        alter_topic({"bootstrap.servers": flow.servers}, other, {"max.message.bytes": None})
        task.wait_for_ledger(AFTER, AFTER)
        task.wait_until(lambda: not task.failed, "nothing is FAILED any more")
    assert_once(flow, [flow.remote, other], [AFTER, AFTER])


@pytest.mark.long
def test_records_that_are_too_large_together_are_sent_apart_and_once(
    flow: Mirrored, unique: Callable[[str], str]
) -> None:
    task, other = _task_with_narrow_topic(flow, unique("narrow"))
    task.filler_bytes = 100
    with task:
        task.give(AFTER, AFTER)
        task.wait_for_ledger(AFTER, AFTER)
        assert task.failed == {}
    assert_once(flow, [flow.remote, other], [AFTER, AFTER])


@pytest.mark.long
def test_a_partition_some_of_whose_records_may_not_be_written_fails_alone(
    guarded_flow: Mirrored, unique: Callable[[str], str]
) -> None:
    flow, other = guarded_flow, unique("forbidden")
    create_topic(flow.servers, other, 2)
    forbid_writing(flow, other)
    with _task(flow, _of_partition_0(flow, other)) as task:
        task.give(AFTER, AFTER)
        task.wait_until(lambda: f"{flow.topic}-0" in task.failed, "the partition is FAILED")
        assert "uthorization" in task.failed[f"{flow.topic}-0"].replace("AUTHORIZATION", "Authorization")
        task.wait_for_ledger(BEFORE, AFTER)
        allow_all(flow, other)
        task.wait_for_ledger(AFTER, AFTER)
    assert_once(flow, [flow.remote, other], [AFTER, AFTER])
