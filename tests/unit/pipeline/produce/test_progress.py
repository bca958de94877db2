"""What the writer stores: Connect's bytes and ours, from what is acknowledged, once, and again when it was lost."""

import time
from uuid import UUID

from tests.manual_clock import ManualClock
from tests.unit.pipeline.produce.known_producer import known

from sparkmirror.batch.header import parse_header
from sparkmirror.batch.records import NO_TIMESTAMP, Record, decode_records, encode_batch
from sparkmirror.clock import SYSTEM_CLOCK
from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.copies import Mark
from sparkmirror.ledger.gaps import Gap, list_gaps
from sparkmirror.ledger.lineage import Extent, Lineage
from sparkmirror.ledger.map_records import ChunkName, decode_chunk, decode_key
from sparkmirror.ledger.map_segments import Segment
from sparkmirror.ledger.misplaced import Misplaced
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Connector, Epochs, Position, TopicPartition
from sparkmirror.pipeline.produce.acked_position import Place
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.limits import TopicLimits
from sparkmirror.pipeline.produce.progress import Progress, ProgressOptions
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords, free_nothing
from sparkmirror.pipeline.produce.reports import Report
from sparkmirror.policy.partitioner import murmur2_partition

MM2 = Connector.of_dedicated_mode("A")
TOPICS = ledger_topics("A")
TOPIC_ID = UUID("11111111-2222-3333-4444-555555555555")
ORDERS = TopicPartition("orders", 3)
POSITIONS = TopicPartition(TOPICS.positions, 0)
STATUS = TopicPartition(TOPICS.status, 0)
REPORT = Report(b"key", b"told", lambda: None)


def new_progress(*partitions: TopicPartition, in_transactions: bool = False) -> Progress:
    options = ProgressOptions(MM2, TOPICS, 1.0)
    progress = Progress(options, task=2, offsets_partitions=25, in_transactions=in_transactions)
    for partition in partitions:
        progress.adopt(partition)
    return progress


def at(partition: TopicPartition, acknowledged: int, epochs: Epochs = ((5, 0),)) -> PartitionBuffer:
    buffer = PartitionBuffer(partition, None, acknowledged, -1)
    buffer.restart_at(Place(acknowledged, Lineage(TOPIC_ID, epochs)))
    return buffer


def hand_out(buffers: list[PartitionBuffer]) -> list[tuple[PartitionBuffer, Batch]]:
    """Everything that the ledger's buffers have to send."""
    sent = []
    for buffer in buffers:
        known(buffer, 1, 0)
        while buffer.sendable and (batch := buffer.next_batch(1, 0)) is not None:
            sent.append((buffer, batch))
    return sent


def fill(buffer: PartitionBuffer, first: int, following: int) -> None:
    data = bytearray(encode_batch([(None, b"v")] * (following - first), base_offset=first))
    buffer.aim("A.orders", TopicLimits())
    buffer.accept(QueuedRecords(memoryview(data), first, following, free_nothing))


def meet_gap(progress: Progress, buffer: PartitionBuffer, expected: int, resumed: int) -> None:
    """As the sequence gate does."""
    find_gap(progress, buffer, expected, resumed)
    buffer.accept(QueuedRecords(memoryview(b""), expected, resumed, free_nothing))


def gaps_stored(progress: Progress, buffer: PartitionBuffer) -> list[tuple[int, int]]:
    """What is composed now, and acknowledged: expected and resumed of each gap."""
    sent = hand_out(progress.compose([buffer], 9, None))
    acknowledge(sent)
    records = records_of(sent).get(TopicPartition(TOPICS.gaps, 0), [])
    return [(gap.expected, gap.resumed) for gap in list_gaps("A", [(one.key, one.value) for one in records])]


def records_of(sent: list[tuple[PartitionBuffer, Batch]]) -> dict[TopicPartition, list[Record]]:
    found: dict[TopicPartition, list[Record]] = {}
    for buffer, batch in sent:
        found.setdefault(buffer.target, []).extend(decode_records(batch.data))
    return found


