"""How often jobs look, and what they say."""

import threading
import time

import pytest

from sparkmirror.engine.jobs import Job, pause_seconds


@pytest.mark.parametrize(
    ("cpu_seconds", "round_seconds", "seconds_max", "pause"),
    [
        (0.0, 0.0, 600.0, 5.0),
        (0.05, 0.1, 600.0, 5.0),
        (0.05, 1.0, 600.0, 5.0),
        (1.0, 1.0, 600.0, 50.0),
        (3.0, 3.0, 600.0, 60.0),
        (0.5, 90.0, 600.0, 90.0),
        (60.0, 60.0, 30.0, 30.0),
        (0.0, 0.0, 1.0, 1.0),
    ],
    ids=[
        "free",
        "cheap",
        "cheap, though the machine is busy or a cluster far",
        "costly",
        "at most a minute",
        "or the round",
        "never rarer than configured",
        "as often as configured",
    ],
)
def test_jobs_look_often_while_that_is_cheap(
    cpu_seconds: float, round_seconds: float, seconds_max: float, pause: float
) -> None:
    assert pause_seconds(cpu_seconds, round_seconds, seconds_max) == pause


def test_a_round_that_mostly_waits_is_soon_followed_by_the_next() -> None:
    thrice, rounds = threading.Event(), []

    def wait() -> None:
        rounds.append(time.sleep(0.05))
        if len(rounds) == 3:
            thrice.set()

    job = Job("a->b topics", 600.0, wait, look_seconds=0.01)
    job.start()
    assert thrice.wait(3), "rounds of 0.05 s of waiting were followed by pauses of seconds"
    job.stop()
