"""A task of a transactional write on three brokers: answers are lost, a second attempt comes, the topic is made again.

Attempts run without Spark (`task_attempt`), and librdkafka compares every record. `test_struck_transactions` kills and
freezes the brokers too.
"""

from collections.abc import Callable, Iterator

import pytest
from tests.faults.numbered import create_topic
from tests.faults.struck_requests import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    OFFSET_FETCH,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    StruckCluster,
)
from tests.faults.task_attempt import PARTITIONS, Sleeper, Task, assert_once
from tests.tampering import replace_topic

from sparkmirror.errors import ClusterError
from sparkmirror.records.task_transaction import TaskOfWrite, check_empty

STEPS = {
    "beginning": INIT_PRODUCER_ID,
    "reading the mark": OFFSET_FETCH,
    "adding partitions": ADD_PARTITIONS,
    "writing": PRODUCE,
    "adding the group": ADD_OFFSETS,
    "writing the mark": TXN_OFFSET_COMMIT,
    "committing": END_TXN,
}
"""Requests of an attempt, in their order."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[StruckCluster]:
    with StruckCluster(3, "struck") as found:
        yield found


@pytest.fixture
def task(cluster: StruckCluster, unique: Callable[[str], str]) -> Task:
    topic = unique("struck")
    create_topic(cluster.bootstrap_servers, topic, PARTITIONS, replicas=3)
    return Task(cluster.servers, topic, f"{topic}-id")


@pytest.mark.parametrize("step", STEPS)
def test_an_answer_that_is_lost_costs_nothing(cluster: StruckCluster, task: Task, step: str) -> None:
    cluster.strikes.at(STEPS[step], has_acted=True)
    assert task.attempt()
    cluster.strikes.assert_done()
    assert not task.attempt(), "it is known what is committed"
    assert task.attempt(1)
    assert_once(cluster.bootstrap_servers, task.topic, (0, 1))


@pytest.mark.parametrize("step", ["writing", "committing"])
def test_an_attempt_whose_answer_is_lost_while_another_process_makes_one_writes_nothing_twice(
    cluster: StruckCluster, task: Task, step: str
) -> None:
    ended: list[int] = []
    cluster.strikes.at(STEPS[step], lambda _: ended.append(task.as_process().wait(60)), has_acted=True)
    said = task.repeat()
    cluster.strikes.assert_done()
    assert ended == [0]
    assert all("Another task or program has begun with the id" in one for one in said), said
    assert_once(cluster.bootstrap_servers, task.topic)


def test_an_attempt_that_wakes_up_late_disturbs_no_later_one(cluster: StruckCluster, task: Task) -> None:
    sleeper = Sleeper(task)
    heir = Sleeper(task)
    sleeper.wake()
    assert isinstance(sleeper.problem, ClusterError)
    assert "Another task or program has begun with the id" in sleeper.problem.hint
    heir.wake()
    assert heir.problem is None, "it was fenced by one that had lost the id"
    assert_once(cluster.bootstrap_servers, task.topic)


def test_an_attempt_that_sleeps_while_its_rows_go_elsewhere_commits_nothing(cluster: StruckCluster, task: Task) -> None:
    """The repeated micro-batch gives the task no rows."""
    sleeper = Sleeper(task)
    check_empty(task.options, TaskOfWrite(task.topic, 0, 0))
    sleeper.wake()
    assert isinstance(sleeper.problem, ClusterError)
    assert_once(cluster.bootstrap_servers, task.topic, ())


def test_a_topic_that_is_made_again_amid_a_transaction_gets_all_or_nothing(cluster: StruckCluster, task: Task) -> None:
    client = {"bootstrap.servers": cluster.bootstrap_servers}

    def between(chunk: int) -> None:
        if chunk == 2:
            replace_topic(client, task.topic, PARTITIONS)

    with pytest.raises(ClusterError, match="the topic was deleted, or made again"):
        task.attempt(between=between)
    assert_once(cluster.bootstrap_servers, task.topic, ())
    task.repeat()
    assert_once(cluster.bootstrap_servers, task.topic)
