"""The embedded Kafka itself, with a client that shares no code with the project (librdkafka)."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.tree import is_gone
from tests.oracle import DEADLINE_SECONDS_LEAST
from tests.waiting import wait_until

from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.jars import MIRROR_MAKER, class_path
from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.process import JavaProgram

Client = Mapping[str, str]
VALUES = [f"value-{n}".encode() for n in range(50)]


def create_topic(client: Client, topic: str, replicas: int = 1) -> None:
    admin = AdminClient(dict(client))
    admin.create_topics([NewTopic(topic, 1, replicas)])[topic].result(DEADLINE_SECONDS_LEAST)


def produce(client: Client, topic: str, values: Iterable[bytes]) -> None:
    producer = Producer({**client, "acks": "all"})
    failures: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(DEADLINE_SECONDS_LEAST) == 0
    assert failures == []


def consume(client: Client, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({**client, "group.id": f"readers-of-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes | None] = []
    deadline = time.monotonic() + DEADLINE_SECONDS_LEAST
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value() for message in consumer.consume(count, timeout=1) if not message.error()]
    consumer.close()
    return values


def assert_round_trip(client: Client, topic: str) -> None:
    create_topic(client, topic)
    produce(client, topic, VALUES)
    assert consume(client, topic, len(VALUES)) == VALUES


def leader_of(client: Client, topic: str) -> int:
    """Of the topic's one partition; some brokers tell of a new topic later than others."""
    admin = AdminClient(dict(client))

    seen: list[int] = []

    def found() -> bool:
        """Each look may be answered by another broker, so the leader is taken from the look that had one."""
        partitions = admin.list_topics(topic, timeout=DEADLINE_SECONDS_LEAST).topics[topic].partitions
        seen.extend(one.leader for one in partitions.values() if one.leader > 0)
        return bool(seen)

    wait_until(found, f"{topic} has a leader")
    return seen[0]


def test_records_go_in_and_come_out_in_order(source_cluster: KafkaCluster, unique: Callable[[str], str]) -> None:
    assert_round_trip({"bootstrap.servers": source_cluster.bootstrap_servers}, unique("orders"))


def test_two_clusters_are_strangers(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> None:
    described = [
        AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=DEADLINE_SECONDS_LEAST)
        for cluster in (source_cluster, target_cluster)
    ]
    assert [metadata.cluster_id for metadata in described] == [source_cluster.cluster_id, target_cluster.cluster_id]
    assert source_cluster.cluster_id != target_cluster.cluster_id


def test_data_survives_a_kill_and_a_restart_on_the_same_port(unique: Callable[[str], str]) -> None:
    topic = unique("orders")
    with KafkaCluster() as cluster:
        client = {"bootstrap.servers": cluster.bootstrap_servers}
        create_topic(client, topic)
        produce(client, topic, VALUES)
        first_pid = cluster.broker(1).pid

        cluster.broker(1).kill()
        assert is_gone(first_pid)
        assert cluster.broker(1).exit_status == -signal.SIGKILL
        cluster.broker(1).start()

        assert cluster.broker(1).pid != first_pid
        assert cluster.bootstrap_servers == client["bootstrap.servers"]
        assert consume(client, topic, len(VALUES)) == VALUES


@pytest.mark.long
def test_three_brokers_carry_on_without_one(unique: Callable[[str], str]) -> None:
    topic = unique("orders")
    with KafkaCluster(brokers=3, broker_config={2: {"broker.rack": "b"}}) as cluster:
        client = {"bootstrap.servers": cluster.bootstrap_servers}
        assert sorted(AdminClient(client).list_topics(timeout=DEADLINE_SECONDS_LEAST).brokers) == [1, 2, 3]
        create_topic(client, topic, replicas=3)
        leader = leader_of(client, topic)

        produce(client, topic, VALUES[:25])
        cluster.broker(leader).stop()
        produce(client, topic, VALUES[25:])
        cluster.broker(leader).start()
        cluster.wait_ready()

        assert consume(client, topic, len(VALUES)) == VALUES


def test_a_paused_broker_answers_nothing_until_it_is_resumed() -> None:
    with KafkaCluster() as cluster:
        client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": "0"})
        cluster.broker(1).pause()
        with pytest.raises(SparkMirrorError, match=r"took longer than 0 s until it saw the brokers \[1\] alive"):
            cluster.wait_ready(wait_seconds=0.1)
        cluster.broker(1).resume()
        cluster.wait_ready()
        assert list(client.list_topics(timeout=DEADLINE_SECONDS_LEAST).brokers) == [1]


