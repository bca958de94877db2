"""`sparkmirror run --once`: what is there now is copied, every record as it is, and nothing twice."""

from collections.abc import Callable

from confluent_kafka import Message, Producer
from tests.oracle import Client, assert_same, count_records, list_topics, read_messages, read_topic
from tests.scenarios.data import Note, make_topics, numbered, write
from tests.scenarios.mirror import MirrorOnce, StartMirror, flow_file

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LONG_AGO_MS = 1_000_000_000_000
ODD_HEADERS: tuple[tuple[str, bytes | None], ...] = (
    ("trace", b"1"), ("trace", b"2"), ("null", None), ("empty", b""), ("ключ", b"\x00\xff"), ("trace", b"1"),
)  # fmt: skip


def odd_records() -> list[Note]:
    """Everything that a record may be, on three partitions."""
    notes = [
        Note(b"plain", b"key"),
        Note(None, b"tombstone"),
        Note(b"null key"),
        Note(b"", b""),
        Note(None),
        Note(b"headers", b"key", headers=ODD_HEADERS),
        Note(None, b"headers on a tombstone", headers=ODD_HEADERS),
        Note(b"long ago", b"key", timestamp_ms=LONG_AGO_MS),
        Note(b"out of order", b"key", timestamp_ms=LONG_AGO_MS - 5),
        Note(bytes(range(256)) * 400, b"\x00\xff"),
    ]
    return [note._replace(partition=number) for number in range(3) for note in notes * 3]


def test_every_record_arrives_as_it_is_and_a_second_run_copies_nothing(
    source: Client, target: Client, unique: Callable[[str], str], mirror_once: MirrorOnce
) -> None:
    story = unique("once")
    alias = unique("east")
    shapes = {f"{story}.{codec}": 3 for codec in CODECS} | {f"{story}.empty": 1, f"{story}.wide": 64}
    make_topics(source, shapes)
    for codec in CODECS:
        write(source, f"{story}.{codec}", odd_records(), compression_type=codec)
    write(source, f"{story}.wide", numbered(0, 6_400, partitions=64))
    # Somebody made the offsets topic before us, with another size than ours: where a key lives follows from that.
    make_topics(target, {f"mm2-offsets.{alias}.internal": 7}, {"cleanup.policy": "compact"})
    text = flow_file(source, target, alias=alias, topics=rf"{story}\\..*", lines=["tasks.max = 2"])

    first = mirror_once(text)
    for topic in shapes:
        assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)
    assert "6,850 records" in first.errors
    assert_positions_are_as_connect_writes_them(target, alias, story)

    before = {topic: count_records(target, f"{alias}.{topic}") for topic in shapes}
    second = mirror_once(text)
    assert {topic: count_records(target, f"{alias}.{topic}") for topic in shapes} == before
    assert f"{alias}->backup: 0 records" in second.errors


def assert_positions_are_as_connect_writes_them(target: Client, alias: str, story: str) -> None:
    """MirrorMaker would go on from here: its key and value to the byte, in the partition its producer would choose."""
    newest: dict[bytes, Message] = {}
    for _, messages in read_messages(target, f"mm2-offsets.{alias}.internal"):
        newest |= {message.key(): message for message in messages}
    for number in range(3):
        # 90 records in all, 30 in each partition: the last one's offset is 29.
        key = b'["MirrorSourceConnector",{"cluster":"%s","partition":%d,"topic":"%s.lz4"}]'
        key %= (alias.encode(), number, story.encode())
        assert newest[key].value() == b'{"offset":29}'
    chosen = where_librdkafka_puts(target, set(newest), alias)
    assert {key: message.partition() for key, message in newest.items()} == chosen


def where_librdkafka_puts(target: Client, keys: set[bytes], alias: str) -> dict[bytes, int]:
    """Java's default partitioner by another hand: the same keys into a topic of as many partitions."""
    scratch = f"partitioner-{alias}"
    make_topics(target, {scratch: 7})
    chosen: dict[bytes, int] = {}
    producer = Producer({**target, "partitioner": "murmur2"})
    for key in keys:
        producer.produce(scratch, b"", key, on_delivery=lambda _, sent: chosen.update({sent.key(): sent.partition()}))
    assert producer.flush(60) == 0
    return chosen


def test_a_dry_run_prints_the_plan_and_changes_nothing(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    story, alias = unique("dry"), unique("east")
    make_topics(source, {story: 2}, {"cleanup.policy": "compact"})
    write(source, story, numbered(0, 10))
    before = topics_of_users(source), topics_of_users(target)
    ended = start_mirror(flow_file(source, target, alias=alias, topics=story), "--dry-run").finish()
    assert (ended.status, ended.errors) == (0, "")
    created = f"create {alias}.{story} for {story}: 2 partitions, replication factor 1, cleanup.policy=compact"
    assert created in ended.output
    assert f"mirror {story} to {alias}.{story}, 2 partitions" in ended.output
    assert (topics_of_users(source), topics_of_users(target)) == before


def topics_of_users(client: Client) -> set[str]:
    """Without Kafka's own, which brokers create when they are first asked for a group."""
    return {name for name in list_topics(client) if not name.startswith("__")}
