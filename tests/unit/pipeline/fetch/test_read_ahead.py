"""Reading ahead: whatever a log looks like and however answers arrive, its batches are taken once and in order."""

from collections.abc import Callable
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.batch.header import iterate_headers
from sparkmirror.batch.records import encode_batch
from sparkmirror.kafka.wire.data_requests import AbortedTransaction, FetchedPartition
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState
from sparkmirror.pipeline.fetch.read_ahead import FetchStep, Range, ReadAhead

TOPIC = "orders"


def batch(first: int, records: int, size: int = 1, epoch: int = 3) -> bytes:
    data = bytearray(encode_batch([(None, b"v" * size)] * records, base_offset=first))
    data[12:16] = epoch.to_bytes(4, "big")  # the leader's epoch lies outside the checksum
    return bytes(data)


class Log:
    """A partition as its leader holds it: batches by their first offset, some offsets left empty."""

    def __init__(self, batches: list[tuple[int, bytes]], end: int) -> None:
        self.batches = batches
        self.end = end

    def fetch(self, one: Range) -> tuple[FetchedPartition, memoryview]:
        """As a broker answers: from the batch that holds the offset, at least one, the last one perhaps cut off."""
        if one.start > self.end:
            return fetched(error=1), memoryview(b"")
        found = bytearray()
        for _, data in self.batches:
            ((_, header),) = iterate_headers(memoryview(data), 0, len(data))
            if header.next_offset > one.start and len(found) < one.bytes_max:
                found += data[: len(data) if not found else one.bytes_max - len(found)]
        return fetched(stop=len(found), readable=self.end), memoryview(bytes(found))


def fetched(
    error: int = 0, stop: int = 0, readable: int = 0, diverging: int = -1, aborted: tuple[AbortedTransaction, ...] = ()
) -> FetchedPartition:
    return FetchedPartition(TOPIC, 0, error, readable, readable, 0, -1, 0, stop, aborted, -1, diverging)


def fetch_state(log: Log, bytes_per_offset: float = 100.0, batch_bytes: float = 100.0) -> PartitionFetchState:
    found = PartitionFetchState(TopicPartition(TOPIC, 0), Lineage(UUID(int=1)), 0, None, 0, node=1)
    found.readable, found.bytes_per_offset, found.batch_bytes = log.end, bytes_per_offset, batch_bytes
    return found


def take(read_ahead: ReadAhead, taken: list[bytes]) -> None:
    """As `pipeline.fetch.read_ahead_connections` and the response reader do: the new batches, and the position after
    them."""
    part, data = read_ahead.trimmed()
    for at, header in iterate_headers(data, part.start, part.stop):
        if header.next_offset > read_ahead.fetch_state.offset:
            taken.append(bytes(data[at : at + header.total_bytes]))
            read_ahead.fetch_state.lineage = read_ahead.fetch_state.lineage.read(
                header.partition_leader_epoch, read_ahead.fetch_state.offset
            )
            read_ahead.fetch_state.offset = header.next_offset
    read_ahead.took()


def follow(read_ahead: ReadAhead, log: Log, ranges: int, choose: Callable[[int], int]) -> list[bytes]:
    """Read a log to its end, `ranges` fetches at a time, answered in any order."""
    taken: list[bytes] = []
    under_way: list[Range] = []
    for _ in range(10_000):
        while len(under_way) < ranges and (one := read_ahead.next_range()) is not None:
            under_way.append(one)
        if not under_way:
            return taken
        one = under_way.pop(choose(len(under_way)))
        if not one.is_abandoned:
            read_ahead.answer(one, *log.fetch(one))
        while (step := read_ahead.judge()) is not FetchStep.WAIT:
            if step is FetchStep.TAKE:
                take(read_ahead, taken)
            elif step is FetchStep.PASS:
                read_ahead.took()
            else:
                assert step is FetchStep.RESTART, step
                read_ahead.restart()
    raise AssertionError("the end was never reached")


@st.composite
def logs(draw: st.DrawFn) -> Log:
    batches: list[tuple[int, bytes]] = []
    offset, epoch = 0, 0
    for records, empty, size, newer in draw(
        st.lists(
            st.tuples(st.integers(1, 20), st.integers(0, 30), st.integers(1, 400), st.booleans()),
            min_size=1,
            max_size=40,
        )
    ):
        offset += empty
        epoch += newer
        batches.append((offset, batch(offset, records, size, epoch)))
        offset += records
    return Log(batches, offset)


