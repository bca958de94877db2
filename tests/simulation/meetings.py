"""Faults that bring together what seldom meets by itself: rows that come when their writer has gone back, and a run of
few tasks that takes over from one of many while the source rests.

Each is general: what it does happens to any mirror, and what follows is left to the product.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from tests.simulation.environment import ORDERED
from tests.simulation.mirror import Attempt, Mirror

if TYPE_CHECKING:
    from tests.simulation.history import Scene

_HELD_SECONDS: Final = 8.0
"""A partition that failed is tried again after five seconds."""
_FINAL: Final = (10, 29, 87)
_TRANSACTION: Final = (48, 48, 120, 29, 87)
_REFUSED_SECONDS, _AWAITED_SECONDS_MAX = (0.1, 0.5, 2.0), 5.0
"""So long a partition refuses all from the first batch on, for which it waits at most so long."""
_SLOW_SECONDS: Final = (0.05, 0.3, 1.0)
_BEHIND_SECONDS: Final = (0.0, 0.002, 0.02, 0.2)
_STORED_SECONDS, _PLANNED_SECONDS = 1.2, (0.2, 1.2)
"""A mirror has stored its positions so long after the last record; how much longer the source rests, while another run
begins."""
_ASLEEP_SECONDS: Final = (1.5, 4.0, 8.0)
_APART_SECONDS_MAX, _NOTICED_SECONDS_MAX = 2.0, 4.0


def _rows_behind_rewind(scene: "Scene", random: Random) -> str:
    """The target refuses a batch. Before the writer knows, the source elects leaders, so that the reader gives rows
    again, which are held up. They come when the writer has ordered the reader back, or after some seconds."""
    attempts = [one for one in scene.mirror.attempts.values() if one.plan.assigned]
    topic = scene.target.topics.get(scene.remote)
    if topic is None or not attempts:
        return ""
    attempt = random.choice(attempts)
    number = random.choice(sorted(one.partition.partition for one in attempt.plan.assigned))
    if number >= len(topic.partitions):
        return ""
    partition = topic.partitions[number]
    refusal = random.choice(_TRANSACTION if scene.script.exactly_once else _FINAL)
    seconds, moment = random.choice(_REFUSED_SECONDS), random.choice(_BEHIND_SECONDS) * random.random()
    partition.refuses, scene.net.slow[scene.target.alias] = (refusal,), random.choice(_SLOW_SECONDS)

    def end() -> None:
        partition.refuses = ()
        scene.net.slow.pop(scene.target.alias, None)

    def begin() -> None:
        scene.world.after(seconds, end)
        if not scene.is_healed and attempt.writer.is_alive:
            attempt.channel.hold(_HELD_SECONDS)
            _release_ordered(scene, attempt, moment)
            _elect_again(scene)

    scene.target.when("refused", begin)
    scene.world.after(_AWAITED_SECONDS_MAX, end)
    told = f"{partition.where} refuses with error {refusal}"
    return f"{told}, and rows of {attempt.reader.name} wait then until it is ordered back"


def _elect_again(scene: "Scene") -> None:
    """Each partition of the source has the same leader in another epoch: what is read of it goes as a row once more."""
    for partition in scene.sources():
        if partition.leader is not None:
            scene.source.move_leader(partition, partition.leader)


def _release_ordered(scene: "Scene", attempt: Attempt, moment: float) -> None:
    """Lets the rows go on a moment after the writer has ordered the reader to read again."""

    def hear() -> None:
        if scene.net.ordered is attempt.writer:
            scene.world.after(moment, attempt.channel.release)
        elif attempt.writer.is_alive:
            scene.target.when(ORDERED, hear)

    scene.target.when(ORDERED, hear)


def _take_over_at_rest(scene: "Scene", random: Random) -> str:
    """The source rests until all is mirrored and stored. Then another run takes over, with as few tasks as one has that
    is not behind; tasks of the former one sleep, or go on, since only their driver has ended."""
    if scene.script.processes > 1:
        return ""
    world, stored = scene.world, _STORED_SECONDS + random.random()
    scene.producers.rests_until = world.now + stored + random.uniform(*_PLANNED_SECONDS)
    leave = random.choice((_sleep, _lose_driver, _lose_driver))

    def take_over() -> None:
        if not (scene.is_healed or scene.is_ended):
            world.begins_small = True
            world.tell(f"at this moment {leave(scene, random, scene.mirror)}")
            world.after(0.1 * random.random(), lambda: None if scene.is_ended else scene.start_mirror())

    world.after(stored, take_over)
    return f"the source rests, and another mirror takes over after {stored:.1f} s"


def _sleep(_: "Scene", random: Random, mirror: Mirror) -> str:
    """They wake up one by one."""
    seconds = random.choice(_ASLEEP_SECONDS)
    for process in mirror.processes:
        process.freeze(seconds + _APART_SECONDS_MAX * random.random())
    return f"{mirror.name} stands still for {seconds} s and more, and another one starts"


def _lose_driver(scene: "Scene", random: Random, mirror: Mirror) -> str:
    mirror.driver.kill()
    seconds = _NOTICED_SECONDS_MAX * (1 - random.random() ** 3)
    scene.world.after(seconds, mirror.kill)
    return f"the driver of {mirror.name} is killed, another one starts, and the tasks end after {seconds:.1f} s"


ROWS_FAULTS: Final[dict[str, tuple[int, Callable[["Scene", Random], str]]]] = {
    "rows behind a rewind": (1, _rows_behind_rewind),
}
REST_FAULTS: Final[dict[str, tuple[int, Callable[["Scene", Random], str]]]] = {
    "take over at rest": (1, _take_over_at_rest),
}
"""Of histories in which the number of tasks changes."""
