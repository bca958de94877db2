"""How long a flow rests before its query starts again."""

from sparkmirror.runtime.running_flow import count_failures, restart_pause_seconds


def test_a_query_that_fails_again_and_again_is_started_ever_more_seldom() -> None:
    failures, pauses = 0, []
    for _ in range(7):
        failures = count_failures(failures, ran_seconds=3.0)
        pauses.append(restart_pause_seconds(failures))
    assert pauses == [1, 2, 4, 8, 16, 30, 30]


def test_a_query_that_had_run_for_long_is_started_again_at_once() -> None:
    failures = count_failures(9, ran_seconds=600.0)
    assert restart_pause_seconds(failures) == 1