def acknowledge(sent: list[tuple[PartitionBuffer, Batch]]) -> None:
    for buffer, batch in sent:
        buffer.succeed(batch)


def find_gap(progress: Progress, buffer: PartitionBuffer, expected: int = 50, resumed: int = 100) -> None:
    progress.gaps.add(buffer, "retention", expected, resumed, "went on", TOPIC_ID, (0, resumed))


def store(progress: Progress, buffer: PartitionBuffer) -> dict[TopicPartition, list[Record]]:
    sent = hand_out(progress.compose([buffer], 9, None))
    acknowledge(sent)
    return records_of(sent)


def test_a_position_is_stored_as_connect_does_and_with_what_recognises_its_log() -> None:
    progress = new_progress(ORDERS)
    stored = store(progress, at(ORDERS, 42))
    key = connect.encode_key(MM2, ORDERS)
    home = TopicPartition("mm2-offsets.A.internal", murmur2_partition(key, 25))
    assert stored.keys() == {home, POSITIONS}
    (theirs,) = stored[home]
    assert (theirs.key, theirs.value) == (key, b'{"offset":41}')
    assert theirs.timestamp == NO_TIMESTAMP, "a broker whose clock is behind ours takes it"
    (ours,) = stored[POSITIONS]
    assert ours.key == positions.encode_key("A", ORDERS)
    expected = PositionRecord(Position(42, ((5, 0),), TOPIC_ID), generation=9, task=2)
    assert ours.value == positions.encode_value(expected)
    assert progress.settled


def test_a_start_is_stored_before_anything_is_copied() -> None:
    """A partition that starts at its end and stays idle must not start at another end the next time."""
    progress = new_progress(ORDERS)
    buffer = at(ORDERS, 1000, ())
    assert POSITIONS in store(progress, buffer)
    assert store(progress, buffer) == {}


def test_only_what_moved_is_stored_again() -> None:
    progress = new_progress(ORDERS)
    buffer = at(ORDERS, 42)
    store(progress, buffer)
    buffer.move_to(43, buffer.lineage)
    (ours,) = store(progress, buffer)[POSITIONS]
    record = positions.decode_value(ours.value)
    assert record is not None
    assert record.position.offset == 43


def test_the_next_lot_waits_for_the_last_but_not_for_ever() -> None:
    progress = new_progress(ORDERS)
    assert progress.due(1e12)
    sent = hand_out(progress.compose([at(ORDERS, 42)], 1, [REPORT]))
    assert {buffer.target.topic for buffer, _ in sent} == {TOPICS.offsets, TOPICS.positions, TOPICS.status}
    now = time.monotonic()
    assert not progress.due(now + 1.1)
    assert progress.due(now + 2.1), "what does not wait for positions is composed without them"
    for pair in sent:
        assert not progress.settled
        acknowledge([pair])
    assert progress.settled
    assert progress.due(now + 1.1)
    assert not progress.due(now), "the flush interval is kept"


def test_a_ledger_partition_that_does_not_answer_holds_up_its_own_positions_only() -> None:
    """No position overtakes an older one of its partition, and none waits for another's."""
    others = [TopicPartition("orders", number) for number in range(9)]
    progress = new_progress(*others)
    sent = hand_out(progress.compose([at(where, 42) for where in others], 9, None))
    stuck = next(buffer.target for buffer, _ in sent if buffer.target.topic == TOPICS.offsets)
    acknowledge([pair for pair in sent if pair[0].target != stuck])
    again = records_of(hand_out(progress.compose([at(where, 50) for where in others], 9, [REPORT])))
    assert stuck not in again and STATUS in again
    held = {where for where in others if TopicPartition(TOPICS.offsets, _home(where)) == stuck}
    assert held == set(progress.moved), "they are looked at again"
    assert {positions.encode_key("A", where) for where in others if where not in held} == {
        record.key for record in again[POSITIONS]
    }


