"""Taking over transactional ids from a producer that is alive (librdkafka plays MirrorMaker's task)."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException, Producer

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.broker_settings import broker_setting
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.errors import RequestRefused
from sparkmirror.kafka.fencing import holders, init_producer_ids, transactional_id
from sparkmirror.kafka.known_ids import used_tasks
from sparkmirror.model import Cluster, Connector, TopicPartition
from sparkmirror.planning.target_ends import read_memory_ms
from sparkmirror.policy.producer_memory import DAY_MS, MEMORY_KEY
from sparkmirror.testing.kafka import KafkaCluster


@pytest.fixture
def admin(target_cluster: KafkaCluster) -> Iterator[Admin]:
    with open_admin(Cluster("B", {"bootstrap.servers": target_cluster.bootstrap_servers}), "test") as opened:
        yield opened


def test_each_id_gets_an_identity_of_its_own(admin: Admin) -> None:
    alias = f"A{uuid4().hex}"
    ids = [transactional_id(Connector.of_dedicated_mode(alias), task) for task in range(3)]
    found = init_producer_ids(admin, [*ids, None])
    assert list(found) == [*ids, None]
    assert len({identity.producer_id for identity in found.values()}) == 4
    assert {identity.epoch for identity in found.values()} == {0}


def test_taking_over_again_raises_the_epoch_and_keeps_the_producer_id(admin: Admin) -> None:
    name = transactional_id(Connector.of_dedicated_mode(f"A{uuid4().hex}"), 0)
    first = init_producer_ids(admin, [name])[name]
    second = init_producer_ids(admin, [name])[name]
    assert (second.producer_id, second.epoch) == (first.producer_id, first.epoch + 1)


def test_a_live_holder_is_fenced_and_its_open_transaction_aborted(admin: Admin, target_cluster: KafkaCluster) -> None:
    topic, name = f"fencing-{uuid4().hex}", transactional_id(Connector.of_dedicated_mode(f"A{uuid4().hex}"), 0)
    partition = TopicPartition(topic, 0)
    admin.create_topics([NewTopic(topic, 1, 1)])
    zombie = Producer({"bootstrap.servers": target_cluster.bootstrap_servers, "transactional.id": name})
    zombie.init_transactions(30)
    zombie.begin_transaction()
    zombie.produce(topic, value=b"from the zombie")
    assert zombie.flush(30) == 0
    assert admin.latest_offsets([partition], read_committed=True).known == {partition: 0}

    init_producer_ids(admin, [name])

    # The record and the abort marker lie below the last stable offset now: nothing is open any more.
    assert admin.latest_offsets([partition], read_committed=True).known == {partition: 2}
    with pytest.raises(KafkaException) as caught:
        zombie.commit_transaction(30)
    assert caught.value.args[0].fatal()


def test_the_coordinators_say_who_holds_each_id_now(admin: Admin) -> None:
    alias = f"A{uuid4().hex}"
    names = [transactional_id(Connector.of_dedicated_mode(alias), task) for task in range(4)]
    taken = init_producer_ids(admin, names)
    assert holders(admin, names) == taken and holders(admin, []) == {}
    later = init_producer_ids(admin, names[2:3])
    assert holders(admin, names) == taken | later
    with pytest.raises(RequestRefused, match="asking who holds transactional ids"):
        holders(admin, [f"{names[0]}0"])


def test_an_impossible_transaction_timeout_is_refused_with_a_hint(admin: Admin) -> None:
    with pytest.raises(RequestRefused, match="INVALID_TRANSACTION_TIMEOUT") as caught:
        init_producer_ids(admin, [transactional_id(Connector.of_dedicated_mode("A"), 0)], timeout_ms=2**31 - 1)
    assert "transaction.max.timeout.ms" in caught.value.hint


def test_the_tasks_that_mirrormaker_had_are_found_by_their_ids(admin: Admin) -> None:
    alias = f"A{uuid4().hex}"
    init_producer_ids(admin, [transactional_id(Connector.of_dedicated_mode(alias), task) for task in (0, 7, 12)])
    init_producer_ids(
        admin,
        [f"{alias}-mm2-MirrorHeartbeatConnector-3", transactional_id(Connector.of_dedicated_mode(f"{alias}-other"), 1)],
    )
    assert used_tasks(admin, Connector.of_dedicated_mode(alias)) == {0, 7, 12}


def test_a_broker_tells_a_number_of_its_own_and_nothing_that_it_does_not_know(admin: Admin) -> None:
    (node_id,) = admin.brokers()
    assert broker_setting(admin, node_id, MEMORY_KEY) == DAY_MS
    assert broker_setting(admin, node_id, "no.such.setting") is None
    assert read_memory_ms(admin) == {node_id: DAY_MS}
