"""With exactly-once, a partition of the target whose broker is away holds up itself, and nothing else.

Its open transaction cannot end: no marker can be written there. Three brokers; one task's sending end (`one_task`).
A leader without enough replicas in sync does that for as long as it lasts; where a partition has no leader, brokers may
end the transaction without its marker, once their controller has noticed.
"""

from collections.abc import Callable, Iterator, Mapping

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.one_task import Mirrored, OneTask
from tests.scenarios.data import ORDER_SECONDS_MAX, await_leaders

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.fencing import init_producer_ids, transactional_id
from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import OFFSETS_PARTITIONS, ledger_topics
from sparkmirror.model import TopicPartition
from sparkmirror.policy.partitioner import murmur2_partition
from sparkmirror.testing.kafka import KafkaCluster

pytestmark = pytest.mark.long

ALONE = 3
"""The broker that has a partition for itself."""
BEFORE, MUCH = 200, 200_000
TIMEOUT_MS = 60_000
"""What does not answer is waited for 15 s: longer than all others stand still until the dead broker is noticed."""


@pytest.fixture(params=[0, 2], ids=["first protocol", "second protocol"])
def three_brokers(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    features = {"transaction.version": request.param}
    with KafkaCluster(brokers=3, name="away", features=features) as cluster:
        yield cluster


@pytest.fixture
def flow(three_brokers: KafkaCluster, unique: Callable[[str], str]) -> Mirrored:
    """Its partition 0 has one of its two copies there, and takes nothing without it; partition 1 has none there."""
    flow = Mirrored(three_brokers.bootstrap_servers, unique("A"), unique("numbers"))
    _create(flow, flow.remote, [[2, ALONE], [1, 2]], {"min.insync.replicas": "2"})
    with open_admin(flow.target, "test") as admin:
        ensure_ledger_topics(admin, ledger_topics(flow.alias, replication_factor=3))
    return flow


def test_others_go_on_while_a_partition_of_the_open_transaction_is_away(
    flow: Mirrored, three_brokers: KafkaCluster
) -> None:
    with OneTask(flow, exactly_once=True, timeout_ms=TIMEOUT_MS) as task:
        task.give(BEFORE, BEFORE)
        task.wait_for_ledger(BEFORE, BEFORE)
        task.give(MUCH, MUCH)
        task.read_for(1.0)
        three_brokers.broker(ALONE).kill()
        task.wait_until(lambda: f"{flow.topic}-0" in task.failed, "the partition is FAILED", 90)
        assert "its leader is away" in task.failed[f"{flow.topic}-0"]
        before = flow.positions()[1]
        task.wait_until(lambda: flow.positions()[1] > before + 1000, "the other goes on", 90)
        assert f"{flow.topic}-1" not in task.failed
        _assert_id_is_not_to_be_had(flow)
        three_brokers.broker(ALONE).start()
        end = max(task.places())
        task.give(end, end)
        task.wait_until(lambda: flow.positions() == [end, end], "all is mirrored", 120)
    arrival = flow.arrival()
    arrival.assert_complete([end, end])
    assert arrival.repeats() == 0


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_ledger_partition_that_is_away_holds_up_its_own_positions_only(
    three_brokers: KafkaCluster, unique: Callable[[str], str], exactly_once: bool, request: pytest.FixtureRequest
) -> None:
    is_first_protocol = request.node.callspec.params["three_brokers"] == 0
    named = (Mirrored(three_brokers.bootstrap_servers, unique("A"), unique("numbers")) for _ in range(50))
    flow = next(one for one in named if _home(one, 0) != _home(one, 1))
    copies = [[ALONE] if number == _home(flow, 0) else [1] for number in range(OFFSETS_PARTITIONS)]
    _create(flow, ledger_topics(flow.alias).offsets, copies)
    _create(flow, flow.remote, [[1]] * 2)
    with open_admin(flow.target, "test") as admin:
        ensure_ledger_topics(admin, ledger_topics(flow.alias, replication_factor=3))
    with OneTask(flow, exactly_once=exactly_once, timeout_ms=TIMEOUT_MS) as task:
        task.give(BEFORE, BEFORE)
        task.wait_for_ledger(BEFORE, BEFORE)
        if not (exactly_once and is_first_protocol):  # there doubt about sent positions ends the attempt
            task.give(MUCH, MUCH)
            task.read_for(1.0)
        three_brokers.broker(ALONE).kill()
        task.give(MUCH, MUCH)
        before = _stored(flow, 1)
        task.wait_until(lambda: _stored(flow, 1) > before + 5000, "the other's position goes on", 90)
        if exactly_once:
            task.wait_until(lambda: f"{flow.topic}-0" in task.failed, "the partition is FAILED", 90)
            assert "its position cannot be stored" in task.failed[f"{flow.topic}-0"]
        three_brokers.broker(ALONE).start()
        end = max(task.places())
        task.give(end, end)
        task.wait_until(lambda: [_stored(flow, 0), _stored(flow, 1)] == [end, end], "all is stored", 120)
    arrival = flow.arrival()
    arrival.assert_complete([end, end])
    assert arrival.repeats() == 0


def _home(flow: Mirrored, number: int) -> int:
    return murmur2_partition(connect.encode_key(flow.connector, TopicPartition(flow.topic, number)), OFFSETS_PARTITIONS)


def _stored(flow: Mirrored, number: int) -> int:
    """By our own topic: Connect's cannot be read to its end while a partition of it is away."""
    key = positions.encode_key(flow.alias, TopicPartition(flow.topic, number))
    where = TopicPartition(ledger_topics(flow.alias).positions, 0)
    with open_tail(flow.target, "test", [where]) as tail:
        values = [record.value for record in tail.read_to_end() if record.key == key]
    record = positions.decode_value(values[-1]) if values else None
    return record.position.offset if record is not None else 0


def _create(flow: Mirrored, topic: str, copies: list[list[int]], config: Mapping[str, str] = {}) -> None:
    client = {"bootstrap.servers": flow.servers}
    admin = AdminClient(client)
    wanted = NewTopic(topic, len(copies), replica_assignment=copies, config=dict(config))
    admin.create_topics([wanted])[topic].result(ORDER_SECONDS_MAX)
    await_leaders(client, {topic: len(copies)})


def _assert_id_is_not_to_be_had(flow: Mirrored) -> None:
    """Whoever takes the flow over is told so, and why; at once, unless the brokers have begun to commit."""
    with open_admin(flow.target, "test") as admin, pytest.raises(ClusterError, match=f"{flow.remote}-0"):
        init_producer_ids(admin, [transactional_id(flow.connector, 0)], wait_seconds_max=10)