@pytest.mark.parametrize("mechanism", ["PLAIN", pytest.param("SCRAM-SHA-256", marks=pytest.mark.long)])
def test_tls_and_sasl_listeners_take_the_right_clients_only(mechanism: str, unique: Callable[[str], str]) -> None:
    password = 'a "quoted" back\\slash' if mechanism == "PLAIN" else "plain words"
    with KafkaCluster(tls=True, sasl=(mechanism, "alice", password)) as cluster:
        trust = {"ssl.ca.location": str(cluster.ca_file)}
        login = {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": password}
        tls = {"bootstrap.servers": cluster.bootstrap_servers_tls, "security.protocol": "SSL", **trust}
        sasl = {"bootstrap.servers": cluster.bootstrap_servers_sasl, "security.protocol": "SASL_PLAINTEXT", **login}
        both = {"bootstrap.servers": cluster.bootstrap_servers_sasl_tls, "security.protocol": "SASL_SSL"}

        assert_round_trip(tls, unique("over-tls"))
        assert_round_trip(sasl, unique("over-sasl"))
        assert_round_trip({**both, **trust, **login}, unique("over-both"))
        assert_refused({**sasl, "sasl.password": "wrong"}, "_AUTHENTICATION")
        assert_refused({**tls, "ssl.ca.location": ""}, "_SSL")


def assert_refused(client: Client, error_name: str) -> None:
    """The client is told that error instead of being let in; on a busy machine it may hear of a time-out first."""
    seen: list[str] = []
    admin = AdminClient({**client, "error_cb": lambda error: seen.append(error.name()), "log_level": "0"})
    wait_until(lambda: admin.poll(0.05) >= 0 and error_name in seen, f"{error_name}, after {seen}")


def test_a_client_certificate_names_the_principal(unique: Callable[[str], str]) -> None:
    only_these = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:CN=client",
    }
    with KafkaCluster(tls=True, config={"ssl.client.auth": "required", **only_these}) as cluster:
        client = {
            "bootstrap.servers": cluster.bootstrap_servers_tls,
            "security.protocol": "SSL",
            "ssl.ca.location": str(cluster.ca_file),
            "ssl.certificate.location": str(cluster.tls.client_certificate_file),
            "ssl.key.location": str(cluster.tls.client_key_file),
        }
        assert_round_trip(client, unique("orders"))


def test_a_feature_level_can_be_lowered() -> None:
    with KafkaCluster(features={"transaction.version": 1}) as cluster:
        log = (cluster.broker(1).data_directory / "__cluster_metadata-0").glob("*.log")
        assert any(b"transaction.version\x00\x01" in file.read_bytes() for file in log)


def test_nothing_is_left_after_close() -> None:
    with KafkaCluster(brokers=2) as cluster:
        pids = [broker.pid for broker in cluster.brokers]
        directory = cluster.directory
        assert directory.is_dir()
        assert all(psutil.pid_exists(pid) for pid in pids)
    assert [pid for pid in pids if not is_gone(pid)] == []
    assert not directory.exists()
    assert [child.name() for child in psutil.Process().children() if child.pid in pids] == []


def test_nothing_is_left_when_the_owner_is_killed() -> None:
    program = (
        "from sparkmirror.testing.kafka import KafkaCluster\n"
        "with KafkaCluster() as cluster:\n"
        "    print(cluster.broker(1).pid, cluster.directory, flush=True)\n"
        "    input()\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdin is not None
    assert owner.stdout is not None
    with owner:
        pid, directory = owner.stdout.readline().split()
        assert psutil.pid_exists(int(pid))
        os.kill(owner.pid, signal.SIGKILL)
    wait_until(lambda: is_gone(int(pid)), "the broker is gone")
    wait_until(lambda: not Path(directory).exists(), "its directory is gone")


def test_a_broker_that_cannot_start_shows_its_log() -> None:
    cluster = KafkaCluster(name="broken", config={"log.segment.bytes": "none"})
    with pytest.raises(SparkMirrorError) as caught:
        cluster.start()
    assert "Broker 1 of the embedded cluster broken ended with status 1" in str(caught.value)
    assert "log.segment.bytes" in str(caught.value)
    with pytest.raises(SparkMirrorError, match="is not started"):
        _ = cluster.directory


def test_mirror_makers_jars_run() -> None:
    program = JavaProgram(
        "MirrorMaker 2", "org.apache.kafka.connect.mirror.MirrorMaker", class_path(MIRROR_MAKER), ["--help"]
    )
    done = subprocess.run(program.command(), capture_output=True, text=True, timeout=120, check=False)
    assert "mm2.properties" in done.stdout + done.stderr
