"""Scenes that a test plays by hand: mirrors run for a while, and at the end all heals and holds."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.environment import simulated
from tests.simulation.history import Scene
from tests.simulation.scheduler import World
from tests.simulation.scripts import Script


@contextmanager
def played(script: Script, seconds: float) -> Iterator[Scene]:
    """The script's mirrors have run for so long, and its source is written to."""
    world = World(script.world_seed)
    scene = Scene(script, world)
    with simulated(world, scene.net, script.kept):
        try:
            scene.start_missing()
            world.after(0.1, scene.producers.write)
            world.run(world.now + seconds)
            yield scene
        finally:
            for mirror in scene.mirrors:
                mirror.kill()


def heals_and_holds(scene: Scene, seconds_max: float) -> None:
    scene.heal()
    assert scene.world.run(scene.world.now + seconds_max, scene.checker.is_caught_up)
    scene.world.run(scene.world.now + 3.0)
    scene.world.run(scene.world.now + 1.0, lambda: not scene.unsettled())  # the task's status may be under way
    scene.checker.judge(is_done=True)
    assert scene.checker.problems == [], scene.checker.problems
