"""The independent witness: reads topics with librdkafka, which shares no code with us, and compares record by record.

For the scenario tests. `read_topic` reads every partition from its beginning to the end offsets that it found at its
start. Where offsets are missing between, another client is asked whether there are records: what librdkafka left out is
read again, and said; what the log does not have is left to the comparison.
"""

import itertools
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.second_client import Hole, find_left_out

Client = Mapping[str, str]
"""librdkafka's properties that reach a cluster: `bootstrap.servers` and security."""

READ_SECONDS_MAX = 120.0

DEADLINE_SECONDS_LEAST = 60.0
"""A deadline ends what hangs. How long things take on a machine that others use too is the benchmarks' to tell."""

LEADER_SECONDS_MAX = 60.0

READS_MAX = 3
_TURN_SECONDS = 0.02
"""librdkafka waits so long for more, also where the end was reached."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A record as a consumer sees it, without its offset: that may differ between the two sides."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: tuple[int, int]
    """Kind (1 create time, 2 append time) and milliseconds since the epoch."""


Log = dict[int, list[Seen]]
"""A topic: the records of each partition, in order."""

Span = tuple[int, int]
"""A partition's first offset and its end."""


def list_topics(client: Client) -> set[str]:
    """All topics of the cluster, internal ones included."""
    return set(AdminClient(dict(client)).list_topics(timeout=LEADER_SECONDS_MAX).topics)


def count_records(client: Client, topic: str) -> int:
    """Sum of end offsets less first offsets; 0 for a topic that does not exist. Transaction markers count."""
    return sum(high - low for low, high in _spans(client, topic).values())


def read_topic(client: Client, topic: str, seconds_max: float = READ_SECONDS_MAX, *, has_old_lz4: bool = False) -> Log:
    """All records of `topic`, up to its present end; fails when that takes longer than `seconds_max`.

    One with lz4 of magic 0 and 1 has no second look: the second client cannot unpack that.
    """
    messages = read_messages(client, topic, seconds_max, has_old_lz4=has_old_lz4)
    return {number: [_seen(message) for message in log] for number, log in messages}


def read_messages(
    client: Client, topic: str, seconds_max: float = READ_SECONDS_MAX, *, has_old_lz4: bool = False
) -> list[tuple[int, list[Message]]]:
    """As `read_topic`, the client's own messages with offsets."""
    spans = _spans(client, topic)
    assert spans, f"topic {topic} does not exist"
    found = _read(client, topic, spans, seconds_max)
    if not has_old_lz4:
        for number, span in spans.items():
            found[number] = _read_whole(client, topic, number, span, found[number], seconds_max)
    return sorted(found.items())


def _read_whole(
    client: Client, topic: str, number: int, span: Span, log: list[Message], seconds_max: float
) -> list[Message]:
    """The partition without what a client may leave out or repeat; `log` is the first attempt."""
    for _ in range(READS_MAX):
        offsets = [message.offset() for message in log]
        rises = all(before < after for before, after in itertools.pairwise(offsets))
        left_out = find_left_out(client, topic, number, find_holes(offsets, span), seconds_max=seconds_max)
        if rises and not left_out:
            return log
        print(f"{topic}-{number} is read again: {_describe_skip(offsets, left_out)}", file=sys.stderr)
        log = _read(client, topic, {number: span}, seconds_max)[number]
    raise AssertionError(f"librdkafka does not read {topic}-{number} whole in {READS_MAX + 1} attempts")


def _describe_skip(offsets: Sequence[int], left_out: Sequence[int]) -> str:
    if not left_out:
        return "librdkafka went back and repeated records"
    return f"librdkafka left out {len(left_out)} records from offset {left_out[0]} on, and read {len(offsets)}"


def find_holes(offsets: Sequence[int], span: Span) -> list[Hole]:
    """Where offsets are missing, also before the first and behind the last.

    One alone in the middle is not looked after: transactions leave one for each marker.
    """
    low, high = span
    edges = [low - 1, *offsets, high]
    holes = [(before + 1, after) for before, after in itertools.pairwise(edges) if after > before + 1]
    return [(begin, end) for begin, end in holes if begin == low or end - begin > 1]


def _read(client: Client, topic: str, spans: Mapping[int, Span], seconds_max: float) -> dict[int, list[Message]]:
    consumer = _consumer(client)
    try:
        wanted = {number: high for number, (low, high) in spans.items() if high > low}
        consumer.assign([TopicPartition(topic, number, spans[number][0]) for number in wanted])
        return {number: [] for number in spans} | _read_until(consumer, wanted, topic, seconds_max)
    finally:
        consumer.close()


