"""The control plane against a real broker."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from confluent_kafka import Producer

from sparkmirror.errors import AuthenticationFailed, AuthorizationFailed, ClusterError, ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import ConfigSource, NewTopic, TopicExists
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.connection import ClusterConnection
from sparkmirror.kafka.errors import RequestRefused
from sparkmirror.kafka.fencing import init_producer_ids, transactional_id
from sparkmirror.kafka.wire.raw_answer import RawAnswer
from sparkmirror.model import NO_TOPIC_ID, Cluster, Connector, TopicPartition
from sparkmirror.testing.kafka import KafkaCluster

GONE = "was-never-there"
SOON_SECONDS = 60.0
"""On whatever machine; what is not to be waited for would take twice as long at least."""
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
ALICE = 'required username="alice" password="secret";'


@pytest.fixture
def admin(source_cluster: KafkaCluster) -> Iterator[Admin]:
    with open_admin(Cluster("A", {"bootstrap.servers": source_cluster.bootstrap_servers}), "test") as opened:
        yield opened


@pytest.fixture
def topic(admin: Admin) -> str:
    """A new topic with three partitions and two settings of its own."""
    name = f"admin-{uuid4().hex}"
    configs = {"cleanup.policy": "compact", "max.message.bytes": "123456"}
    assert admin.create_topics([NewTopic(name, 3, 1, configs)]) == {name: None}
    return name


def produce(cluster: KafkaCluster, topic: str, partition: int, timestamps_ms: list[int]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for timestamp_ms in timestamps_ms:
        producer.produce(topic, key=b"k", value=b"v", partition=partition, timestamp=timestamp_ms)
    assert producer.flush(60) == 0


def test_the_cluster_names_its_brokers_and_what_they_speak(admin: Admin, source_cluster: KafkaCluster) -> None:
    addresses = {f"{host}:{port}" for host, port in admin.brokers().values()}
    assert set(source_cluster.bootstrap_servers.split(",")) <= addresses
    lowest, highest = admin.api_versions()[0]
    assert lowest <= 9 <= highest
    assert admin.finalized_features()["transaction.version"] >= 2


def test_topics_come_with_ids_and_leaders_and_missing_ones_are_left_out(admin: Admin, topic: str) -> None:
    found = admin.list_topics([topic, GONE])
    assert list(found) == [topic]
    assert (found[topic].partitions, found[topic].replication_factor, found[topic].internal) == (3, 1, False)
    assert found[topic].topic_id != NO_TOPIC_ID
    assert admin.list_topics()[topic] == found[topic]


def test_a_list_of_all_topics_that_came_before_is_not_decoded_again(
    admin: Admin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of thousands of topics that is what looking for new ones costs."""
    decoded: list[RawAnswer] = []
    decode = RawAnswer.decode
    monkeypatch.setattr(RawAnswer, "decode", lambda answer: decoded.append(answer) or decode(answer))
    _list_twice(admin, topic, decoded)
    late = f"{topic}-late"
    assert admin.create_topics([NewTopic(late, 2, 1, {})]) == {late: None}
    before = len(decoded)
    assert admin.list_topics()[late].partitions == 2
    assert len(decoded) == before + 1
    leaders = admin.leaders([topic, GONE])
    assert set(leaders) == {TopicPartition(topic, number) for number in range(3)}
    assert {leader.node_id for leader in leaders.values()} <= set(admin.brokers())
    assert all(leader.epoch >= 0 for leader in leaders.values())


def _list_twice(admin: Admin, topic: str, decoded: list[RawAnswer]) -> None:
    """The second list is not decoded, unless something of the shared cluster has changed meanwhile: then once more."""
    for _ in range(10):
        first = admin.list_topics()
        before = len(decoded)
        first.pop(topic)
        assert topic in admin.list_topics(), "a caller's own dict"
        if len(decoded) == before:
            return
    pytest.fail("every list is decoded")


def test_settings_are_read_with_their_sources(admin: Admin, topic: str) -> None:
    explicit = admin.topic_configs([topic, GONE])
    assert list(explicit) == [topic]
    assert explicit[topic]["cleanup.policy"] == "compact"
    assert "retention.ms" not in explicit[topic]
    entries = admin.describe_configs([topic], ["max.message.bytes", "retention.bytes"])[topic]
    assert set(entries) == {"max.message.bytes", "retention.bytes"}
    assert entries["max.message.bytes"].source == ConfigSource.TOPIC
    assert entries["retention.bytes"].source == ConfigSource.DEFAULT
    assert (entries["max.message.bytes"].value, entries["retention.bytes"].value) == ("123456", "-1")
    assert admin.describe_configs([GONE], ["max.message.bytes"]) == {}


