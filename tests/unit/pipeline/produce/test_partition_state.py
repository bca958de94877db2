"""The table of a partition buffer's states: each event leads where it says, and no other can happen."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.pipeline.produce.known_producer import known

from sparkmirror.batch.records import encode_batch
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.acked_position import Place
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.in_flight import InFlight
from sparkmirror.pipeline.produce.partition_state import (
    TRANSITIONS,
    Event,
    ImpossibleTransition,
    Sending,
    State,
    follow,
)
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords
from sparkmirror.pipeline.produce.round_trip import RoundTrip
from sparkmirror.pipeline.produce.waiting_runs import WaitingRuns

WHERE = TopicPartition("orders", 0)
SOURCE = Path(__file__).parents[4] / "src" / "sparkmirror" / "pipeline" / "produce"
BUFFERS = ("acked_position", "aligned_buffer", "buffer", "in_flight", "partition_life", "round_trip")
OWN_MODULES = {f"{name}.py" for name in BUFFERS}
OWN_EVENTS = (Event.ANSWERED, Event.ALL_TAKEN, Event.SENT_AGAIN)
"""Those that follow from another one, in the buffer itself."""


def accept(buffer: PartitionBuffer) -> None:
    first = buffer.position
    data = memoryview(bytearray(encode_batch([(None, b"v")], base_offset=first)))
    buffer.accept(QueuedRecords(data, first, first + 1, lambda: None))


def send(buffer: PartitionBuffer) -> Batch:
    batch = buffer.next_batch(7, 0)
    assert batch is not None
    return batch


def new_buffer(batches: int = 1, *, is_lane: bool = False) -> PartitionBuffer:
    """With so many batches under way."""
    buffer = known(PartitionBuffer(WHERE, WHERE, 0, 5, is_lane=is_lane), 7, 0)
    for _ in range(batches):
        accept(buffer)
        send(buffer)
    return buffer


def in_state(state: State, batches: int = 0, *, is_lane: bool = False) -> PartitionBuffer:
    buffer = new_buffer(batches, is_lane=is_lane)
    if state is State.REWINDING:
        buffer.refuse_row()
    elif state is State.DRAINING:
        buffer.evict()
    elif state in (State.FAILING, State.FAILED):
        buffer.fail("too large")
    elif state in (State.HOLDING, State.HELD):
        buffer.hold("records are lost")
    if state in (State.FAILED, State.HELD):
        buffer.settle(9.0)
    assert buffer.state is state
    return buffer


def in_sending(sending: Sending) -> PartitionBuffer:
    """Three batches are under way; in AGAIN all of them are to go out again."""
    buffer = new_buffer(3)
    first, *others = buffer._in_flight.batches
    if sending is Sending.AWAITING_LIMITS:
        buffer.await_limits(first)
    elif sending is not Sending.FRESH:
        buffer.retry(first)
    if sending is Sending.AGAIN:
        for batch in others:
            buffer.retry(batch)
    assert buffer._in_flight.sending is sending
    return buffer


def answer_with_not_now(buffer: PartitionBuffer) -> None:
    """The oldest batch is not taken, while another one awaits its answer."""
    while sum(batch.waiting for batch in buffer._in_flight.batches) < 2:
        send(buffer)
    buffer.retry(buffer._in_flight.batches[0])


ACTIONS: dict[Event, Callable[[PartitionBuffer], object]] = {
    Event.TAKEN_ON: lambda buffer: buffer.restart_at(Place(9)),
    Event.TAKEN_UP: lambda buffer: buffer.take_up(buffer.position),
    Event.OUT_OF_ORDER: PartitionBuffer.refuse_row,
    Event.EVICTED: PartitionBuffer.evict,
    Event.DRAINED: PartitionBuffer.finish_draining,
    Event.REFUSED: lambda buffer: buffer.fail("forbidden"),
    Event.HOLD: lambda buffer: buffer.hold("gone"),
    Event.SETTLED: lambda buffer: buffer.settle(9.0),
    Event.GOES_ON: PartitionBuffer.resume,
    Event.REREAD: PartitionBuffer.resume,
    Event.KEPT_FIRST: PartitionBuffer.resume,
    Event.ROLLED_BACK: PartitionBuffer.roll_back,
    Event.REWOUND: PartitionBuffer.rewind,
    Event.NOT_TAKEN: answer_with_not_now,
    Event.LIMITS_ASKED: lambda buffer: buffer.await_limits(buffer._in_flight.batches[0]),
    Event.LIMITS_KNOWN: PartitionBuffer.know_limits,
    Event.ANSWERED: lambda buffer: [buffer.retry(batch) for batch in buffer._in_flight.batches[1:]],
    Event.ALL_TAKEN: lambda buffer: [buffer.succeed(batch) for batch in list(buffer._in_flight.batches)],
    Event.SENT_AGAIN: lambda buffer: [send(buffer) for _ in range(3)],
    Event.KEPT: PartitionBuffer.keep_sent,
    Event.CLEARED: PartitionBuffer.rewind,
}


def prepare(state: State | Sending, event: Event) -> PartitionBuffer:
    if isinstance(state, Sending):
        return in_sending(state)
    batches = 1 if event in (Event.KEPT_FIRST, Event.ROLLED_BACK) else 0
    return in_state(state, batches, is_lane=event is Event.GOES_ON)


def name(value: object) -> str:
    return value.name if isinstance(value, State | Sending | Event) else str(value)


@pytest.mark.parametrize(("state", "event", "after"), [(*pair, after) for pair, after in TRANSITIONS.items()], ids=name)
def test_each_event_leads_where_the_table_says(state: State | Sending, event: Event, after: State | Sending) -> None:
    buffer = prepare(state, event)
    ACTIONS[event](buffer)
    assert (buffer.state if isinstance(after, State) else buffer._in_flight.sending) is after
    failed = (State.FAILING, State.FAILED, State.HOLDING, State.HELD)
    assert buffer.is_failed == (buffer.state in failed)
    assert buffer.is_held == (buffer.state in (State.HOLDING, State.HELD))


def impossible() -> list[tuple[State | Sending, Event]]:
    life = [event for event in Event if any((state, event) in TRANSITIONS for state in State)]
    assert {event for event in Event if event not in life} == {event for _, event in TRANSITIONS} - set(life)
    regions: list[tuple[type[State | Sending], list[Event]]] = [
        (State, life),
        (Sending, [event for event in Event if event not in life]),
    ]
    return [(state, event) for kind, events in regions for state in kind for event in events
            if (state, event) not in TRANSITIONS]  # fmt: skip


@pytest.mark.parametrize(("state", "event"), impossible(), ids=name)
def test_each_other_is_refused_as_a_defect(state: State | Sending, event: Event) -> None:
    with pytest.raises(ImpossibleTransition, match=f"orders-0: {event.name} .* {state.name}"):
        if event in OWN_EVENTS:
            follow(state, event, WHERE)  # type: ignore[type-var]
        else:
            buffer = prepare(state, event)
            try:
                ACTIONS[event](buffer)
            finally:
                assert (buffer.state if isinstance(state, State) else buffer._in_flight.sending) is state


def test_every_state_and_every_event_is_in_the_table() -> None:
    assert {state for state, _ in TRANSITIONS} == {*State, *Sending} == set(TRANSITIONS.values())
    assert {event for _, event in TRANSITIONS} == set(Event)


def test_only_the_buffers_own_methods_change_its_attributes() -> None:
    slots = {slot for kind in (*PartitionBuffer.__mro__, InFlight, RoundTrip, WaitingRuns)
             for slot in getattr(kind, "__slots__", ())}  # fmt: skip
    assert {"state", "position", "retry_at", "committed", "sending", "acknowledged"} <= slots | {"acknowledged"}
    modules = [path for path in sorted(SOURCE.glob("*.py")) if path.name not in OWN_MODULES]
    assert len(modules) > 20
    written = [f"{path.name}:{line} {what}" for path in modules for line, what in foreign_writes(path, slots)]
    assert written == []


def foreign_writes(path: Path, names: set[str]) -> list[tuple[int, str]]:
    """Attributes of these names that the module sets or deletes on anything but `self`."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in names:
            if not isinstance(node.ctx, ast.Load) and ast.unparse(node.value) != "self":
                found.append((node.lineno, ast.unparse(node)))
        elif isinstance(node, ast.Name) and node.id in ("setattr", "delattr"):
            found.append((node.lineno, node.id))
    return found


def test_a_write_from_outside_would_be_seen(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("class A:\n    def f(self, buffer):\n        self.state = 1\n        buffer.state, x = 1, 2\n")
    assert foreign_writes(module, {"state"}) == [(4, "buffer.state")]
    module.write_text("def f(gate):\n    gate.buffers[1].retry_at += 1\n    setattr(gate, 'slot', 1)\n")
    assert foreign_writes(module, {"retry_at"}) == [(2, "gate.buffers[1].retry_at"), (3, "setattr")]