def test_what_a_refusing_ledger_partition_holds_up_is_named() -> None:
    progress = new_progress(ORDERS)
    ledger = {buffer.target: buffer for buffer in progress.compose([at(ORDERS, 42)], 9, [REPORT])}
    ledger[STATUS].fail("too large")
    assert not progress.note_refusal(ledger[STATUS]), "no position depends on it"
    assert progress.obstacle(ORDERS) == ""
    ledger[POSITIONS].fail("too large")
    assert progress.note_refusal(ledger[POSITIONS])
    assert progress.obstacle(ORDERS) == f"its position cannot be stored in {POSITIONS}: too large"
    ledger[POSITIONS].settle(0.0)
    ledger[POSITIONS].resume()
    assert progress.obstacle(ORDERS) == ""


def _home(where: TopicPartition) -> int:
    return murmur2_partition(connect.encode_key(MM2, where), 25)


def test_a_release_is_stored_though_the_position_did_not_move() -> None:
    progress = new_progress(ORDERS)
    buffer = at(ORDERS, 42)
    store(progress, buffer)
    progress.release(ORDERS)
    (ours,) = store(progress, buffer)[POSITIONS]
    assert ours.value == positions.encode_value(PositionRecord(Position(42, ((5, 0),), TOPIC_ID), 9, 2, released=True))
    assert store(progress, buffer) == {}


def refuse(ledger: PartitionBuffer, batch: Batch) -> None:
    batch.waiting = False
    ledger.rewind()


def released_in(stored: dict[TopicPartition, list[Record]]) -> list[bool]:
    """Of each record of ours, whether it is a release."""
    return [record.released for one in stored.get(POSITIONS, []) if (record := positions.decode_value(one.value))]


def test_a_release_goes_alone_behind_both_records_of_its_position() -> None:
    """Connect's record may be refused where ours stands: a release that was seen then came again, when another task
    has the partition."""
    progress = new_progress(ORDERS)
    buffer = at(ORDERS, 42)
    store(progress, buffer)
    buffer.move_to(50, buffer.lineage)
    progress.release(ORDERS)
    first = hand_out(progress.compose([buffer], 9, None))
    assert released_in(records_of(first)) == [False]
    for ledger, batch in first:
        if ledger.target == POSITIONS:
            ledger.succeed(batch)
        else:
            refuse(ledger, batch)
    again = hand_out(progress.compose([buffer], 9, None))
    assert released_in(records_of(again)) == [False], "it waits until Connect's record stands"
    acknowledge(again)
    assert progress.due(time.monotonic()), "and no longer"
    last = store(progress, buffer)
    assert last.keys() == {POSITIONS}
    assert released_in(last) == [True]
    assert store(progress, buffer) == {}


def test_a_release_that_cannot_go_makes_nothing_due() -> None:
    """A ledger partition may be away for hours: the flush interval is kept meanwhile."""
    stays = TopicPartition("orders", 4)
    progress = new_progress(ORDERS, stays)
    leaving, staying = at(ORDERS, 42), at(stays, 7)
    progress.release(ORDERS)
    stuck = TopicPartition(TOPICS.offsets, _home(ORDERS))
    for at_offset in (8, 9, 10):
        staying.move_to(at_offset, staying.lineage)
        sent = hand_out(progress.compose([leaving, staying], 9, None))
        assert any(buffer.target == POSITIONS for buffer, _ in sent)
        acknowledge([pair for pair in sent if pair[0].target != stuck])
        assert not progress.due(time.monotonic())


def test_a_release_that_was_refused_is_stored_again() -> None:
    progress = new_progress(ORDERS)
    buffer = at(ORDERS, 42)
    store(progress, buffer)
    progress.release(ORDERS)
    for ledger, batch in hand_out(progress.compose([buffer], 9, None)):
        refuse(ledger, batch)
    assert released_in(store(progress, buffer)) == [False]
    assert released_in(store(progress, buffer)) == [True]


