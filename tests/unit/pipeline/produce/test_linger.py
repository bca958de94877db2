"""`linger.ms` and `batch.size`: a little waits for more, a whole batch does not, and merging stops at its size."""

import pytest
from tests.manual_clock import ManualClock
from tests.unit.pipeline.produce.test_packing import accept, batch, kernels, new_buffer, send_all

from sparkmirror.batch.header import parse_header
from sparkmirror.pipeline.produce.packing import Linger, Packing

__all__ = ["kernels"]  # a fixture that every test here uses


def test_the_time_runs_from_the_first_and_is_reported_once() -> None:
    clock = ManualClock()
    linger = Linger(0.1, 1000, clock)
    assert not linger.holds_back and linger.tell_end() == 0
    linger.add(100)
    clock.now += 0.06
    linger.add(100)
    assert linger.holds_back
    assert linger.tell_end() == pytest.approx(1000.1)
    assert linger.tell_end() == 0
    clock.now += 0.05
    assert not linger.holds_back
    linger.begin_anew()
    linger.add(100)
    assert linger.tell_end() == pytest.approx(1000.21)


def test_what_makes_a_whole_batch_waits_no_longer() -> None:
    linger = Linger(0.1, 250, ManualClock())
    linger.add(100)
    linger.add(149)
    assert linger.holds_back
    linger.add(1)
    assert not linger.holds_back


def test_without_a_time_and_at_the_end_nothing_is_held_back() -> None:
    at_once = Linger(0.0, 1000, ManualClock())
    at_once.add(1)
    assert not at_once.holds_back
    linger = Linger(5.0, 1000, ManualClock())
    linger.add(1)
    linger.stop()
    linger.add(1)
    assert not linger.holds_back


def test_a_buffer_sends_nothing_before_its_linger_time_is_over_and_then_one_batch() -> None:
    clock = ManualClock()
    buffer = new_buffer(Packing(linger_seconds=0.1), clock=clock)
    for offset in range(50):
        accept(buffer, offset + 1, batch(offset, [b"%d" % offset]))
        assert not buffer.sendable
    clock.now += 0.2
    assert buffer.sendable
    assert [one.records for one in send_all(buffer)] == [50]
    accept(buffer, 51, batch(50, [b"later"]))
    assert not buffer.sendable, "the next one waits again"


def test_merging_fills_a_batch_up_to_batch_size() -> None:
    buffer = new_buffer(Packing(batch_bytes=4000))
    accept(buffer, 400, *(batch(offset, [b"x" * 20]) for offset in range(400)))
    sizes = [parse_header(one.data, 0).total_bytes for one in send_all(buffer)]
    assert max(sizes) <= 4000 and len(sizes) > 400 * 90 // 4000, "some forty of them in each"
