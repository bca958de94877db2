"""What counts as a difference between two versions."""

from math import inf

from bench.against import Figure, Turns, render_comparison
from bench.noise import NOISE_MIN, compare


def test_a_difference_beyond_the_spread_of_the_turns_is_marked_and_one_within_it_is_not() -> None:
    steady = compare("CPU", [10.0, 10.1, 9.9, 10.0, 10.0], [12.0, 12.1, 11.9, 12.1, 11.9])
    assert steady.verdict == "worse"
    restless = compare("CPU", [10.0, 8.0, 14.0, 9.0, 11.0], [12.0, 7.0, 12.0, 13.0, 10.0])
    assert restless.verdict == ""
    assert restless.noise > abs(restless.difference)


def test_what_the_machine_does_slowly_falls_on_both_versions() -> None:
    before = [10.0, 12.0, 14.0, 16.0, 18.0]
    drifting = compare("CPU", before, [value * 1.1 for value in before])
    assert drifting.verdict == "worse"
    assert round(drifting.difference, 3) == 0.1


def test_more_records_a_second_are_better_and_a_smaller_share_of_a_core_too() -> None:
    assert compare("rate", [100.0] * 3, [110.0] * 3, is_more_better=True).verdict == "better"
    assert compare("rate", [100.0] * 3, [90.0] * 3, is_more_better=True).verdict == "worse"
    assert compare("CPU", [100.0] * 3, [90.0] * 3).verdict == "better"


def test_a_hair_is_never_marked_and_one_turn_alone_says_nothing() -> None:
    assert compare("memory", [100.0] * 5, [100.0 * (1 + NOISE_MIN / 2)] * 5).verdict == ""
    alone = compare("CPU", [1.0], [2.0])
    assert (alone.noise, alone.verdict) == (inf, "")


def test_the_table_names_what_became_worse_and_leaves_out_what_only_one_version_has() -> None:
    turns = Turns(problems=["work a, turn 3: it ended"])
    for _ in range(3):
        before = {Figure("a: CPU"): 1.0, Figure("a: gone"): 1.0, Figure("a: records/s", is_more_better=True): 123_456.7}
        turns.add(
            before,
            {Figure("a: CPU"): 1.5, Figure("a: new"): 1.0, Figure("a: records/s", is_more_better=True): 123_456.7},
        )
    text = render_comparison(("abc", "working tree"), turns)
    assert "| a: CPU | 1 | 1.5 | +50.0% | ± 2.0% | **worse** |" in text
    assert "| a: records/s | 123,457 | 123,457 | +0.0% | ± 2.0% |  |" in text
    assert "Worse by more than the noise: a: CPU." in text
    assert "gone" not in text and "new" not in text
    assert "work a, turn 3: it ended" in text


def test_turns_that_all_failed_are_not_called_fine() -> None:
    text = render_comparison(("abc", "working tree"), Turns(problems=["work a, turn 1: it ended"]))
    assert "Nothing was compared" in text
    assert "Nothing is worse" not in text
