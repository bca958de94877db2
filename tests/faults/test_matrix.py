"""The fault matrix: each fault, in each mode, on one and on three brokers, under a writer that never stops.

`make faults` runs it; FAULTS_PAGE names the page to keep the results in, FAULTS_SEED the dice.
"""

from collections.abc import Iterator

import pytest
from tests.faults.breakages import BREAKAGES, Breakage
from tests.faults.cells import ALIGNED_MODES, MODES, ROUTED_MODES, SEED, open_results, run_cell
from tests.faults.results import Results
from tests.faults.scene import Scene

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=[*MODES, *ROUTED_MODES, *ALIGNED_MODES], ids=lambda mode: mode.name)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with Scene(tmp_path_factory.mktemp("scene"), request.param, SEED) as made:
        yield made


@pytest.fixture(scope="module")
def results() -> Results | None:
    return open_results()


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.key)
def test_nothing_is_lost_and_what_is_repeated_is_bounded(
    scene: Scene, breakage: Breakage, results: Results | None
) -> None:
    run_cell(scene, breakage, results)
