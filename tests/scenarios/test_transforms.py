"""Transforms by the command: records are dropped, masked, re-keyed, routed, set aside, and all are accounted for."""

import json
from collections.abc import Callable

from tests.oracle import Client, Seen, assert_same, list_topics, read_messages, read_topic
from tests.scenarios.data import Note, make_topics, write
from tests.scenarios.mirror import MirrorOnce, flow_file

LONG_AGO_MS = 1_000_000_000_000
HEADERS: tuple[tuple[str, bytes | None], ...] = (("trace", b"1"), ("trace", None), ("secret", b"\x00\xff"))


def orders() -> list[Note]:
    """Three partitions of orders: JSON, tombstones, rubbish."""
    notes = []
    for at in range(900):
        order = {"id": at, "customer": f"c{at % 17}", "card": "4111-1111", "country": ("de", "fr", "us")[at % 3]}
        value = None if at % 50 == 7 else b"rubbish" if at % 50 == 8 else json.dumps(order).encode()
        headers = HEADERS if at % 2 else ()
        notes.append(Note(value, f"{at}".encode(), at % 3, LONG_AGO_MS + at, headers))
    return notes


def test_each_step_does_what_the_file_says_and_every_source_offset_is_accounted_for(
    source: Client, target: Client, unique: Callable[[str], str], mirror_once: MirrorOnce
) -> None:
    story, alias = unique("orders"), unique("east")
    make_topics(source, {story: 3})
    write(source, story, orders(), compression_type="lz4")
    lines = [
        f'{alias}->backup.transforms.where = value IS NULL OR cast(value AS string) NOT LIKE \'%"country": "us"%\'',
        f"{alias}->backup.transforms.deadletter.when = "
        "value IS NOT NULL AND get_json_object(cast(value AS string), '$.id') IS NULL",
        f"{alias}->backup.transforms.deadletter.topic = {story}-dead",
        f"{alias}->backup.transforms.set.value = regexp_replace(cast(value AS string), '4111-1111', '****')",
        f"{alias}->backup.transforms.set.key = "
        "coalesce(get_json_object(cast(value AS string), '$.customer'), cast(key AS string))",
        f"{alias}->backup.transforms.set.topic = "
        f"if(cast(value AS string) LIKE '%\"fr\"%', '{story}-france', target_topic)",
        f"{alias}->backup.transforms.set.partition = "
        "if(cast(value AS string) LIKE '%\"fr\"%', cast(null AS int), partition)",
        f"{alias}->backup.transforms = stamp, drop",
        f"{alias}->backup.transforms.stamp.type = org.apache.kafka.connect.transforms.InsertHeader",
        f"{alias}->backup.transforms.stamp.header = mirrored",
        f"{alias}->backup.transforms.stamp.value.literal = it's",
        f"{alias}->backup.transforms.drop.type = org.apache.kafka.connect.transforms.DropHeaders",
        f"{alias}->backup.transforms.drop.headers = secret",
        "tasks.max = 2",
    ]
    text = flow_file(source, target, alias=alias, topics=story, lines=lines)
    mirror_once(text)
    wanted: dict[int, list[Seen]] = {0: [], 1: [], 2: []}
    dead: list[bytes | None] = []
    french: dict[bytes, list[bytes]] = {}
    for note in orders():
        if note.value and b'"us"' in note.value:
            continue
        if note.value == b"rubbish":
            dead.append(note.key)
            continue
        value = note.value and note.value.replace(b"4111-1111", b"****")
        key = json.loads(value)["customer"].encode() if value else note.key or b""
        if value and b'"fr"' in value:
            french.setdefault(key, []).append(value)
            continue
        headers = tuple(header for header in note.headers if header[0] != "secret")
        seen = Seen(key, value, (*headers, ("mirrored", b"it's")), (1, note.timestamp_ms))
        wanted[note.partition].append(seen)
    assert_same(wanted, read_topic(target, f"{alias}.{story}"), story)

    dead_letters = [message for _, log in read_messages(target, f"{story}-dead") for message in log]
    assert sorted(message.key() for message in dead_letters) == sorted(key or b"" for key in dead)
    for message in dead_letters:
        number = int(message.key())
        origin = dict(message.headers()[-3:])
        assert message.value() == b"rubbish" and message.headers()[:-3] == list(HEADERS if number % 2 else ())
        assert origin == {
            "__connect.errors.topic": story.encode(),
            "__connect.errors.partition": b"%d" % (number % 3),
            "__connect.errors.offset": b"%d" % (number // 3),
        }

    routed = read_topic(target, f"{story}-france")
    assert len(routed) == 3
    where = {record.key: number for number, log in routed.items() for record in log}
    for number, log in routed.items():
        assert {where[record.key] for record in log} <= {number}, "records of one key are in one partition"
    by_key: dict[bytes, list[bytes]] = {}
    for log in routed.values():
        for record in log:
            by_key.setdefault(record.key or b"", []).append(record.value or b"")
    assert {key: sorted(values) for key, values in by_key.items()} == {
        key: sorted(values) for key, values in french.items()
    }

    positions = newest_positions(target, alias)
    assert positions == {f"{story}-{number}": 299 for number in range(3)}
    before = {name: read_topic(target, name) for name in list_topics(target) if story in name}
    second = mirror_once(text)
    assert f"{alias}->backup: 0 records" in second.errors
    assert {name: read_topic(target, name) for name in before} == before


def newest_positions(target: Client, alias: str) -> dict[str, int]:
    """The offset of the last mirrored record by partition, as Connect's record says."""
    newest: dict[str, int] = {}
    for _, messages in read_messages(target, f"mm2-offsets.{alias}.internal"):
        for message in messages:
            where = json.loads(message.key())[1]
            newest[f"{where['topic']}-{where['partition']}"] = json.loads(message.value())["offset"]
    return newest
