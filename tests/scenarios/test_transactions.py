"""A source written by transactions: with read_committed only what was committed is mirrored, without it everything.

And one that is mirrored from a point in time on.
"""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from tests.oracle import Client, count_records, read_topic
from tests.scenarios.data import Note, make_topics, write
from tests.scenarios.mirror import MirrorOnce, StartMirror, Verify, flow_file

MINUTE_MS = 60_000


def write_transactions(source: Client, topic: str, transactional_id: str) -> None:
    """Six transactions of 50 records over two partitions, every other one aborted."""
    producer = Producer({**source, "transactional.id": transactional_id})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        for record in range(50):
            producer.produce(topic, f"{number}-{record}".encode(), partition=record % 2)
        producer.flush(60)
        if number % 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def write_aborted(source: Client, topic: str, records: int) -> None:
    """One transaction of so many records in partition 0, aborted."""
    producer = Producer({**source, "transactional.id": f"{topic}-aborted", "linger.ms": 20})
    producer.init_transactions(60)
    producer.begin_transaction()
    for record in range(records):
        producer.produce(topic, b"%d" % record, partition=0)
        producer.poll(0)
    producer.flush(60)
    producer.abort_transaction(60)


def values(client: Client, topic: str) -> dict[int, list[bytes | None]]:
    return {partition: [seen.value for seen in log] for partition, log in read_topic(client, topic).items()}


def expected(transactions: range) -> dict[int, list[bytes | None]]:
    return {
        partition: [f"{number}-{record}".encode() for number in transactions for record in range(partition, 50, 2)]
        for partition in (0, 1)
    }


def test_aborted_records_are_left_out_with_read_committed_and_copied_without(
    source: Client, target: Client, unique: Callable[[str], str], mirror_once: MirrorOnce
) -> None:
    topic, strict, plain = unique("payments"), unique("strict"), unique("plain")
    make_topics(source, {topic: 2})
    write_transactions(source, topic, unique("writer"))

    mirror_once(
        flow_file(
            source, target, alias=strict, topics=topic, lines=[f"{strict}.consumer.isolation.level = read_committed"]
        )
    )
    assert values(target, f"{strict}.{topic}") == expected(range(0, 6, 2))

    mirror_once(flow_file(source, target, alias=plain, topics=topic))
    assert values(target, f"{plain}.{topic}") == expected(range(6))


@pytest.mark.long
def test_transactions_of_both_sides_are_no_difference_to_verify(
    source: Client, target: Client, unique: Callable[[str], str], mirror_once: MirrorOnce, verify: Verify
) -> None:
    """On the source, aborted and committed; on the target, those of exactly once."""
    topic = unique("payments")
    make_topics(source, {topic: 2})
    write_transactions(source, topic, unique("writer"))
    for name, committed, records in (("strict", "read_committed", 150), ("plain", "read_uncommitted", 300)):
        for support in ("enabled", "disabled"):
            alias = unique(name)
            lines = [
                f"{alias}.consumer.isolation.level = {committed}",
                f"backup.exactly.once.source.support = {support}",
            ]
            text = flow_file(source, target, alias=alias, topics=topic, lines=lines)
            mirror_once(text)
            status, output, errors = verify(text)
            assert (status, f"equal: {records} records of 2 partitions" in output) == (0, True), output + errors


def test_a_mirror_begins_at_a_time_inside_a_batch_and_waits_for_open_transactions(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    topic, alias = unique("recent"), unique("timed")
    make_topics(source, {topic: 1})
    now_ms = int(time.time() * 1000)
    # None is so near to an hour that it matters when the mirror comes to look.
    minutes = [*range(120, 65, -1), *range(50, 0, -1)]
    ages = [Note(b"%d minutes old" % age, timestamp_ms=now_ms - age * MINUTE_MS) for age in minutes]
    write(source, topic, ages, linger_ms=120_000, compression_type="lz4")  # one batch
    producer = Producer({**source, "transactional.id": unique("writer"), "transaction.timeout.ms": 600_000})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"inside", partition=0)
    producer.flush(60)
    write(source, topic, [Note(b"behind")])

    lines = [
        f"{alias}.consumer.isolation.level = read_committed",
        f"{alias}.consumer.auto.offset.reset = by_duration:PT1H",
    ]
    mirror = start_mirror(flow_file(source, target, alias=alias, topics=topic, lines=lines))
    remote = f"{alias}.{topic}"
    mirror.wait_until(lambda: count_records(target, remote) >= 50, "what is younger than an hour is mirrored")
    recent = [note.value for note in ages[-50:]]
    assert values(target, remote) == {0: recent}, "nothing older, and nothing from behind the open transaction's begin"
    producer.commit_transaction(60)
    mirror.wait_until(lambda: count_records(target, remote) >= 52, "once it is committed, all is mirrored")
    assert values(target, remote) == {0: [*recent, b"inside", b"behind"]}
