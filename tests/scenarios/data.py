"""Topics and records for the scenarios, written with librdkafka."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from tests.oracle import Client

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster, TopicPartition

FLUSH_SECONDS_MAX = 120.0
ORDER_SECONDS_MAX = 90.0
"""For what a broker is told to do: topics, settings, ACLs."""


class Note(NamedTuple):
    """A record to write. A timestamp of 0 is "now"."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


def make_topics(client: Client, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
    """Create topics with so many partitions each, replicated as far as the cluster's default says; they are led."""
    admin = AdminClient(dict(client))
    fresh = [NewTopic(name, partitions, -1, config=dict(config or {})) for name, partitions in topics.items()]
    for done in admin.create_topics(fresh).values():
        done.result(ORDER_SECONDS_MAX)
    await_leaders(client, topics)


def await_leaders(client: Client, topics: Mapping[str, int]) -> None:
    """Until the leaders of so many partitions of each topic answer for them.

    The controller has made a topic a moment before brokers tell of it, and these tell of it before they lead it.
    """
    wanted = {TopicPartition(name, at) for name, count in topics.items() for at in range(count)}
    deadline = time.monotonic() + ORDER_SECONDS_MAX
    with open_admin(Cluster("fresh", client), "test") as admin:
        while missing := wanted - admin.latest_offsets(wanted).known.keys():
            assert time.monotonic() < deadline, f"after {ORDER_SECONDS_MAX:g} s nobody leads {sorted(missing)}"
            time.sleep(0.02)


def grow_topic(client: Client, topic: str, partitions: int) -> None:
    """Add partitions until there are so many."""
    admin = AdminClient(dict(client))
    for done in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        done.result(ORDER_SECONDS_MAX)
    await_leaders(client, {topic: partitions})


def alter_topic(client: Client, topic: str, settings: Mapping[str, str | None]) -> None:
    """Sets each, or takes it away where its value is None; the brokers tell it when this returns.

    The controller has changed them a moment before brokers go by them.
    """
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET if value else AlterConfigOpType.DELETE)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient(dict(client))  # it must live until it has answered
    admin.incremental_alter_configs([resource])[resource].result(ORDER_SECONDS_MAX)
    deadline = time.monotonic() + ORDER_SECONDS_MAX
    with open_admin(Cluster("altered", client), "test") as brokers:
        while (found := _own_settings(brokers, topic, settings)) != dict(settings):
            assert time.monotonic() < deadline, f"after {ORDER_SECONDS_MAX:g} s {topic} has {found}, not {settings}"
            time.sleep(0.02)


def _own_settings(admin: Admin, topic: str, names: Iterable[str]) -> dict[str, str | None]:
    """What the topic has of its own, None where it has not."""
    entries = admin.describe_configs([topic], list(names)).get(topic, {})
    return {name: entries[name].value if name in entries and entries[name].is_override else None for name in names}


def set_order_bytes_max(client: Client, alias: str, size_bytes: int | None) -> None:
    """What the target takes in a record of the command topic of `alias`; None is what brokers take by themselves."""
    size = None if size_bytes is None else str(size_bytes)
    alter_topic(client, ledger_topics(alias).commands, {"max.message.bytes": size})


def write(client: Client, topic: str, notes: Iterable[Note], **settings: object) -> None:
    """Produce and wait for all acknowledgements; `settings` are the producer's, with `_` for `.`."""
    producer = Producer(
        {**client, "linger.ms": 20, **{name.replace("_", "."): value for name, value in settings.items()}}
    )
    failures: list[str] = []
    for note in notes:
        producer.produce(
            topic, note.value, note.key, note.partition, on_delivery=_complain(failures),
            timestamp=note.timestamp_ms, headers=list(note.headers),
        )  # fmt: skip
        producer.poll(0)
    assert producer.flush(FLUSH_SECONDS_MAX) == 0, f"{topic}: not all records were taken"
    assert not failures, f"{topic}: {failures[:3]}"


def numbered(first: int, stop: int, partitions: int = 1, size_bytes: int = 0) -> list[Note]:
    """Records first … stop - 1 with their number as value, dealt out to the partitions, each of at least a size."""
    return [
        Note(str(at).encode().ljust(size_bytes, b"."), key=f"k{at % 7}".encode(), partition=at % partitions)
        for at in range(first, stop)
    ]


def _complain(failures: list[str]) -> Callable[[object, object], None]:
    def on_delivery(problem: object, _: object) -> None:
        if problem is not None:
            failures.append(str(problem))

    return on_delivery
