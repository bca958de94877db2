"""Faults that bring two events together: both come, and no record is lost."""

from contextlib import AbstractContextManager
from dataclasses import replace
from random import Random

import pytest
from tests.simulation.history import Scene
from tests.simulation.meetings import REST_FAULTS, ROWS_FAULTS
from tests.simulation.played import heals_and_holds, played
from tests.simulation.scripts import Script

from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.partition_state import State

_QUIET = Script(0, False, False, False, 2, 1, 600, 100.0, ())
_SEEDS = range(1, 9)


def _mirrored(seed: int, *, exactly_once: bool = False, resizes: bool = False) -> AbstractContextManager[Scene]:
    tasks = 3 if resizes else 1
    return played(replace(_QUIET, seed=seed, exactly_once=exactly_once, tasks=tasks, resizes=resizes), 5.0)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_rows_come_that_were_under_way_when_the_writer_went_back(
    exactly_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind, is_next = set[int](), SequenceGate._is_next

    def watched(gate: SequenceGate, buffer: PartitionBuffer, delivery: Delivery) -> bool:
        if buffer.state is State.REWINDING and delivery.first_offset > buffer.position:
            behind.add(seed)
        return is_next(gate, buffer, delivery)

    monkeypatch.setattr(SequenceGate, "_is_next", watched)
    for seed in _SEEDS:
        with _mirrored(seed, exactly_once=exactly_once) as scene:
            assert ROWS_FAULTS["rows behind a rewind"][1](scene, Random(seed))
            scene.world.run(scene.world.now + 15.0)
            heals_and_holds(scene, 60.0)
    assert behind, "in some of the histories"


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_run_of_one_task_takes_over_from_one_that_goes_on_or_sleeps(seed: int) -> None:
    with _mirrored(seed, resizes=True) as scene:
        former = scene.mirror
        assert REST_FAULTS["take over at rest"][1](scene, Random(seed))
        scene.world.run(scene.world.now + 20.0, lambda: scene.mirror is not former and bool(scene.mirror.attempts))
        assert len(scene.mirror.attempts) == 1 and former.processes
        heals_and_holds(scene, 60.0)
