"""Large batches amid a run go out by a shorter way, and become what a buffer's general way makes of them."""

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kernels import load_kernels
from tests.manual_clock import ManualClock
from tests.unit.batch.witnesses import with_attributes
from tests.unit.pipeline.produce.handing_buffer import EPOCH, PRODUCER, new_buffer, seen

from sparkmirror.batch.header import APPEND_TIME, CONTROL, Codec, parse_header
from sparkmirror.batch.merging import IN_FLIGHT_MAX, PASSED_BYTES_MIN
from sparkmirror.batch.records import encode_batch
from sparkmirror.errors import SparkMirrorError
from sparkmirror.pipeline.produce.drain import Drain
from sparkmirror.pipeline.produce.limits import TopicLimits
from sparkmirror.pipeline.produce.next_batch import NextBatches
from sparkmirror.pipeline.produce.packing import PASS_OR_MERGE, Packing
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords

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


@pytest.fixture(autouse=True, scope="module")
def kernels() -> None:
    """So that none come into use between the two ways of one step."""
    load_kernels()


def encode(made: Made, first: int) -> bytes:
    codec = Codec.LZ4 if made.kind == "lz4" else Codec.NONE
    at_ms = 2**45 if made.kind == "future" else 9
    data = bytearray(encode_batch([(b"k", made.value)] * made.records, codec, base_offset=first, timestamp=at_ms))
    epoch = EPOCH + 1 if made.kind == "epoch" else EPOCH
    data[12:16] = epoch.to_bytes(4, "big")
    if made.kind == "damaged":
        data[16] = 9
    if made.kind in ("control", "stamped"):
        return with_attributes(bytes(data), CONTROL if made.kind == "control" else APPEND_TIME)
    return bytes(data[: len(data) // 2] if made.kind == "cut off" else data)


def lay_out(runs: Sequence[Sequence[Made]], cut: int = 0) -> list[tuple[bytes, int, int]]:
    """The bytes of each run, with its first offset and that behind it; the first run has `cut` records before that."""
    laid, at = [], 40 - cut
    for run in runs:
        first, parts = max(at, 40), []
        for made in run:
            parts.append(encode(made, at + made.hole))
            at += made.hole + made.records
        laid.append((b"".join(parts), first, max(at, first)))
    return laid


class Course:
    """A buffer that sends until nothing is left, in one of the two ways."""

    def __init__(
        self,
        laid: Sequence[tuple[bytes, int, int]],
        limits: TopicLimits,
        packing: Packing = PASS_OR_MERGE,
        *,
        is_short: bool,
    ) -> None:
        self.buffer = new_buffer(packing, limits)
        self.buffer.round_trip.note_distance(is_far=False)
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


def given_runs(
    runs: list[list[Made]],
    acknowledged: int = 1,
    bytes_max: int | None = None,
    cut: int = 0,
    packing: Packing = PASS_OR_MERGE,
) -> dict[str, Any]:
    """What a test is given; after each batch so many are acknowledged."""
    acknowledged_at = [acknowledged] * 16
    return {
        "runs": runs, "acknowledged": acknowledged_at, "bytes_max": bytes_max, "cut": cut, "packing": packing,
    }  # fmt: skip


@given(
    runs=st.lists(st.lists(batches, min_size=1, max_size=5), min_size=1, max_size=3),
    acknowledged=st.lists(st.integers(0, 3), min_size=16, max_size=16),
    bytes_max=st.sampled_from([None, None, PASSED_BYTES_MIN * 2]),
    cut=st.integers(0, 4),
    packing=st.sampled_from([PASS_OR_MERGE, PASS_OR_MERGE, Packing(codec=Codec.LZ4), Packing(clamp_timestamps=True)]),
)
@example(**given_runs([[PLAIN] * 5]))
@example(**given_runs([[PLAIN, PLAIN, Made(kind="control"), PLAIN, PLAIN]]))
@example(**given_runs([[PLAIN, PLAIN, Made(kind="damaged"), PLAIN]]))
@example(**given_runs([[PLAIN, PLAIN, Made(kind="cut off")]]))
@example(**given_runs([[PLAIN, PLAIN, Made(kind="epoch"), PLAIN, PLAIN]], acknowledged=0))
@example(**given_runs([[PLAIN, Made(3), PLAIN]], bytes_max=PASSED_BYTES_MIN * 2))
@example(**given_runs([[PLAIN] * 9], acknowledged=0))
@example(**given_runs([[Made(2)] * 4], cut=3))
@example(**given_runs([[PLAIN] * 4], packing=Packing(codec=Codec.LZ4)))
def test_each_batch_is_what_the_general_way_makes_of_it(
    runs: list[list[Made]], acknowledged: list[int], bytes_max: int | None, cut: int, packing: Packing
) -> None:
    laid, limits = lay_out(runs, cut), TopicLimits(bytes_max)
    short, general = (Course(laid, limits, packing, is_short=is_short) for is_short in (True, False))
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
    assert len(course.sent) == IN_FLIGHT_MAX, "others wait"


def retries(course: Course) -> None:
    course.buffer.retry(course.sent[-1])


def unpacks_too_much(course: Course) -> None:
    course.buffer.unpacking.is_poor = True


def is_failed(course: Course) -> None:
    course.buffer.fail("refused")


@pytest.mark.parametrize("hinder", [rests, is_full, retries, unpacks_too_much, is_failed])
def test_where_more_is_to_be_looked_at_none_goes_the_shorter_way(hinder: Callable[[Course], None]) -> None:
    course = Course(lay_out([[PLAIN] * 9]), TopicLimits(), is_short=True)
    course.send()
    before = course.buffer.sendable
    hinder(course)
    assert before and course.buffer.pass_next(PRODUCER) is None


def test_one_whose_time_the_target_would_refuse_goes_the_general_way() -> None:
    laid = lay_out([[PLAIN, Made(kind="future"), PLAIN]])
    course = Course(laid, TopicLimits(), Packing(clamp_timestamps=True), is_short=True)
    course.send()
    assert course.buffer.pass_next(PRODUCER) is None
    course.send()
    assert parse_header(course.sent[-1].data, 0).max_timestamp < 2**45


def test_none_goes_the_shorter_way_as_another_producer() -> None:
    course = Course(lay_out([[PLAIN] * 3]), TopicLimits(), is_short=True)
    course.send()
    assert course.buffer.pass_next((1001, 0)) is None
    assert course.buffer.pass_next(PRODUCER) is not None


def next_of(
    course: Course, *, transactional: bool = False, is_far: bool = False, drain_ended: bool = False
) -> Batch | None:
    """What `NextBatches` gives."""
    clock = ManualClock()
    drain = Drain(clock)
    if drain_ended:
        drain.begin()
        clock.sleep(3600)
    guarantee: Any = SimpleNamespace(
        identity=PRODUCER, transactional=transactional, admits=lambda _: True, sent=lambda *_: None
    )
    others: Any = SimpleNamespace(is_far=is_far, obstacle=lambda _: "")
    return NextBatches({}, guarantee, others, others, others, drain, others, clock).take(course.buffer)


def test_in_a_transaction_a_large_batch_belongs_to_it() -> None:
    course = Course(lay_out([[PLAIN] * 4]), TopicLimits(), is_short=True)
    for _ in range(3):
        batch = next_of(course, transactional=True)
        assert batch is not None and parse_header(batch.data, 0).is_transactional


def test_when_the_time_to_drain_is_over_no_large_batch_goes_out() -> None:
    course = Course(lay_out([[PLAIN] * 4]), TopicLimits(), is_short=True)
    course.send()
    assert next_of(course, drain_ended=True) is None and course.buffer.sendable


def test_on_the_way_to_a_far_target_large_batches_may_be_merged() -> None:
    course = Course(lay_out([[PLAIN] * 4]), TopicLimits(), is_short=True)
    course.send()
    assert next_of(course, is_far=True) is not None
    assert course.buffer.round_trip.is_far, "it was looked at the general way, which notes that"