def test_where_the_ledger_was_cut_a_partition_that_has_left_is_not_stored_again() -> None:
    """Another task has it by then, and is further."""
    stays = TopicPartition("orders", 4)
    progress = new_progress(ORDERS, stays)
    buffers = [at(ORDERS, 42), at(stays, 7)]
    for buffer in buffers:
        store(progress, buffer)
    progress.release(ORDERS)
    store(progress, buffers[0])
    progress.store_again()
    keys = [record.key for record in records_of(hand_out(progress.compose(buffers, 9, None)))[POSITIONS]]
    assert keys == [positions.encode_key("A", stays)]


def test_a_partition_that_comes_back_is_stored_again() -> None:
    progress = new_progress(ORDERS)
    buffer = at(ORDERS, 42)
    store(progress, buffer)
    progress.release(ORDERS)
    store(progress, buffer)
    progress.adopt(ORDERS)
    assert released_in(store(progress, buffer)) == [False]


def released_in_a_transaction() -> tuple[Progress, PartitionBuffer]:
    """What has just stored a release in the open transaction."""
    progress, buffer = new_progress(ORDERS, in_transactions=True), at(ORDERS, 42)
    progress.release(ORDERS)
    assert released_in(store(progress, buffer)) == [True]
    return progress, buffer


def test_in_transactions_a_release_that_may_be_lost_is_stored_again_before_the_commit() -> None:
    progress, buffer = released_in_a_transaction()
    assert not progress.is_untrue([])
    progress.store_again()
    assert progress.is_untrue([]), "what is open has lost it, perhaps"
    assert released_in(store(progress, buffer)) == [True]
    assert not progress.is_untrue([])
    progress.commit()
    progress.store_again()
    assert store(progress, buffer) == {}, "another task has it by now"


def test_a_release_of_an_aborted_transaction_is_stored_again() -> None:
    progress, buffer = released_in_a_transaction()
    progress.roll_back()
    assert released_in(store(progress, buffer)) == [True]


def test_what_the_ledger_refused_is_composed_again() -> None:
    """Also a release, which the partition's next owner waits for."""
    progress = new_progress(ORDERS)
    progress.release(ORDERS)
    buffer = at(ORDERS, 42)
    sent = hand_out(progress.compose([buffer], 9, [REPORT]))
    for ledger, batch in sent:
        refuse(ledger, batch)
    assert progress.settled
    again = hand_out(progress.compose([buffer], 9, [REPORT]))
    assert {o.target: [(r.key, r.value) for r in decode_records(b.data)] for o, b in again} == {
        o.target: [(r.key, r.value) for r in decode_records(b.data)] for o, b in sent
    }
    assert {parse_header(batch.data, 0).base_sequence for _, batch in again} == {0}
    acknowledge(again)
    assert released_in(store(progress, buffer)) == [True]
    assert progress.compose([buffer], 9, None) == []


def test_an_offset_that_holds_what_does_not_belong_there_is_noted_at_once_and_until_the_ledger_has_it() -> None:
    progress, view = new_progress(ORDERS), LedgerView(MM2)
    store(progress, at(ORDERS, 12))
    now = SYSTEM_CLOCK.monotonic()
    assert not progress.due(now)
    progress.misplaced.add(ORDERS, Misplaced(TOPIC_ID, 13), "record 12 stands at offset 13")
    assert progress.due(now)
    ((ledger_buffer, batch),) = hand_out(progress.compose([], 9, None))
    assert not progress.due(now), "it is under way"
    batch.waiting = False
    ledger_buffer.rewind()
    assert progress.due(now), "it was lost"
    (record,) = store(progress, at(ORDERS, 12))[POSITIONS][-1:]
    assert not progress.due(now) and progress.settled
    view.take_ours(record.key, record.value)
    assert view.misplaced == {ORDERS: {Misplaced(TOPIC_ID, 13): "record 12 stands at offset 13"}}


