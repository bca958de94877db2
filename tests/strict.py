"""Two clusters whose authorizers let a mirror's principal do what `operations.grants` lists for its file, and no
more."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.oracle import Client, count_records, list_topics
from tests.scenarios.data import ORDER_SECONDS_MAX, make_topics, numbered, write
from tests.scenarios.mirror import flow_file

from sparkmirror.config.flow.flows import MirrorConfig, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.kafka.answers import PREFIXED
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.groups import commit_group_offsets
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.operations.acl_commands import list_all
from sparkmirror.operations.grants import Grant, Kind
from sparkmirror.testing.kafka import KafkaCluster

USER, PASSWORD = "mirror", "correct-horse-battery-staple"
NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
"""For a file whose rows alone are of interest."""
KINDS = {
    Kind.TOPIC: ResourceType.TOPIC,
    Kind.GROUP: ResourceType.GROUP,
    Kind.CLUSTER: ResourceType.BROKER,
    Kind.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}
IMPLIED_BY = {"DESCRIBE": {"READ", "WRITE", "ALTER", "DELETE"}, "DESCRIBE_CONFIGS": {"ALTER_CONFIGS"}}
"""Who may do the latter may do the former (`AclEntry` of Kafka)."""
_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_USUAL = ("groups = billing", "tasks.max = 2")


@dataclass
class Scene:
    """Both clusters as an administrator sees them, by alias; and the file, whose principal may do what is granted."""

    admins: Mapping[str, Client]
    text: str
    config: MirrorConfig
    grants: list[Grant]
    _clients: dict[str, AdminClient] = field(default_factory=dict)
    written: int = 0

    def allow(self, *grants: Grant) -> None:
        for grant in grants:
            for done in self._admin(grant.alias).create_acls(_bindings(grant)).values():
                done.result(ORDER_SECONDS_MAX)

    def allow_others(self, *bindings: AclBinding) -> None:
        """On the source."""
        for done in self._admin("A").create_acls(list(bindings)).values():
            done.result(ORDER_SECONDS_MAX)

    def forbid(self, grant: Grant) -> None:
        """Takes away what `allow` gave."""
        filters = [_as_filter(binding) for binding in _bindings(grant)]
        for done in self._admin(grant.alias).delete_acls(filters).values():
            done.result(ORDER_SECONDS_MAX)

    def _admin(self, alias: str) -> AdminClient:
        if alias not in self._clients:
            self._clients[alias] = AdminClient(dict(self.admins[alias]))
        return self._clients[alias]

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


def without(grant: Grant, operation: str) -> Grant:
    """The one operation of a row."""
    return replace(grant, operations=(operation,))


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


def _as_filter(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        binding.restype, binding.name, binding.resource_pattern_type, binding.principal, binding.host,
        binding.operation, binding.permission_type,
    )  # fmt: skip


def strict_config(source: Client, target: Client, lines: Sequence[str] = ()) -> tuple[str, MirrorConfig]:
    """A file of the flow A->backup, and what it means."""
    text = flow_file(source, target, alias="A", topics="orders.*", lines=[*_USUAL, *lines])
    return text, parse_config(parse_properties(text.encode(), "strict.properties"))


@contextmanager
def strict_scene(*lines: str) -> Iterator[Scene]:
    """Three topics on the source, of which the file mirrors two; every row of the table is granted."""
    with ExitStack() as cleanup:
        clusters = {
            alias: cleanup.enter_context(KafkaCluster(name=name, sasl=("PLAIN", USER, PASSWORD), config=_AUTHORIZER))
            for alias, name in (("A", "strict-a"), ("backup", "strict-b"))
        }
        admins = {alias: {"bootstrap.servers": one.bootstrap_servers} for alias, one in clusters.items()}
        make_topics(admins["A"], {"orders": 1, "orders-eu": 1, "secret": 1}, {"retention.ms": "123456789"})
        text, config = strict_config(_login(clusters["A"]), _login(clusters["backup"]), lines)
        scene = Scene(admins, text, config, list(list_all(config)))
        scene.allow(*scene.grants)
        yield scene


def _login(cluster: KafkaCluster) -> Client:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "bootstrap.servers": cluster.bootstrap_servers_sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="{USER}" password="{PASSWORD}";',
    }
