"""Fetch responses become rows: runs, gaps and faults, and nothing is stepped over that is still to come."""

import json
import select
from collections import deque
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.batch.records import encode_batch
from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.wire.data_requests import FetchedPartition, FetchResponse
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch.connection import Frame
from sparkmirror.pipeline.fetch.emptiness import EMPTY_ANSWERS_MIN, EMPTY_SECONDS
from sparkmirror.pipeline.fetch.loss import judge_divergence
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState, Partitions
from sparkmirror.pipeline.fetch.responses import FetchResponseReader
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.ring import Ring, RingPeer

TOPIC_ID = UUID(int=1)
BATCH = encode_batch([(None, b"v")] * 5, base_offset=0)


class Answered:
    """Stands for a connection that has just received one response."""

    by_id = True

    def __init__(
        self, partitions: list[FetchedPartition], asked_offset: int = 0, throttle_ms: int = 0, error: int = 0
    ) -> None:
        self._partitions = partitions
        self._asked_offset = asked_offset
        self._throttle_ms = throttle_ms
        self._error = error

    def decode(self, frame: Frame) -> FetchResponse:
        return FetchResponse(self._throttle_ms, self._error, 1, self._partitions)

    def asked(self, fetched: FetchedPartition, offset: int) -> bool:
        return offset == self._asked_offset


def fetched(number: int, size: int, *, error: int = 0, readable: int = 5, diverging: int = -1) -> FetchedPartition:
    return FetchedPartition(TOPIC_ID.bytes, number, error, 5, readable, 0, -1, 0, size, (), -1, diverging)


class Field:
    """Two partitions of `orders` on broker 1, to be read up to offset 5."""

    def __init__(self) -> None:
        self.ring = Ring(1 << 20)
        self.asked_for: list[PartitionFetchState] = []
        self.clock = ManualClock()
        self.response_reader = FetchResponseReader(self.ring, self.asked_for.append, self.clock)
        self.partitions = Partitions(1 << 20)
        self.fetch_states = [
            self.partitions.add(Assigned(TopicPartition("orders", number), 0, topic_id=TOPIC_ID, end=5), 1)
            for number in (0, 1)
        ]

    def take(self, *partitions: FetchedPartition, asked_offset: int = 0) -> list[str]:
        return self.take_bytes(BATCH, *partitions, asked_offset=asked_offset)

    def take_bytes(self, buffer: bytes, *partitions: FetchedPartition, asked_offset: int = 0) -> list[str]:
        frame = Frame(memoryview(buffer), None)
        self.response_reader.take_frame(1, Answered(list(partitions), asked_offset), frame, self.partitions)  # type: ignore[arg-type]
        return [
            f"{row.kind} {row.partition} {row.first_offset}-{row.next_offset}"
            for row in self.response_reader.take_rows()
        ]


@pytest.fixture
def field() -> Iterator[Field]:
    made = Field()
    yield made
    made.ring.close()


def test_a_partition_that_found_no_room_in_a_full_response_is_read_later(field: Field) -> None:
    assert field.take(fetched(0, len(BATCH)), fetched(1, 0)) == ["run 0 0-5"]
    assert [fetch_state.done for fetch_state in field.fetch_states] == [True, False]


def test_the_first_answer_says_where_an_idle_partition_ends_and_no_later_one_does(field: Field) -> None:
    for fetch_state in field.fetch_states:
        fetch_state.end, fetch_state.offset = None, 5
    assert field.take(fetched(0, 0), asked_offset=5) == ["fault 0 None-None"]
    assert field.take(fetched(0, 0), fetched(1, 0), asked_offset=5) == ["fault 1 None-None"]
    assert field.take(fetched(0, 0), fetched(1, 0), asked_offset=5) == []


