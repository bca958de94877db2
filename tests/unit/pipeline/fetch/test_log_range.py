"""What of a fetch response is compared: data only, and where old messages may begin."""

from types import SimpleNamespace
from uuid import UUID

import pytest
from tests.manual_clock import ManualClock
from tests.scenarios.odd_logs import java_batch, numbered_records, sealed

from sparkmirror.batch.header import CONTROL, TRANSACTIONAL, Codec, parse_header, stamp
from sparkmirror.batch.headers import BASE_OFFSET, NEXT_OFFSET
from sparkmirror.batch.part import Part
from sparkmirror.batch.records import encode_batch
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.settings import ClientSettings, client_settings
from sparkmirror.kafka.wire import leader_search, lookup
from sparkmirror.kafka.wire.data_requests import AbortedTransaction, FetchedPartition, FetchResponse
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.pipeline.fetch import log_range
from sparkmirror.pipeline.fetch.connection import Frame
from sparkmirror.pipeline.fetch.log_range import AnotherTopic, LogRange, read_parts, take_part

WHERE = TopicPartition("orders", 0)


def batch(first: int, records: int = 5, producer: int = -1, control: bool = False) -> bytes:
    """A batch at its place; with a producer, of a transaction."""
    data = memoryview(bytearray(encode_batch(numbered_records(first, records), Codec.NONE, first)))
    stamp(data, 0, parse_header(data, 0), producer, 0, 0, transactional=producer >= 0)
    data[0:8] = first.to_bytes(8, "big")
    return sealed(bytes(data), attributes=CONTROL if control else 0)


def take(log: bytes, position: int = 0, end: int = 1000, **fields: object) -> Part | None:
    known = dict.fromkeys(FetchedPartition._fields, -1) | {
        "topic_key": UUID(int=0), "start": 0, "stop": len(log), "aborted": (), "high_watermark": 1000,
        "last_stable_offset": 1000,
    }  # fmt: skip
    fetched = FetchedPartition(**known | fields)  # type: ignore[arg-type]
    return take_part(memoryview(log), fetched, position, LogRange(WHERE, 0, end, read_committed=True))


class Connection:
    """Stands for a connection to the leader: every answer is empty."""

    last_stable_offset = -1
    waiting = False
    by_id = True

    def __init__(self) -> None:
        self.asked = 0

    def send_alone(self, _position: object) -> None:
        self.asked += 1

    def receive(self) -> Frame:
        return Frame(memoryview(b""), None)

    def decode(self, _frame: Frame) -> FetchResponse:
        known = dict.fromkeys(FetchedPartition._fields, -1) | {
            "topic_key": UUID(int=0), "error": 0, "start": 0, "stop": 0, "aborted": (),
            "last_stable_offset": self.last_stable_offset,
        }  # fmt: skip
        return FetchResponse(0, 0, 1, [FetchedPartition(**known)])  # type: ignore[arg-type]

    def close(self) -> None:
        pass


def firsts(part: Part | None) -> list[int]:
    assert part is not None
    return [int(offset) for offset in part.table[:, BASE_OFFSET]]


def test_only_data_from_the_position_on_and_below_the_end_is_taken() -> None:
    log = b"".join([batch(0), batch(5), batch(10, 1, control=True), batch(11), batch(16)])
    assert firsts(take(log, position=7, end=16)) == [5, 11]
    part = take(log)
    assert part is not None and part.next_offset == 21


def test_what_transactions_aborted_is_left_out_up_to_their_marker() -> None:
    log = b"".join(
        [batch(0, producer=7), batch(5, producer=8), batch(10, 1, producer=7, control=True), batch(11, producer=7)]
    )
    assert parse_header(log, 0).attributes & TRANSACTIONAL
    assert firsts(take(log)) == [0, 5, 11]
    assert firsts(take(log, aborted=(AbortedTransaction(7, 0),))) == [5, 11]
    assert firsts(take(log, aborted=(AbortedTransaction(7, 0), AbortedTransaction(8, 5)))) == [11]


def test_a_compressed_old_message_may_begin_where_the_one_before_it_ends() -> None:
    log = batch(0) + java_batch("magic-1-gzip", 9)
    part = take(log)
    assert part is not None and firsts(part) == [0, 5] and int(part.table[-1, NEXT_OFFSET]) == 10


class HastyClock(ManualClock):
    """Goes on by 5 s whenever it is read."""

    def monotonic(self) -> float:
        self.now += 5
        return self.now


class Hollow(Connection):
    """A broker whose log reaches the end of the range, and that gives nothing."""

    last_stable_offset = 1000


class Waiting(Connection):
    """One whose log does not reach so far, as readers may read it."""

    last_stable_offset = 999


@pytest.mark.parametrize(("answers", "compacted"), [(Hollow, True), (Hollow, False), (Waiting, True)])
def test_nothing_is_believed_to_lie_there_only_in_a_compacted_log_and_after_long(
    answers: type[Connection], compacted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = answers()
    monkeypatch.setattr(log_range._Reader, "_connect", lambda _: connection)
    parts = read_parts(
        client_settings(Cluster("a:1", {"bootstrap.servers": "a:1"}), "test"),
        LogRange(WHERE, 0, 1000, True, compacted),
        HastyClock(),
    )
    if answers is Hollow and compacted:
        (part,) = parts
        assert (len(part.table), part.next_offset) == (0, 1000)
    else:
        with pytest.raises(ClusterUnreachable, match="sends no more of orders-0 from offset 0 on"):
            list(parts)
    assert connection.asked > 2, "once is not enough"


@pytest.mark.parametrize(
    ("shown", "problem"),
    [({"one": 2, "two": 1}, ClusterUnreachable), ({"one": 2, "two": 2}, AnotherTopic)],
    ids=["by one", "by all"],
)
def test_a_topic_was_made_again_where_no_server_shows_it_as_it_was(
    shown: dict[str, int], problem: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has just woken up shows the id of a topic that is gone: it is asked again, at another server first."""

    def look_up(settings: ClientSettings, *_: object) -> ClusterView:
        topic_id = UUID(int=shown[settings.bootstrap_servers[0].partition(":")[0]])
        return ClusterView({1: ("one", 1), 2: ("two", 1)}, {WHERE: 1}, {"orders": topic_id})

    monkeypatch.setattr(leader_search, "look_up", look_up)
    monkeypatch.setattr(lookup, "dial", lambda *_: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(log_range, "FetchConnection", lambda *_: Connection())
    settings = client_settings(Cluster("A", {"bootstrap.servers": "one:1,two:1"}), "test")
    reader = log_range._Reader(settings, LogRange(WHERE, 0, 9, True, topic_id=UUID(int=1)), ManualClock())
    reader._search._turn = 0
    with pytest.raises(problem):
        reader._connect()
    if problem is ClusterUnreachable:
        assert reader._connect().by_id
