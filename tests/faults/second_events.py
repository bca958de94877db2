"""What may happen while a fault lasts: the second event of the matrix' pairs (`test_pairs`)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import psutil
from tests.faults.scene import SESSION_SECONDS, Scene, SecondEvent
from tests.faults.sharing import tasks_of

IN_FAULT_SECONDS_MAX = SESSION_SECONDS + 3
"""How much longer a fault lasts for the sake of a take-over; without its target there is none before it is healed."""
TOPIC_SECONDS_MAX = 120.0
TAKE_OVER_SECONDS_MAX = 120.0
ALL_TASKS = {0, 1}


@dataclass(frozen=True, slots=True)
class Second:
    """A second event: its name in commands and on the page; `processes` share the flow before the fault strikes.

    `wakes`: a process sleeps and wakes up again. At least once, what it had sent or read before it slept reaches the
    target after another process has mirrored it: brokers fence no producer that has no transaction.
    """

    key: str
    name: str
    happen: SecondEvent
    processes: int = 1
    replaces_topic: bool = False
    wakes: bool = False


def _nothing() -> None:
    """The event is over as soon as it has happened."""


def _kill_all(scene: Scene) -> Callable[[], None]:
    scene.kill_run()
    return _nothing


def _kill_one(scene: Scene) -> Callable[[], None]:
    """A worker that lives; where the fault has left none, and may let none come while it lasts, the next that comes."""

    workers: list[int] = []

    def is_there() -> bool:
        workers[:] = sorted(pid for ring in scene.run.rings() for pid in ring)
        return bool(workers)

    def kill() -> None:
        scene.wait_until(is_there, "a worker holds a ring", TAKE_OVER_SECONDS_MAX)
        with suppress(psutil.NoSuchProcess):
            psutil.Process(scene.dice.choice(workers)).kill()

    if not is_there():
        return kill
    kill()
    return _nothing


def _replace_topic(scene: Scene) -> Callable[[], None]:
    """By a thread: a source broker that is away does it as soon as it is back."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="replace-topic")
    doing = executor.submit(scene.replace_topic)
    executor.shutdown(wait=False)

    def finish() -> None:
        scene.wait_until(doing.done, "the source topic is made again", TOPIC_SECONDS_MAX)
        doing.result()

    return finish


def _take_over(scene: Scene) -> Callable[[], None]:
    """The process that was struck stands still, until the other has its tasks; then it wakes."""
    struck, other = scene.run, scene.other
    assert other is not None
    struck.pause()

    def is_taken() -> bool:
        return tasks_of(other) == ALL_TASKS

    scene.wait(IN_FAULT_SECONDS_MAX, unless=is_taken)

    def finish() -> None:
        scene.wait_until(is_taken, "the other process has all tasks", TAKE_OVER_SECONDS_MAX)
        struck.resume()
        scene.await_sharing()

    return finish


SECONDS = (
    Second("all-killed", "SIGKILL of all processes", _kill_all),
    Second("recreated", "source topic made again", _replace_topic, replaces_topic=True),
    Second("taken-over", "SIGSTOP of all, take-over by another process, SIGCONT", _take_over, processes=2, wakes=True),
    Second("one-killed", "SIGKILL of a worker", _kill_one),
)
