"""Partitions change their task inside an epoch: released by the one, taken on by the other, nothing lost or twice."""

from collections.abc import Callable
from itertools import count

from confluent_kafka.admin import AdminClient
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import make_topics, numbered, set_order_bytes_max, write
from tests.scenarios.mirror import StartMirror, flow_file
from tests.scenarios.stored_positions import stored_positions


def owners(target: Client, alias: str) -> dict[str, int]:
    """Which task stored each topic's position last; of none before there are any."""
    return {key[1]: value["task"] for key, value in stored_positions(target, alias)}


def test_two_busy_partitions_part_and_idle_ones_are_evened_out_while_all_go_on(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    """Of four topics the two on the first task get busy: one of them moves to the second, although the target refuses
    the planner's orders for a while. Then that task's own are deleted."""
    story, alias = unique("hand"), unique("west")
    topics = [f"{story}.{letter}" for letter in "abcd"]
    make_topics(source, dict.fromkeys(topics, 1))
    for topic in topics:
        write(source, topic, numbered(0, 500))
    lines = ["tasks.max = 2", "tasks.min = 2", "refresh.topics.interval.seconds = 1", "balance.interval.seconds = 1"]
    mirror = start_mirror(flow_file(source, target, alias=alias, topics=rf"{story}\\..*", lines=lines))
    before: dict[str, int] = {}

    def are_even() -> bool:
        before.update(owners(target, alias))
        return sorted(before.values()) == [0, 0, 1, 1]

    mirror.wait_until(are_even, "each task has two of the four topics")
    busy = [topic for topic in topics if before[topic] == 0]
    calm = [topic for topic in topics if before[topic] == 1]
    numbers = count(500, 500)

    def busy_ones_part() -> bool:
        first = next(numbers)
        for topic in busy:
            write(source, topic, numbered(first, first + 500, size_bytes=200))
        now = owners(target, alias)
        return {now[topic] for topic in busy} == {0, 1}

    set_order_bytes_max(target, alias, 120)
    refused = "looking for new topics and loads failed"
    mirror.wait_until(lambda: busy_ones_part() or refused in mirror.errors, "the orders of a move are refused")
    set_order_bytes_max(target, alias, None)
    mirror.wait_until(busy_ones_part, "one of the busy topics moves to the other task")
    moved = "partitions move to tasks that have less to do: 1 from task 0 to task 1"
    mirror.wait_until(lambda: moved in mirror.errors, "the move is told")
    admin = AdminClient(dict(source))
    for deletion in admin.delete_topics(calm).values():
        deletion.result()
    for topic in busy:
        write(source, topic, numbered(0, 500))
    mirror.wait_until(
        lambda: all(count_records(target, f"{alias}.{topic}") >= count_records(source, topic) for topic in busy),
        "both busy topics are complete",
    )
    assert mirror.stop().status == 0
    assert "epoch" not in mirror.errors
    for topic in busy:
        assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)
