"""Groups on a real broker: classic and KIP-848 ones, what they committed, and committing for those nobody is in."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer
from tests.oracle import Client
from tests.scenarios.data import make_topics, numbered, write

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.groups import GroupIsActive, GroupOffsetsClient, has_members, list_groups
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.testing.kafka import KafkaCluster

JOIN_SECONDS_MAX = 60.0


@pytest.fixture
def client(source_cluster: KafkaCluster) -> Client:
    return {"bootstrap.servers": source_cluster.bootstrap_servers}


@pytest.fixture
def admin(client: Client) -> Iterator[Admin]:
    with open_admin(Cluster("A", client), "groups") as opened:
        yield opened


@contextmanager
def member(client: Client, group: str, topic: str, protocol: str) -> Iterator[Consumer]:
    """A consumer that has joined and read something."""
    consumer = Consumer(
        {**client, "group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest",
         "enable.auto.commit": False}
    )  # fmt: skip
    consumer.subscribe([topic])
    ends_at = time.monotonic() + JOIN_SECONDS_MAX
    while (message := consumer.poll(0.1)) is None or message.error():
        assert time.monotonic() < ends_at, f"{group} ({protocol}) got nothing"
    try:
        yield consumer
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_active_while_it_has_a_member_and_takes_commits_afterwards(
    client: Client, admin: Admin, unique: Callable[[str], str], protocol: str
) -> None:
    topic, group = unique("orders"), unique("group")
    make_topics(client, {topic: 2})
    write(client, topic, numbered(0, 20, partitions=2))
    groups = GroupOffsetsClient(admin, JOIN_SECONDS_MAX)
    wanted = {TopicPartition(topic, 0): Committed(7, "by us"), TopicPartition(topic, 1): Committed(3)}
    with member(client, group, topic, protocol):
        listing = list_groups(admin)[group]
        assert (listing.is_active, listing.is_consumer, listing.kind.lower()) == (True, True, protocol)
        assert has_members(admin, group)
        with pytest.raises(GroupIsActive, match=group):
            groups.commit(group, wanted)
    ends_at = time.monotonic() + JOIN_SECONDS_MAX
    while has_members(admin, group):
        assert time.monotonic() < ends_at, f"{group} ({protocol}) still has its member"
    assert groups.commit(group, wanted) == {}
    assert groups.committed([group]) == ({group: wanted}, {})


def test_a_group_that_does_not_exist_has_no_offsets_and_is_made_by_a_commit(
    client: Client, admin: Admin, unique: Callable[[str], str]
) -> None:
    topic, group = unique("orders"), unique("group")
    make_topics(client, {topic: 1})
    groups = GroupOffsetsClient(admin, JOIN_SECONDS_MAX)
    assert groups.committed([group]) == ({group: {}}, {})
    assert groups.commit(group, {TopicPartition(topic, 0): Committed(5)}) == {}
    assert not list_groups(admin)[group].is_active
    refused = groups.commit(group, {TopicPartition(unique("nowhere"), 0): Committed(5)})
    assert [str(problem).count("UNKNOWN_TOPIC_OR_PARTITION") for problem in refused.values()] == [1]


def test_many_groups_are_read_in_a_few_requests(client: Client, admin: Admin, unique: Callable[[str], str]) -> None:
    topic, prefix = unique("orders"), unique("many")
    make_topics(client, {topic: 3})
    groups = GroupOffsetsClient(admin, JOIN_SECONDS_MAX)
    offsets = {TopicPartition(topic, number): Committed(number + 1, f"note {number}") for number in range(3)}
    names = [f"{prefix}-{number}" for number in range(250)]
    for name in names:
        groups.commit(name, offsets)
    assert groups.committed(names) == (dict.fromkeys(names, offsets), {})
