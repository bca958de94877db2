"""The offset map against brute force: a list of every record and where it was written last."""

from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparkmirror.ledger.map_segments import Chunk, Segment
from sparkmirror.ledger.offset_map import OffsetMap, Translation


def mapped(*spans: tuple[int, int, int]) -> OffsetMap:
    found = OffsetMap(spans[0][0])
    for first, records, target in spans:
        found.append(first, records, target)
    return found


def test_a_copy_from_the_beginning_is_one_segment_however_long() -> None:
    found = mapped((0, 10, 0), (10, 990, 10), (1000, 1, 1000))
    assert found.segments == [Segment(0, 0, 0)]
    assert [found.translate(offset) for offset in (0, 500, 1001)] == [
        Translation(0, True), Translation(500, True), Translation(1001, True),
    ]  # fmt: skip


def test_behind_transaction_markers_every_offset_stays_exact() -> None:
    # Records 0-2, a marker, records 4-6, a marker: MirrorMaker's live trace of mm2.md is 0-2 and 3-5 on the target.
    found = mapped((0, 3, 0), (4, 3, 3))
    found.advance(8)
    assert found.segments == [Segment(0, 0, 0, bits=0b1110111)]
    assert [found.translate(offset) for offset in range(9)] == [
        Translation(offset, True) for offset in (0, 1, 2, 3, 3, 4, 5, 6, 6)
    ]
    markers = mapped((0, 3, 0), (4, 3, 4))
    assert markers.segments == [Segment(0, 0, 0)], "the target has a marker, too"


def test_a_hole_behind_many_records_begins_a_segment() -> None:
    found = mapped((0, 100, 0), (101, 100, 100))
    assert found.segments == [Segment(0, 0, 0), Segment(100, 100, -1)]


def test_a_record_that_became_several_begins_with_its_first_and_is_left_behind_its_last() -> None:
    """Record 5 lies at 5, 6 and 7; record 6 at 8, a hole, and record 9 at 9."""
    found = mapped((0, 6, 0))
    found.append_more(1, exact=True)
    found.append_more(1, exact=True)
    assert [found.translate(offset) for offset in (5, 6)] == [Translation(5, True), Translation(8, True)]
    assert found.records_end(6) is None
    found.append(6, 1, 8)
    found.append(9, 1, 9)
    assert [found.translate(offset) for offset in (5, 6, 7, 9)] == [
        Translation(offset, True) for offset in (5, 8, 9, 9)
    ]
    assert list(found.stretches()) == [(0, 6, 0), (6, 1, 8), (9, 1, 9)]
    assert [found.translate_back(offset) for offset in (4, 5, 6, 7, 8, 9)] == [
        Translation(4, True), Translation(5, True), Translation(5, False), Translation(5, False), Translation(6, True),
        Translation(9, True),
    ]  # fmt: skip


def test_a_group_ahead_of_the_mirror_goes_to_the_end() -> None:
    assert mapped((0, 10, 0)).translate(15) == Translation(10, False)


def test_what_was_sent_again_after_a_restart_counts_where_it_lies_last() -> None:
    found = mapped((0, 100, 0), (90, 20, 100))
    assert found.translate(95) == Translation(105, True)
    assert found.translate(89) == Translation(89, True)


def test_a_target_created_again_forgets_the_old_one() -> None:
    found = mapped((0, 100, 0), (100, 10, 0))
    assert found.translate(50) == Translation(0, True)
    assert found.translate(105) == Translation(5, True)


def test_before_the_map_there_is_no_answer_unless_the_target_begins_with_it() -> None:
    assert mapped((100, 10, 40)).translate(50) is None
    assert mapped((100, 10, 0)).translate(50) == Translation(0, True)
    assert OffsetMap(7).translate(7) is None


def test_an_unknown_place_is_not_placed_beyond_the_truth() -> None:
    found = mapped((0, 10, 0))
    found.append_unknown(10, 5)
    found.append(15, 5, 20)  # the five lie somewhere in 10-19
    assert found.translate(12) == Translation(12, False)
    assert found.translate(16) == Translation(21, True)


def test_a_missing_chunk_translates_to_its_beginning() -> None:
    found = mapped((0, 10, 0))
    found.extend(mapped((50, 10, 30)).as_chunk())
    assert found.translate(30) == Translation(10, False)
    assert found.translate(55) == Translation(35, True)


