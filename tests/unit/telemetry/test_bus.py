"""A reader of the status topic, whose records the target's brokers stamp."""

from typing import Any

import pytest
from tests.flows import flow_of
from tests.manual_clock import ManualClock

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.model import TopicPartition
from sparkmirror.stored_json import encode
from sparkmirror.telemetry import bus
from sparkmirror.telemetry.problems import Level
from sparkmirror.telemetry.records import encode_key
from sparkmirror.telemetry.snapshot import FlowSnapshot


class Machine(ManualClock):
    """One whose wall clock is set: it is `off` by so many seconds."""

    off = 0.0

    @property
    def now_ms(self) -> int:
        return super().now_ms + round(self.off * 1000)


class Tail:
    may_have_news = True

    def __init__(self, *_: Any) -> None:
        self.records: list[TailRecord] = []

    def poll(self, _: float) -> list[TailRecord]:
        found, self.records = self.records, []
        return found


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def reader(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> bus.BusReader:
    """The target's clock is right."""
    monkeypatch.setattr(bus, "open_tail", Tail)
    monkeypatch.setattr(bus, "clock_ahead_seconds", lambda _: -machine.off)
    admin: Any = object()
    return bus.BusReader(flow_of(), admin=admin, clock=machine)


def tell(reader: bus.BusReader, machine: Machine) -> None:
    """A process and its task write."""
    true_ms = machine.now_ms - round(machine.off * 1000)
    tail: Any = reader._tail
    for key, value in (
        (("flow", "here:7"), {"run": "r", "state": "RUNNING", "host": "here", "pid": 7, "started_at_ms": 1}),
        (("task", 0), {"run": "r", "task": 0, "epoch": 1}),
    ):
        where = TopicPartition("status", 0)
        tail.records.append(TailRecord(where, 0, true_ms, encode_key(key[0], "A", key[1]), encode(value)))


def level(reader: bus.BusReader, machine: Machine) -> Level:
    reader.poll()
    return FlowSnapshot(flow_of().name, reader.board, machine.now_ms, str).verdict.level


@pytest.mark.parametrize("off", [-3600.0, 3600.0, -20.0])
def test_a_process_that_was_killed_is_silent_although_the_clock_was_set(
    reader: bus.BusReader, machine: Machine, off: float
) -> None:
    tell(reader, machine)
    assert level(reader, machine) is Level.GREEN
    machine.now += 3
    machine.off = off
    assert level(reader, machine) is Level.GREEN, "what was said before the clock was set is as old as it is"
    tell(reader, machine)
    assert level(reader, machine) is Level.GREEN
    machine.now += 20
    assert level(reader, machine) is Level.UNKNOWN
    machine.now += 20
    assert level(reader, machine) is Level.RED


def test_where_the_target_does_not_tell_its_time_nothing_seems_to_live_longer(
    reader: bus.BusReader, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Any) -> float:
        raise ClusterUnreachable("Cluster B does not answer.", "")

    tell(reader, machine)
    assert level(reader, machine) is Level.GREEN
    monkeypatch.setattr(bus, "clock_ahead_seconds", refuse)
    machine.off = -3600.0
    tell(reader, machine)
    assert level(reader, machine) is Level.GREEN
    machine.now += 40
    assert level(reader, machine) is Level.RED
