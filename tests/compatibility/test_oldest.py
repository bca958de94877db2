"""From the oldest release of brokers that is looked after to the newest. `make compatibility` tries all pairs."""

from pathlib import Path

import pytest
from tests.compatibility.pair import RELEASES, tell_story, two_clusters


@pytest.mark.long
def test_records_groups_and_promises_hold_from_the_oldest_release_to_the_newest(tmp_path: Path) -> None:
    with two_clusters(RELEASES[0], RELEASES[-1]) as (source, target):
        tell_story(source, target, tmp_path)
