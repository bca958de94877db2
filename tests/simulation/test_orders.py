"""Orders of persons and quotas of brokers hold a flow back or end it as they say, and no record is lost or repeated."""

from contextlib import AbstractContextManager
from random import Random

import pytest
from tests.simulation.history import Scene
from tests.simulation.mirror import STOPPED
from tests.simulation.orders import LATER_ORDERS, lift_orders, say
from tests.simulation.played import heals_and_holds, played
from tests.simulation.scripts import Script

from sparkmirror.control.commands import Pause, Selection, Throttle

_RESTS_SECONDS = 20.0


def _mirrored(*, partitions: int = 1, processes: int = 1) -> AbstractContextManager[Scene]:
    """A mirror that runs, of a source that is written to all the time."""
    return played(Script(1, False, False, False, partitions, 1, 600, 100.0, (), processes=processes), 15.0)


def _arrived(scene: Scene) -> list[int]:
    return [len(scene.checker.arrived(partition.where)) for partition in scene.sources()]


@pytest.mark.parametrize("name", LATER_ORDERS)
@pytest.mark.parametrize("seed", range(1, 4))
def test_each_comes_to_a_flow_that_gets_over_it(name: str, seed: int) -> None:
    with _mirrored(partitions=2) as scene:
        assert LATER_ORDERS[name][1](scene, Random(seed))
        scene.world.run(scene.world.now + 5.0)
        heals_and_holds(scene, 240.0)


def test_a_partition_that_is_paused_alone_rests_and_the_other_goes_on() -> None:
    with _mirrored(partitions=2) as scene:
        say(scene, Pause.of(scene.mirror.run, Selection("orders", 1), int(scene.world.wall * 1000)))
        scene.world.run(scene.world.now + 2.0)
        before = _arrived(scene)
        scene.world.run(scene.world.now + _RESTS_SECONDS)
        after = _arrived(scene)
        assert after[0] > before[0] and after[1] == before[1]
        heals_and_holds(scene, 240.0)


def test_a_limited_flow_stays_behind_until_the_limit_is_lifted() -> None:
    with _mirrored() as scene:
        unlimited = sum(_arrived(scene))
        scene.limited.add(scene.mirror.run)
        say(scene, Throttle(scene.mirror.run, "", 1))
        scene.world.run(scene.world.now + 2.0)
        before = sum(_arrived(scene))
        scene.world.run(scene.world.now + _RESTS_SECONDS)
        assert sum(_arrived(scene)) - before < unlimited / 2
        lift_orders(scene)
        scene.world.run(scene.world.now + _RESTS_SECONDS)
        assert sum(_arrived(scene)) - before > unlimited
        heals_and_holds(scene, 240.0)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_mirror_that_is_stopped_has_all_in_the_ledger_and_the_next_one_repeats_nothing(processes: int) -> None:
    with _mirrored(processes=processes) as scene:
        first = scene.mirror
        first.stop()
        say(scene, first.stop_command())
        assert scene.world.run(scene.world.now + 15.0, lambda: first.is_over)
        assert first.reason == STOPPED and not first.attempts
        heals_and_holds(scene, 240.0)
        arrived = [value for partition in scene.sources() for value, _ in scene.checker.arrived(partition.where)]
        assert len(arrived) == len(set(arrived))


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_quota_slows_a_flow_down_and_nothing_else(side: str) -> None:
    with _mirrored() as scene:
        cluster = getattr(scene, side)
        cluster.quota_until, cluster.throttle_ms = scene.world.now + 60.0, 5000
        began = scene.world.events
        scene.world.run(scene.world.now + 30.0)
        slowed = scene.world.events - began
        cluster.quota_until = 0.0
        scene.world.run(scene.world.now + 10.0)
        began = scene.world.events
        scene.world.run(scene.world.now + 30.0)
        assert slowed < (scene.world.events - began) / 2
        heals_and_holds(scene, 240.0)
