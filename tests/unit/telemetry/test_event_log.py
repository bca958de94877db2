"""The time line of a flow: what is an event, what is none, and that it stays small."""

from typing import Any

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import TopicPartition
from sparkmirror.stored_json import encode
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.event_log import EventLog
from sparkmirror.telemetry.history import EVENTS_MAX
from sparkmirror.telemetry.records import encode_key, encode_record, parse_record

NOW = 1_800_000_000_000


class Flow:
    """A status topic that is looked at now and then."""

    def __init__(self) -> None:
        self.board = StatusBoard("west")
        self.log = EventLog()
        self.gaps: list[Gap] = []
        self.now_ms = NOW

    def tell(self, *key: str | int, **value: Any) -> None:
        kind, *name = key
        self.now_ms += 1000
        self.board.take(encode_key(str(kind), "west", *name), encode({"run": "r"} | value), self.now_ms)

    def run(self, state: str = "RUNNING", **more: Any) -> None:
        self.tell("flow", "m1:7", state=state, host="m1", pid=7, **more)

    def partition(self, number: int, state: str, **more: Any) -> None:
        self.tell("partition", "orders", number, task=0, epoch=1, state=state, **more)

    def events(self, target_problem: str = "") -> list[tuple[str, str]]:
        self.log.look(self.board, self.gaps, target_problem, self.now_ms)
        return [(event.kind, event.text) for event in self.log.record(self.board).events]


def test_each_change_is_an_event_and_what_stays_is_none() -> None:
    flow = Flow()
    flow.run()
    flow.tell("task", 0, epoch=1, producer_epoch=1)
    assert flow.events() == flow.events() == [("started", "process 7 on m1")]
    flow.tell("task", 0, epoch=1, producer_epoch=2)
    for number in range(5):
        flow.partition(number, "FAILED", reason="too large", offset=7, end=9)
    flow.tell("job", "offsets", state="FAILED", reason="backup refuses")
    assert flow.events()[1:] == [
        ("restarted", "a worker or the query was started again"),
        ("failed", "5 partitions (orders-0, orders-1, orders-2, …): too large"),
        ("job fails", "offsets: backup refuses"),
    ]
    flow.partition(3, "RUNNING", offset=9, end=9)
    flow.partition(2, "PAUSED", offset=9, end=9)
    flow.gaps.append(Gap(TopicPartition("orders", 0), "retention", 5, 8, "went on", flow.now_ms))
    assert flow.events("it is away")[4:] == [
        ("paused", "orders-2"), ("runs again", "orders-3"), ("gap", "orders-0: retention, 3 offsets gone"),
        ("target away", "it is away"),
    ]  # fmt: skip
    flow.run("RESTARTING", reason="Traceback (most recent call last):\n  File\nOSError: no space left")
    assert flow.events()[8:] == [("query failed", "process 7 on m1: OSError: no space left"), ("target answers", "")]


def test_a_process_goes_on_where_an_earlier_one_ended() -> None:
    first = Flow()
    first.run()
    first.partition(0, "FAILED", reason="too large", offset=7, end=9)
    first.events()
    key, kept = encode_record("west", first.log.record(first.board))
    second = Flow()
    assert second.board.take(key, kept, NOW)
    second.partition(0, "RUNNING", offset=7, end=9)
    second.log.adopt(second.board.history)
    assert second.events() == first.events(), "it stands where it failed: that is no news"
    second.partition(0, "RUNNING", offset=8, end=9)
    assert second.events()[-1] == ("runs again", "orders-0")


def test_a_process_goes_on_waiting_where_an_earlier_one_ended() -> None:
    first = Flow()
    first.run()
    first.partition(0, "WAITING", reason="broker 2 refuses the connection", offset=7)
    first.events()
    key, kept = encode_record("west", first.log.record(first.board))
    second = Flow()
    assert second.board.take(key, kept, NOW)
    second.partition(0, "RUNNING", offset=7)
    second.log.adopt(second.board.history)
    assert second.events() == first.events(), "the source has not answered: that is no news"
    second.partition(0, "RUNNING", offset=7, end=9)
    assert second.events()[-1] == ("runs again", "orders-0")


def test_a_time_line_is_bounded_and_repeats_are_counted() -> None:
    flow = Flow()
    for attempt in range(50):
        flow.tell("task", 0, epoch=1, producer_epoch=attempt)
        flow.events()
    (event,) = flow.log.record(flow.board).events
    assert event.times == 49
    for at in range(2 * EVENTS_MAX):
        flow.run("RUNNING" if at % 2 else "RESTARTING", reason=f"reason {at} " + "x" * 1000)
        flow.events()
    found = flow.log.record(flow.board)
    assert len(found.events) == EVENTS_MAX
    key, value = encode_record("west", found)
    assert len(value) < 200_000
    assert parse_record(key, value, "west", NOW) is not None
    flow.now_ms += 25 * 3_600_000
    assert flow.events() == []
