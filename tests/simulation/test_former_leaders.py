"""A leader of the source that is cut off from the others, and goes on answering, holds its partition up for no longer
than what brokers said of leaders is believed; and one that is elected meanwhile is cut off no more."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest
from tests.simulation.environment import simulated
from tests.simulation.faults import FAULTS
from tests.simulation.history import Scene
from tests.simulation.mirror import METADATA_SECONDS
from tests.simulation.scheduler import World
from tests.simulation.scripts import Script


@contextmanager
def mirrored(partitions: int, seed: int = 1) -> Iterator[Scene]:
    """A flow that has run for five seconds, and is written to."""
    script = Script(seed, False, False, False, partitions, 1, 600, 100.0, ())
    world = World(seed)
    scene = Scene(script, world)
    with simulated(world, scene.net, None):
        try:
            scene.start_missing()
            world.after(0.1, scene.producers.write)
            world.after(1.0, scene.keep_remote_topic)
            world.run(world.now + 5.0)
            yield scene
        finally:
            for mirror in scene.mirrors:
                mirror.kill()


def position_of(scene: Scene, number: int) -> int:
    position = scene.checker.view().position(scene.sources()[number].where)
    assert position is not None
    return position.offset


def test_the_next_leader_is_found_though_the_former_one_answers() -> None:
    with mirrored(1) as scene:
        world, (partition,) = scene.world, scene.sources()
        assert partition.leader == 0
        scene.source.remember(0, world.now + 600.0)
        scene.source.move_leader(partition, 1)
        cut_off_at = partition.log.high_watermark
        world.run(world.now + 1.0)
        written = partition.log.high_watermark
        assert written > cut_off_at
        world.run(world.now + 2 * METADATA_SECONDS + 3.0)
        assert position_of(scene, 0) >= written


@pytest.mark.parametrize("seed", [3, 5, 6, 8])
def test_nor_does_it_hold_up_a_position_without_an_epoch_for_so_long(seed: int) -> None:
    """MirrorMaker has stored it, behind the former leader's end. Of two servers one says that it lies in the log, and
    all look-ups of leaders went to the other one, which names itself."""
    with mirrored(2, seed) as scene:
        world, partition = scene.world, scene.sources()[1]
        assert partition.leader == 1
        scene.source.remember(1, world.now + 600.0)
        scene.source.move_leader(partition, 0)
        world.run(world.now + 3.0)
        FAULTS["other program"][1](scene, Random(seed))
        world.run(world.now + 4.0)
        written = partition.log.high_watermark
        world.run(world.now + 4.0)
        assert position_of(scene, 1) >= written


def test_a_broker_that_is_elected_while_it_is_cut_off_has_come_back() -> None:
    """It knows what was decided up to its election; the leader before it may be cut off in its place."""
    with mirrored(1) as scene:
        source, now, (partition,) = scene.source, scene.world.now, scene.sources()
        source.remember(0, now + 600.0)
        source.move_leader(partition, 1)
        source.remember(1, now + 600.0)
        source.move_leader(partition, 0)
        assert source.nodes[0].knows_until <= now, "it names itself the leader"
        assert source.nodes[1].knows_until == now + 600.0
        assert list(source.nodes[1].leads) == [partition], "this one leads on"


def test_a_broker_that_is_elected_while_it_sleeps_knows_it_soon_after_it_has_woken_up() -> None:
    with mirrored(1) as scene:
        source, now, (partition,) = scene.source, scene.world.now, scene.sources()
        source.nodes[1].frozen_until = now + 3.0
        source.remember(1, now + 600.0)
        source.move_leader(partition, 1)
        assert now + 3.0 < source.nodes[1].knows_until < now + 4.0
