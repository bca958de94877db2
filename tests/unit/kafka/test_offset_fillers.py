"""A hole is filled when the replicas have its markers, wherever in it the log ends."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from sparkmirror.errors import ClusterError
from sparkmirror.kafka import offset_fillers
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.log_offsets import LogOffsets
from sparkmirror.kafka.offset_fillers import EndBehind, EndMoved, HoleFiller, await_filled
from sparkmirror.model import Topic, TopicPartition
from sparkmirror.policy.fillers import FILLERS, MARKERS, Hole

WHERE = TopicPartition("orders", 0)
HOLE = Hole(10, 20)


class Leader:
    """Its log, as (high watermark, log end); each pause of the asker brings the next state."""

    def __init__(self, *states: tuple[int, int]) -> None:
        self.states = list(states)
        self.connection = SimpleNamespace(wait=self.wait)

    def wait(self, _seconds: float) -> bool:
        if len(self.states) > 1:
            self.states.pop(0)
        return False

    def latest_offsets(self, partitions: Iterable[TopicPartition]) -> LogOffsets:
        return LogOffsets("B", dict.fromkeys(partitions, self.states[0][0]))

    def log_ends(self, partitions: Iterable[TopicPartition]) -> LogOffsets:
        return LogOffsets("B", dict.fromkeys(partitions, self.states[0][1]))

    def filled(self, reached: int) -> int:
        return await_filled(self, WHERE, HOLE, reached)  # type: ignore[arg-type]


def test_markers_that_the_leader_alone_has_are_awaited() -> None:
    leader = Leader((10, 13), (10, 15), (14, 15), (15, 15), (99, 99))
    assert leader.filled(15) == 15
    assert leader.states[0] == (15, 15)


def test_a_marker_that_was_sent_twice_takes_an_offset_of_the_hole() -> None:
    assert Leader((15, 16), (16, 16)).filled(15) == 16


def test_a_log_that_ends_outside_the_hole_is_not_waited_for() -> None:
    with pytest.raises(EndBehind, match="its log ends at offset 21"):
        Leader((20, 21)).filled(20)
    with pytest.raises(EndMoved, match="its log ends at offset 9"):
        Leader((9, 9)).filled(9)


def test_replicas_that_do_not_follow_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_fillers, "_SECONDS_MAX", 0.01)
    with pytest.raises(ClusterError, match="to offset 13, and do not come to 15"):
        Leader((13, 15)).filled(15)


class Log(Leader):
    """Each transaction takes its offsets; the markers of some are sent twice. With `late` its marker is written once it
    is awaited."""

    settings, identity = None, ProducerIdentity(1, 0)

    def __init__(self, end: int, *twice: int, late: int = 0) -> None:
        super().__init__((end, end))
        self.twice, self.aborted, self.told, self.late = twice, 0, 0, late
        self.may_repeat, self.repeats = False, False

    def take_aborted(self) -> int:
        count, self.told = self.aborted - self.told, self.aborted
        return count

    def await_marker(self) -> None:
        if 0 < self.late <= self.aborted:
            self.late = 0
            self._go_on(1)
        self._repeat()

    def _repeat(self) -> None:
        """A coordinator that `repeats` the last marker takes nothing of its transactional id before."""
        if self.repeats:
            self._go_on(1)
        self.may_repeat, self.repeats = False, False

    def admin(self) -> "Log":
        return self

    def list_topics(self, _: list[str]) -> dict[str, Topic]:
        return {}

    def abort_one(self, records: int) -> None:
        self._repeat()
        self.aborted += 1
        self.may_repeat = True
        self._go_on(records + (self.aborted != self.late) + (self.aborted in self.twice))

    def _go_on(self, offsets: int) -> None:
        end = self.states[0][1] + offsets
        self.states = [(end, end)]


class Batches:
    """Reads whose the batches are, as a broker's log tells (tests/brokers/test_offset_fillers.py): of somebody else
    where the log `of_others` has an offset."""

    of_others: ClassVar[set[int]] = set()

    def __init__(self, _settings: object, _where: TopicPartition) -> None:
        self.close = lambda: None
        self.is_aborted = lambda _: False

    def read(self, first: int, stop: int) -> list[Any]:
        marker = SimpleNamespace(is_control=True, producer_epoch=0)
        return [
            SimpleNamespace(first=at, takes_up=lambda *_, at=at: at not in self.of_others, producer_id=1, header=marker)
            for at in range(first, stop)
        ]


@pytest.fixture(autouse=True)
def reads_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_fillers, "OwnerReader", Batches)
    monkeypatch.setattr(Batches, "of_others", set())


@pytest.mark.parametrize("filler", FILLERS)
def test_a_record_that_comes_while_the_last_marker_is_under_way_is_not_taken_for_it(filler: str) -> None:
    """The coordinator has answered, and the log ends where it must: the marker comes behind the hole, where the source
    may have another."""
    log = Log(10)
    Batches.of_others.add(19)
    hole_filler = HoleFiller(log, "fills", WHERE, 7)  # type: ignore[arg-type]
    hole_filler._transactions = [log]  # type: ignore[list-item]
    with pytest.raises(EndMoved, match="offset 19 has a record, and offsets 10 to 19 were to be filled"):
        hole_filler.fill(Hole(10, 20), filler, seconds_max=60.0)


@pytest.mark.parametrize("filler", FILLERS)
def test_a_marker_that_is_sent_twice_leaves_less_to_fill(filler: str) -> None:
    log = Log(10, 1)
    hole_filler = HoleFiller(log, "fills", WHERE, 7)  # type: ignore[arg-type]
    hole_filler._transactions = [log]  # type: ignore[list-item]
    assert hole_filler.fill(Hole(10, 20), filler, seconds_max=60.0) == 20
    assert log.states == [(20, 20)]


def test_a_marker_that_is_still_to_come_is_not_counted_for_by_one_that_came_twice() -> None:
    log = Log(10, 2, late=5)
    hole_filler = HoleFiller(log, "fills", WHERE, 7)  # type: ignore[arg-type]
    hole_filler._transactions = [log]  # type: ignore[list-item]
    assert hole_filler.fill(Hole(10, 20), MARKERS, seconds_max=60.0) == 20
    assert log.states == [(20, 20)]
    assert log.aborted == 9


def test_a_marker_of_the_hole_before_that_comes_again_takes_an_offset_of_the_next_hole() -> None:
    """A broker has died before its coordinator noted the marker; a record came between the holes."""
    log = Log(10)
    hole_filler = HoleFiller(log, "fills", WHERE, 7)  # type: ignore[arg-type]
    hole_filler._transactions = [log]  # type: ignore[list-item]
    assert hole_filler.fill(Hole(10, 11), MARKERS, seconds_max=60.0) == 11
    log._go_on(1)
    log.repeats = True
    assert hole_filler.fill(Hole(12, 13), MARKERS, seconds_max=60.0) == 13
    assert (log.states, log.aborted) == ([(13, 13)], 1)


def test_a_hole_is_filled_bit_by_bit_where_the_time_is_over() -> None:
    log = Log(10)
    hole_filler = HoleFiller(log, "fills", WHERE, 7)  # type: ignore[arg-type]
    hole_filler._transactions = [log]  # type: ignore[list-item]
    reached = [hole_filler.fill(Hole(10, 13), MARKERS, seconds_max=0.0) for _ in range(4)]
    assert reached == [11, 12, 13, 13]
