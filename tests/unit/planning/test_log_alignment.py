"""Where a flow that keeps offsets goes on in a log, and that it never mirrors behind records of somebody else."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.planning.log_alignment import (
    PROVED_MAX,
    Adopt,
    Fill,
    GoOn,
    LogFacts,
    Prove,
    Refuse,
    Verdict,
    judge,
    proved_to,
    spread_samples,
    why_cut,
)
from sparkmirror.policy.fillers import SEQUENCES, Hole

offsets = st.integers(0, 3 * SEQUENCES)
LOG = LogFacts(stored=None, first=0, source_end=1000, begins=0, ends=0)


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        (LOG, GoOn()),
        (replace(LOG, first=700), Fill(Hole(0, 700))),
        (replace(LOG, first=700, ends=500, last_sequence=499), Fill(Hole(500, 700), Prove(Hole(0, 500), GoOn()))),
        (
            replace(LOG, first=700, source_begins=700, ends=700, last_sequence=699),
            GoOn(hides=700),
        ),
        (replace(LOG, first=700, begins=700, ends=700, last_sequence=699), GoOn()),
        (
            replace(LOG, first=700, begins=700, ends=720, last_sequence=719),
            Prove(Hole(700, 720), GoOn()),
        ),  # killed early
        (replace(LOG, first=700, begins=700, ends=720, last_sequence=710), Prove(Hole(700, 720), GoOn())),
        (replace(LOG, first=700, ends=720, last_sequence=710), Prove(Hole(0, 720), GoOn(hides=700))),
        (replace(LOG, first=1000, ends=1000, last_sequence=999), GoOn(hides=1000)),  # an empty source
        (replace(LOG, stored=300, first=300, ends=300, last_sequence=7), GoOn()),
        (replace(LOG, stored=300, first=300, ends=340, last_sequence=7), Prove(Hole(300, 340), GoOn())),
        (replace(LOG, stored=300, first=300, begins=320, ends=340), Prove(Hole(320, 340), GoOn())),  # retention
        (replace(LOG, stored=900, first=900, source_begins=700, ends=900), GoOn(hides=700)),  # a broker has forgotten
        (replace(LOG, stored=800, first=800, source_begins=700, ends=900), Prove(Hole(800, 900), GoOn(hides=700))),
        (replace(LOG, stored=900, first=900, source_begins=700, begins=1, ends=900), GoOn()),
        (replace(LOG, stored=0, first=0, source_begins=700), GoOn()),  # its source lost them first: that is a gap
        (
            replace(LOG, first=10**8, source_end=10**9, begins=10**8, ends=2 * 10**8, last_sequence=2 * 10**8 - 1),
            Prove(Hole(2 * 10**8 - PROVED_MAX, 2 * 10**8), GoOn()),
        ),
    ],
)
def test_each_state_that_a_killed_process_leaves_leads_on(facts: LogFacts, verdict: Verdict) -> None:
    assert judge(facts) == verdict


@pytest.mark.parametrize(
    ("facts", "clause"),
    [
        (replace(LOG, first=700, ends=501, last_sequence=499), "has 501 offsets that this flow has not written"),
        (replace(LOG, first=700, ends=5), "has 5 offsets that this flow has not written"),
        (replace(LOG, source_end=10**9, ends=PROVED_MAX + 1), "that this flow has not written"),
        (replace(LOG, stored=300, first=300, ends=299), "ends at offset 299, and had 300"),
        (replace(LOG, stored=300, first=300, ends=0), "ends at offset 0, and had 300"),
        (replace(LOG, stored=300, first=300, ends=1001), "ends at offset 1001, and its source's at 1000"),
        (replace(LOG, ends=1001, last_sequence=1000), "ends at offset 1001, and its source's at 1000"),
        # The start of a log that the source has no more, or one from which retention has removed all.
        (replace(LOG, begins=3, ends=3, last_sequence=2), "has records from offset 0 on: nobody knows"),
        (replace(LOG, begins=5, ends=5), "empty at offset 5, and its source has records from offset 0 on"),
        (replace(LOG, begins=500, ends=500, source_begins=300, adopts=True), "has records from offset 300 on"),
    ],
)
def test_a_log_that_is_not_the_flows_own_is_refused_with_the_reason(facts: LogFacts, clause: str) -> None:
    verdict: Verdict | None = judge(facts)
    if isinstance(verdict, Fill):  # unless both of its ends are empty records of the flow
        verdict = verdict.otherwise
    assert isinstance(verdict, Refuse)
    assert clause in verdict.reason


ADOPTED = replace(LOG, adopts=True, ends=500, begins=100)


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        (ADOPTED, Adopt((Hole(100, 500),), GoOn())),
        (replace(ADOPTED, source_begins=300, first=300), Adopt((Hole(300, 500),), GoOn())),
        (replace(ADOPTED, first=1000), Adopt((Hole(100, 500),), GoOn())),  # as preserve.offsets.start = latest
        (replace(ADOPTED, last_sequence=17), Adopt((Hole(100, 500),), GoOn())),  # something wrote behind the flow
        (replace(ADOPTED, last_sequence=499), Adopt((Hole(100, 500),), GoOn())),  # adopted, and then mirrored
        (replace(ADOPTED, begins=500, source_begins=500), GoOn()),  # retention left nothing on both sides
        (replace(ADOPTED, ends=0, begins=0), GoOn()),
        (replace(ADOPTED, stored=500, first=500), GoOn()),
        (replace(ADOPTED, stored=400, first=400), Prove(Hole(400, 500), GoOn())),
        (
            replace(ADOPTED, first=700, begins=0, last_sequence=499),
            Fill(Hole(500, 700), Adopt((Hole(0, 500),), GoOn())),
        ),
        (
            replace(ADOPTED, first=700, source_begins=700, begins=0, ends=720, last_sequence=719),
            Adopt((Hole(700, 720),), GoOn(hides=700)),
        ),
    ],
)
def test_what_something_else_has_made_is_adopted_where_a_person_asks_for_it(facts: LogFacts, verdict: Verdict) -> None:
    assert judge(facts) == verdict


def test_a_log_that_has_no_offset_in_common_with_its_source_is_not_adopted() -> None:
    verdict = judge(replace(ADOPTED, source_begins=600, first=600))
    assert isinstance(verdict, Refuse) and "no offset in common" in verdict.reason
    assert isinstance(judge(replace(ADOPTED, source_begins=500, first=500)), Refuse), "side by side is not in common"
    ahead = judge(replace(ADOPTED, ends=1001))
    assert isinstance(ahead, Refuse) and "ends at offset 1001, and its source's at 1000" in ahead.reason


@given(offsets, offsets)
def test_samples_have_both_ends_and_lie_in_order_side_by_side(one: int, other: int) -> None:
    whole = Hole(min(one, other), max(one, other) + 1)
    samples = spread_samples(whole)
    assert (samples[0].first, samples[-1].stop) == whole
    assert all(before.stop <= after.first for before, after in pairwise(samples))
    assert all(sample.first < sample.stop for sample in samples)
    size = sum(sample.stop - sample.first for sample in samples)
    assert size == whole.stop - whole.first if len(samples) == 1 else size <= 200_000
    if len(samples) > 1:
        assert max(after.first - before.stop for before, after in pairwise(samples)) <= (whole.stop - whole.first) / 32


def test_records_that_only_the_target_has_are_neither_filled_behind_nor_deleted() -> None:
    """Its position was lost, and the source's retention went on: only a log of empty records may be filled further."""
    lost = replace(LOG, first=700, source_begins=700, ends=500, last_sequence=499)
    verdict = judge(lost)
    assert isinstance(verdict, Fill)
    assert isinstance(verdict.otherwise, Refuse)
    assert "may not have its records any more" in verdict.otherwise.reason
    assert judge(replace(lost, begins=500)) == Fill(Hole(500, 700)), "retention left nothing"
    at_end = replace(lost, source_begins=500)
    assert judge(at_end) == Fill(Hole(500, 700), GoOn()), "as auto.offset.reset = latest"


