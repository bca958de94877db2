"""Batches of which the steps of a flow change no record pass as they came, also where the steps have conditions that
other records meet."""

import random
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from tests.oracle import read_messages, read_topic
from tests.scenarios.data import Note, make_topics, write
from tests.scenarios.mirror import Mirror, flow_file
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


class Kind(NamedTuple):
    """The steps of a flow, and which records they change."""

    name: str
    steps: tuple[str, ...]
    changed: list[int]


KINDS = (
    Kind("dead-letters", DEAD, [BAD]),
    Kind("mask", MASK, [*CARDS]),
    Kind("both", (*DEAD, *MASK), [BAD, *CARDS]),
    Kind("all-columns", ALL, [BAD, *CARDS]),
)


class Flows(NamedTuple):
    """What one run has mirrored: a flow of each kind, with its own alias of the source and its own topic."""

    source: KafkaCluster
    target: KafkaCluster
    names: Mapping[str, tuple[str, str]]
    """Alias and topic by kind."""


@pytest.fixture(scope="module")
def flows(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, class_archive: None, tmp_path_factory: Any
) -> Flows:
    source, target = ({"bootstrap.servers": one.bootstrap_servers} for one in (source_cluster, target_cluster))
    mark = uuid4().hex[:8]
    names = {kind.name: (f"{kind.name}-{mark}", f"orders-{kind.name}-{mark}") for kind in KINDS}
    lines = [f"clusters = {', '.join(alias for alias, _ in names.values())}, backup", "tasks.max = 1"]
    for kind in KINDS:
        alias, story = names[kind.name]
        make_topics(source, {story: 1})
        write(source, story, notes(), compression_type="lz4", batch_num_messages=40, linger_ms=500)
        flow = f"{alias}->backup"
        lines += [f"{alias}.bootstrap.servers = {source['bootstrap.servers']}", f"{flow}.enabled = true"]
        lines += [f"{flow}.topics = {story}", *(f"{flow}.{step.format(story=story)}" for step in kind.steps)]
    first, topic = names[KINDS[0].name]
    text = flow_file(source, target, alias=first, topics=topic, lines=lines)
    mirror = Mirror(tmp_path_factory.mktemp("unchanged"), text, ["--once"])
    try:
        ended = mirror.finish()
        assert ended.status == 0, ended.errors
        assert "Traceback" not in ended.errors, ended.errors
    finally:
        mirror.close()
    return Flows(source_cluster, target_cluster, names)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_only_batches_of_which_a_record_changes_are_encoded_again(flows: Flows, kind: Kind) -> None:
    alias, story = flows.names[kind.name]
    target = {"bootstrap.servers": flows.target.bootstrap_servers}
    written, (_, steps, changed) = notes(), kind
    came, there = batches_of(flows.source, story, 0), batches_of(flows.target, f"{alias}.{story}", 0)
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
