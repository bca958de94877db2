"""The witness itself must be able to say no."""

from collections.abc import Callable, Mapping

import pytest
from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests import oracle
from tests.oracle import Client, Log, Seen, Span, assert_same, assert_whole_repeats, find_holes, read_messages
from tests.scenarios.data import FLUSH_SECONDS_MAX, ORDER_SECONDS_MAX, make_topics
from tests.second_client import find_left_out

RECORDS = 30


def log(*numbers: int) -> Log:
    return {0: [Seen(b"key", str(number).encode(), (("h", b"1"),), (1, number)) for number in numbers]}


def test_equal_logs_pass() -> None:
    assert_same(log(0, 1, 2), log(0, 1, 2), "orders")


@pytest.mark.parametrize(
    ("mirrored", "words"),
    [
        (log(0, 1), "the first missing one is key=b'key' value=b'2'"),
        (log(0, 1, 2, 2), "the first surplus one is key=b'key' value=b'2'"),
        (log(0, 2, 1), "record 1 of 3 differs"),
        ({**log(0, 1, 2), 1: []}, "partitions"),
        ({0: [*log(0, 1)[0], Seen(b"key", b"2", (("h", None),), (1, 2))]}, "record 2 of 3 differs"),
        ({0: [*log(0, 1)[0], Seen(b"key", b"2", (("h", b"1"),), (2, 2))]}, "record 2 of 3 differs"),
    ],
)
def test_any_difference_is_reported(mirrored: Log, words: str) -> None:
    with pytest.raises(AssertionError, match="orders") as told:
        assert_same(log(0, 1, 2), mirrored, "orders")
    assert words in str(told.value)


def test_repeats_are_counted_when_they_are_whole() -> None:
    assert assert_whole_repeats(log(0, 1, 2, 3), log(0, 1, 2, 1, 2, 3), "orders") == 2


@pytest.mark.parametrize(
    ("mirrored", "words"),
    [
        (log(0, 2, 3), "record 2 follows record 0: 1 are missing"),
        (log(0, 1, 2, 3, 1), "ends with record 1 of 4"),
        (log(0, 1, 2), "ends with record 2 of 4"),
        (log(0, 1, 2, 3, 4), "not a record of the source"),
    ],
)
def test_holes_and_lost_ends_are_no_repeats(mirrored: Log, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        assert_whole_repeats(log(0, 1, 2, 3), mirrored, "orders")


@pytest.mark.parametrize(
    ("offsets", "span", "holes"),
    [
        ([0, 1, 2], (0, 3), []),
        ([2, 3], (0, 4), [(0, 2)]),
        ([1, 2], (0, 3), [(0, 1)]),
        ([5, 6, 9, 11], (5, 12), [(7, 9)]),
        ([0, 1], (0, 4), [(2, 4)]),
        ([], (3, 9), [(3, 9)]),
        ([], (9, 9), []),
        ([0, 1, 1, 2, 3], (0, 3), []),
    ],
)
def test_holes_are_where_offsets_are_missing(offsets: list[int], span: Span, holes: list[Span]) -> None:
    assert find_holes(offsets, span) == holes


def test_records_that_a_client_left_out_are_found_by_another(target: Client, unique: Callable[[str], str]) -> None:
    topic = unique("numbers")
    _write(target, topic)
    assert find_left_out(target, topic, 0, [(0, 7), (20, 22)], seconds_max=60) == [*range(7), 20, 21]
    at = TopicPartition(topic, 0, 5)
    admin = AdminClient(dict(target))
    admin.delete_records([at])[at].result(ORDER_SECONDS_MAX)
    assert find_left_out(target, topic, 0, [(0, 7)], seconds_max=60) == [5, 6], "what is deleted is left out by nobody"


def test_holes_that_a_log_has_are_no_ones_fault(target: Client, unique: Callable[[str], str]) -> None:
    """Markers, also at its end, and what was aborted."""
    topic = unique("numbers")
    producer = _open_transactions(target, topic)
    for aborts in (False, True, True):
        producer.begin_transaction()
        _produce(producer, topic)
        assert producer.flush(FLUSH_SECONDS_MAX) == 0
        if aborts:
            producer.abort_transaction(ORDER_SECONDS_MAX)
        else:
            producer.commit_transaction(ORDER_SECONDS_MAX)
    committed = {**target, "isolation.level": "read_committed"}
    end = 3 * (RECORDS + 1)
    assert find_left_out(committed, topic, 0, [(RECORDS, end)], seconds_max=60) == []
    assert len(find_left_out(target, topic, 0, [(RECORDS, end)], seconds_max=60)) == 2 * RECORDS


@pytest.mark.parametrize("wrong", ["skipped", "repeated"])
def test_what_the_first_client_does_wrong_is_read_again(
    target: Client,
    unique: Callable[[str], str],
    wrong: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = unique("numbers")
    _write(target, topic)
    read, turns = oracle._read, iter((True, False))

    def read_wrong(
        client: Client, name: str, spans: Mapping[int, Span], seconds_max: float
    ) -> dict[int, list[Message]]:
        found = read(client, name, spans, seconds_max)
        if next(turns):
            found[0] = found[0][10:] if wrong == "skipped" else [*found[0][:20], *found[0][10:]]
        return found

    monkeypatch.setattr(oracle, "_read", read_wrong)
    assert [message.offset() for _, log in read_messages(target, topic) for message in log] == list(range(RECORDS))
    assert f"{topic}-0 is read again: librdkafka" in capsys.readouterr().err


def _write(client: Client, topic: str) -> None:
    make_topics(client, {topic: 1})
    producer = Producer(dict(client))
    _produce(producer, topic)
    assert producer.flush(FLUSH_SECONDS_MAX) == 0


def _produce(producer: Producer, topic: str) -> None:
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode(), partition=0)


def _open_transactions(client: Client, topic: str) -> Producer:
    make_topics(client, {topic: 1})
    producer = Producer({**client, "transactional.id": topic})
    producer.init_transactions(ORDER_SECONDS_MAX)
    return producer
