"""A task of a transactional write on three brokers that die, freeze and wake up at each of its requests, and two
mishaps at once: each record is committed once.

With both transaction protocols, and with brokers of 3.9 and 3.0. Whatever fails is repeated, as Spark does.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.faults.numbered import create_topic
from tests.faults.struck_requests import StruckCluster
from tests.faults.task_attempt import PARTITIONS, Task, assert_once
from tests.faults.test_task_transactions import STEPS
from tests.oracle import assert_same, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.test_three_brokers import leader_of_first_partition
from tests.waiting import wait_until

from sparkmirror.errors import ClusterError, ProtocolError
from sparkmirror.kafka.coordinators import GROUP, TRANSACTION
from sparkmirror.kafka.wire.coordinator import find
from sparkmirror.spark.cluster import SparkCluster
from sparkmirror.spark.session import launch_context

pytestmark = pytest.mark.long

RELEASES: dict[str, dict[str, object]] = {
    "first protocol": {"features": {"transaction.version": 0}},
    "second protocol": {"features": {"transaction.version": 2}},
    "3.9.1": {"version": "3.9.1"},
    "3.0.0": {"version": "3.0.0"},
}


@pytest.fixture(scope="module", params=RELEASES)
def cluster(request: pytest.FixtureRequest) -> Iterator[StruckCluster]:
    with StruckCluster(3, "struck", **RELEASES[request.param]) as found:
        yield found


@pytest.fixture(scope="module", params=list(RELEASES)[:2])
def lone(request: pytest.FixtureRequest) -> Iterator[StruckCluster]:
    with StruckCluster(1, "lone", **RELEASES[request.param]) as found:
        yield found


@pytest.fixture
def task(cluster: StruckCluster, unique: Callable[[str], str]) -> Iterator[Task]:
    yield task_of(cluster, unique("struck"))
    cluster.strikes.forget()
    cluster.revive()


def task_of(cluster: StruckCluster, topic: str) -> Task:
    """Its coordinators are there: the first look-up makes their topics."""
    create_topic(cluster.bootstrap_servers, topic, PARTITIONS, replicas=cluster.size)
    task = Task(cluster.servers, topic, f"{topic}-id")
    for kind in (TRANSACTION, GROUP):
        wait_until(lambda kind=kind: coordinator(cluster, task, kind) > 0, "coordinators are there")
    return task


def coordinator(cluster: StruckCluster, task: Task, kind: int) -> int:
    """The broker that coordinates the task's transactions, or its group; 0 where none does."""
    try:
        link = find(task.options.settings, f"{task.transactional_id}-0", kind)
    except (ClusterError, ProtocolError):
        return 0
    link.close()
    return next(at for at in range(1, cluster.size + 1) if cluster.server(at) == link.address)


def repeat(cluster: StruckCluster, task: Task) -> None:
    task.repeat(while_failing=cluster.revive if cluster.forgets else lambda: None)


def judge(cluster: StruckCluster, task: Task) -> None:
    """All brokers run again, and the next micro-batch comes as well."""
    cluster.strikes.assert_done()
    cluster.revive()
    assert not task.attempt(), "it is known what is committed"
    task.repeat(1)
    assert_once(cluster.bootstrap_servers, task.topic, (0, 1))


@pytest.mark.parametrize("has_acted", [False, True], ids=["before it has acted", "when it has acted"])
@pytest.mark.parametrize("step", STEPS)
def test_a_broker_may_die_at_any_request(cluster: StruckCluster, task: Task, step: str, has_acted: bool) -> None:
    cluster.strikes.at(STEPS[step], cluster.kill, has_acted=has_acted, skip=int(step == "writing"))
    repeat(cluster, task)
    judge(cluster, task)


@pytest.mark.parametrize("has_acted", [False, True], ids=["before it has acted", "when it has acted"])
@pytest.mark.parametrize("step", STEPS)
def test_the_one_broker_there_is_may_die_and_start_again_at_any_request(
    lone: StruckCluster, unique: Callable[[str], str], step: str, has_acted: bool
) -> None:
    """Brokers leave markers out while their partitions have no leaders."""
    task = task_of(lone, unique("lone"))

    def bounce(node: int) -> None:
        lone.kill(node)
        lone.broker(node).launch()

    lone.strikes.at(STEPS[step], bounce, has_acted=has_acted, skip=int(step == "writing"))
    task.repeat()
    judge(lone, task)


@pytest.mark.parametrize("step", STEPS)
def test_a_broker_may_freeze_at_any_request_and_act_when_it_wakes_up(
    cluster: StruckCluster, task: Task, step: str
) -> None:
    cluster.strikes.at(STEPS[step], lambda node: cluster.broker(node).pause(), skip=int(step == "writing"))
    repeat(cluster, task)
    judge(cluster, task)


@pytest.mark.parametrize("step", ["writing", "adding the group", "writing the mark", "committing"])
def test_a_task_and_its_broker_may_be_killed_at_once(cluster: StruckCluster, task: Task, step: str) -> None:
    with task.as_process() as process:

        def kill_both(node: int) -> None:
            process.kill()
            cluster.kill(node)

        cluster.strikes.at(STEPS[step], kill_both, has_acted=step == "committing", skip=int(step == "writing"))
        process.wait(60)
    repeat(cluster, task)
    judge(cluster, task)


