"""Faults between an answer that a reader has announced on the board, and the extent row that accounts for it.

What is announced reaches the writer, and the target, past Spark; its row comes up to five seconds later. Who ends or
sleeps in between leaves records on the target that no row has said anything of. And a driver that ends alone: its tasks
go on until Spark has noticed, beside those of the next run.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.simulation.network import Network
from tests.simulation.scheduler import Process, SimKilled, World

from sparkmirror.pipeline.fetch.connection import Frame
from sparkmirror.pipeline.fetch.extents import Extents
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState
from sparkmirror.pipeline.fetch.plain_answers import PlainSession
from sparkmirror.pipeline.fetch.runs import Run

if TYPE_CHECKING:
    from tests.simulation.history import Scene

ANNOUNCED: Final = "announced"
"""The event; at the target, where the announced records go."""
_FREEZE_SECONDS: Final = (0.5, 4.0, 15.0)
_MOMENTS: Final = (0.0, 0.0, 0.0003, 0.006, 4.0)
"""At once, before the writer has heard of it; when it takes it; when it has sent it; and at any time until the row."""
_LET_PASS: Final = (0, 0, 1, 5)
_NOTICED_SECONDS_MAX: Final = 4.0


class Announced(NamedTuple):
    """What a reader has announced last: `extents` is empty again when rows account for all."""

    reader: Process
    extents: Extents


def watched_announce(world: World, net: Network) -> Callable[..., bool]:
    """Stands for a reader's announcing: who waits for it hears of it, and acts before the reader does anything else."""
    announce = Extents.announce

    def watched(
        extents: Extents,
        fetch_state: PartitionFetchState,
        run: Run,
        high_watermark: int,
        lease: int,
        fetched_at_ms: int,
    ) -> bool:
        if not announce(extents, fetch_state, run, high_watermark, lease, fetched_at_ms):
            return False
        _note_announced(world, net, extents)
        return True

    return watched


def watched_take(world: World, net: Network) -> Callable[..., bool]:
    """As `watched_announce`, for an answer whose runs compiled code announces."""
    take = PlainSession.take

    def watched(session: PlainSession, frame: Frame) -> bool:
        before = session._ring.announcer.announced
        is_taken = take(session, frame)
        if session._ring.announcer.announced != before:
            _note_announced(world, net, session._extents)
        return is_taken

    return watched


def _note_announced(world: World, net: Network, extents: Extents) -> None:
    reader = world.thread().process
    net.announced = Announced(reader, extents)
    for cluster in net.clusters.values():
        cluster.note(ANNOUNCED)
    if not reader.is_alive:
        raise SimKilled
    if reader.frozen_until > world.now:
        world.thread().park(world.now)


def _strike_announced(scene: "Scene", random: Random, act: Callable[[Process], str]) -> str:
    """Acts on the reader or the writer after an announcement, while no row accounts for it; else after a later one."""
    is_reader, passing = random.random() < 1 / 2, random.choice(_LET_PASS)
    moment = random.choice(_MOMENTS) * random.random()

    def hear() -> None:
        nonlocal passing
        announced = scene.net.announced
        if scene.is_healed or announced is None:
            return
        if passing:
            passing -= 1
            scene.target.when(ANNOUNCED, hear)
        elif moment:
            scene.world.after(moment, lambda: strike(announced))
        else:
            strike(announced)

    def strike(announced: Announced) -> None:
        if scene.is_healed:
            return
        if not (announced.extents and announced.reader.is_alive):
            scene.target.when(ANNOUNCED, hear)
            return
        writer: Process = announced.reader.peer  # type: ignore[attr-defined]
        scene.world.tell(f"before the row of what was announced: {act(announced.reader if is_reader else writer)}")

    scene.target.when(ANNOUNCED, hear)
    return f"the {'reader' if is_reader else 'writer'} will be struck when something is announced"


def _kill(process: Process) -> str:
    process.kill()
    return f"{process.name} is killed"


def _kill_announced(scene: "Scene", random: Random) -> str:
    return _strike_announced(scene, random, _kill)


def _freeze_announced(scene: "Scene", random: Random) -> str:
    seconds = random.choice(_FREEZE_SECONDS)

    def freeze(process: Process) -> str:
        process.freeze(seconds)
        return f"{process.name} stands still for {seconds} s"

    return _strike_announced(scene, random, freeze)


def _kill_driver(scene: "Scene", random: Random) -> str:
    """Its planner and jobs end; its tasks go on for a while, perhaps until the next run has begun."""
    mirror = scene.mirror
    if not mirror.driver.is_alive:
        return ""
    mirror.driver.kill()
    seconds = _NOTICED_SECONDS_MAX * random.random()
    if random.random() < 1 / 2:
        scene.world.after(seconds * random.random(), lambda: None if scene.is_ended else scene.start_mirror())
        scene.world.after(seconds, mirror.kill)
        return f"the driver of {mirror.name} is killed, another one starts, and the tasks end after {seconds:.1f} s"

    def end() -> None:
        mirror.kill()
        scene.start_missing()

    scene.world.after(seconds, end)
    return f"the driver of {mirror.name} is killed, and its tasks {seconds:.1f} s later"


ANNOUNCED_FAULTS: Final = {
    "kill at announcement": (2, _kill_announced),
    "freeze at announcement": (1, _freeze_announced),
}
DRIVER_FAULTS: Final = {"kill driver": (1, _kill_driver)}
