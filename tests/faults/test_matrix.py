"""The fault matrix: each fault, in each mode, on one and on three brokers, under a writer that never stops.

`make faults` runs it; FAULTS_PAGE names the page to keep the results in, FAULTS_SEED the dice.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.breakages import BREAKAGES, Breakage, Impossible
from tests.faults.results import Result, Results
from tests.faults.scene import AT_LEAST_ONCE, EXACTLY_ONCE, Mode, Scene
from tests.faults.story import REPEATED_MAX

pytestmark = pytest.mark.long

SEED = int(os.environ.get("FAULTS_SEED", "1"))
MODES = [Mode(delivery, brokers) for brokers in (1, 3) for delivery in (AT_LEAST_ONCE, EXACTLY_ONCE)]


@pytest.fixture(scope="module", params=MODES, ids=lambda mode: mode.name)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with Scene(tmp_path_factory.mktemp("scene"), request.param, SEED) as made:
        yield made


@pytest.fixture(scope="module")
def results() -> Results | None:
    page = os.environ.get("FAULTS_PAGE")
    return Results(Path(page)) if page else None


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.name)
def test_nothing_is_lost_and_what_is_repeated_is_bounded(
    scene: Scene, breakage: Breakage, results: Results | None
) -> None:
    mode = scene.mode
    if mode.delivery not in breakage.deliveries or mode.brokers < breakage.brokers_min:
        pytest.skip("there is no such thing in this mode")
    cell = (breakage.name, mode.delivery, mode.brokers, SEED)
    try:
        result = Result(*cell, *_strike(scene, breakage))
    except Impossible as reason:
        if results is not None:
            results.add(Result(*cell, problem=str(reason), was_possible=False))
        pytest.skip(str(reason))
    except (Exception, pytest.fail.Exception) as problem:
        said = f"{type(problem).__name__}: {problem}".splitlines()[0]
        if results is not None:
            results.add(Result(*cell, problem=said))
        scene.end_flow(broken=True)
        raise
    if results is not None:
        results.add(result)


def _strike(scene: Scene, breakage: Breakage) -> tuple[float, int, int, float]:
    scene.ensure_flow()
    scene.catch_up()
    before = scene.witness.repeats
    scene.witness.silence_seconds = 0.0
    breakage.strike(scene)
    caught_up_seconds = scene.catch_up_with_more()
    scene.story.wait_until_close(scene.run, scene.writer)
    scene.catch_up()
    repeats = scene.witness.repeats - before
    assert repeats <= (0 if scene.mode.delivery == EXACTLY_ONCE else REPEATED_MAX), f"{repeats} records came again"
    silence_seconds = round(scene.witness.silence_seconds, 1)
    return round(caught_up_seconds, 1), repeats, scene.witness.assert_mapped(), silence_seconds
