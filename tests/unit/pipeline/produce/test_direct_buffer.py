"""A lone batch that is handed on at once becomes what a buffer's general way makes of it, or is left to that."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.batch.witnesses import sealed, with_attributes
from tests.unit.pipeline.produce.handing_buffer import EPOCH, PRODUCER, new_buffer, seen

from sparkmirror.batch.header import APPEND_TIME, CONTROL, Codec
from sparkmirror.batch.records import encode_batch
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.pipeline.produce.acked_position import Place
from sparkmirror.pipeline.produce.direct_buffer import DirectBuffer
from sparkmirror.pipeline.produce.limits import TopicLimits
from sparkmirror.pipeline.produce.packing import Packing
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords
from sparkmirror.pipeline.relay.board import Announcement


def batch(records: int = 1, *, first: int = 40, codec: Codec = Codec.NONE, epoch: int = EPOCH) -> bytearray:
    made = bytearray(encode_batch([(b"k", b"value")] * records, codec, base_offset=first, timestamp=1_700_000_000_000))
    made[12:16] = epoch.to_bytes(4, "big")
    return made


def announced(data: bytes | bytearray, next_offset: int, *, first: int = 40) -> Announcement:
    return Announcement(5, 1, len(data), 0, first, next_offset, 640, 9, next_offset, 1234)


def hand_on(
    buffer: DirectBuffer, data: bytearray, run: Announcement, free: Callable[[], None] = lambda: None
) -> Batch | None:
    if not buffer.is_next(run, EPOCH, 0, PRODUCER):
        return None
    return buffer.hand_on(run, memoryview(data), free)


@given(
    records=st.integers(1, 5),
    beyond=st.integers(0, 3),
    hole=st.integers(0, 3),
    codec=st.sampled_from([Codec.NONE, Codec.LZ4]),
    stamped=st.booleans(),
)
def test_it_is_the_batch_that_accepting_and_asking_would_give(
    records: int, beyond: int, hole: int, codec: Codec, stamped: bool
) -> None:
    data = batch(records, first=40 + hole, codec=codec)
    if stamped and codec is Codec.NONE:
        data = bytearray(with_attributes(bytes(data), APPEND_TIME))
    run = announced(data, 40 + hole + records + beyond)
    freed: list[str] = []
    direct, usual = new_buffer(), new_buffer()
    mine = hand_on(direct, bytearray(data), run, lambda: freed.append("direct"))
    queued = QueuedRecords(memoryview(bytearray(data)), 40, run.next_offset, lambda: freed.append("usual"), 1234)
    queued.leader_epoch = EPOCH
    usual.accept(queued)
    other = usual.next_batch(*PRODUCER)
    assert mine is not None and other is not None
    assert seen(direct, mine) == seen(usual, other)
    assert freed == []
    for buffer, sent in ((direct, mine), (usual, other)):
        assert buffer.succeed(sent, 7) == [sent]
    assert freed == ["direct", "usual"]
    assert direct.place == usual.place == Place(run.next_offset, mine.lineage)
    assert direct.idle and direct.settled


def test_sequences_go_on_whichever_way_a_batch_takes() -> None:
    buffer = new_buffer()
    first = hand_on(buffer, batch(3), announced(batch(3), 43))
    data = batch(2, first=43)
    queued = QueuedRecords(memoryview(data), 43, 45, lambda: None)
    queued.leader_epoch = EPOCH
    buffer.accept(queued)
    second = buffer.next_batch(*PRODUCER)
    third = hand_on(buffer, batch(1, first=45), announced(batch(1), 46, first=45))
    assert first is not None and second is not None and third is not None
    assert [one.sequence - first.sequence for one in (first, second, third)] == [0, 3, 5]


def waits(buffer: DirectBuffer) -> None:
    buffer.accept(QueuedRecords(memoryview(batch()), 40, 41, lambda: None))
    buffer.position = 40  # as a run that is no batch would leave it


def fills(buffer: DirectBuffer) -> None:
    for _ in range(5):
        assert hand_on(
            buffer, batch(first=buffer.position), announced(batch(), buffer.position + 1, first=buffer.position)
        )
    buffer.position = 40


def retries(buffer: DirectBuffer) -> None:
    sent = hand_on(buffer, batch(), announced(batch(), 41))
    assert sent is not None
    buffer.retry(sent)
    buffer.position = 40


@pytest.mark.parametrize(
    "hinder",
    [waits, fills, retries, DirectBuffer.refuse_row, DirectBuffer.rest, lambda buffer: buffer.fail("refused"),
     lambda buffer: setattr(buffer.unpacking, "is_poor", True)],
)  # fmt: skip
def test_what_may_not_go_out_at_once_takes_the_usual_way(hinder: Callable[[DirectBuffer], None]) -> None:
    buffer = new_buffer()
    assert buffer.is_next(announced(batch(), 41), EPOCH, 0, PRODUCER)
    hinder(buffer)
    assert not buffer.is_next(announced(batch(), 41), EPOCH, 0, PRODUCER)


@pytest.mark.parametrize("packing", [Packing(Codec.LZ4), Packing(clamp_timestamps=True), Packing(linger_seconds=0.1)])
def test_a_flow_that_asks_for_other_batches_gets_them_the_usual_way(packing: Packing) -> None:
    assert not new_buffer(packing).is_next(announced(batch(), 41), EPOCH, 0, PRODUCER)


def test_only_what_continues_the_partition_by_the_same_producer_is_next() -> None:
    buffer = new_buffer()
    assert not buffer.is_next(announced(batch(), 41, first=39), EPOCH, 0, PRODUCER), "it repeats records"
    assert not buffer.is_next(announced(batch(), 42, first=41), EPOCH, 0, PRODUCER), "records are missing before it"
    assert not buffer.is_next(announced(batch(), 41), EPOCH + 1, 0, PRODUCER)
    assert not buffer.is_next(announced(batch(), 41), EPOCH, 1, PRODUCER), "it is of another log"
    assert not buffer.is_next(announced(batch(), 41), EPOCH, 0, ProducerIdentity(1000, 8))


@pytest.mark.parametrize(
    "data",
    [batch() + batch(first=42), bytearray(with_attributes(bytes(batch()), CONTROL)), batch(first=39),
     batch(epoch=EPOCH + 1), batch()[:-1], batch()[:50],
     bytearray(sealed(batch()[:23] + b"\0\0\0\x05" + batch()[27:])), batch(200)],
    ids=["a hole between two", "control", "to be cut", "another epoch", "cut off", "no header", "holes", "too large"],
)  # fmt: skip
def test_what_does_not_pass_as_it_is_is_not_touched(data: bytearray) -> None:
    buffer = new_buffer(limits=TopicLimits(1000))
    before = bytes(data)
    assert hand_on(buffer, data, announced(data, 60)) is None
    assert (bytes(data), buffer.position, buffer.idle) == (before, 40, True)
