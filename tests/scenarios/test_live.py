"""A mirror that runs: what comes while it runs, how it stops, and how the next run goes on."""

import os
from collections.abc import Callable
from pathlib import Path

from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import grow_topic, make_topics, numbered, write
from tests.scenarios.mirror import StartMirror, flow_file

ARRIVAL_SECONDS_MAX = 30.0


def test_a_running_mirror_finds_what_is_new_and_a_restart_repeats_and_loses_nothing(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    story, alias = unique("live"), unique("east")
    orders, late, grown, many = (f"{story}.{name}" for name in ("orders", "late", "grown", "many"))
    # More partitions than are made before the query starts: `many` and `orders` come while it runs.
    make_topics(source, {orders: 3, grown: 1, many: 251})
    write(source, many, numbered(0, 251, partitions=251))
    write(source, orders, numbered(0, 300, partitions=3))
    write(source, grown, numbered(0, 10))
    text = flow_file(source, target, alias=alias, topics=rf"{story}\\..*", lines=["tasks.max = 2", "tasks.min = 2"])

    def arrived(counts: dict[str, int]) -> bool:
        return all(count_records(target, f"{alias}.{topic}") >= count for topic, count in counts.items())

    mirror = start_mirror(text)
    mirror.wait_until(lambda: arrived({orders: 300, grown: 10}), "the first records arrive")
    mirror.wait_until(lambda: arrived({many: 251}), "those of very many partitions", ARRIVAL_SECONDS_MAX)
    assert f"create {alias}.{many} for {many}" in mirror.errors, "it was not made while the flow ran"
    write(source, orders, numbered(300, 600, partitions=3))
    mirror.wait_until(lambda: arrived({orders: 600}), "records written meanwhile arrive", 5)
    make_topics(source, {late: 2})
    write(source, late, numbered(0, 50, partitions=2))
    grow_topic(source, grown, 3)
    write(source, grown, numbered(10, 40, partitions=3))
    mirror.wait_until(lambda: arrived({late: 50, grown: 40}), "a new topic and new partitions", ARRIVAL_SECONDS_MAX)
    mirror.stop()
    mirror.close()

    write(source, orders, numbered(600, 700, partitions=3))
    write(source, late, numbered(50, 60, partitions=2))
    again = start_mirror(text)
    again.wait_until(lambda: arrived({orders: 700, late: 60}), "the rest arrives after the restart")
    again.stop()
    for topic in (orders, late, grown, many):
        assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)


def test_a_mirror_that_is_stopped_while_it_prepares_its_first_start_ends_at_once_and_leaves_nothing(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    topic, alias = unique("early"), unique("east")
    make_topics(source, {topic: 1})
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    mirror = start_mirror(flow_file(source, target, alias=alias, topics=topic), environment=environment)
    mirror.wait_until(lambda: "Preparing" in mirror.errors and mirror.jvms(), "a JVM makes the class archive")
    mirror.stop()
    mirror.close()
