"""How much padding follows a task's rows, and when."""

from math import inf

import pytest

from sparkmirror.pipeline.fetch.flushes import FEW_RECORDS, SOON_SECONDS, Flushes


def test_rows_that_come_alone_are_pushed_through_all_stages_at_once() -> None:
    flushes = Flushes(3)
    for second in range(5):
        assert flushes.due(1, second / 5) == 3
        flushes.note_given(second / 5)
        assert (flushes.due(None, second / 5 + 0.1), flushes.seconds_left(second / 5)) == (0, inf)


def test_rows_that_come_soon_after_others_are_left_to_the_next_and_pushed_where_none_come() -> None:
    flushes = Flushes(3)
    moments = [at * SOON_SECONDS / 2 for at in range(5)]
    for at, now in enumerate(moments):
        assert flushes.due(2, now) == (1 if at else 3)
        flushes.note_given(now)
    assert flushes.seconds_left(moments[-1]) == pytest.approx(SOON_SECONDS)
    assert flushes.due(None, moments[-1] + SOON_SECONDS / 2) == 0
    assert flushes.due(None, moments[-1] + 1.01 * SOON_SECONDS) == 2, "the first stage's came with the rows"
    flushes.note_given(moments[-1] + 1.01 * SOON_SECONDS)
    assert flushes.due(None, moments[-1] + 3 * SOON_SECONDS) == 0
    assert flushes.seconds_left(moments[-1] + 3 * SOON_SECONDS) == inf


def test_many_records_are_on_their_way_but_for_their_end_which_is_pushed_where_none_follow() -> None:
    flushes = Flushes(2)
    assert flushes.due(FEW_RECORDS + 1, 1.0) == 1
    flushes.note_given(2.0)
    assert flushes.due(None, 2.01) == 0
    assert flushes.due(None, 2.1) == 1


def test_what_takes_spark_long_to_take_does_not_make_the_next_rows_come_alone() -> None:
    flushes = Flushes(2)
    flushes.due(1, 1.0)
    flushes.note_given(5.0)
    assert flushes.due(1, 5.001) == 1


def test_a_flow_whose_only_stage_is_the_writer_is_never_pushed() -> None:
    flushes = Flushes(1)
    given = []
    for at in range(80):
        if due := flushes.due(1 if at in (2, 3, 25) else None, at / 8):
            flushes.note_given(at / 8)
            given.append((at, due))
        assert flushes.seconds_left(at / 8) == inf
    assert given == [(at, 1) for at in (0, 2, 3, 11, 19, 25, 33, 41)]


def test_a_task_without_rows_flushes_once_a_second_and_later_every_five() -> None:
    flushes = Flushes(2)
    flushes.due(1, 0.0)
    flushes.note_given(0.0)
    given = []
    for second in range(1, 15):
        if due := flushes.due(None, float(second)):
            flushes.note_given(float(second))
            given.append((second, due))
    assert given == [(1, 2), (2, 2), (7, 2), (12, 2)]