def test_an_empty_answer_is_no_end_and_believed_only_when_it_lasts(field: Field) -> None:
    assert field.take(fetched(0, 0), fetched(1, 0)) == ["fault 0 None-None", "fault 1 None-None"]
    field.clock.now += EMPTY_SECONDS - 1
    for _ in range(2):  # in a session that has nothing new, no partition is named
        assert field.take() == []
    assert field.take(fetched(1, len(BATCH))) == ["run 1 0-5"], "it was only late"
    field.clock.now += 1
    assert field.take() == []
    assert field.take() == ["gap 0 0-5"], "nothing is skipped in silence"
    assert all(fetch_state.done for fetch_state in field.fetch_states)


def test_a_process_that_has_slept_asks_again_before_it_believes(field: Field) -> None:
    field.take(fetched(0, 0))
    field.clock.now += 10 * EMPTY_SECONDS
    said = [row for _ in range(EMPTY_ANSWERS_MIN) for row in field.take()]
    assert said == ["gap 0 0-5"]
    field.take(fetched(1, 0))
    field.clock.now += 10 * EMPTY_SECONDS
    field.fetch_states[1].held_by_writer = True
    assert [field.take() for _ in range(9)] == [[]] * 9, "a partition that is not asked for does not answer"


def test_answers_that_throttle_us_are_not_empty_ones(field: Field) -> None:
    """They name no partition because nothing was read."""
    field.take(fetched(0, 0))
    throttled: Any = Answered([], throttle_ms=9000)
    for _ in range(2 * EMPTY_ANSWERS_MIN):
        field.clock.now += 9
        field.response_reader.take_frame(1, throttled, Frame(memoryview(b""), None), field.partitions)
    assert field.response_reader.take_rows() == []
    said = [row for _ in range(EMPTY_ANSWERS_MIN) for row in field.take()]
    assert said == ["gap 0 0-5"], "what the broker does read counts"


def test_an_open_transaction_below_the_end_is_waited_for(field: Field) -> None:
    assert field.take(fetched(0, 0, readable=3)) == []
    assert not field.fetch_states[0].done


def test_an_answer_to_an_older_question_is_left_alone(field: Field) -> None:
    """After a seek, its records would hide a gap (invariant 1)."""
    field.fetch_states[0].offset = 2
    assert field.take(fetched(0, len(BATCH)), asked_offset=0) == []
    assert field.fetch_states[0].offset == 2


def test_a_log_that_parted_from_ours_is_a_gap_with_its_topic_id(field: Field) -> None:
    field.fetch_states[0].offset = 4
    frame = Frame(memoryview(BATCH), None)
    field.response_reader.take_frame(1, Answered([fetched(0, 0, diverging=3)], 4), frame, field.partitions)  # type: ignore[arg-type]
    (row,) = field.response_reader.take_rows()
    assert (row.kind, row.first_offset, row.next_offset) == ("gap", 4, 3)
    assert json.loads(row.payload or b"") == {
        "cause": "truncated", "id": str(TOPIC_ID), "epochs": [], "from": 0
    }  # fmt: skip
    assert row.turns == 1


def test_out_of_range_asks_for_the_bounds_and_another_error_is_reported_once(field: Field) -> None:
    assert field.take(fetched(0, 0, error=1)) == []
    assert field.asked_for == [field.fetch_states[0]]
    assert field.take(fetched(1, 0, error=29)) == ["fault 1 None-None"]
    field.fetch_states[1].node = 1
    assert field.take(fetched(1, 0, error=29)) == []


def refuse_all(field: Field, error: int) -> list[str]:
    refused: Any = Answered([], error=error)
    field.response_reader.take_frame(1, refused, Frame(memoryview(b""), None), field.partitions)
    return [(row.payload or b"").decode() for row in field.response_reader.take_rows()]


