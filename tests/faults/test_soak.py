"""Three minutes of the soak: what `make soak` does for an hour."""

from pathlib import Path

import pytest
from tests.faults.soak import Soak


@pytest.mark.long
def test_three_minutes_of_two_flows_against_each_other_lose_nothing_and_leak_nothing(tmp_path: Path) -> None:
    with Soak(tmp_path, seed=7) as soak:
        soak.go(minutes=3.0, actions_min=3)
        soak.end()
        soak.assert_flat()
        assert len(soak.did) >= 3
