"""What of a partition is compared: what both sides hold of what was mirrored, in spans of a bounded size."""

from dataclasses import replace
from itertools import pairwise
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.model import TopicPartition
from sparkmirror.stored_json import decode, encode
from sparkmirror.verify import plan
from sparkmirror.verify.plan import Standing, Uncompared, choose_sample, plan_spans
from sparkmirror.verify.span import Region, Span, Stretch

HERE = TopicPartition("orders", 0)
THERE = TopicPartition("A.orders", 0)


def mapped(*stretches: tuple[int, int, int]) -> OffsetMap:
    found = OffsetMap(stretches[0][0])
    for first, records, target in stretches:
        found.append(first, records, target)
    return found


def standing(found: OffsetMap | None, **fields: object) -> Standing:
    end, target_end = (found.end_source, found.end_target) if found else (100, 100)
    known = {"position": end, "source_start": 0, "source_end": end, "target_start": 0, "target_end": target_end}
    return Standing(HERE, THERE, found, **known | fields)  # type: ignore[arg-type]


def left_out(first: int, end: int, reason: str) -> Uncompared:
    return Uncompared(HERE, first, end, reason)


def test_a_partition_without_an_offset_map_is_not_compared() -> None:
    assert plan_spans(standing(None)) == ([], [left_out(0, 100, plan.NO_MAP)])


def test_one_stretch_is_cut_into_spans_that_join() -> None:
    spans, rest = plan_spans(standing(mapped((10, 250, 0))), span_offsets=100)
    assert [(one.first, one.end, one.target_first, one.target_end) for one in spans] == [
        (10, 110, 0, 100), (110, 210, 100, 200), (210, 260, 200, 250)
    ]  # fmt: skip
    assert rest == [left_out(0, 10, plan.BEFORE)]
    assert not any(one.regions for one in spans)


def test_what_either_side_has_deleted_is_left_out_and_said() -> None:
    found = mapped((0, 100, 0), (105, 100, 110))
    spans, rest = plan_spans(standing(found, source_start=50, target_start=120))
    assert [one.stretches for one in spans] == [(Stretch(115, 90, 120),)]
    assert rest == [left_out(0, 50, plan.SOURCE_DELETED), left_out(50, 115, plan.TARGET_DELETED)]
    assert plan_spans(standing(found, source_start=300, source_end=300)) == (
        [],
        [left_out(0, 205, plan.SOURCE_DELETED)],
    )


def test_what_was_mirrored_before_the_map_began_is_not_proven() -> None:
    _, rest = plan_spans(standing(mapped((50, 10, 70))))
    assert rest == [left_out(0, 50, plan.NO_MAP)]


def test_what_the_target_has_before_the_map_is_compared_if_the_source_has_nothing_else_there() -> None:
    """A first run was killed before it had noted anything."""
    (one,), _ = plan_spans(standing(mapped((0, 100, 30))))
    assert one.regions == (Region(0, 0, 0, 30),)


def test_between_stretches_there_are_regions_and_a_tail_behind_the_map() -> None:
    found = mapped((0, 100, 0), (105, 100, 110))
    (one,), _ = plan_spans(standing(found, position=210, source_end=400, target_end=215))
    assert one.regions == (Region(100, 105, 100, 110), Region(205, 210, 210, 215))
    (one,), _ = plan_spans(standing(found, source_end=10**6, target_end=10**6))
    assert one.target_end == 210 + 50_000, "a mirror that runs far ahead of its map is not chased"


def test_what_the_map_is_too_coarse_for_is_left_out_and_said() -> None:
    found = mapped((0, 100, 0))
    found.append_unknown(100, 1_000_000)
    found.append(1_000_100, 50, 1_000_100)
    spans, rest = plan_spans(standing(found))
    assert [(one.first, one.end, one.target_first, one.target_end) for one in spans] == [
        (0, 100, 0, 100), (1_000_100, 1_000_150, 1_000_100, 1_000_150)
    ]  # fmt: skip
    assert rest == [left_out(100, 1_000_100, plan.COARSE)]