@settings(max_examples=150, deadline=None)
@given(logs(), st.integers(1, 6), st.integers(500, 20_000), st.floats(0.5, 2000), st.data())
def test_every_batch_is_taken_once_and_in_order(
    log: Log, ranges: int, range_bytes: int, guessed: float, data: st.DataObject
) -> None:
    read_ahead = ReadAhead(fetch_state(log, guessed), 1, range_bytes, range_bytes)
    taken = follow(read_ahead, log, ranges, lambda count: data.draw(st.integers(0, count - 1)))
    assert taken == [held for _, held in log.batches]


def uniform(count: int) -> Log:
    return Log([(at * 10, batch(at * 10, 10, 100)) for at in range(count)], count * 10)


def test_on_an_even_log_nothing_is_asked_twice_and_little_comes_twice() -> None:
    log = uniform(400)
    size = len(log.batches[0][1])
    found = fetch_state(log, size / 10, size)
    read_ahead = ReadAhead(found, 1, 32 * size, 32 * size)
    asked: list[Range] = []
    answer = read_ahead.answer

    def count(one: Range, *rest: object) -> None:
        asked.append(one)
        answer(one, *rest)  # type: ignore[arg-type]

    read_ahead.answer = count  # type: ignore[method-assign, assignment]
    follow(read_ahead, log, 4, lambda _: 0)
    assert len(asked) * 32 * size < 1.15 * 400 * size + 32 * size


def test_a_hole_is_asked_for_before_what_lies_behind_it_is_taken() -> None:
    log = uniform(100)
    size = len(log.batches[0][1])
    read_ahead = ReadAhead(
        fetch_state(log, size / 40, size), 1, 8 * size, 8 * size
    )  # it believes in four times as many records
    first, second = read_ahead.next_range(), read_ahead.next_range()
    assert first is not None and second is not None
    read_ahead.answer(second, *log.fetch(second))
    assert read_ahead.judge() is FetchStep.WAIT
    read_ahead.answer(first, *log.fetch(first))
    take(read_ahead, [])
    filler = read_ahead.next_range()
    assert filler is not None and filler.start == first.next_offset < second.start
    assert read_ahead.judge() is FetchStep.WAIT
    read_ahead.answer(filler, *log.fetch(filler))
    assert read_ahead.judge() is FetchStep.TAKE


def test_a_log_cut_off_and_written_again_meanwhile_is_not_joined_to_the_old_one() -> None:
    """The second range comes from a log with a newer epoch: it is asked for again, so that the broker can tell."""
    old = uniform(40)
    new = Log([(first, batch(first, 10, 100, epoch=4)) for first, _ in old.batches], old.end)
    size = len(old.batches[0][1])
    read_ahead = ReadAhead(fetch_state(old, size / 10, size), 1, 8 * size, 8 * size)
    first, second = read_ahead.next_range(), read_ahead.next_range()
    assert first is not None and second is not None
    read_ahead.answer(first, *old.fetch(first))
    take(read_ahead, [])
    read_ahead.answer(second, *new.fetch(second))
    assert read_ahead.judge() is FetchStep.RESTART
    read_ahead.restart()
    again = read_ahead.next_range()
    assert again is not None and (again.start, again.last_epoch) == (read_ahead.fetch_state.offset, 3)
    read_ahead.answer(again, fetched(diverging=20), memoryview(b""))
    assert read_ahead.judge() is FetchStep.TELL


def test_an_error_of_a_predicted_range_is_no_news_of_the_partition() -> None:
    log = uniform(40)
    size = len(log.batches[0][1])
    read_ahead = ReadAhead(fetch_state(log, size / 10, size), 1, 8 * size, 8 * size)
    first, second = read_ahead.next_range(), read_ahead.next_range()
    assert first is not None and second is not None
    read_ahead.answer(second, fetched(error=1), memoryview(b""))
    read_ahead.answer(first, *log.fetch(first))
    take(read_ahead, [])
    assert read_ahead.judge() is FetchStep.RESTART


def test_a_question_that_was_lost_is_asked_again_first() -> None:
    log = uniform(40)
    read_ahead = ReadAhead(fetch_state(log), 1, 1000, 1000)
    first, _ = read_ahead.next_range(), read_ahead.next_range()
    assert first is not None
    assert not read_ahead.must_ask
    first.is_asked = False
    assert read_ahead.must_ask
    assert read_ahead.next_range() is first


def test_the_overlap_is_kept_where_a_transaction_may_end_in_it() -> None:
    log = uniform(4)
    read_ahead = ReadAhead(fetch_state(log), 1, 10_000, 10_000)
    one = read_ahead.next_range()
    assert one is not None
    part, data = log.fetch(one)
    read_ahead.answer(one, part, data)
    read_ahead.position = 20
    assert len(read_ahead.trimmed()[1]) == len(data) // 2
    one.fetched = part._replace(aborted=(AbortedTransaction(7, 0),))
    assert len(read_ahead.trimmed()[1]) == len(data)
