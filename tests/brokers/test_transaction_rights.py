"""What the principal of a transactional write needs, and what is said where one right is missing."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.brokers.test_transaction import append, begun
from tests.scenarios.data import ORDER_SECONDS_MAX
from tests.waiting import wait_until

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.wire.transaction import GroupOffset
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.testing.kafka import KafkaCluster

_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""A resource that has ACLs is open to those alone whom they allow."""
_NEEDED = {
    "topic WRITE": (ResourceType.TOPIC, "", AclOperation.WRITE),
    "topic READ": (ResourceType.TOPIC, "", AclOperation.READ),
    "id WRITE": (ResourceType.TRANSACTIONAL_ID, "-id", AclOperation.WRITE),
    "group READ": (ResourceType.GROUP, "", AclOperation.READ),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with KafkaCluster(name="rights", config=_AUTHORIZER) as found:
        yield Cluster("kafka", {"bootstrap.servers": found.bootstrap_servers})


def allow(cluster: Cluster, topic: str, missing: str) -> None:
    """What is missing is allowed to somebody else."""
    admin = AdminClient(dict(cluster.client))
    acls = [
        AclBinding(kind, f"{topic}{end}", ResourcePatternType.LITERAL, who, "*", operation, AclPermissionType.ALLOW)
        for name, (kind, end, operation) in _NEEDED.items()
        for who in ["User:other" if name == missing else "User:ANONYMOUS"]
    ]
    for made in admin.create_acls(acls).values():
        made.result(ORDER_SECONDS_MAX)


def write(cluster: Cluster, topic: str) -> None:
    where = TopicPartition(topic, 0)
    transaction = begun(cluster, where)
    try:
        append(cluster, transaction, where, b"1")
        transaction.commit_offset(topic, GroupOffset(where, 1, ""))
        transaction.commit()
        transaction.committed(topic)
    finally:
        transaction.close()


@pytest.mark.parametrize("missing", ["", *_NEEDED])
def test_each_right_is_needed_and_no_other(cluster: Cluster, unique: Callable[[str], str], missing: str) -> None:
    topic = unique("rights")
    with open_admin(cluster, "test") as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    allow(cluster, topic, missing)
    said: list[str] = []

    def is_as_expected() -> bool:
        """A broker knows of an ACL a moment after the controller."""
        try:
            write(cluster, topic)
        except ClusterError as problem:
            said.append(str(problem.args[0]))
            return bool(missing) and "AUTHORIZATION_FAILED" in said[-1].upper().replace(" ", "_")
        return not missing

    wait_until(is_as_expected, f"without {missing or 'nothing'} it is refused or done as expected: {said}")
