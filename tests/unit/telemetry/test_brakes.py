"""What holds a task back, by the pauses between two looks."""

from sparkmirror.telemetry.brakes import HELD_SHARE, OWN_LIMITS, SOURCE_QUOTA, TARGET_QUOTA, Brakes, say_held

ENOUGH_MS = round(10_000 * HELD_SHARE)


def pauses(limits: int = 0, source: int = 0, target: int = 0) -> dict[str, int]:
    return {OWN_LIMITS: limits, SOURCE_QUOTA: source, TARGET_QUOTA: target}


def test_a_task_is_held_by_what_makes_it_pause_for_a_tenth_of_the_time_between_two_looks() -> None:
    brakes = Brakes()
    brakes.look(pauses(limits=5000), 100.0)
    assert brakes.held_by == (), "since when it has paused is not known"
    brakes.look(pauses(limits=5000 + ENOUGH_MS, source=ENOUGH_MS - 1, target=20_000), 110.0)
    assert brakes.held_by == (OWN_LIMITS, TARGET_QUOTA)
    brakes.look(pauses(limits=5000 + ENOUGH_MS, source=2 * ENOUGH_MS, target=20_000), 120.0)
    assert brakes.held_by == (SOURCE_QUOTA,), "what has ended holds nothing back"


def test_it_is_said_in_one_sentence() -> None:
    assert say_held(()) == ""
    assert say_held((OWN_LIMITS, TARGET_QUOTA)) == "held back by its rate limits and a quota of the target"
