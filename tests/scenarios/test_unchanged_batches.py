"""Batches of which the steps of a flow change no record pass as they came, also where the steps have conditions that
other records meet."""

import random
from collections.abc import Callable

import pytest
from tests.oracle import Client, read_messages, read_topic
from tests.scenarios.data import Note, make_topics, write
from tests.scenarios.mirror import MirrorOnce, flow_file
from tests.tampering import batches_of

from sparkmirror.batch.header import HEADER_BYTES, parse_header
from sparkmirror.testing.kafka import KafkaCluster

LONG_AGO_MS = 1_000_000_000_000
RECORDS, BAD, CARDS = 3000, 1234, range(2000, 2100, 7)
DEAD = ("transforms.deadletter.when = cast(value AS string) LIKE 'bad%'", "transforms.deadletter.topic = {story}-dead")
MASK = ("transforms.set.value = regexp_replace(cast(value AS string), 'card-[0-9]+', 'card-*')",)
ALL = (
    *MASK,
    "transforms.set.key = if(cast(value AS string) LIKE 'card%', upper(cast(key AS string)), cast(key AS string))",
    "transforms.set.headers = filter(headers, one -> cast(value AS string) NOT LIKE 'card%')",
    "transforms.set.topic = if(cast(value AS string) LIKE 'bad%', '{story}-bad', target_topic)",
)


def notes() -> list[Note]:
    drawn = random.Random(5)
    values = [b"v" + drawn.randbytes(500).hex().encode() for _ in range(RECORDS)]
    values[BAD] = b"bad"
    for at in CARDS:
        values[at] = b"card-4111 %d" % at
    return [Note(value, b"k%d" % at, 0, LONG_AGO_MS + at, (("h", b"%d" % at),)) for at, value in enumerate(values)]


def content(batch: bytes) -> tuple[object, ...]:
    """What a producer's and a broker's fields do not say."""
    header = parse_header(batch, 0)
    return header.attributes, header.base_timestamp, header.max_timestamp, header.records_count, batch[HEADER_BYTES:]


@pytest.mark.parametrize(
    ("steps", "changed"),
    [(DEAD, [BAD]), (MASK, [*CARDS]), ((*DEAD, *MASK), [BAD, *CARDS]), (ALL, [BAD, *CARDS])],
    ids=["dead letters", "mask", "both", "all columns"],
)
def test_only_batches_of_which_a_record_changes_are_encoded_again(
    source: Client,
    target: Client,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    unique: Callable[[str], str],
    mirror_once: MirrorOnce,
    steps: tuple[str, ...],
    changed: list[int],
) -> None:
    story, alias = unique("orders"), unique("east")
    make_topics(source, {story: 1})
    write(source, story, written := notes(), compression_type="lz4", batch_num_messages=40, linger_ms=500)
    lines = [*(step.format(story=story) for step in steps), "tasks.max = 1"]
    mirror_once(flow_file(source, target, alias=alias, topics=story, lines=lines))

    came, there = batches_of(source_cluster, story, 0), batches_of(target_cluster, f"{alias}.{story}", 0)
    headers = [parse_header(batch, 0) for batch in came]
    untouched = [
        content(batch)
        for batch, header in zip(came, headers, strict=True)
        if not any(header.base_offset <= at < header.next_offset for at in changed)
    ]
    assert len(untouched) > len(came) * 0.8
    assert [one for one in map(content, there) if one in untouched] == untouched

    found = {record.key: record for record in read_topic(target, f"{alias}.{story}")[0]}
    apart = {BAD} if any("bad" in step for step in steps) else set()
    assert len(found) == RECORDS - len(apart)
    for at in CARDS:
        if at in changed:
            key = b"K%d" % at if steps is ALL else b"k%d" % at
            assert found[key].value == b"card-* %d" % at
            assert len(found[key].headers) == (steps is not ALL)
    for at in set(range(RECORDS)).difference(changed):
        record = found[b"k%d" % at]
        assert (record.value, record.headers) == (written[at].value, written[at].headers)
    if apart:
        elsewhere = f"{story}-bad" if steps is ALL else f"{story}-dead"
        (message,) = (message for _, log in read_messages(target, elsewhere) for message in log)
        assert (message.key(), message.value()) == (b"k%d" % BAD, b"bad")
