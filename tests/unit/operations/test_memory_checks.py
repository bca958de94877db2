"""What the doctor says of how long a target knows producers, where offsets are kept."""

from typing import Final

import pytest

from sparkmirror.operations.memory_checks import judge_memory
from sparkmirror.views.findings import Level

HOUR_MS: Final = 3_600_000


@pytest.mark.parametrize(
    ("told", "level", "said"),
    [
        ({1: 24 * HOUR_MS, 2: None}, Level.OK, "behind records older than 6 h one batch at a time"),
        ({1: 24 * HOUR_MS, 2: 2 * HOUR_MS}, Level.WARN, "behind records older than 30 min one batch at a time"),
        ({1: 1000}, Level.WARN, "behind records one batch at a time is under way"),
        ({1: None}, Level.WARN, "the brokers do not tell their producer.id.expiration.ms"),
        ({}, Level.WARN, "the brokers do not tell their producer.id.expiration.ms"),
    ],
)
def test_the_broker_that_forgets_first_counts_and_silence_is_no_default(
    told: dict[int, int | None], level: Level, said: str
) -> None:
    found = judge_memory("backup", told)
    assert (found.level, found.what) == (level, "producers")
    assert said in found.said
