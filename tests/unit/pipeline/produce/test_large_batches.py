"""Large batches amid a run go out by a shorter way, and become what a buffer's general way makes of them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.batch.witnesses import with_attributes
from tests.unit.pipeline.produce.known_producer import known

from sparkmirror.batch.header import APPEND_TIME, CONTROL, Codec
from sparkmirror.batch.merging import PASSED_BYTES_MIN
from sparkmirror.batch.records import encode_batch
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.acked_position import Place
from sparkmirror.pipeline.produce.direct_buffer import DirectBuffer
from sparkmirror.pipeline.produce.limits import TopicLimits
from sparkmirror.pipeline.produce.packing import Packing
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords

PRODUCER: Final = ProducerIdentity(1000, 7)
EPOCH: Final = 4
LARGE: Final = bytes(PASSED_BYTES_MIN + 100)
SMALL: Final = b"value"


class Made(NamedTuple):
    """One batch of a run, and what is special about it."""

    records: int = 1
    value: bytes = LARGE
    kind: str = "plain"
    hole: int = 0


PLAIN: Final = Made()
KINDS: Final = ("plain", "plain", "plain", "lz4", "control", "stamped", "epoch", "damaged", "cut off")
batches: Final = st.builds(
    Made, st.integers(1, 3), st.sampled_from([LARGE, LARGE, LARGE, SMALL]), st.sampled_from(KINDS), st.integers(0, 1)
)


def encode(made: Made, first: int) -> bytes:
    codec = Codec.LZ4 if made.kind == "lz4" else Codec.NONE
    data = bytearray(encode_batch([(b"k", made.value)] * made.records, codec, base_offset=first, timestamp=9))
    epoch = EPOCH + 1 if made.kind == "epoch" else EPOCH
    data[12:16] = epoch.to_bytes(4, "big")
    if made.kind == "damaged":
        data[16] = 9
    if made.kind in ("control", "stamped"):
        return with_attributes(bytes(data), CONTROL if made.kind == "control" else APPEND_TIME)
    return bytes(data[: len(data) // 2] if made.kind == "cut off" else data)


def lay_out(runs: Sequence[Sequence[Made]]) -> list[tuple[bytes, int, int]]:
    """The bytes of each run, with its first offset and that behind it."""
    laid, at = [], 40
    for run in runs:
        first, parts = at, []
        for made in run:
            parts.append(encode(made, at + made.hole))
            at += made.hole + made.records
        laid.append((b"".join(parts), first, at))
    return laid


def new_buffer(limits: TopicLimits) -> DirectBuffer:
    buffer = DirectBuffer(TopicPartition("orders", 0), None, 40, 5, packing=Packing())
    buffer.aim("A.orders", limits)
    buffer.restart_at(Place(40, Lineage(epochs=((EPOCH, 0),))))
    buffer.round_trip.note_distance(is_far=False)
    known(buffer, *PRODUCER)
    return buffer


def seen(buffer: DirectBuffer, sent: Batch) -> tuple[object, ...]:
    queued = sent.queued
    return (
        bytes(sent.data), sent.sequence, sent.spans, sent.records, sent.next_offset, sent.lineage, sent.waiting,
        queued.at, queued.header, queued.leader_epoch, queued.open_batches, queued.handed_out,
        buffer.position, buffer.reach, buffer.place, buffer.sendable,
    )  # fmt: skip


class Course:
    """A buffer that sends until nothing is left, in one of the two ways."""

    def __init__(self, laid: Sequence[tuple[bytes, int, int]], limits: TopicLimits, *, is_short: bool) -> None:
        self.buffer = new_buffer(limits)
        self.is_short = is_short
        self.freed: list[int] = []
        self.passed = 0
        self.sent: list[Batch] = []
        for number, (data, first, following) in enumerate(laid):
            free = partial(self.freed.append, number)
            self.buffer.accept(QueuedRecords(memoryview(bytearray(data)), first, following, free, 1234))

    def send(self) -> tuple[object, ...] | str:
        """What the next batch is, or why there is none."""
        batch = self.buffer.pass_next(PRODUCER) if self.is_short else None
        self.passed += batch is not None
        try:
            batch = batch or self.buffer.next_batch(*PRODUCER)
        except SparkMirrorError as problem:
            return str(problem)
        if batch is None:
            return "none"
        self.sent.append(batch)
        return seen(self.buffer, batch)

    def acknowledge(self) -> None:
        if self.sent:
            self.buffer.succeed(self.sent.pop(0), 7)


@given(
    runs=st.lists(st.lists(batches, min_size=1, max_size=5), min_size=1, max_size=3),
    acknowledged=st.lists(st.integers(0, 3), min_size=16, max_size=16),
    bytes_max=st.sampled_from([None, None, PASSED_BYTES_MIN * 2]),
)
@example(runs=[[PLAIN] * 5], acknowledged=[1] * 16, bytes_max=None)
@example(runs=[[PLAIN, PLAIN, Made(kind="control"), PLAIN, PLAIN]], acknowledged=[1] * 16, bytes_max=None)
@example(runs=[[PLAIN, PLAIN, Made(kind="damaged"), PLAIN]], acknowledged=[1] * 16, bytes_max=None)
@example(runs=[[PLAIN, PLAIN, Made(kind="cut off")]], acknowledged=[1] * 16, bytes_max=None)
@example(runs=[[PLAIN, PLAIN, Made(kind="epoch"), PLAIN, PLAIN]], acknowledged=[0] * 16, bytes_max=None)
@example(runs=[[PLAIN, Made(3), PLAIN]], acknowledged=[1] * 16, bytes_max=PASSED_BYTES_MIN * 2)
def test_each_batch_is_what_the_general_way_makes_of_it(
    runs: list[list[Made]], acknowledged: list[int], bytes_max: int | None
) -> None:
    laid, limits = lay_out(runs), TopicLimits(bytes_max)
    short, general = Course(laid, limits, is_short=True), Course(laid, limits, is_short=False)
    for count in acknowledged:
        assert short.send() == general.send()
        for _ in range(count):
            short.acknowledge()
            general.acknowledge()
        assert short.freed == general.freed
        assert short.buffer.place == general.buffer.place


def test_those_amid_a_run_go_the_shorter_way() -> None:
    course = Course(lay_out([[PLAIN] * 5]), TopicLimits(), is_short=True)
    for _ in range(5):
        course.send()
        course.acknowledge()
    assert course.passed == 3, "the first tells what the run is like, and behind the last it is to be finished"
    assert course.buffer.idle and course.freed == [0]


def rests(course: Course) -> None:
    course.buffer.rest()


def is_full(course: Course) -> None:
    while course.send() != "none":
        pass


def retries(course: Course) -> None:
    course.buffer.retry(course.sent[-1])


def unpacks_to_much(course: Course) -> None:
    course.buffer.unpacking.is_poor = True


def is_failed(course: Course) -> None:
    course.buffer.fail("refused")


@pytest.mark.parametrize("hinder", [rests, is_full, retries, unpacks_to_much, is_failed])
def test_where_more_is_to_be_looked_at_none_goes_the_shorter_way(hinder: Callable[[Course], None]) -> None:
    course = Course(lay_out([[PLAIN] * 9]), TopicLimits(), is_short=True)
    course.send()
    before = course.buffer.sendable
    hinder(course)
    assert before and course.buffer.pass_next(PRODUCER) is None


def test_none_goes_the_shorter_way_as_another_producer() -> None:
    course = Course(lay_out([[PLAIN] * 3]), TopicLimits(), is_short=True)
    course.send()
    assert course.buffer.pass_next((1001, 0)) is None
    assert course.buffer.pass_next(PRODUCER) is not None