def test_of_a_map_of_bits_the_newest_ranges_are_compared_by_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies before them is compared as a region: a hundred thousand stretches would be as many rows."""
    monkeypatch.setattr(plan, "_NEWEST_MAX", 3)
    found = mapped(*((at * 2, 1, at) for at in range(1000)))
    (one,), rest = plan_spans(standing(found))
    assert [stretch.first for stretch in one.stretches] == [1994, 1996, 1998]
    assert ((one.first, one.target_first), rest) == ((0, 0), [])


def test_a_coarse_beginning_is_compared_only_as_long_as_both_sides_have_all_of_it() -> None:
    found = mapped((0, 30, 0), (50, 30, 30))
    found.shrink(1)
    found.append(80, 50, 65)
    spans, rest = plan_spans(standing(found))
    assert ([one.first for one in spans], rest) == ([0], [])
    spans, rest = plan_spans(standing(found, source_start=5))
    assert [(one.first, one.target_first) for one in spans] == [(80, 65)]
    assert rest == [left_out(0, 5, plan.SOURCE_DELETED), left_out(5, 80, plan.COARSE)]


def test_ledgered_gaps_go_with_the_spans_they_touch() -> None:
    gap = Gap(HERE, "retention", 100, 105, "continue", 0)
    spans, _ = plan_spans(standing(mapped((0, 100, 0), (105, 300, 100)), gaps=(gap,)), span_offsets=150)
    assert [one.lost for one in spans] == [((100, 105),), (), ()]


def test_a_source_that_was_cut_off_is_not_held_against_the_target() -> None:
    spans, rest = plan_spans(standing(mapped((0, 100, 0)), source_end=60))
    assert spans[0].stretches == (Stretch(0, 60, 0),)
    assert rest == [left_out(60, 100, plan.SOURCE_ENDS)]


def test_a_span_survives_the_way_to_its_task() -> None:
    (one,), _ = plan_spans(standing(mapped((0, 100, 0), (105, 100, 110))))
    assert decode(encode(one), Span, "") == one


def test_a_sample_has_a_span_of_every_partition() -> None:
    spans, _ = plan_spans(standing(mapped((0, 1000, 0))), span_offsets=10)
    assert len(choose_sample(spans, 20, Random(1))) == 20
    assert len(choose_sample(spans[:3], 1, Random(1))) == 1
    assert choose_sample(spans, 100, Random(1)) == spans


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=9),
    st.integers(1, 12),
)
def test_spans_cover_everything_once(steps: list[tuple[int, int, int]], size: int) -> None:
    found = OffsetMap(0)
    source = target = 0
    for hole, records, repeated in steps:
        found.append(source + hole, records, target + repeated)
        source, target = found.end_source, found.end_target
    spans, _ = plan_spans(standing(found), span_offsets=size)
    edges = [(one.first, one.target_first, one.end, one.target_end) for one in spans]
    begin = found.segments[0]
    assert edges[0][:2] == (begin.first, 0 if begin.first == 0 else begin.target)
    assert edges[-1][2:] == (source, target)
    assert all(one[2:] == other[:2] for one, other in pairwise(edges))
    assert sum(stretch.records for one in spans for stretch in one.stretches) == sum(
        one[1] for one in found.stretches()
    )
    for one in spans:
        for offset in range(one.first, one.end):
            low, high = one.target_range(offset, offset + 1)
            assert high - low in (0, 1) and (high == low or one.reached(high) > offset)


def test_where_offsets_are_kept_each_record_must_stand_at_its_own_whatever_the_map_says() -> None:
    found = mapped((0, 100, 0), (105, 100, 110))
    spans, rest = plan_spans(standing(found, keeps_offsets=True, position=205, target_end=205))
    assert [(one.first, one.end, one.target_first, one.target_end, one.stretches) for one in spans] == [
        (0, 205, 0, 205, (Stretch(0, 205, 0),))
    ]
    assert rest == []
    spans, rest = plan_spans(standing(None, keeps_offsets=True, target_start=40, position=90, target_end=90))
    assert [one.stretches for one in spans] == [(Stretch(40, 50, 40),)]
    assert rest == [left_out(0, 40, plan.BEFORE)]
    early = standing(None, keeps_offsets=True, source_start=60, source_end=90, position=90, target_end=90)
    assert plan_spans(early)[0][0].target_first == 60, "what the target keeps longer than its source is no repeat"
    behind = standing(None, keeps_offsets=True, target_start=90, position=90, target_end=90)
    assert plan_spans(behind) == ([], [left_out(0, 90, plan.TARGET_DELETED)])


def test_what_a_person_has_left_out_where_logs_part_is_named_and_all_else_is_compared() -> None:
    def gap(first: int, end: int, cause: str = "left out") -> Gap:
        return Gap(HERE, cause, first, end, "lost site", 0, UUID(int=1), "run")

    kept = standing(None, keeps_offsets=True, position=200, source_end=200, target_end=200, gaps=(gap(100, 130),))
    spans, rest = plan_spans(kept)
    assert [(one.first, one.end, one.stretches) for one in spans] == [
        (0, 100, (Stretch(0, 100, 0),)), (130, 200, (Stretch(130, 70, 130),)),
    ]  # fmt: skip
    assert rest == [left_out(100, 130, plan.LEFT_OUT)]
    assert plan.LEFT_OUT not in plan.UNPROVEN, "it is what somebody wanted"

    spans, rest = plan_spans(replace(kept, source_start=110, gaps=(gap(100, 130), gap(150, 160))))
    assert [one.stretches for one in spans] == [(Stretch(130, 20, 130),), (Stretch(160, 40, 160),)]
    assert [one for one in rest if one.reason == plan.LEFT_OUT] == [
        left_out(110, 130, plan.LEFT_OUT), left_out(150, 160, plan.LEFT_OUT),
    ]  # fmt: skip
    others = (replace(kept, gaps=(gap(100, 130, cause),)) for cause in ("retention", "skipped"))
    for other in (*others, replace(kept, keeps_offsets=False)):
        assert plan.LEFT_OUT not in {one.reason for one in plan_spans(other)[1]}
