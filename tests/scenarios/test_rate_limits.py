"""Rates: what the file and `sparkmirror throttle` allow is kept to, and brokers' quotas are obeyed and shown."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import COMMAND, StartMirror, flow_file

from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.dial import dial
from sparkmirror.kafka.settings import client_settings
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.status.board import FlowStatus, StatusBoard, latest_run

RECORDS, RECORD_BYTES = 3000, 1000
LIMIT = 300_000
BURST_BYTES = 400_000
COPY_SECONDS_MAX = 60.0


def status_of(target: Client, alias: str) -> FlowStatus:
    """What the flow's latest run has reported."""
    topic = TopicPartition(ledger_topics(alias).status, 0)
    with open_tail(Cluster("backup", dict(target)), "test", [topic]) as tail:
        records = [(record.key, record.value) for record in tail.read_to_end(10.0)]
    board = StatusBoard(alias, latest_run(records, alias) or "")
    for key, value in records:
        board.take(key, value)
    return board.status()


def alter_quota(client: Client, client_id: str, key: str, bytes_per_second: float | None) -> None:
    """Set a broker's quota for a client id, or remove it."""
    host, _, port = client["bootstrap.servers"].rpartition(":")
    entry = AlterClientQuotasRequest.EntryData
    link = dial(host, int(port), client_settings(Cluster("quota", dict(client)), "test"))
    try:
        change = entry.OpData(key=key, value=bytes_per_second or 0.0, remove=bytes_per_second is None)
        who = entry.EntityData(entity_type="client-id", entity_name=client_id)
        request = AlterClientQuotasRequest(entries=[entry(entity=[who], ops=[change])], validate_only=False)
        answer = link.ask(request, AlterClientQuotasResponse, 1)
        assert not answer.entries[0].error_code, answer.entries[0].error_message
    finally:
        link.close()


@contextmanager
def quota(client: Client, client_id: str, key: str, bytes_per_second: float) -> Iterator[None]:
    alter_quota(client, client_id, key, bytes_per_second)
    try:
        yield
    finally:
        alter_quota(client, client_id, key, None)


def test_a_limit_is_kept_to_until_an_order_lifts_it(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    story, alias = unique("limit"), unique("slow")
    orders, audit = f"{story}.orders", f"{story}.audit"
    make_topics(source, {orders: 2, audit: 1})
    write(source, orders, numbered(0, RECORDS, partitions=2, size_bytes=RECORD_BYTES), batch_size=20_000)
    write(source, audit, numbered(0, RECORDS, size_bytes=RECORD_BYTES), batch_size=20_000)
    lines = ["tasks.max = 2", f"rate.limit.topics = {story}\\\\.orders:{LIMIT}"]
    text = flow_file(source, target, alias=alias, topics=rf"{story}\\..*", lines=lines)
    file = tmp_path / "throttled.properties"
    file.write_text(text)

    def mirrored(topic: str) -> int:
        return count_records(target, f"{alias}.{topic}")

    mirror = start_mirror(text)
    mirror.wait_until(lambda: mirrored(orders) > 0, "the first orders arrive")
    started = time.monotonic()
    mirror.wait_until(lambda: mirrored(audit) == RECORDS, "a topic without a limit is copied", COPY_SECONDS_MAX)
    mirror.wait_until(lambda: mirrored(orders) >= RECORDS // 3, "a third of the orders", COPY_SECONDS_MAX)
    allowed = LIMIT * (time.monotonic() - started) + BURST_BYTES
    assert mirrored(orders) * RECORD_BYTES <= allowed
    assert time.monotonic() - started >= (RECORDS // 3 * RECORD_BYTES - BURST_BYTES) / LIMIT
    mirror.wait_until(lambda: status_of(target, alias).limited_ms > 0, "the status tells of the limit", 10)

    flow = f"{alias}->backup"
    told = subprocess.run(
        [str(COMMAND), "throttle", str(file), flow, rf"{story}\.orders", "none"], capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
    assert "no limit" in told.stderr
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
        quota(target, f"{alias}-writer", "producer_byte_rate", 150_000),
    ):
        mirror = start_mirror(text)
        mirror.wait_until(lambda: count_records(target, f"{alias}.{topic}") > 0, "the first records arrive")
        mirror.wait_until(
            lambda: (now := status_of(target, alias)).throttled_ms > 0 and now.source_throttled_ms > 0,
            "the status tells of both quotas",
            COPY_SECONDS_MAX,
        )
    mirror.wait_until(lambda: count_records(target, f"{alias}.{topic}") >= RECORDS, "all records", COPY_SECONDS_MAX)
    ended = mirror.stop()
    assert "held back by quotas of the source" in ended.errors
    assert "held back by quotas of the target" in ended.errors
    assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)