def test_a_broker_that_refuses_the_whole_fetch_is_reported_and_not_asked_at_once_again(field: Field) -> None:
    field.fetch_states[1].held_by_writer = True
    assert refuse_all(field, -1) == ["broker 1 of the source refuses the whole fetch: UNKNOWN"]
    waits, paused = field.fetch_states
    assert not waits.may_read(field.clock.now + 0.2), "it rests"
    assert waits in field.partitions.leaderless(field.clock.now + 5), "its leader may be another one"
    assert (paused.fault, paused.node) == ("", 1), "what was not asked for was not refused"
    waits.node, waits.not_before = 1, 0.0
    assert refuse_all(field, -1) == [], "it is said once"
    waits.node, waits.not_before = 1, 0.0
    assert field.take(fetched(0, len(BATCH))) == ["run 0 0-5"]
    assert waits.fault == ""


@pytest.mark.parametrize("error", [70, 71, 106])
def test_a_broker_that_has_lost_the_session_refuses_nothing(field: Field, error: int) -> None:
    assert refuse_all(field, error) == []
    assert all(fetch_state.may_read(field.clock.now) for fetch_state in field.fetch_states)


def test_a_partition_without_new_records_is_reported_as_running_again(field: Field) -> None:
    field.response_reader.report(field.fetch_states[:1], "no connection")
    (row,) = field.response_reader.take_rows()
    assert row.payload == b"no connection"
    answered: Any = Answered([fetched(0, 0, readable=3)])
    field.response_reader.take_frame(1, answered, Frame(memoryview(b""), None), field.partitions)
    (row,) = field.response_reader.take_rows()
    assert (row.kind, row.partition, row.payload) == ("fault", 0, b"")
    assert field.take(fetched(0, 0, readable=3)) == []


def test_bytes_that_cannot_be_a_batch_rest_their_partition_alone_and_what_stands_before_them_is_taken() -> None:
    field = Field()
    damaged = bytearray(BATCH + BATCH)
    damaged[len(BATCH) + 8 : len(BATCH) + 12] = (-5).to_bytes(4, "big", signed=True)
    whole = fetched(1, len(BATCH))
    taken = fetched(0, len(damaged))
    assert field.take_bytes(bytes(damaged), taken, whole) == ["run 0 0-5", "run 1 0-5"]
    field = Field()
    beginning = taken._replace(start=len(BATCH))
    assert field.take_bytes(bytes(damaged), beginning, whole) == ["fault 0 None-None", "run 1 0-5"]
    assert "cannot be" in field.fetch_states[0].fault
    assert not field.fetch_states[0].may_read(field.clock.now)


def test_a_batch_that_is_longer_than_the_answer_is_reported_and_not_asked_for_for_ever() -> None:
    field = Field()
    assert field.take(fetched(0, len(BATCH) - 1), fetched(1, len(BATCH))) == ["fault 0 None-None", "run 1 0-5"]
    assert "longer than" in field.fetch_states[0].fault


def test_offsets_beyond_the_partitions_end_are_damage_and_not_a_place_to_go_on_from() -> None:
    """A batch's checksum does not cover its base offset."""
    field = Field()
    far = encode_batch([(None, b"v")] * 5, base_offset=1 << 40)
    fetch_state = field.partitions.add(Assigned(TopicPartition("orders", 2), 0, topic_id=TOPIC_ID), 1)
    assert field.take_bytes(far, fetched(2, len(far))) == ["fault 2 None-None"]
    assert fetch_state.offset == 0


def test_records_that_came_after_the_broker_had_noted_the_end_are_taken() -> None:
    field = Field()
    fetch_state = field.partitions.add(Assigned(TopicPartition("orders", 2), 0, topic_id=TOPIC_ID), 1)
    busy = fetched(2, len(BATCH))._replace(high_watermark=3)
    assert field.take(busy) == ["run 2 0-5"]
    assert fetch_state.fault == ""


def test_a_nearer_replica_is_not_believed_that_the_log_is_shorter(field: Field) -> None:
    """It may be behind. The leader is looked up, and asked."""
    for answer in (fetched(0, 0, diverging=3), fetched(0, 0, error=1)):
        field.fetch_states[0].offset, field.fetch_states[0].is_nearer, field.fetch_states[0].node = 4, True, 1
        assert field.take(answer, asked_offset=4) == []
        assert (field.fetch_states[0].offset, field.fetch_states[0].node, field.asked_for) == (4, None, [])