def test_status_records_go_with_the_positions_and_are_due_again_if_they_are_refused() -> None:
    forgotten: list[str] = []
    report = Report(b"key", b"told", lambda: forgotten.append("told"))
    progress = new_progress()
    sent = hand_out(progress.compose([], 1, [report]))
    (record,) = records_of(sent)[STATUS]
    assert (record.key, record.value) == (b"key", b"told")
    for ledger, batch in sent:
        refuse(ledger, batch)
    assert forgotten == ["told"]


def test_status_records_wait_for_gaps_to_be_stored() -> None:
    forgotten: list[str] = []
    progress = new_progress(ORDERS)
    find_gap(progress, at(ORDERS, 100))
    sent = hand_out(progress.compose([], 1, [Report(b"key", b"told", lambda: forgotten.append("told"))]))
    assert {where.topic for where in records_of(sent)} == {TOPICS.gaps}
    assert forgotten == ["told"]


def test_many_positions_go_in_batches_that_any_topic_takes() -> None:
    """All partitions of a big task may move within one interval; `max.message.bytes` is 1 MiB by default."""
    partitions = [TopicPartition("a-topic-with-a-long-name-" * 8, number) for number in range(3000)]
    progress = new_progress(*partitions)
    sent = hand_out(progress.compose([at(partition, 7) for partition in partitions], 1, None))
    assert max(len(batch.data) for _, batch in sent) < 600_000
    stored = records_of(sent)[POSITIONS]
    assert len({record.key for record in stored}) == len(stored) == 3000
    acknowledge(sent)
    assert progress.settled


def test_a_gap_is_stored_before_any_position_beyond_it() -> None:
    progress = new_progress(ORDERS)
    buffer = at(ORDERS, 100)
    find_gap(progress, buffer)
    first = records_of(sent := hand_out(progress.compose([buffer], 9, None)))
    assert {where.topic for where in first} == {TOPICS.gaps}
    acknowledge(sent)
    assert progress.due(time.monotonic()), "the position may follow at once"
    assert POSITIONS in store(progress, buffer)


def test_a_gap_holds_up_no_other_partition() -> None:
    bills = TopicPartition("bills", 0)
    progress = new_progress(ORDERS, bills)
    orders = at(ORDERS, 100)
    find_gap(progress, orders)
    stored = records_of(hand_out(progress.compose([orders, at(bills, 7)], 9, None)))
    assert [record.key for record in stored[POSITIONS]] == [positions.encode_key("A", bills)]
    assert list(progress.moved) == [ORDERS]


def test_a_gap_that_the_target_did_not_take_is_stored_again() -> None:
    progress = new_progress(ORDERS)
    buffer = at(ORDERS, 100)
    find_gap(progress, buffer)
    (ledger,) = progress.compose([buffer], 9, None)
    hand_out([ledger])
    for batch in list(ledger._in_flight.batches):
        batch.waiting = False
    ledger.rewind()
    again = records_of(hand_out(progress.compose([buffer], 9, None)))
    assert {where.topic for where in again} == {TOPICS.gaps}


def test_a_gap_is_stored_only_once_its_partition_has_all_that_came_before() -> None:
    """Until then it may go back, and be told of the gap again from there: at least once by a target that refuses."""
    lost: list[Gap] = []
    progress = Progress(ProgressOptions(MM2, TOPICS, 1.0), 2, 25, lost=lost.append)
    buffer = at(ORDERS, 50)
    fill(buffer, 50, 52)
    (batch,) = [batch for _, batch in hand_out([buffer])]
    meet_gap(progress, buffer, 52, 100)
    assert gaps_stored(progress, buffer) == []
    buffer.succeed(batch)
    assert gaps_stored(progress, buffer) == [(52, 100)]
    assert [(gap.expected, gap.resumed) for gap in lost] == [(52, 100)]

    fill(buffer, 100, 102)
    (refused,) = [batch for _, batch in hand_out([buffer])]
    meet_gap(progress, buffer, 102, 200)
    refused.waiting = False
    buffer.rewind()
    assert gaps_stored(progress, buffer) == []
    meet_gap(progress, buffer, 100, 200)
    assert gaps_stored(progress, buffer) == [(100, 200)], "the one that was found first is no gap any more"
    assert len(lost) == 2


