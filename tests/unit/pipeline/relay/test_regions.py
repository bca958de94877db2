"""The regions of a ring lie apart, and what stays out, or a broker that stops in the middle of its answer, keeps the
memory from nobody for long."""

import random
from collections import deque
from collections.abc import Iterable

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.pipeline.relay.regions import FILLING_SECONDS, Regions

MIB = 1 << 20


class HalfAnswer:
    """An answer that is announced, and does not come."""

    def __init__(self, regions: Regions, size: int) -> None:
        self._regions = regions
        self._size = size
        self.region = regions.reserve(size, self)

    def make_way(self) -> None:
        assert self.region is not None
        self._regions.lend(self.region, [])
        self._regions.aside_bytes += self._size
        self.region = None


def pass_through(regions: Regions) -> int:
    """How many answers of 1 MiB pass one after the other, of a hundred."""
    for passed in range(100):
        region = regions.reserve(MIB)
        if region is None:
            return passed
        regions.lend(region, [])
    return 100


def test_an_answer_that_does_not_come_leaves_the_ring_when_others_have_waited_behind_it() -> None:
    clock = ManualClock()
    regions = Regions(16 * MIB, clock)
    half = HalfAnswer(regions, 8 * MIB)
    clock.now += 10 * FILLING_SECONDS
    assert pass_through(regions) == 8, "nobody has waited yet"
    assert regions.awaits_filler
    clock.now += FILLING_SECONDS / 2
    assert pass_through(regions) == 0
    assert half.region is not None
    clock.now += FILLING_SECONDS / 2
    assert pass_through(regions) == 100
    assert half.region is None and not regions.awaits_filler


def test_several_leave_one_after_the_other_and_no_more_than_the_ring_has_lies_outside() -> None:
    clock = ManualClock()
    regions = Regions(16 * MIB, clock)
    halves = [HalfAnswer(regions, 8 * MIB) for _ in range(2)]
    for _ in range(2):
        assert pass_through(regions) <= 8
        clock.now += FILLING_SECONDS
    assert pass_through(regions) == 100
    assert [half.region for half in halves] == [None, None]
    third = HalfAnswer(regions, 8 * MIB)
    for _ in range(2):
        assert pass_through(regions) <= 8
        clock.now += FILLING_SECONDS
    assert third.region is not None, "memory is bounded (invariant 9)"
    regions.aside_bytes -= 8 * MIB
    assert pass_through(regions) == 100, "one came back"


def test_what_the_writer_still_has_is_waited_for() -> None:
    clock = ManualClock()
    regions = Regions(16 * MIB, clock)
    lent = regions.reserve(8 * MIB)
    assert lent is not None
    regions.lend(lent, [lent])
    half = HalfAnswer(regions, 8 * MIB)
    for _ in range(3):
        assert pass_through(regions) == 0
        clock.now += FILLING_SECONDS
    assert half.region is not None
    assert not regions.awaits_filler


def answers(regions: Regions, sizes: Iterable[int], taken_max: int) -> list[range]:
    """The places in the ring of answers that come one after the other, each lent as one lease. The oldest come back
    when more bytes than `taken_max` are lent, or when there is no room."""
    places, lent = [], deque[tuple[int, range]]()
    for size in sizes:
        while (region := regions.reserve(size)) is None or sum(len(at) for _, at in lent) > taken_max:
            if region is not None:
                regions.give_up(region, 0)
                regions.lend(region, [])
            come_back(regions, lent.popleft()[0])
        regions.lend(region, [region])
        place = range(region % regions.ring_bytes, region % regions.ring_bytes + size)
        assert place.stop <= regions.ring_bytes, "it does not wrap"
        assert all(place.stop <= at.start or at.stop <= place.start for _, at in lent), "nothing is overwritten"
        lent.append((region, place))
        places.append(place)
    return places


def come_back(regions: Regions, lease: int) -> None:
    regions._region_of.pop(lease).leases -= 1
    regions._release_front()


def test_while_one_lease_stays_out_nearly_the_whole_ring_passes_behind_it() -> None:
    for before in range(0, 32 * MIB, 700_000):
        regions = Regions(32 * MIB)
        answers(regions, [100_000] * (before // 100_000), taken_max=500_000)
        while regions._region_of:
            come_back(regions, next(iter(regions._region_of)))
        stuck = regions.reserve(100_000)
        assert stuck is not None
        regions.lend(stuck, [stuck])
        passed = 0
        while (region := regions.reserve(100_000)) is not None:
            regions.lend(region, [])
            passed += 100_000
        assert passed > 31 * MIB


def test_a_backlog_has_all_of_it() -> None:
    regions = Regions(32 * MIB)
    places = answers(regions, [MIB] * 100, taken_max=30 * MIB)
    assert {place.start // MIB for place in places} == set(range(32))


@pytest.mark.parametrize("seed", range(50))
def test_no_answer_overwrites_one_that_the_writer_has(seed: int) -> None:
    chance = random.Random(seed)
    regions = Regions(MIB)
    for _ in range(20):
        sizes = [chance.choice([100, 5_000, 70_000, 900_000, MIB]) for _ in range(50)]
        places = answers(regions, sizes, taken_max=chance.choice([0, 10_000, 70_000, 200_000, MIB]))
        assert len(places) == len(sizes)
        while regions._region_of:
            come_back(regions, next(iter(regions._region_of)))