@pytest.mark.parametrize("has_acted", [False, True], ids=["before it is decided", "when it is decided"])
def test_a_task_and_the_leader_of_its_rows_may_be_killed_at_once_while_it_commits(
    cluster: StruckCluster, task: Task, has_acted: bool
) -> None:
    """Nobody hears the coordinator's answer, and its marker has to wait for another leader."""
    leader = leader_of_first_partition(cluster, {"bootstrap.servers": cluster.bootstrap_servers}, task.topic)
    ids = (replace(task, transactional_id=f"{task.topic}-{at}") for at in range(100))
    one = next(one for one in ids if coordinator(cluster, one, TRANSACTION) not in (0, leader.node.node_id))
    with one.as_process() as process:

        def kill_both(_: int) -> None:
            process.kill()
            leader.kill()

        cluster.strikes.at(STEPS["committing"], kill_both, has_acted=has_acted)
        process.wait(60)
    repeat(cluster, one)
    judge(cluster, one)


def test_a_commit_without_an_answer_a_second_attempt_and_a_dead_coordinator_at_once(
    cluster: StruckCluster, task: Task
) -> None:
    others: list[int] = []

    def strike(node: int) -> None:
        cluster.kill(node)
        others.append(task.as_process().wait(100))

    cluster.strikes.at(STEPS["committing"], strike, has_acted=True)
    repeat(cluster, task)
    judge(cluster, task)
    assert others == [0]


def test_a_coordinator_is_found_although_the_one_server_that_was_named_is_dead(
    cluster: StruckCluster, task: Task
) -> None:
    """It was the coordinator itself."""
    alone = task.with_servers(cluster.server(coordinator(cluster, task, TRANSACTION)))
    cluster.strikes.at(STEPS["committing"], cluster.kill)
    assert alone.attempt()
    judge(cluster, task)


def test_what_was_aborted_without_its_leader_does_not_come_with_a_later_commit(
    cluster: StruckCluster, task: Task, unique: Callable[[str], str]
) -> None:
    """Its partition has one replica, and brokers of 4.3 leave the abort's marker out while that one is away."""
    topic = unique("lone")
    create_topic(cluster.bootstrap_servers, topic, PARTITIONS, replicas=1)
    leader = leader_of_first_partition(cluster, {"bootstrap.servers": cluster.bootstrap_servers}, topic)
    ids = (replace(task, topic=topic, transactional_id=f"{topic}-{at}", delivery_ms=8_000) for at in range(100))
    lone = next(one for one in ids if coordinator(cluster, one, TRANSACTION) not in (0, leader.node.node_id))

    def between(chunk: int) -> None:
        if chunk == 3:
            leader.kill()

    with pytest.raises(ClusterError, match="did not take records"):
        lone.attempt(between=between)
    cluster.revive()
    lone.repeat()
    judge(cluster, lone)


def test_a_group_s_coordinator_that_has_just_woken_up_hides_no_mark(cluster: StruckCluster, task: Task) -> None:
    """It says what it knew before it slept, until it hears that another one has the group."""
    task.attempt()
    sleeper = coordinator(cluster, task, GROUP)
    others = task.with_servers(",".join(cluster.server(at) for at in (1, 2, 3) if at != sleeper))
    cluster.broker(sleeper).pause()
    wait_until(lambda: coordinator(cluster, others, GROUP) not in (0, sleeper), "another has the group")
    others.repeat(1)
    cluster.broker(sleeper).resume()
    task.with_servers(cluster.servers_from(sleeper)).repeat(1)
    cluster.revive()
    assert_once(cluster.bootstrap_servers, task.topic, (0, 1))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A task may fail three times."""
    context = launch_context(2, tmp_path_factory.mktemp("spark"), SparkCluster("local[2,4]"))
    try:
        yield SparkSession(context)
    finally:
        context.stop()


@pytest.mark.parametrize("name", ["kafka-records", "kafka-runs"])
def test_a_stream_has_each_record_once_while_one_broker_dies_after_the_other(
    spark: SparkSession, cluster: StruckCluster, unique: Callable[[str], str], tmp_path: Path, name: str
) -> None:
    """A query that ends by an error is started again from its checkpoint."""
    client = {"bootstrap.servers": cluster.bootstrap_servers}
    topic, copy = unique("sent"), unique("copy")
    make_topics(client, {topic: PARTITIONS, copy: PARTITIONS})
    write(client, topic, numbered(0, 600, partitions=PARTITIONS))
    start = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic}
    start |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "200"}
    sink = {"kafka.bootstrap.servers": cluster.servers, "topic": copy, "checkpointLocation": str(tmp_path)}
    sink |= {"kafka.transactional.id": f"{copy}-id", "kafka.request.timeout.ms": "3000"}

    def next_one(node: int) -> None:
        cluster.revive()
        cluster.kill(node)

    cluster.strikes.at(STEPS["writing"], cluster.kill, has_acted=True, skip=1)
    cluster.strikes.at(STEPS["committing"], next_one, has_acted=True, skip=2)
    for _ in range(4):
        rows = spark.readStream.format(name).options(**start).load()
        query = rows.writeStream.format(name).options(**sink).trigger(availableNow=True).start()
        try:
            query.awaitTermination(300)
            break
        except StreamingQueryException:
            cluster.revive()
        finally:
            query.stop()
    cluster.strikes.assert_done()
    cluster.revive()
    came = read_topic({**client, "isolation.level": "read_committed"}, copy, has_old_lz4=True)
    assert_same(read_topic(client, topic), came, topic)
