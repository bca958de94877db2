"""Faults between an announcement and its row, and a driver that ends alone: they strike when they say, and no record is
lost."""

from contextlib import AbstractContextManager
from random import Random

import pytest
from tests.simulation.announcements import ANNOUNCED_FAULTS, DRIVER_FAULTS
from tests.simulation.history import Scene
from tests.simulation.played import heals_and_holds, played
from tests.simulation.scripts import Script


def _mirrored(seed: int) -> AbstractContextManager[Scene]:
    """A mirror of one partition that has caught up: answers are announced."""
    return played(Script(seed, False, False, False, 1, 1, 600, 100.0, ()), 5.0)


@pytest.mark.parametrize("name", ANNOUNCED_FAULTS)
@pytest.mark.parametrize("seed", range(1, 9))
def test_they_strike_while_no_row_accounts_for_what_was_announced(name: str, seed: int) -> None:
    with _mirrored(seed) as scene:
        (attempt,) = scene.mirrors[0].attempts.values()
        struck: list[bool] = []

        def note(text: str) -> None:
            if "before the row" in text:
                struck.append(bool(scene.net.announced.extents))

        scene.world.tell = note  # type: ignore[method-assign]
        assert ANNOUNCED_FAULTS[name][1](scene, Random(seed))
        scene.world.run(scene.world.now + 60.0, lambda: bool(struck))
        assert struck == [True]
        hit = [one for one in (attempt.reader, attempt.writer) if not one.is_alive or one.was_held]
        assert hit, "one of the two is struck"
        heals_and_holds(scene, 60.0)


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_driver_that_ends_alone_leaves_its_tasks_for_a_while(seed: int) -> None:
    with _mirrored(seed) as scene:
        first = scene.mirrors[0]
        assert DRIVER_FAULTS["kill driver"][1](scene, Random(seed))
        assert not first.driver.is_alive and first.attempts and len(first.processes) == 2
        scene.world.run(scene.world.now + 10.0)
        assert not first.processes and len(scene.mirrors) == 2
        heals_and_holds(scene, 60.0)