def test_topics_are_created_each_by_itself(admin: Admin, topic: str) -> None:
    good, greedy = f"good-{uuid4().hex}", f"greedy-{uuid4().hex}"
    outcome = admin.create_topics(
        [
            NewTopic(good, 2, -1),
            NewTopic("bad/name", 1, 1),
            NewTopic(greedy, 1, 99),
            NewTopic(topic, 1, 1),
        ]
    )
    assert outcome[good] is None
    assert isinstance(outcome[topic], TopicExists)
    assert isinstance(outcome["bad/name"], RequestRefused)
    refused = outcome[greedy]
    assert isinstance(refused, RequestRefused)
    assert refused.name == "INVALID_REPLICATION_FACTOR"
    assert greedy in str(refused)
    assert admin.list_topics([good])[good].partitions == 2


def test_topics_grow_each_by_itself(admin: Admin, topic: str) -> None:
    outcome = admin.create_partitions({topic: 5, GONE: 5})
    assert outcome[topic] is None
    assert isinstance(outcome[GONE], ClusterError)
    assert admin.list_topics([topic])[topic].partitions == 5
    shrink = admin.create_partitions({topic: 2})[topic]
    assert isinstance(shrink, RequestRefused)
    assert shrink.name == "INVALID_PARTITIONS"


