"""TLS and SASL/SCRAM, for reading and for writing, and what a wrong password says."""

from collections.abc import Callable, Iterator

import pytest
from tests.oracle import Client, assert_same, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import MirrorOnce, StartMirror, flow_file

from sparkmirror.testing.kafka import KafkaCluster

USER, PASSWORD = "mirror", "correct-horse-battery-staple"
WRONG_PASSWORD = "incorrect-donkey-capacitor-paperclip"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """A cluster with TLS and SCRAM."""
    with KafkaCluster(name="guarded", tls=True, sasl=("SCRAM-SHA-512", USER, PASSWORD)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def encrypted() -> Iterator[KafkaCluster]:
    """A cluster with TLS alone."""
    with KafkaCluster(name="encrypted", tls=True) as cluster:
        yield cluster


def by_tls(cluster: KafkaCluster) -> Client:
    """The mirror's properties for the SSL listener."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers_tls,
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(cluster.ca_file),
    }


def by_scram(cluster: KafkaCluster, password: str = PASSWORD) -> Client:
    """The mirror's properties for the SASL_SSL listener."""
    return {
        **by_tls(cluster),
        "bootstrap.servers": cluster.bootstrap_servers_sasl_tls,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} required username="{USER}" password="{password}";',
    }


def test_tls_and_scram_serve_for_reading_and_for_writing(
    guarded: KafkaCluster, encrypted: KafkaCluster, unique: Callable[[str], str], mirror_once: MirrorOnce
) -> None:
    alias = unique("guarded")
    there, back = unique("there"), unique("back")
    plain, other = ({"bootstrap.servers": cluster.bootstrap_servers} for cluster in (guarded, encrypted))
    for client, topic in ((plain, there), (other, back)):
        make_topics(client, {topic: 2})
        write(client, topic, numbered(0, 2_000, partitions=2, size_bytes=1_000))
    lines = [f"backup->{alias}.enabled = true", f"backup->{alias}.topics = {back}"]
    ended = mirror_once(flow_file(by_scram(guarded), by_tls(encrypted), alias=alias, topics=there, lines=lines))
    assert_same(read_topic(plain, there), read_topic(other, f"{alias}.{there}"), there)
    assert_same(read_topic(other, back), read_topic(plain, f"backup.{back}"), back)
    assert PASSWORD not in ended.errors + ended.output


def test_a_wrong_password_is_told_in_a_sentence_without_the_password(
    guarded: KafkaCluster, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    alias = unique("guarded")
    text = flow_file(by_scram(guarded, WRONG_PASSWORD), target, alias=alias, topics=".*")
    ended = start_mirror(text).finish()
    assert ended.status == 1
    assert ended.output == ""
    assert ended.errors.startswith("sparkmirror: ") and alias in ended.errors
    assert "uthentication" in ended.errors or "credentials" in ended.errors
    assert "Traceback" not in ended.errors and WRONG_PASSWORD not in ended.errors