def _read_until(
    consumer: Consumer, wanted: Mapping[int, int], topic: str, seconds_max: float
) -> dict[int, list[Message]]:
    found: dict[int, list[Message]] = {number: [] for number in wanted}
    missing = set(wanted)
    deadline = time.monotonic() + seconds_max
    while missing:
        assert time.monotonic() < deadline, f"partitions {sorted(missing)} of {topic} were not read in {seconds_max} s"
        for message in consumer.consume(10_000, timeout=_TURN_SECONDS):
            problem = message.error()
            if problem is None:
                found[message.partition()].append(message)
            elif problem.code() != KafkaError._PARTITION_EOF:
                continue  # brokers that are away: librdkafka tries again by itself
            if message.offset() + (problem is None) >= wanted[message.partition()]:
                missing.discard(message.partition())
    return found


def _consumer(client: Client) -> Consumer:
    return Consumer(
        {
            "group.id": "oracle",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "earliest",
            **client,
        }
    )


def _spans(client: Client, topic: str) -> dict[int, Span]:
    """First and end offset of each partition; leaders that are on the move are waited for.

    With a new client each time: get_watermark_offsets goes on asking a leader that is dead.
    """
    deadline = time.monotonic() + LEADER_SECONDS_MAX
    while True:
        consumer = _consumer(client)
        try:
            described = consumer.list_topics(timeout=10).topics.get(topic)
            numbers = sorted(described.partitions) if described is not None else []
            return {at: consumer.get_watermark_offsets(TopicPartition(topic, at), timeout=3) for at in numbers}
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        finally:
            consumer.close()


def _seen(message: Message) -> Seen:
    headers = tuple(message.headers() or ())
    return Seen(message.key(), message.value(), headers, message.timestamp())


def assert_same(source: Log, mirrored: Log, what: str) -> None:
    """Every record of `source`, once, in order, and nothing else; the message shows the first difference."""
    assert set(source) == set(mirrored), f"{what}: partitions {sorted(source)} became {sorted(mirrored)}"
    for number, records in sorted(source.items()):
        assert records == mirrored[number], f"{what}-{number}: {_first_difference(records, mirrored[number])}"


def _first_difference(wanted: Sequence[Seen], got: Sequence[Seen]) -> str:
    for at, (left, right) in enumerate(zip(wanted, got, strict=False)):
        if left != right:
            return f"record {at} of {len(wanted)} differs:\n  source {_brief(left)}\n  target {_brief(right)}"
    more = f"{len(wanted)} records on the source, {len(got)} on the target; "
    if len(wanted) > len(got):
        return f"{more}the first missing one is {_brief(wanted[len(got)])}"
    return f"{more}the first surplus one is {_brief(got[len(wanted)])}"


def assert_whole_repeats(source: Log, mirrored: Log, what: str) -> int:
    """At least once, in order: a partition is the source's, read forward without a hole; where it jumps, it jumps back.

    Values must be unique within a partition. Returns the number of records that came more than once.
    """
    assert set(source) == set(mirrored), f"{what}: partitions {sorted(source)} became {sorted(mirrored)}"
    return sum(_follow(records, mirrored[number], f"{what}-{number}") for number, records in sorted(source.items()))


def _follow(wanted: Sequence[Seen], got: Sequence[Seen], where: str) -> int:
    place = {record.value: at for at, record in enumerate(wanted)}
    assert len(place) == len(wanted), f"{where}: the test's own values are not unique"
    last = -1
    for record in got:
        at = place.get(record.value, -1)
        assert at >= 0 and wanted[at] == record, f"{where}: not a record of the source: {_brief(record)}"
        assert at <= last + 1, f"{where}: record {at} follows record {last}: {at - last - 1} are missing between"
        last = at
    assert last == len(wanted) - 1, f"{where}: ends with record {last} of {len(wanted)}"
    return len(got) - len(wanted)


def _brief(record: Seen) -> str:
    def cut(data: bytes | None) -> str:
        return repr(data) if data is None or len(data) <= 60 else f"{data[:60]!r}… ({len(data)} bytes)"

    return f"key={cut(record.key)} value={cut(record.value)} headers={record.headers} timestamp={record.timestamp}"