def test_what_is_missing_of_a_log_that_was_cut_begins_below_what_follows() -> None:
    """The target's log was cut to 8, and grew again: the chunk of 60 and 61, at 8 and 10 with markers, is lost."""
    found = mapped((0, 60, 0))
    found.extend(mapped((62, 5, 12)).as_chunk())
    assert found.translate(7) == Translation(7, True)
    assert found.translate(20) == found.translate(60) == Translation(8, False)
    assert found.at_most(20) == found.at_most(60) == 12, "a group there has not read 62, which lies at 12"
    assert (found.at_most(7), found.at_most(63), found.at_most(67)) == (7, 13, None)


def test_a_log_that_was_cut_below_the_whole_map_tells_where_the_next_record_lies() -> None:
    found = mapped((14, 38, 17))
    found.extend(mapped((52, 10, 15)).as_chunk())
    assert found.translate(33) == Translation(15, False), "all that lay behind it is gone, and 52 lies there"
    assert found.at_most(33) == 15
    assert found.translate(55) == Translation(18, True)


def test_below_the_first_known_place_nothing_is_said() -> None:
    """Record 0 was in doubt: it lies at 0, and two markers before record 1."""
    live, found = OffsetMap(0), OffsetMap(0)
    live.append_unknown(0, 1)
    live.append(1, 1, 3)
    found.extend(live.as_chunk())
    assert found.translate(0) in (None, Translation(0, False), Translation(0, True))
    assert found.translate(1) == Translation(3, True)


def test_the_way_back_is_the_mirror_image() -> None:
    found = mapped((0, 3, 0), (4, 3, 3))
    found.advance(8)
    assert [found.translate_back(offset) for offset in (0, 2, 3, 5, 6)] == [
        Translation(0, True), Translation(2, True), Translation(4, True), Translation(6, True), Translation(8, True),
    ]  # fmt: skip


@dataclass
class Truth:
    """Every record that was ever written: (source, target), in the target's order; `last` is where each lies last.
    Of a record that became several, the last of them is in `written`, and the first in `last`."""

    written: list[tuple[int, int]] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)
    end_target: int = 0

    def write(self, first: int, records: int, target: int) -> None:
        for at in [offset for offset in self.last if offset >= first]:
            del self.last[at]
        for step in range(records):
            self.written.append((first + step, target + step))
            self.last[first + step] = target + step
        self.end_target = target + records

    def split(self, more: int) -> None:
        """So many more records became of the last one, which is written with the last of them."""
        source, at = self.written.pop()
        self.written.append((source, at + more))
        self.end_target += more

    def place(self, offset: int) -> int:
        return min((target for source, target in self.last.items() if source >= offset), default=self.end_target)

    def sees_all(self, offset: int, translated: int) -> bool:
        return all(target >= translated for source, target in self.last.items() if source >= offset)

    def between(self, low: int, high: int) -> list[int]:
        return [target for target in self.last.values() if low <= target < high]


