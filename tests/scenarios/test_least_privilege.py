"""A mirror whose principal may do exactly what docs/permissions.md lists: all of the default configuration works."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.faults.sharing import wait_until_shared
from tests.oracle import Client, count_records, list_topics
from tests.scenarios.data import ORDER_SECONDS_MAX, grow_topic, make_topics, numbered, write
from tests.scenarios.mirror import Mirror, StartMirror, flow_file

from sparkmirror.config.flows import MirrorConfig, parse_config
from sparkmirror.config.properties import parse_properties
from sparkmirror.kafka.acls import describe_acls
from sparkmirror.kafka.answers import PREFIXED
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.groups import commit_group_offsets
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.sync.acl_commands import list_all
from sparkmirror.sync.grants import Grant, Kind
from sparkmirror.testing.kafka import KafkaCluster

pytestmark = pytest.mark.long

USER, PASSWORD = "mirror", "correct-horse-battery-staple"
READER = AclBinding(
    ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:alice", "*",
    AclOperation.READ, AclPermissionType.ALLOW,
)  # fmt: skip
KINDS = {
    Kind.TOPIC: ResourceType.TOPIC,
    Kind.GROUP: ResourceType.GROUP,
    Kind.CLUSTER: ResourceType.BROKER,
    Kind.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}
CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@dataclass
class Scene:
    """Both clusters as an administrator sees them, by alias; and the file, whose principal may do what is granted."""

    admins: Mapping[str, Client]
    text: str
    config: MirrorConfig
    grants: list[Grant]
    _clients: list[AdminClient] = field(default_factory=list)
    written: int = 0

    def allow(self, grant: Grant) -> None:
        for done in self._admin(grant.alias).create_acls(_bindings(grant)).values():
            done.result(ORDER_SECONDS_MAX)

    def _admin(self, alias: str) -> AdminClient:
        self._clients.append(AdminClient(dict(self.admins[alias])))
        return self._clients[-1]

    def write(self, topic: str, count: int = 100) -> None:
        write(self.admins["A"], topic, numbered(self.written, self.written + count))
        self.written += count

    def mirrored(self, topic: str) -> int:
        return count_records(self.admins["backup"], f"A.{topic}") if self.is_there(f"A.{topic}") else 0

    def is_there(self, topic: str) -> bool:
        return topic in list_topics(self.admins["backup"])

    def has_records(self, alias: str, topic: str) -> bool:
        return topic in list_topics(self.admins[alias]) and count_records(self.admins[alias], topic) > 0

    def commit(self, offset: int) -> None:
        with open_admin(Cluster("A", self.admins["A"]), "test") as admin:
            assert commit_group_offsets(admin, "billing", {TopicPartition("orders", 0): Committed(offset)}) == {}

    def is_copied(self) -> bool:
        with open_admin(Cluster("backup", self.admins["backup"]), "test") as admin:
            return any(one.topic == "A.orders" and one.principal == "User:alice" for one in describe_acls(admin) or ())


def _bindings(grant: Grant) -> list[AclBinding]:
    return [
        AclBinding(
            KINDS[one.kind], one.name or "kafka-cluster",
            ResourcePatternType.PREFIXED if one.pattern == PREFIXED else ResourcePatternType.LITERAL,
            f"User:{USER}", "*", AclOperation[operation], AclPermissionType.ALLOW,
        )
        for one in grant.resources
        for operation in grant.operations
    ]  # fmt: skip


@pytest.fixture
def scene() -> Iterator[Scene]:
    with ExitStack() as cleanup:
        clusters = {
            alias: cleanup.enter_context(KafkaCluster(name=name, sasl=("PLAIN", USER, PASSWORD), config=CONFIG))
            for alias, name in (("A", "strict-a"), ("backup", "strict-b"))
        }
        admins = {alias: {"bootstrap.servers": one.bootstrap_servers} for alias, one in clusters.items()}
        make_topics(admins["A"], {"orders": 1, "orders-eu": 1, "secret": 1}, {"retention.ms": "123456789"})
        source, target = (_login(clusters[alias]) for alias in ("A", "backup"))
        text = flow_file(source, target, alias="A", topics="orders.*", lines=["groups = billing", "tasks.max = 2"])
        config = parse_config(parse_properties(text.encode(), "strict.properties"))
        scene = Scene(admins, text, config, list(list_all(config)))
        (reading,) = scene._admin("A").create_acls([READER]).values()
        reading.result(ORDER_SECONDS_MAX)
        for grant in scene.grants:
            scene.allow(grant)
        yield scene


def _login(cluster: KafkaCluster) -> Client:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "bootstrap.servers": cluster.bootstrap_servers_sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="{USER}" password="{PASSWORD}";',
    }


def assert_nothing_was_refused(mirror: Mirror) -> None:
    refused = [line for line in mirror.errors.splitlines() if "AUTHORIZATION" in line or "grant" in line.lower()]
    assert refused == []


def test_exactly_these_rights_do_over_a_restart_and_a_second_process(scene: Scene, start_mirror: StartMirror) -> None:
    scene.write("orders")
    scene.commit(40)
    first = start_mirror(scene.text)
    first.wait_until(lambda: scene.mirrored("orders") == 100, "records arrive")
    for alias, topic in (
        ("backup", "A.checkpoints.internal"),
        ("backup", "heartbeats"),
        ("A", "heartbeats"),
        ("A", "mm2-offset-syncs.backup.internal"),
    ):
        first.wait_until(lambda alias=alias, topic=topic: scene.has_records(alias, topic), f"{topic} on {alias}")
    first.wait_until(scene.is_copied, "ACLs are copied")
    first.stop(60)
    assert_nothing_was_refused(first)
    make_topics(scene.admins["A"], {"orders-late": 1})
    grow_topic(scene.admins["A"], "orders-eu", 2)
    second, third = start_mirror(scene.text), start_mirror(scene.text)
    wait_until_shared(second, third)  # type: ignore[arg-type]
    for topic in ("orders", "orders-late", "orders-eu"):
        scene.write(topic)
    second.wait_until(
        lambda: [scene.mirrored(f"orders{end}") for end in ("", "-late", "-eu")] == [200, 100, 100], "all"
    )
    assert not scene.is_there("A.secret")
    second.stop(60)
    third.stop(60)
    assert_nothing_was_refused(second)
    assert_nothing_was_refused(third)
