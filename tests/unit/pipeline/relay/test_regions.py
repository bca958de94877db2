"""A broker that stops in the middle of its answer keeps the memory of a ring from nobody for long."""

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


def test_while_one_lease_stays_out_the_rest_of_the_ring_passes_behind_it() -> None:
    for before in range(32):
        regions = Regions(32 * MIB)
        for _ in range(before):
            passed = regions.reserve(MIB)
            assert passed is not None
            regions.lend(passed, [])
        lent = regions.reserve(MIB)
        assert lent is not None
        regions.lend(lent, [lent])
        assert pass_through(regions) == 31
