"""Where a flow that keeps offsets goes on in a log, and that it never mirrors behind records of somebody else."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import Position, Topic
from sparkmirror.planning.log_alignment import (
    PROVED_MAX,
    Fill,
    GoOn,
    LogFacts,
    Prove,
    Refuse,
    Verdict,
    is_of_this_log,
    judge,
)
from sparkmirror.policy.fillers import SEQUENCES, Hole

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
        (replace(LOG, stored=300, first=0, ends=0), GoOn()),  # the topic was deleted: all of it comes again
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
        (replace(LOG, stored=300, first=300, ends=1001), "ends at offset 1001, and its source's at 1000"),
        (replace(LOG, ends=1001, last_sequence=1000), "ends at offset 1001, and its source's at 1000"),
    ],
)
def test_a_log_that_is_not_the_flows_own_is_refused_with_the_reason(facts: LogFacts, clause: str) -> None:
    verdict = judge(facts)
    assert isinstance(verdict, Refuse)
    assert clause in verdict.reason


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


def test_a_position_of_a_topic_that_was_deleted_on_the_target_tells_nothing_of_its_successor() -> None:
    extent = Extent("orders", UUID(int=1), 300)
    record = PositionRecord(Position(300), 1, 0, extent=extent, is_aligned=True)
    assert is_of_this_log(record, Topic("orders", UUID(int=1), 1, 1))
    assert not is_of_this_log(record, Topic("orders", UUID(int=2), 1, 1))
    assert is_of_this_log(replace(record, extent=None), Topic("orders", UUID(int=2), 1, 1)), "nobody knows"
    assert not is_of_this_log(replace(record, is_aligned=False), Topic("orders", UUID(int=1), 1, 1))


def test_sequence_numbers_begin_again_and_an_unknown_producer_goes_on_at_the_offset() -> None:
    assert replace(LOG, ends=SEQUENCES + 5, last_sequence=4).next_sequence == 5
    assert replace(LOG, ends=SEQUENCES + 5, last_sequence=4).is_all_ours
    assert replace(LOG, ends=SEQUENCES, last_sequence=SEQUENCES - 1).next_sequence == 0
    assert replace(LOG, ends=SEQUENCES + 5).next_sequence == 5
    assert not replace(LOG, ends=SEQUENCES + 5).is_all_ours


offsets = st.integers(0, 3 * SEQUENCES)


@given(st.none() | offsets, offsets, offsets, offsets, offsets, offsets, st.booleans(), st.integers(0, SEQUENCES - 1))
def test_nothing_is_mirrored_behind_offsets_that_nobody_vouches_for(
    stored: int | None, first: int, source_begins: int, source_end: int, begins: int, ends: int, knows: bool, last: int
) -> None:
    facts = LogFacts(stored, first, source_end, min(begins, ends), ends, last if knows else None, source_begins)
    verdict = judge(facts)
    vouched = ends == 0 or facts.stored == ends or facts.is_all_ours
    match verdict:
        case GoOn(hides):
            assert vouched or facts.begins == ends
            assert hides is None or facts.begins < hides == first <= ends
            compared = max(facts.begins, first, source_begins)
            assert stored == ends or compared >= ends, "what both logs may have is compared"
        case Fill(hole, otherwise):
            assert vouched
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
                assert read.first == facts.begins, "all that may be somebody else's is read"
            assert then.hides is None or stored is None
        case Refuse(reason):
            assert reason