def test_a_gap_of_an_aborted_transaction_is_stored_only_as_it_is_found_again() -> None:
    lost: list[Gap] = []
    progress = Progress(ProgressOptions(MM2, TOPICS, 1.0), 2, 25, in_transactions=True, lost=lost.append)
    buffer = at(ORDERS, 50)
    fill(buffer, 50, 52)
    hand_out([buffer])
    meet_gap(progress, buffer, 52, 100)
    assert gaps_stored(progress, buffer) == [(52, 100)], "in the transaction of what came before it"
    progress.roll_back()
    buffer.roll_back()
    assert gaps_stored(progress, buffer) == []
    meet_gap(progress, buffer, 50, 100)
    assert gaps_stored(progress, buffer) == [(50, 100)]
    assert lost == [], "none is counted before it is committed"
    progress.commit()
    assert [(gap.expected, gap.resumed) for gap in lost] == [(50, 100)]


def test_a_gap_of_an_aborted_transaction_is_stored_again_where_its_partition_stays_behind_it() -> None:
    """It was reached while the transaction before was being committed: no reader tells of it again."""
    progress = Progress(ProgressOptions(MM2, TOPICS, 1.0), 2, 25, in_transactions=True)
    buffer = at(ORDERS, 50)
    meet_gap(progress, buffer, 50, 100)
    buffer.commit()
    assert gaps_stored(progress, buffer) == [(50, 100)]
    progress.roll_back()
    buffer.roll_back()
    assert gaps_stored(progress, buffer) == [(50, 100)]
    progress.commit()
    assert gaps_stored(progress, buffer) == []


def test_in_transactions_a_position_is_stored_again_once_the_target_says_in_which_log_its_records_are() -> None:
    """It went out with the records, before their acknowledgement."""
    clock = ManualClock()
    progress = Progress(ProgressOptions(MM2, TOPICS, 1.0), 2, 25, in_transactions=True, clock=clock)
    buffer = PartitionBuffer(ORDERS, None, 50, -1, clock=clock)
    buffer.progressed_at = clock.now
    extents = [_extents_stored(progress, buffer)]
    for end, topic_id in ((50, UUID(int=1)), (40, UUID(int=2)), (60, UUID(int=2))):
        buffer.extend(Extent("A.orders", topic_id, end))
        extents.append(_extents_stored(progress, buffer))
    one, other = Extent("A.orders", UUID(int=1), 50), Extent("A.orders", UUID(int=2), 40)
    assert extents == [[None], [one], [other], []], "a longer one waits for a rest"
    clock.now += 6
    assert _extents_stored(progress, buffer) == [Extent("A.orders", UUID(int=2), 60)]
    assert _extents_stored(progress, buffer) == []


def _extents_stored(progress: Progress, buffer: PartitionBuffer) -> list[Extent | None]:
    sent = hand_out(progress.compose([buffer], 1, None))
    acknowledge(sent)
    records = records_of(sent).get(POSITIONS, [])
    found = [positions.decode_value(one.value) for one in records]
    return [record.extent for record in found if record is not None]


def test_no_position_goes_beyond_a_cut_of_the_target_before_the_map_records_it() -> None:
    """Who takes the partition on next knows the map alone, which says that records lie behind the cut."""
    maps = TopicPartition(TOPICS.offset_map, 0)
    progress = new_progress(ORDERS)
    buffer = at(ORDERS, 912)
    progress.cut(buffer, 912, 905)
    first = hand_out(progress.compose([buffer], 9, None))
    assert records_of(first).keys() == {maps}
    (record,) = records_of(first)[maps]
    assert record.value is not None
    assert decode_chunk(record.value).segments == (Segment(912, 905, -7),)
    assert hand_out(progress.compose([buffer], 9, None)) == []
    acknowledge(first)
    assert POSITIONS in store(progress, buffer)