@pytest.mark.parametrize(
    ("last_sequence", "ends", "is_cut"),
    [
        (6, 300, False), (5, 300, True), (7, 300, True), (6, 310, False), (5, 310, True), (16, 310, False),
        (17, 310, True), (SEQUENCES - 1, 310, True), (None, 310, False),
    ],
)  # fmt: skip
def test_the_flows_last_number_is_that_of_the_stored_position_or_leaves_room_behind_it(
    last_sequence: int | None, ends: int, is_cut: bool
) -> None:
    """What retention of the target took above the position has had numbers, fillers have none."""
    facts = replace(LOG, stored=300, first=300, ends=ends, stored_sequence=7, last_sequence=last_sequence)
    assert bool(why_cut(facts, None)) == is_cut
    assert not why_cut(facts, 7), "a batch that was read has told it"
    assert ends > 300 or isinstance(judge(facts), Refuse) == is_cut


def test_sequence_numbers_begin_again_and_an_unknown_producer_goes_on_as_the_ledger_says() -> None:
    assert replace(LOG, ends=SEQUENCES + 5, last_sequence=4).sequence_after() == 5
    assert replace(LOG, ends=SEQUENCES + 5, last_sequence=4).is_all_ours
    assert replace(LOG, ends=SEQUENCES, last_sequence=SEQUENCES - 1).sequence_after() == 0
    assert replace(LOG, ends=SEQUENCES + 5).sequence_after() == 5, "without anything in the ledger"
    assert replace(LOG, stored=5, stored_sequence=3, ends=7).sequence_after() == 3, "two offsets were filled"
    assert replace(LOG, stored=5, stored_sequence=3, ends=9).sequence_after(6) == 6, "forgotten, and read"
    assert not replace(LOG, ends=SEQUENCES + 5).is_all_ours


