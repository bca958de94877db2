"""A log that goes on behind an open transaction: its end is reported although nothing of it can be read."""

from collections.abc import Iterator

import pytest
from tests.manual_clock import ManualClock
from tests.unit.pipeline.fetch.test_responses import BATCH, TOPIC_ID, Answered

from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.wire.data_requests import FetchedPartition
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch.connection import Frame
from sparkmirror.pipeline.fetch.open_ends import REASON_SECONDS
from sparkmirror.pipeline.fetch.partitions import Partitions
from sparkmirror.pipeline.fetch.responses import FetchResponseReader
from sparkmirror.pipeline.relay.ring import Ring
from sparkmirror.pipeline.relay.schema import FAULT

WHERE = TopicPartition("orders", 0)
REASON = "an open transaction at offset 5 holds back all behind it"


class Field:
    """A partition that is read without end, from offset 0 or 5 on; its records end before 5."""

    def __init__(self, offset: int = 5, *, read_committed: bool = True) -> None:
        self.ring = Ring(1 << 20)
        self.clock = ManualClock()
        self.response_reader = FetchResponseReader(self.ring, lambda _: None, self.clock, read_committed=read_committed)
        self.partitions = Partitions(1 << 20)
        self.fetch_state = self.partitions.add(Assigned(WHERE, offset, topic_id=TOPIC_ID), 1)

    def takes(self, *answer: FetchedPartition, seconds: float = 0.5) -> list[tuple[int, str]]:
        """The ends that are reported after an answer that comes after so long, with their reasons."""
        self.clock.now += seconds
        connection = Answered(list(answer), self.fetch_state.offset)
        frame = Frame(memoryview(BATCH), None)
        self.response_reader.take_frame(1, connection, frame, self.partitions)  # type: ignore[arg-type]
        rows = [row for row in self.response_reader.take_rows() if row.kind == FAULT]
        return [(row.high_watermark, (row.payload or b"").decode()) for row in rows]

    def takes_nothing_for(self, seconds: int) -> list[tuple[int, str]]:
        """Of a session without news, for so long."""
        return [one for _ in range(2 * seconds) for one in self.takes()]


@pytest.fixture
def field() -> Iterator[Field]:
    made = Field()
    yield made
    made.ring.close()


def upto(end: int, size: int = 0, readable: int = 5) -> FetchedPartition:
    return FetchedPartition(TOPIC_ID.bytes, 0, 0, end, readable, 0, -1, 0, size, (), -1, -1)


def test_an_end_that_grows_behind_an_open_transaction_is_reported_once_a_second(field: Field) -> None:
    assert field.takes(upto(5)) == [(5, "")]
    assert field.takes(upto(100)) == [], "most transactions are over in a moment"
    assert field.takes(upto(2_000)) == []
    assert field.takes(upto(50_000)) == [(50_000, "")]
    assert [field.takes(upto(end)) for end in (60_000, 70_000)] == [[], [(70_000, "")]]
    assert field.takes(upto(100_000)) == []
    assert field.takes_nothing_for(3) == [(100_000, "")], "the session names it no more, and the last end counts"


def test_a_task_that_begins_behind_one_hears_the_end_at_once_and_the_reason_after_a_minute(field: Field) -> None:
    assert field.takes(upto(10_000)) == [(10_000, "")]
    assert field.takes_nothing_for(int(REASON_SECONDS) - 1) == []
    assert field.takes_nothing_for(3) == [(10_000, REASON)]
    assert field.takes(upto(20_000), seconds=2) == [(20_000, REASON)]
    assert field.takes_nothing_for(60) == []
    assert field.fetch_state.fault == REASON


def test_what_comes_when_the_transaction_ends_ends_the_reports() -> None:
    field = Field(offset=0)
    assert field.takes(upto(9, readable=0)) == [(9, "")]
    assert field.takes_nothing_for(62) == [(9, REASON.replace("5", "0"))]
    assert field.takes(upto(5, len(BATCH))) == []
    assert (field.fetch_state.offset, field.fetch_state.fault) == (5, "")
    assert field.takes_nothing_for(62) == []
    field.ring.close()


def test_a_run_that_ends_before_an_open_transaction_is_followed_by_a_report() -> None:
    field = Field(offset=0)
    assert field.takes(upto(9, len(BATCH))) == [], "the run says where the log ends"
    assert field.takes_nothing_for(3) == [(9, "")], "nothing more can be read"
    field.ring.close()


def test_a_log_that_is_read_to_its_end_has_no_report(field: Field) -> None:
    assert field.takes(upto(5)) == [(5, "")]
    assert field.takes(upto(5), seconds=100) == []
    assert field.takes_nothing_for(62) == []


def test_an_open_transaction_holds_nothing_back_from_who_reads_its_records_too() -> None:
    """Brokers say where it begins in any case."""
    field = Field(offset=0, read_committed=False)
    assert field.takes(upto(5, len(BATCH), readable=3)) == []
    assert field.fetch_state.offset == 5
    assert field.takes_nothing_for(62) == []
    assert field.takes(upto(9, readable=3)) == [], "a record of it may be late"
    assert field.takes_nothing_for(62) == []
    field.ring.close()


def test_a_partition_that_is_paused_or_taken_away_is_not_reported(field: Field) -> None:
    field.takes(upto(5))
    field.takes(upto(9))
    field.fetch_state.held_by_writer = True
    assert field.takes_nothing_for(3) == []
    field.fetch_state.held_by_writer = False
    field.takes(upto(12))
    field.partitions.remove(WHERE)
    assert field.takes_nothing_for(3) == []


def test_another_reason_is_not_hidden(field: Field) -> None:
    field.takes(upto(9))
    field.response_reader.report([field.fetch_state], "its leader is silent")
    field.response_reader.take_rows()
    assert field.takes_nothing_for(62) == []
    assert field.takes(upto(12)) == [(12, "")], "the broker answers again"
