"""Where a read of `kafka-records` begins, asked of a broker that has slept and answers as of before.

It led two topics when it fell asleep. Meanwhile another broker leads them, one grew by records and a partition, and the
other was made again. It wakes while the only controller sleeps, so it does not learn of that.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from confluent_kafka.admin import NewTopic as Wanted
from tests.scenarios.data import ORDER_SECONDS_MAX, Note, await_leaders, write

from sparkmirror.kafka.clients import open_admin
from sparkmirror.model import Cluster
from sparkmirror.records.batch_reader import plan_batch
from sparkmirror.records.options import ReadOptions, read_options
from sparkmirror.records.source_log import SourceLog
from sparkmirror.records.stream_reader import RecordsStreamReader
from sparkmirror.testing import kafka
from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.layout import CONTROLLER, Listener, Node, plan_properties

LONG_AGO_MS = 1_000_000_000_000
SLEEPER, HEIR, BOSS = 1, 2, 4
GROWN, REMADE = "grown", "remade"


class Woken(NamedTuple):
    cluster: KafkaCluster
    ids: dict[str, str]
    """Of the topics as they are now."""

    def options(self, is_stream: bool = True, /, **more: str) -> ReadOptions:
        servers = f"127.0.0.1:{self.cluster.broker(SLEEPER).port}"
        given = {"kafka.bootstrap.servers": servers, "subscribe": f"{GROWN},{REMADE}", **more}
        return read_options(given, is_stream=is_stream)


def plan_one_controller(node: Node, nodes: list[Node], listeners: tuple[Listener, ...]) -> dict[str, str]:
    """The last node is the only controller."""
    planned, last = plan_properties(node, nodes, listeners), nodes[-1]
    planned["controller.quorum.voters"] = f"{last.node_id}@127.0.0.1:{last.ports[CONTROLLER]}"
    if node is not last:
        planned["process.roles"] = "broker"
        addresses = planned["listeners"].split(",")
        planned["listeners"] = ",".join(one for one in addresses if not one.startswith(CONTROLLER))
    return planned


def notes(first: int, stop: int, partition: int = 0) -> list[Note]:
    return [Note(b"%d" % at, None, partition, LONG_AGO_MS + at) for at in range(first, stop)]


def make(client: dict[str, str], topic: str, replicas: tuple[int, int]) -> None:
    wanted = Wanted(topic, 1, replica_assignment=[list(replicas)], config={"min.insync.replicas": "1"})
    maker = AdminClient(client)  # it must live until it has answered
    maker.create_topics([wanted])[topic].result(ORDER_SECONDS_MAX)
    await_leaders(client, {topic: 1})


@pytest.fixture(scope="module")
def woken() -> Iterator[Woken]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka, "plan_properties", plan_one_controller)
        cluster = KafkaCluster(BOSS, name="sleepers", config={"default.replication.factor": "1"})
        cluster.start()
    with closing(cluster):
        client = {"bootstrap.servers": f"127.0.0.1:{cluster.broker(HEIR).port}"}
        for topic in (GROWN, REMADE):
            make(client, topic, (SLEEPER, HEIR))
            write(client, topic, notes(0, 100))
        cluster.broker(SLEEPER).pause()
        with open_admin(Cluster("c", client), "test") as admin:
            cluster.broker(HEIR).wait_until(
                lambda: {one.node_id for one in admin.leaders([GROWN, REMADE]).values()} == {HEIR}, "led both", 60
            )
            grow = NewPartitions(GROWN, 2, replica_assignment=[[HEIR, 3]])
            maker = AdminClient(client)
            maker.create_partitions([grow])[GROWN].result(ORDER_SECONDS_MAX)
            await_leaders(client, {GROWN: 2})
            maker.delete_topics([REMADE])[REMADE].result(ORDER_SECONDS_MAX)
            cluster.broker(HEIR).wait_until(lambda: REMADE not in admin.list_topics([REMADE]), "deleted it", 60)
            make(client, REMADE, (HEIR, 3))
            write(client, GROWN, [*notes(100, 200), *notes(0, 5, 1)])
            write(client, REMADE, notes(0, 7))
            ids = {name: str(topic.topic_id) for name, topic in admin.list_topics([GROWN, REMADE]).items()}
        cluster.broker(BOSS).pause()
        cluster.broker(SLEEPER).resume()
        yield Woken(cluster, ids)
        cluster.broker(BOSS).resume()


def test_the_sleeper_answers_as_of_before(woken: Woken) -> None:
    client = {"bootstrap.servers": f"127.0.0.1:{woken.cluster.broker(SLEEPER).port}"}
    with open_admin(Cluster("c", client), "test") as admin:
        answer = admin._metadata([GROWN, REMADE], node_id=SLEEPER)
    ids = {topic.name: (str(topic.topic_id) == woken.ids[topic.name], len(topic.partitions)) for topic in answer.topics}
    assert ids == {GROWN: (True, 1), REMADE: (False, 1)}


@pytest.mark.parametrize(
    ("start", "grown", "remade"),
    [
        ({"startingoffsets": "latest"}, {"0": 200, "1": 5}, 7),
        ({"startingoffsets": "earliest"}, {"0": 0, "1": 0}, 0),
        ({"startingtimestamp": str(LONG_AGO_MS + 150), "startingoffsetsbytimestampstrategy": "latest"},
         {"0": 150, "1": 5}, 7),
    ],
)  # fmt: skip
def test_a_stream_begins_where_its_topics_are_by_what_most_brokers_know(
    woken: Woken, start: dict[str, str], grown: dict[str, int], remade: int
) -> None:
    stream = RecordsStreamReader(woken.options(**start))
    try:
        first = stream.initialOffset()
    finally:
        stream.stop()
    assert first["offsets"] == {GROWN: grown, REMADE: {"0": remade}}
    assert first["topics"] == woken.ids


def test_a_batch_has_all_that_was_acknowledged_before_it_began(woken: Woken) -> None:
    options = woken.options(False)
    with closing(SourceLog(options)) as log:
        planned = {(one.where.topic, one.where.partition): (one.first, one.end) for one in plan_batch(log, options)}
        ids = {name: str(one) for name, one in log.topic_ids.items()}
    assert planned == {(GROWN, 0): (0, 200), (GROWN, 1): (0, 5), (REMADE, 0): (0, 7)}
    assert ids == woken.ids
