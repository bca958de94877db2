"""A leader of the source that is cut off from the others, and goes on answering, holds its partition up for no longer
than what brokers said of leaders is believed."""

from tests.simulation.environment import simulated
from tests.simulation.history import Scene
from tests.simulation.mirror import METADATA_SECONDS
from tests.simulation.scheduler import World
from tests.simulation.scripts import Script


def test_the_next_leader_is_found_though_the_former_one_answers() -> None:
    _see_the_next_leader_found()


def test_a_broker_that_was_cut_off_and_is_elected_knows_that_it_leads() -> None:
    """Without that all brokers would name the former leader, which no cluster does: its controller elects none that it
    does not hear (seed 152794180868)."""
    _see_the_next_leader_found(1)


def _see_the_next_leader_found(*cut_off_before: int) -> None:
    script = Script(1, False, False, False, 1, 1, 600, 100.0, ())
    world = World(1)
    scene = Scene(script, world)
    with simulated(world, scene.net, None):
        try:
            scene.start_missing()
            world.after(0.1, scene.producers.write)
            world.after(1.0, scene.keep_remote_topic)
            world.run(world.now + 5.0)
            (partition, *_) = scene.sources()
            assert partition.leader == 0
            for number in (*cut_off_before, 0):
                scene.source.remember(number, world.now + 600.0)
            scene.source.move_leader(partition, 1)
            cut_off_at = partition.log.high_watermark
            world.run(world.now + 1.0)
            written = partition.log.high_watermark
            assert written > cut_off_at
            world.run(world.now + 2 * METADATA_SECONDS + 3.0)
            position = scene.checker.view().position(partition.where)
            assert position is not None and position.offset >= written
        finally:
            for mirror in scene.mirrors:
                mirror.kill()
