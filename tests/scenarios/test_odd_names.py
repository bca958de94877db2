"""Every character that Kafka allows in a topic's name, and whatever a group may be called: mirrored, and translated."""

import string
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.oracle import Client, assert_same, count_records, list_topics, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import StartMirror, flow_file

NAME_MAX = 249
GROUPS = (
    string.punctuation,
    "with blanks and\ttabs ",
    "grüße aus 東京 🚂",
    "'; DROP TABLE groups; --",
    "${env:HOME}",
    "[\"A\",\"orders\"]",
    "%s %d {0} {name}",
    "g" * 1000,
    "\\u0041\\",
    ".",
)  # fmt: skip


@pytest.mark.long
def test_odd_names_are_mirrored_and_odd_groups_follow(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    story, alias = unique("odd"), unique("east")
    room = NAME_MAX - len(alias) - 1
    names = [
        f"{story}{string.ascii_letters}{string.digits}._-",
        f"-..{story}-dots...",
        f"_-_{story}-lines___",
        f"---{story}---",
        f"{alias}x.{story}.mm2-offset",
        f"{story}".ljust(room, "x"),
    ]
    too_long = f"{story}".ljust(NAME_MAX, "y")
    left_out = [f".{story}-internal-to-kafka", f"__{story}-too"]
    for name in (*names, *left_out, too_long):
        make_topics(source, {name: 2})
        write(source, name, numbered(0, 20, partitions=2))
    for number, group in enumerate(GROUPS):
        commit(source, group, names[number % len(names)], number)
    lines = [
        "sync.group.offsets.enabled = true",
        "sync.group.offsets.interval.seconds = 1",
        "emit.checkpoints.interval.seconds = 1",
        "groups = .*",
    ]
    mirror = start_mirror(flow_file(source, target, alias=alias, topics=rf".*{story}.*", lines=lines))
    for name in names:
        mirror.wait_until(lambda name=name: count_records(target, f"{alias}.{name}") == 20, f"{name} arrives")
    for number, group in enumerate(GROUPS):
        topic = f"{alias}.{names[number % len(names)]}"
        mirror.wait_until(
            lambda g=group, t=topic, n=number: committed(target, g, t) == n, f"group {group!r} follows", 40
        )
    assert too_long[-20:] in mirror.errors, "the one whose remote name is too long is told of"
    mirror.stop(30)  # one topic can never be written
    there = list_topics(target)
    assert not there & {f"{alias}.{name}" for name in left_out}, "as MirrorMaker, it takes them for Kafka's own"
    assert not any(too_long in name for name in there)
    for name in names:
        assert_same(read_topic(source, name), read_topic(target, f"{alias}.{name}"), name)


def commit(client: Client, group: str, topic: str, offset: int) -> None:
    member = Consumer({**client, "group.id": group})
    member.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    member.close()


def committed(client: Client, group: str, topic: str) -> int:
    member = Consumer({**client, "group.id": group})
    (found,) = member.committed([TopicPartition(topic, 0)], timeout=10)
    member.close()
    return int(found.offset)