@given(
    st.none() | offsets,
    offsets,
    offsets,
    offsets,
    offsets,
    offsets,
    st.none() | st.integers(0, SEQUENCES - 1),
    st.booleans(),
)
def test_nothing_is_mirrored_behind_offsets_that_nobody_vouches_for(
    stored: int | None, first: int, source_begins: int, source_end: int, begins: int, ends: int, last: int | None,
    adopts: bool,
) -> None:  # fmt: skip
    facts = LogFacts(stored, first, source_end, min(begins, ends), ends, last, source_begins, adopts)
    verdict = judge(facts)
    vouched = ends == 0 or facts.stored == ends or facts.is_all_ours
    match verdict:
        case GoOn(hides):
            assert vouched or facts.begins == ends
            assert hides is None or facts.begins < hides <= ends
            assert hides in ((None, first) if stored is None or not ends else (None, source_begins))
            compared = max(facts.begins, first, source_begins)
            assert stored == ends or compared >= ends, "what both logs may have is compared"
        case Fill(hole, otherwise):
            assert vouched or (isinstance(otherwise, Refuse) and last is None), (
                "the ends of the log are looked at first"
            )
            assert hole == Hole(ends, first)
            assert hole.first < hole.stop
            assert (otherwise is None) == (facts.begins == ends)
        case Prove(read, then):
            assert read.first <= read.stop == ends
            assert read.first < ends or facts.begins == ends
            assert read.first >= facts.begins
            if stored is not None:
                assert read.first == max(facts.begins, stored)
            elif not facts.is_all_ours:
                assert not adopts
                assert read.first == facts.begins, "all that may be somebody else's is read"
            assert then.hides is None or facts.begins < then.hides <= ends
        case Adopt(samples, then):
            assert adopts and stored is None
            assert facts.begins <= samples[0].first < samples[-1].stop == ends
            assert facts.is_all_ours or samples[0].first == max(facts.begins, source_begins)
            assert then.hides is None or facts.is_all_ours
        case Refuse(reason):
            assert reason


def test_a_gap_begins_at_fillers_where_nobody_can_tell_what_belongs_there() -> None:
    """A marker that came twice, behind offsets that were filled from 80 on, stands where a record was that the source
    has deleted."""
    filled = replace(LOG, stored=75, ends=91, last_sequence=79, source_begins=91)
    assert proved_to(filled, own=80) == 80
    assert proved_to(filled, own=None) == 75
    assert proved_to(replace(filled, source_begins=90), own=80) == 91, "the source has what belongs there"
    assert proved_to(replace(filled, stored=None), own=80) == 91
    assert proved_to(replace(filled, begins=91), own=None) == 91, "the target has deleted what was mirrored"


def test_a_start_that_was_filled_in_part_goes_on_though_the_log_has_forgotten_who_filled_it() -> None:
    facts = replace(LOG, first=700, source_begins=700, ends=60)
    verdict = judge(facts)
    assert isinstance(verdict, Fill) and verdict.hole == Hole(60, 700)
    assert isinstance(verdict.otherwise, Refuse), "where both ends are not the flow's empty records"
    assert isinstance(judge(replace(facts, last_sequence=10)), Refuse)