def test_a_cut_that_shows_once_positions_are_composed_is_stored_in_the_same_transaction() -> None:
    progress = Progress(ProgressOptions(MM2, TOPICS, 1.0), 2, 25, in_transactions=True)
    buffer = at(ORDERS, 912)
    progress.adopt(ORDERS)
    first = hand_out(progress.compose([buffer], 9, None))
    acknowledge(first)
    assert not progress.lacks_map([buffer])
    progress.cut(buffer, 912, 905)
    assert progress.lacks_map([buffer])
    sent = hand_out(progress.compose([buffer], 9, None))
    assert TopicPartition(TOPICS.offset_map, 0) in records_of(sent)
    assert not progress.lacks_map([buffer])


def test_what_is_stored_of_another_piece_of_the_map_records_no_cut() -> None:
    progress = new_progress(ORDERS)
    buffer = at(ORDERS, 912)
    fill(buffer, 912, 916)
    batch = buffer.next_batch(1, 0)
    assert batch is not None
    batch.base_offset = 925
    progress.map_batches(ORDERS, [batch])
    buffer.succeed(batch)
    before = hand_out(progress.compose([buffer], 9, None))
    progress.cut(buffer, 916, 905)
    acknowledge(before)
    assert records_of(hand_out(progress.compose([buffer], 9, None))).keys() == {TopicPartition(TOPICS.offset_map, 0)}


def test_in_transactions_a_position_beyond_a_cut_goes_with_the_map() -> None:
    progress = Progress(ProgressOptions(MM2, TOPICS, 1.0), 2, 25, in_transactions=True)
    buffer = at(ORDERS, 912)
    progress.adopt(ORDERS)
    progress.cut(buffer, 912, 905)
    for _ in range(2):
        sent = hand_out(progress.compose([buffer], 9, None))
        assert records_of(sent).keys() >= {POSITIONS, TopicPartition(TOPICS.offset_map, 0)}
        acknowledge(sent)
        progress.roll_back()
    acknowledge(hand_out(progress.compose([buffer], 9, None)))
    progress.commit()
    buffer.restart_at(Place(920, Lineage(TOPIC_ID, ((5, 0),))))
    assert TopicPartition(TOPICS.offset_map, 0) not in records_of(hand_out(progress.compose([buffer], 9, None)))


def test_what_the_target_refused_of_a_transaction_is_not_stored_by_its_commit() -> None:
    """Only what no position depends on may be refused in a transaction that is committed: the offset map. A cut that it
    should have recorded is still to be recorded then."""
    lost: list[Gap] = []
    progress = Progress(ProgressOptions(MM2, TOPICS, 1.0), 2, 25, in_transactions=True, lost=lost.append)
    buffer = at(ORDERS, 912)
    progress.adopt(ORDERS)
    progress.cut(buffer, 912, 905)
    find_gap(progress, buffer, 912, 1000)
    buffer.restart_at(Place(1000, Lineage(TOPIC_ID, ((5, 0),))))
    for ledger, batch in hand_out(progress.compose([buffer], 9, [])):
        if ledger.target.topic in (TOPICS.offset_map, TOPICS.gaps):
            ledger.refuse(batch, in_doubt=False)
            ledger.rewind()
        else:
            ledger.succeed(batch)
    progress.commit()
    assert lost == []
    assert ORDERS in progress._mapping.cuts


