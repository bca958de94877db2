"""The fault matrix' pairs: while each fault lasts, a second event happens.

`make pairs` runs them: some 35 faults by four events in six modes, half a minute each. FAULTS_PAGE names the page to
keep the results in; with FAULTS_RESUME=1 cells whose result is there and well are left out, so an interrupted run goes
on where it was. A cell's dice go by FAULTS_SEED and its name, so it can be repeated alone.
"""

from collections.abc import Iterator

import pytest
from tests.faults.breakages import BREAKAGES, Breakage
from tests.faults.cells import ALIGNED_MODES, MODES, SEED, open_results, run_cell
from tests.faults.results import Results
from tests.faults.scene import SESSION_SECONDS, Scene
from tests.faults.second_events import SECONDS, Second

pytestmark = [pytest.mark.long, pytest.mark.pairs]

LINES = (f"backup.session.timeout.ms = {SESSION_SECONDS * 1000}",)


@pytest.fixture(scope="module", params=[*MODES, *ALIGNED_MODES], ids=lambda mode: mode.name)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with Scene(tmp_path_factory.mktemp("pairs"), request.param, SEED, LINES) as made:
        yield made


@pytest.fixture(scope="module")
def results() -> Results | None:
    return open_results()


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.key)
@pytest.mark.parametrize("second", SECONDS, ids=lambda second: second.key)
def test_two_events_at_once_lose_nothing_without_a_word(
    scene: Scene, second: Second, breakage: Breakage, results: Results | None
) -> None:
    run_cell(scene, breakage, results, second)
