"""A minute of the soak: what `make soak` does for an hour."""

from pathlib import Path

import pytest
from tests.faults.soak import Soak


@pytest.mark.long
def test_a_minute_of_two_flows_against_each_other_loses_nothing_and_leaks_nothing(tmp_path: Path) -> None:
    with Soak(tmp_path, seed=7) as soak:
        soak.go(minutes=1.0)
        soak.end()
        soak.assert_flat()
        assert len(soak.did) >= 3
