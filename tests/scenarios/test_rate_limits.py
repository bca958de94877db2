"""Rates: what the file and `sparkmirror throttle` allow is kept to, and brokers' quotas are obeyed and shown."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import COMMAND, StartMirror, flow_file
from tests.scenarios.quotas import quota
from tests.scenarios.status import status_of

RECORDS, RECORD_BYTES = 3000, 1000
LIMIT = 300_000
BURST_BYTES = 400_000
COPY_SECONDS_MAX = 60.0


def test_a_limit_is_kept_to_until_an_order_lifts_it(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    story, alias = unique("limit"), unique("slow")
    orders, audit = f"{story}.orders", f"{story}.audit"
    make_topics(source, {orders: 2, audit: 1})
    write(source, orders, numbered(0, RECORDS, partitions=2, size_bytes=RECORD_BYTES), batch_size=20_000)
    write(source, audit, numbered(0, RECORDS, size_bytes=RECORD_BYTES), batch_size=20_000)
    lines = ["tasks.max = 2", "tasks.min = 2", f"rate.limit.topics = {story}\\\\.orders:{LIMIT}"]
    text = flow_file(source, target, alias=alias, topics=rf"{story}\\..*", lines=lines)
    file = tmp_path / "throttled.properties"
    file.write_text(text)

    def mirrored(topic: str) -> int:
        return count_records(target, f"{alias}.{topic}")

    mirror = start_mirror(text)
    started = time.monotonic()

    def has_begun() -> bool:
        nonlocal started
        looked_at = time.monotonic()
        if mirrored(orders) == 0:
            started = looked_at
            return False
        return True

    mirror.wait_until(has_begun, "the first orders arrive")
    mirror.wait_until(lambda: mirrored(audit) == RECORDS, "a topic without a limit is copied", COPY_SECONDS_MAX)
    mirror.wait_until(lambda: mirrored(orders) >= RECORDS // 3, "a third of the orders", COPY_SECONDS_MAX)
    arrived_bytes = mirrored(orders) * RECORD_BYTES
    assert arrived_bytes <= LIMIT * (time.monotonic() - started) + BURST_BYTES
    assert time.monotonic() - started >= (RECORDS // 3 * RECORD_BYTES - BURST_BYTES) / LIMIT
    mirror.wait_until(lambda: status_of(target, alias).limited_ms > 0, "the status tells of the limit", 10)

    flow = f"{alias}->backup"
    told = subprocess.run(
        [str(COMMAND), "throttle", str(file), flow, rf"{story}\.orders", "none"], capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
    assert "no limit" in told.stdout
    mirror.wait_until(lambda: mirrored(orders) == RECORDS, "the rest comes at once", COPY_SECONDS_MAX)
    mirror.stop()
    for topic in (orders, audit):
        assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)


def test_quotas_of_brokers_are_obeyed_and_shown(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    topic, alias = unique("orders"), unique("quota")
    make_topics(source, {topic: 2})
    write(source, topic, numbered(0, RECORDS, partitions=2, size_bytes=RECORD_BYTES), batch_size=20_000)
    lines = [f"{alias}.consumer.client.id = {alias}", f"backup.producer.client.id = {alias}"]
    text = flow_file(source, target, alias=alias, topics=topic, lines=lines)
    with (
        quota(source, f"{alias}-reader", "consumer_byte_rate", 150_000),
        quota(target, f"{alias}-writer", "producer_byte_rate", 75_000),
    ):
        mirror = start_mirror(text)
        mirror.wait_until(lambda: count_records(target, f"{alias}.{topic}") > 0, "the first records arrive")
        mirror.wait_until(
            lambda: (now := status_of(target, alias)).throttled_ms > 0 and now.source_throttled_ms > 0,
            "the status tells of both quotas",
            COPY_SECONDS_MAX,
        )
        for side in ("source", "target"):
            said = f"held back by quotas of the {side}"
            mirror.wait_until(lambda said=said: said in mirror.errors, said, COPY_SECONDS_MAX)
    mirror.wait_until(lambda: count_records(target, f"{alias}.{topic}") >= RECORDS, "all records", COPY_SECONDS_MAX)
    mirror.stop()
    assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)
