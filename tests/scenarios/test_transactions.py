"""A source written by transactions: with read_committed only what was committed is mirrored, without it everything."""

from collections.abc import Callable

from confluent_kafka import Producer
from tests.oracle import Client, read_topic
from tests.scenarios.data import make_topics
from tests.scenarios.mirror import MirrorOnce, flow_file


def write_transactions(source: Client, topic: str, transactional_id: str) -> None:
    """Six transactions of 50 records over two partitions, every other one aborted."""
    producer = Producer({**source, "transactional.id": transactional_id})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for record in range(50):
            producer.produce(topic, f"{number}-{record}".encode(), partition=record % 2)
        producer.flush(30)
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


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