KINDS = ["next", "next", "next", "hole", "marker", "unknown", "restart", "lost", "chunk", "split", "dropped"]
EVENTS = [*KINDS, "bits", "bits"]
events = st.lists(
    st.tuples(
        st.sampled_from(EVENTS),
        st.integers(1, 12),
        st.integers(1, 5),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@example([("unknown", 1, 1), ("marker", 1, 2), ("next", 1, 1)], 0, 2)
@example([("next", 1, 1), ("chunk", 1, 1), ("next", 1, 1), ("split", 1, 1)], 0, 2)
@example([("next", 2, 1), ("split", 1, 1), ("dropped", 1, 1), ("next", 1, 1)], 0, 9)
@given(events, st.integers(0, 20), st.integers(2, 50))
def test_against_brute_force_no_offset_is_translated_beyond_the_truth(
    story: list[tuple[str, int, int]], begin: int, segments_max: int
) -> None:
    """Also over restarts, with lost chunks and a bound of a few segments; exact answers skip and repeat no record."""
    truth = Truth()
    folded, live = OffsetMap(begin), OffsetMap(begin)
    source, target = begin, 0
    forgotten, unbroken, again = False, begin, 0
    for kind, records, step in story:
        if kind in ("hole", "marker") and not again:
            source, target = source + step * (kind == "hole"), target + step * (kind == "marker")
            unbroken = source if kind == "hole" else unbroken
            live.advance(source)
            continue
        if kind == "dropped" and not again:  # a hole that the writer has not told of when the next record comes
            source = unbroken = source + step
            continue
        if kind in ("restart", "lost", "chunk") and not again:
            forgotten |= kind == "lost"
            if kind != "lost" and live.segments:
                folded.extend(live.as_chunk())
            again = min(step, source - unbroken) if kind == "restart" else 0
            source -= again
            live = OffsetMap(source)
            continue
        if kind == "split" and not again:
            if live.segments and live.end_source == source == truth.written[-1][0] + 1 and live.end_target == target:
                truth.split(step)
                live.append_more(step, exact=True)
                target += step
            continue
        if kind == "bits" and not again:  # of so many offsets every `step`th has a record, and the last
            kept = [at for at in range(records) if at % step == 0 or at == records - 1]
            for number, at in enumerate(kept):
                truth.write(source + at, 1, target + number)
            bits = sum(1 << at for at in kept)
            live.append(source, len(kept), target, bits if len(kept) < records else 0)
            source, target = source + records, target + len(kept)
            unbroken = source - 1
            continue
        records, again = max(records, again), 0
        truth.write(source, records, target)
        # Where a chunk begins with an unknown place, its predecessor's answers stay: right, but of the first copy.
        forgotten |= kind == "unknown" and live.end_target < 0
        live.append_unknown(source, records) if kind == "unknown" else live.append(source, records, target)
        source, target = source + records, target + records
    if live.segments:
        folded.extend(live.as_chunk())
    folded.shrink(segments_max)
    assert len(folded.segments) <= segments_max
    for offset in range(begin, source + 3):
        found = folded.translate(offset)
        if found is not None:
            assert truth.sees_all(offset, found.offset), (offset, found, folded.segments)
            if found.exact and not forgotten:
                assert truth.between(found.offset, truth.place(offset)) == [], (offset, found, folded.segments)
    for offset in range(truth.end_target + 1):
        back = folded.translate_back(offset)
        if back is not None:
            read = {at for at, written in truth.written if written < offset}
            unread = truth.last.keys() - read
            assert all(at >= back.offset for at in unread), (offset, back, folded.segments)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=60), st.integers(1, 8))
def test_a_bounded_map_is_coarse_where_it_is_old_and_exact_where_it_is_new(
    story: list[tuple[int, int]], segments_max: int
) -> None:
    found = OffsetMap(0)
    source = target = 0
    for records, hole in story:
        found.append(source, records, target)
        source, target = source + records + hole, target + records
    before = {offset: found.translate(offset) for offset in range(source)}
    found.shrink(segments_max)
    for offset, exact in before.items():
        coarse = found.translate(offset)
        assert exact is not None
        assert coarse is not None
        assert coarse.offset <= exact.offset
        assert coarse == exact or not coarse.exact


def test_pruning_below_the_sources_log_start_keeps_what_can_still_be_asked() -> None:
    found = OffsetMap(0)
    for number in range(100):
        found.append(number * 40, 35, number * 35)
    kept = {offset: found.translate(offset) for offset in range(2000, 4000)}
    found.prune(2000)
    assert len(found.segments) == 51
    assert {offset: found.translate(offset) for offset in range(2000, 4000)} == kept


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3) | st.integers(30, 50)), min_size=1, max_size=60))
def test_bits_say_the_same_as_a_segment_for_each_range(story: list[tuple[int, int]]) -> None:
    """A map of plain segments, each added as a chunk, is what there was before bits."""
    found, plain = OffsetMap(0), OffsetMap(0)
    source = target = 0
    for records, hole in story:
        found.append(source, records, target)
        segment = Segment(plain.end_source, target, target - source)
        plain.extend(Chunk((segment,), source + records, target + records))
        source, target = source + records + hole, target + records
    for offset in range(source + 2):
        assert found.translate(offset) == plain.translate(offset), offset
        assert found.at_most(offset) == plain.at_most(offset), offset
    for offset in range(target + 2):
        assert found.translate_back(offset) == plain.translate_back(offset), offset
    for seen in range(0, source, 7):
        assert list(found.stretches(seen)) == list(plain.stretches(seen)), seen
    assert found.weight == sum(segment.weight for segment in found.segments) <= plain.weight
