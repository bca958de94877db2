"""How often jobs look, and what they say."""

import pytest

from sparkmirror.engine.jobs import pause_seconds


@pytest.mark.parametrize(
    ("cost_seconds", "seconds_max", "pause"),
    [
        (0.0, 600.0, 5.0),
        (0.05, 600.0, 5.0),
        (1.0, 600.0, 50.0),
        (3.0, 600.0, 60.0),
        (90.0, 600.0, 90.0),
        (60.0, 30.0, 30.0),
        (0.0, 1.0, 1.0),
    ],
    ids=[
        "free",
        "cheap",
        "costly",
        "at most a minute",
        "or the round",
        "never rarer than configured",
        "as often as configured",
    ],
)
def test_jobs_look_often_while_that_is_cheap(cost_seconds: float, seconds_max: float, pause: float) -> None:
    assert pause_seconds(cost_seconds, seconds_max) == pause
