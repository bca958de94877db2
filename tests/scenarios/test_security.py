"""TLS, mutual TLS, SCRAM and an authorizer, for reading and for writing; and what a refusal says."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import ORDER_SECONDS_MAX, make_topics, numbered, write
from tests.scenarios.mirror import StartMirror, flow_file
from tests.stores import by_certificate

from sparkmirror.testing.kafka import KafkaCluster

USER, PASSWORD, STORE_PASSWORD = "mirror", "correct-horse-battery-staple", "store-with-a-lock"
WRONG_PASSWORD = "incorrect-donkey-capacitor-paperclip"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
TOPIC, CLUSTER, TRANSACTION = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.TRANSACTIONAL_ID


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """TLS, SCRAM with short sessions, and an authorizer; who comes in plain is an administrator."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "listener.name.sasl_ssl.connections.max.reauth.ms": "2000",
    }
    with KafkaCluster(name="guarded", tls=True, sasl=("SCRAM-SHA-512", USER, PASSWORD), config=config) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def encrypted() -> Iterator[KafkaCluster]:
    """A cluster with TLS that asks for a client certificate."""
    with KafkaCluster(name="encrypted", tls=True, config={"ssl.client.auth": "required"}) as cluster:
        yield cluster


def by_scram(cluster: KafkaCluster, password: str = PASSWORD) -> Client:
    """The mirror's properties for the SASL_SSL listener."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers_sasl_tls,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(cluster.ca_file),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} required username="{USER}" password="{password}";',
    }


def grant(client: Client, resource: ResourceType, name: str, *operations: AclOperation, prefixed: bool = True) -> None:
    """Allow the mirror's user to do this."""
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    allow = AclPermissionType.ALLOW
    bindings = [AclBinding(resource, name, pattern, f"User:{USER}", "*", operation, allow) for operation in operations]
    admin = AdminClient(dict(client))
    for done in admin.create_acls(bindings).values():
        done.result(ORDER_SECONDS_MAX)


def grant_what_a_source_needs(client: Client, topics: str) -> None:
    """docs/security.md lists these."""
    grant(client, TOPIC, topics, AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)
    grant(client, CLUSTER, "kafka-cluster", AclOperation.DESCRIBE, prefixed=False)


def grant_what_a_target_needs(client: Client, source_alias: str) -> None:
    """docs/security.md lists these."""
    everything = (AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
    grant(client, TOPIC, f"{source_alias}.", AclOperation.WRITE, *everything)
    grant(client, TOPIC, "mm2-", AclOperation.READ, AclOperation.WRITE, *everything)
    grant(client, TRANSACTION, f"{source_alias}-mm2-", AclOperation.WRITE)
    grant(client, CLUSTER, "kafka-cluster", AclOperation.DESCRIBE, AclOperation.ALTER, prefixed=False)


def test_tls_and_scram_serve_for_reading_and_for_writing(
    guarded: KafkaCluster,
    encrypted: KafkaCluster,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    tmp_path: Path,
) -> None:
    alias = unique("guarded")
    there, back, secret = unique("there"), unique("back"), unique("secret")
    plain = {"bootstrap.servers": guarded.bootstrap_servers}
    other = {"bootstrap.servers": encrypted.bootstrap_servers}
    for client, topic in ((plain, there), (plain, secret), (other, back)):
        make_topics(client, {topic: 2})
        write(client, topic, numbered(0, 2_000, partitions=2, size_bytes=1_000))
    grant_what_a_source_needs(plain, there)
    grant(plain, TOPIC, secret, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    grant_what_a_target_needs(plain, "backup")
    lines = [f"backup->{alias}.enabled = true", f"backup->{alias}.topics = {back}"]
    text = flow_file(
        by_scram(guarded),
        by_certificate(encrypted, tmp_path, STORE_PASSWORD),
        alias=alias,
        topics=f"{there}, {secret}",
        lines=lines,
    )
    mirror = start_mirror(text)
    remote, returned = f"{alias}.{there}", f"backup.{back}"
    mirror.wait_until(lambda: count_records(other, remote) == count_records(plain, returned) == 2_000, "both arrive")
    mirror.wait_until(lambda: "grant READ on it" in mirror.errors, "what is not permitted is told")
    # Sessions of two seconds end meanwhile, on every connection.
    for at in range(2_000, 2_600, 200):
        write(plain, there, numbered(at, at + 200, partitions=2))
        write(other, back, numbered(at, at + 200, partitions=2))
        mirror.wait_until(lambda at=at: count_records(other, remote) >= at + 200, "it goes on")
    mirror.wait_until(lambda: count_records(other, remote) == count_records(plain, returned) == 2_600, "all arrive")
    grant(plain, TOPIC, secret, AclOperation.READ)
    mirror.wait_until(lambda: count_records(other, f"{alias}.{secret}") == 2_000, "a grant helps without a restart")
    # Commands and positions go over connections that log in again every two seconds.
    ended = mirror.stop(seconds_max=30)
    assert_same(read_topic(plain, there), read_topic(other, remote), there)
    assert_same(read_topic(other, back), read_topic(plain, returned), back)
    assert f"{secret}-" in ended.errors and "TOPIC_AUTHORIZATION_FAILED" in ended.errors
    assert PASSWORD not in ended.errors + ended.output and STORE_PASSWORD not in ended.errors + ended.output


OWN_TOKENS = """
from pathlib import Path

from tests.token_endpoint import unsecured_token


class Tokens:
    def configure(self, properties):
        self.log = Path(properties["log"])

    def token(self):
        with self.log.open("a") as log:
            print("asked", file=log)
        return unsecured_token(3600)
"""


def test_a_class_of_ones_own_gives_the_tokens_of_a_whole_mirror(
    source: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Driver, planner, reader and writer of Spark, jobs: each process makes the class and logs in by it."""
    alias, topic = unique("tokens"), unique("orders")
    (tmp_path / "own_tokens.py").write_text(OWN_TOKENS)
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{root}")
    log = tmp_path / "asked"
    make_topics(source, {topic: 2})
    write(source, topic, numbered(0, 1_000, partitions=2))
    with KafkaCluster(name="by-token", sasl=("OAUTHBEARER", "", "")) as cluster:
        target = {
            "bootstrap.servers": cluster.bootstrap_servers_sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": "own_tokens:Tokens",
            "sasl.jaas.config": f'{OAUTH} required log="{log}";',
        }
        ended = start_mirror(flow_file(source, target, alias=alias, topics=topic), "--once").finish()
        assert ended.status == 0, ended.errors
        assert "OAUTHBEARER over SASL_PLAINTEXT sends the token in the clear" in ended.errors
        arrived = {"bootstrap.servers": cluster.bootstrap_servers}
        assert_same(read_topic(source, topic), read_topic(arrived, f"{alias}.{topic}"), topic)
    processes = len(log.read_text().splitlines())
    assert 2 <= processes <= 12, "one token a process, not one a connection"


def test_a_wrong_password_is_reported_in_a_sentence_without_the_password(
    guarded: KafkaCluster, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    alias = unique("guarded")
    text = flow_file(by_scram(guarded, WRONG_PASSWORD), target, alias=alias, topics=".*")
    ended = start_mirror(text).finish()
    assert ended.status == 1
    assert ended.output == ""
    assert "\nsparkmirror: " in f"\n{ended.errors}" and alias in ended.errors
    assert "uthentication" in ended.errors or "credentials" in ended.errors
    assert "Traceback" not in ended.errors and WRONG_PASSWORD not in ended.errors