def test_an_order_to_a_log_that_was_turned_since_is_answered_with_what_turned_it(field: Field) -> None:
    fetch_state = field.fetch_states[0]
    fetch_state.offset, fetch_state.lineage = 4, Lineage(TOPIC_ID, ((0, 0), (1, 3)))
    field.response_reader.lose(fetch_state, judge_divergence(4, fetch_state.lineage, 0, 2))
    field.response_reader.take_rows()
    field.response_reader.seek(fetch_state, 4, 0)
    (again,) = field.response_reader.take_rows()
    assert (again.kind, again.first_offset, again.next_offset, again.turns) == ("gap", 4, 2, 1)
    assert json.loads(again.payload or b"")["from"] == 0
    assert (fetch_state.offset, fetch_state.lineage) == (2, Lineage(TOPIC_ID, ((0, 0),), 1))
    field.response_reader.seek(fetch_state, 1, 0)
    (nothing_lost,) = field.response_reader.take_rows()
    assert (nothing_lost.first_offset, nothing_lost.next_offset) == (1, 1)
    assert json.loads(nothing_lost.payload or b"")["cause"] == ""
    field.response_reader.seek(fetch_state, 1, 1)
    assert field.response_reader.take_rows() == [], "the writer has turned: it only goes on elsewhere"


def test_runs_tell_their_epoch_and_how_often_the_log_was_turned(field: Field) -> None:
    fetch_state = field.partitions.add(Assigned(TopicPartition("orders", 2), 0, topic_id=TOPIC_ID), 1)
    fetch_state.lineage = Lineage(TOPIC_ID, (), 3)
    first, second = (bytearray(encode_batch([(None, b"v")], base_offset=at)) for at in (0, 1))
    first[12:16], second[12:16] = (4).to_bytes(4, "big"), (6).to_bytes(4, "big")
    data = bytes(first + second)
    answered: Any = Answered([fetched(2, len(data))])
    field.response_reader.take_frame(1, answered, Frame(memoryview(data), None), field.partitions)
    rows = field.response_reader.take_rows()
    assert [(row.first_offset, row.next_offset, row.leader_epoch, row.turns) for row in rows] == [
        (0, 1, 4, 3), (1, 2, 6, 3)
    ]  # fmt: skip
    assert fetch_state.lineage.epochs == ((4, 0), (6, 1))


class AnsweredAsAsked(Answered):
    def asked(self, fetched: FetchedPartition, offset: int) -> bool:
        return True


class Listened(Field):
    """The field with a writer that listens, and answers that lie in the ring."""

    def __init__(self) -> None:
        super().__init__()
        self.writer = RingPeer(self.ring.address)
        self.writer.listener.listen()
        self.heard: deque[Announcement] = deque()
        for fetch_state in self.fetch_states:
            fetch_state.end = None

    def answer(self, *numbers: int, padding: int = 0, count: int = 5) -> list[str]:
        """The next five records of each of these partitions, in one answer; the rows that come of it. Their batches'
        headers claim `count`."""
        batches, partitions, size = b"", [], 0
        for number in numbers:
            at = self.fetch_states[number].offset
            batch = bytearray(encode_batch([(None, b"v" + bytes(padding))] * 5, base_offset=at))
            batch[57:61] = count.to_bytes(4, "big", signed=True)
            partitions.append(fetched(number, 0, readable=at + 5)._replace(start=size, stop=size + len(batch)))
            batches, size = batches + batch, size + len(batch)
        region = self.ring.reserve(size)
        assert region is not None
        self.ring.slice(region, size)[:] = batches
        frame = Frame(self.ring.slice(region, size), region)
        answered = AnsweredAsAsked(partitions)
        self.response_reader.take_frame(1, answered, frame, self.partitions)  # type: ignore[arg-type]
        return [f"{row.kind} {row.partition} {row.first_offset}" for row in self.response_reader.rows]

    def hear(self) -> tuple[int, int, bytes] | None:
        self.heard += self.writer.listener.take(1 << 30)
        if not self.heard:
            return None
        found = self.heard.popleft()
        self.writer.give_back(found.lease)
        return found.slot, found.first_offset, bytes(self.writer.slice(found.lease, found.size))

    def close(self) -> None:
        self.writer.close()
        self.ring.close()


