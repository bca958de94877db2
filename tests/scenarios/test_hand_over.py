"""Partitions change their task inside an epoch: released by the one, taken on by the other, nothing lost or twice."""

import json
from collections.abc import Callable

from confluent_kafka.admin import AdminClient
from tests.oracle import Client, assert_same, count_records, read_messages, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import StartMirror, flow_file


def owners(target: Client, alias: str) -> dict[str, int]:
    """Which task stored each topic's position last."""
    found: dict[str, int] = {}
    for _, messages in read_messages(target, f"mm2-sparkmirror-positions.{alias}.internal"):
        for message in messages:
            found[json.loads(message.key())[1]] = json.loads(message.value())["task"]
    return found


def test_a_task_that_loses_its_partitions_is_given_others_while_all_go_on(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    story, alias = unique("hand"), unique("west")
    topics = [f"{story}.{letter}" for letter in "abcd"]
    make_topics(source, dict.fromkeys(topics, 1))
    for topic in topics:
        write(source, topic, numbered(0, 500))
    lines = ["tasks.max = 2", "refresh.topics.interval.seconds = 1"]
    mirror = start_mirror(flow_file(source, target, alias=alias, topics=rf"{story}\\..*", lines=lines))
    mirror.wait_until(lambda: len(owners_or_none(target, alias)) == 4, "all four topics have an owner")
    before = owners(target, alias)
    assert sorted(before.values()) == [0, 0, 1, 1]

    kept = [topic for topic in topics if before[topic] == 0]
    admin = AdminClient(dict(source))
    for deletion in admin.delete_topics([topic for topic in topics if before[topic] == 1]).values():
        deletion.result()
    mirror.wait_until(lambda: moved(source, target, alias, kept), "one of the kept topics moves to the other task")

    for topic in kept:
        write(source, topic, numbered(500, 1000))
    mirror.wait_until(
        lambda: all(count_records(target, f"{alias}.{topic}") >= count_records(source, topic) for topic in kept),
        "both kept topics are complete",
    )
    assert mirror.stop().status == 0
    for topic in kept:
        assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)


def owners_or_none(target: Client, alias: str) -> dict[str, int]:
    try:
        return owners(target, alias)
    except AssertionError:
        return {}


def moved(source: Client, target: Client, alias: str, kept: list[str]) -> bool:
    """The new owner shows with the first records that it copies."""
    for topic in kept:
        write(source, topic, numbered(0, 1))
    now = owners(target, alias)
    return {now[topic] for topic in kept} == {0, 1}
