"""What a partition carries, by two records of the status topic."""

from dataclasses import replace

from sparkmirror.planning.balance import Load, load_between
from sparkmirror.telemetry.records import PartitionRecord, PartitionState

BEFORE = PartitionRecord("orders", 1, "run", 0, 3, bytes=1_000_000, offset=100, end=100, at_ms=10_000)
LATER = replace(
    BEFORE, bytes=4_000_000, bytes_per_second=9e6, records_per_second=50.0, offset=400, end=410, at_ms=40_000
)


def test_a_rate_is_the_mean_between_two_looks() -> None:
    assert load_between(BEFORE, LATER) == Load(100_000.0)


def test_another_task_epoch_or_attempt_has_only_the_reported_values() -> None:
    """Counters begin again there."""
    for before in (None, LATER, replace(BEFORE, task=1), replace(BEFORE, epoch=2), replace(BEFORE, producer_epoch=1)):
        assert load_between(before, LATER) == Load(9e6)


def test_a_partition_is_behind_when_its_backlog_would_take_it_seconds() -> None:
    assert not load_between(BEFORE, replace(LATER, end=400 + 5 * 50)).is_behind
    assert load_between(BEFORE, replace(LATER, end=400 + 5 * 50 + 1)).is_behind
    assert not load_between(BEFORE, replace(LATER, end=None)).is_behind


def test_one_that_does_not_move_is_not_behind_for_its_tasks_sake() -> None:
    far = replace(LATER, end=10**9)
    assert not load_between(BEFORE, replace(far, records_per_second=0.0)).is_behind
    assert not load_between(BEFORE, replace(far, state=PartitionState.FAILED)).is_behind
