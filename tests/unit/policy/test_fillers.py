"""Fillers take up exactly the offsets of a hole, whatever its size."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.policy.fillers import ABORTED, MARKERS, RECORDS_MAX, Hole, plan_batches, plan_transactions

ends = st.integers(0, 5 * RECORDS_MAX)


@given(ends, ends)
def test_aborted_transactions_take_up_a_hole_with_as_few_markers_as_they_can(first: int, size: int) -> None:
    planned = list(plan_transactions(Hole(first, first + size), ABORTED))
    assert sum(records + 1 for records in planned) == size
    assert all(records == RECORDS_MAX for records in planned[:-1])
    assert all(0 <= records <= RECORDS_MAX for records in planned)


@given(ends, st.integers(0, 1000))
def test_markers_alone_have_no_record_that_anybody_could_see(first: int, size: int) -> None:
    assert list(plan_transactions(Hole(first, first + size), MARKERS)) == [0] * size


@given(ends, ends, st.integers(RECORDS_MAX // 10, RECORDS_MAX))
def test_batches_take_up_a_start_one_after_the_other(first: int, size: int, records_max: int) -> None:
    planned = list(plan_batches(Hole(first, first + size), records_max))
    assert [first, *accumulate(planned, initial=first)][-1] == first + size
    assert all(0 < records <= records_max for records in planned)