def test_a_later_attempt_of_a_task_is_behind_an_earlier_one_though_the_clock_was_put_back() -> None:
    """By the marks of positions and by the names of the pieces of the offset map."""
    marks: list[Mark] = []
    names: list[ChunkName] = []
    home = TopicPartition("mm2-offsets.A.internal", murmur2_partition(connect.encode_key(MM2, ORDERS), 25))
    for attempt in range(3):
        clock = ManualClock(began_at=1_800_000_000.0 - 3600 * attempt)
        last = marks[-1].sequence if marks else 0
        progress = Progress(ProgressOptions(MM2, TOPICS, 1.0), 2, 25, marks_from=last, clock=clock)
        progress.adopt(ORDERS)
        buffer = at(ORDERS, 10 * attempt)
        fill(buffer, 10 * attempt, 10 * attempt + 4)
        batch = buffer.next_batch(1, 0)
        assert batch is not None
        batch.base_offset = 10 * attempt
        progress.map_batches(ORDERS, [batch])
        buffer.succeed(batch)
        stored = store(progress, buffer)
        for record in stored[home]:
            mark = Mark.read([(name.decode(), value) for name, value in record.headers])
            assert mark is not None
            marks.append(mark)
        keys = [decode_key(one.key) for one in stored[TopicPartition(TOPICS.offset_map, 0)]]
        names += [key[2] for key in keys if key is not None]
    assert marks == sorted(set(marks))
    assert len(names) == 3
    assert names == sorted(set(names))


def test_a_gap_before_which_a_partition_is_held_begins_where_that_comes_to_rest() -> None:
    """What was not sent yet is dropped, for the next run to read again if the source still has it."""
    progress = new_progress(ORDERS)
    buffer = at(ORDERS, 50)
    for first in (50, 52):
        fill(buffer, first, first + 2)
    batch = buffer.next_batch(1, 0)
    assert batch is not None
    progress.gaps.add(buffer, "retention", 54, 100, "partition paused", TOPIC_ID, None)
    buffer.hold("records are lost")
    assert gaps_stored(progress, buffer) == []
    buffer.succeed(batch)
    buffer.rewind()
    assert gaps_stored(progress, buffer) == [(52, 100)]


def test_a_partition_that_is_held_before_its_log_was_cut_has_lost_nothing() -> None:
    """What it had not got to was cut, and what it reads next is there."""
    progress = new_progress(ORDERS)
    buffer = at(ORDERS, 50)
    fill(buffer, 50, 60)
    progress.gaps.add(buffer, "truncated", 60, 57, "partition paused", TOPIC_ID, None)
    buffer.hold("records are lost")
    buffer.rewind()
    assert gaps_stored(progress, buffer) == [(57, 57)]


def test_a_position_beyond_a_cut_waits_for_a_map_that_is_refused() -> None:
    """Otherwise what the map says of records that are gone would count for what comes in their place."""
    progress = Progress(ProgressOptions(MM2, TOPICS, 1.0), 2, 25, in_transactions=True)
    buffer, other = at(ORDERS, 912), at(TopicPartition("orders", 1), 5)
    for one in (buffer, other):
        progress.adopt(one.source)
    progress.cut(buffer, 912, 905)
    for ledger, batch in hand_out(progress.compose([buffer, other], 9, [])):
        if ledger.target.topic == TOPICS.offset_map:
            ledger.refuse(batch, in_doubt=False)
            ledger.rewind()
            ledger.fail("not allowed")
            assert progress.note_refusal(ledger)
        else:
            ledger.succeed(batch)
    assert progress.lacks_map([buffer])
    assert not progress.lacks_map([other])
    assert progress.obstacle(ORDERS) == f"its position cannot be stored in {TOPICS.offset_map}-0: not allowed"
    assert progress.obstacle(other.source) == ""


def test_only_partitions_that_moved_are_looked_at() -> None:
    progress = new_progress()
    boxes = {}
    for number in range(1000):
        where = TopicPartition("orders", number)
        boxes[where] = PartitionBuffer(where, None, 7, -1, moved=progress.moved)
        progress.adopt(where)
    assert len(progress.pick(boxes)) == 1000, "starts are stored at once"
    hand_out(progress.compose(progress.pick(boxes), 1, None))
    assert list(progress.pick(boxes)) == []
    one = boxes[TopicPartition("orders", 500)]
    one.move_to(8, one.lineage)
    assert list(progress.pick(boxes)) == [one]
    progress.compose(progress.pick(boxes), 1, None)
    progress.release(one.source)
    assert list(progress.pick(boxes)) == [one], "its last position is stored once more, as released"