def test_offsets_are_listed_in_bulk_and_missing_partitions_are_left_out(
    admin: Admin, topic: str, source_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkmirror.kafka.admin._SETTLE_SECONDS_MAX", 2 * SOON_SECONDS)
    produce(source_cluster, topic, 0, [1_000, 2_000, 3_000])
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    asked = [first, second, TopicPartition(topic, 9), TopicPartition(GONE, 0)]
    started = time.monotonic()
    assert admin.earliest_offsets(asked).known == {first: 0, second: 0}
    assert admin.latest_offsets(asked).all() == {first: 3, second: 0}
    assert admin.list_offsets({first: 1_500, second: 1_500}).known == {first: 1, second: -1}
    assert time.monotonic() - started < SOON_SECONDS, "missing partitions must not be waited for"


def test_read_committed_ends_before_an_open_transaction(admin: Admin, topic: str, source_cluster: KafkaCluster) -> None:
    partition = TopicPartition(topic, 0)
    produce(source_cluster, topic, 0, [1_000])
    producer = Producer(
        {"bootstrap.servers": source_cluster.bootstrap_servers, "transactional.id": f"admin-{uuid4().hex}"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, key=b"k", value=b"open", partition=0)
    assert producer.flush(60) == 0
    assert admin.latest_offsets([partition]).known == {partition: 2}
    assert admin.latest_offsets([partition], read_committed=True).known == {partition: 1}
    producer.commit_transaction(30)
    # The broker writes the commit marker a moment after it has answered.
    ends_at = time.monotonic() + 60
    while admin.latest_offsets([partition], read_committed=True).known != {partition: 3}:
        assert time.monotonic() < ends_at, "the commit marker never came"


def test_several_threads_may_ask_at_once(admin: Admin, topic: str) -> None:
    answers: list[int] = []

    def ask() -> None:
        for _ in range(20):
            answers.append(admin.list_topics([topic])[topic].partitions)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert answers == [3] * 80


def test_a_client_has_no_thread_and_closing_ends_its_connections_and_is_idempotent(
    source_cluster: KafkaCluster,
) -> None:
    before, connections = set(threading.enumerate()), open_connections()
    opened = open_admin(Cluster("A", {"bootstrap.servers": source_cluster.bootstrap_servers}), "test")
    assert not set(threading.enumerate()) - before
    own = open_connections() - connections
    assert own
    opened.close()
    opened.close()
    assert not own & open_connections()


def open_connections() -> set[object]:
    """Of this process, by this end's address; those of former tests' clients may end at any time."""
    return {one.laddr for one in psutil.Process().net_connections("tcp")}


def test_a_broker_that_is_away_is_waited_for_as_long_as_requests_may_take() -> None:
    with KafkaCluster(name="away") as cluster:
        client = {"bootstrap.servers": cluster.bootstrap_servers}
        impatient = open_admin(Cluster("A", client | {"request.timeout.ms": "700"}), "test")
        with impatient, open_admin(Cluster("A", client | {"request.timeout.ms": "120000"}), "test") as patient:
            assert patient.create_topics([NewTopic("orders", 2, 1)]) == {"orders": None}
            cluster.broker(1).kill()
            started = time.monotonic()
            with pytest.raises(ClusterUnreachable, match="Cluster A"):
                impatient.list_topics()
            assert time.monotonic() - started < 25, "request.timeout.ms is 0.7 s here, 30 s by default"
            answers: list[int] = []
            asking = threading.Thread(target=lambda: answers.append(patient.list_topics()["orders"].partitions))
            asking.start()
            cluster.broker(1).start()
            asking.join(timeout=150)
            assert answers == [2]


def test_closing_ends_a_call_that_waits() -> None:
    with KafkaCluster(name="away") as cluster:
        client = {"bootstrap.servers": cluster.bootstrap_servers, "request.timeout.ms": "600000"}
        opened = open_admin(Cluster("A", client), "test")
        cluster.broker(1).kill()
        errors: list[BaseException] = []

        def ask() -> None:
            try:
                opened.list_topics()
            except ClusterUnreachable as error:
                errors.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        opened.close()
        asking.join(timeout=SOON_SECONDS)
        assert not asking.is_alive()
        assert len(errors) == 1


@pytest.fixture
def patient_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bootstrap takes so long that nobody takes it for a refusal at once."""
    monkeypatch.setattr(ClusterConnection.__init__, "__defaults__", (2 * SOON_SECONDS,))


@pytest.mark.usefixtures("patient_start")
def test_a_secured_cluster_lets_in_who_may_and_says_why_not() -> None:
    rules = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with KafkaCluster(name="secured", tls=True, sasl=("PLAIN", "alice", "secret"), config=rules) as cluster:
        client = {
            "bootstrap.servers": cluster.bootstrap_servers_sasl_tls,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(cluster.ca_file),
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f"{PLAIN} {ALICE}",
        }
        with open_admin(Cluster("A", client), "test") as alice:
            assert len(alice.brokers()) == 1
            refused = alice.create_topics([NewTopic("orders", 1, 1)])["orders"]
            assert isinstance(refused, AuthorizationFailed)
            with pytest.raises(AuthorizationFailed, match="taking over the transactional id A-mm2") as denied:
                init_producer_ids(alice, [transactional_id(Connector.of_dedicated_mode("A"), 0)])
            assert "transactional id" in denied.value.hint
        started = time.monotonic()
        wrong = client | {"sasl.jaas.config": f'{PLAIN} required username="alice" password="hunter2";'}
        with pytest.raises(AuthenticationFailed, match="refused the credentials") as caught:
            open_admin(Cluster("A", wrong), "test")
        assert "hunter2" not in str(caught.value)
        with pytest.raises(AuthenticationFailed, match="does not offer SCRAM-SHA-256"):
            other = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": f"{SCRAM} {ALICE}"}
            open_admin(Cluster("A", client | other), "test")
        with pytest.raises(AuthenticationFailed, match="certificate we do not trust"):
            open_admin(Cluster("A", _without_trust(client)), "test")
        assert time.monotonic() - started < SOON_SECONDS, "a refused login must not wait for the time-out"


@pytest.mark.usefixtures("patient_start")
def test_a_cluster_that_wants_a_client_certificate_gets_one_or_says_so_at_once(tmp_path: Path) -> None:
    with KafkaCluster(name="mutual", tls=True, config={"ssl.client.auth": "required"}) as cluster:
        bare = {
            "bootstrap.servers": cluster.bootstrap_servers_tls,
            "security.protocol": "SSL",
            "ssl.ca.location": str(cluster.ca_file),
        }
        key, certificate = cluster.tls.client_key_file.read_text(), cluster.tls.client_certificate_file.read_text()
        store = tmp_path / "client.pem"
        store.write_text(key + certificate)
        by_file = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
        by_text = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key,
            "ssl.keystore.certificate.chain": certificate,
        }
        for keystore in (by_file, by_text):
            with open_admin(Cluster("A", bare | keystore), "test") as admin:
                assert len(admin.brokers()) == 1
        started = time.monotonic()
        with pytest.raises(
            AuthenticationFailed, match="asks for a client certificate, and none is configured"
        ) as caught:
            open_admin(Cluster("A", bare), "test")
        assert time.monotonic() - started < SOON_SECONDS
        assert "A.ssl.keystore" in caught.value.hint


def _without_trust(client: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in client.items() if not key.startswith("ssl.")}


def test_a_dead_first_address_does_not_matter(source_cluster: KafkaCluster) -> None:
    servers = f"127.0.0.1:1,{source_cluster.bootstrap_servers}"
    with open_admin(Cluster("A", {"bootstrap.servers": servers}), "test") as opened:
        assert opened.brokers()