@pytest.fixture
def listened() -> Iterator[Listened]:
    made = Listened()
    yield made
    made.close()


def test_a_count_that_the_disk_has_damaged_goes_as_a_row(listened: Listened) -> None:
    """The batch's checksum is its target's to check; the partition goes on behind it."""
    assert listened.answer(0) == ["run 0 0"]
    listened.response_reader.take_rows()
    assert listened.answer(0, count=5 - (1 << 31)) == ["run 0 5"]
    listened.response_reader.take_rows()
    assert listened.hear() is None
    assert listened.answer(0) == []
    assert listened.hear() == (0, 10, bytes(encode_batch([(None, b"v")] * 5, base_offset=10)))


def test_small_answers_that_continue_a_row_are_announced_and_keep_their_memory(listened: Listened) -> None:
    assert listened.answer(0) == ["run 0 0"]
    listened.response_reader.take_rows()
    assert listened.answer(0) == []
    room = listened.ring.reserve(listened.ring.ring_bytes)
    assert room is None, "what is announced lies in the ring until the writer gives it back"
    assert listened.hear() == (0, 5, bytes(encode_batch([(None, b"v")] * 5, base_offset=5)))
    listened.writer.publish()
    listened.ring.collect()
    assert listened.ring.reserve(listened.ring.ring_bytes) is not None
    assert [(row.kind, row.first_offset, row.records) for row in listened.response_reader.extents.take_rows()] == [
        ("extent", 5, 5)
    ]


def test_nothing_is_announced_while_rows_wait_to_be_given_to_spark(listened: Listened) -> None:
    assert listened.answer(0) == ["run 0 0"]
    assert listened.answer(0) == ["run 0 0", "run 0 5"]
    listened.response_reader.take_rows()
    assert listened.answer(0, 1) == ["run 1 0"], "the first of an answer may go before its rows"
    assert listened.answer(0) == ["run 1 0", "run 0 15"]
    assert listened.hear() is not None
    assert listened.hear() is None


@pytest.mark.parametrize("padding", [0, 40 << 10, 120 << 10])
def test_answers_of_any_size_that_continue_a_row_are_announced(padding: int, listened: Listened) -> None:
    assert listened.answer(0) == ["run 0 0"]
    listened.response_reader.take_rows()
    assert listened.answer(0, padding=padding) == []
    assert listened.answer(0) == []
    assert listened.hear() == (0, 5, bytes(encode_batch([(None, b"v" + bytes(padding))] * 5, base_offset=5)))
    assert listened.hear() == (0, 10, bytes(encode_batch([(None, b"v")] * 5, base_offset=10)))


def test_an_answer_that_was_read_ahead_is_announced_and_the_writer_is_called(listened: Listened) -> None:
    assert listened.answer(0) == ["run 0 0"]
    listened.response_reader.take_rows()
    fetch_state, batch = listened.fetch_states[0], encode_batch([(None, b"v")] * 5, base_offset=5)
    region = listened.ring.reserve(len(batch))
    assert region is not None
    listened.ring.slice(region, len(batch))[:] = batch
    read = fetched(0, len(batch), readable=10)
    assert not select.select([listened.writer.called], [], [], 0)[0]
    listened.response_reader.take_range(fetch_state, read, Frame(listened.ring.slice(region, len(batch)), region))
    assert listened.response_reader.take_rows() == []
    assert listened.hear() == (0, 5, bytes(batch))
    assert select.select([listened.writer.called], [], [], 0)[0]
