"""A person who fails the flow over, by the product's steps with their journal, and may be interrupted anywhere.

What `cli/failover.py` does without its arguments is played here: `run` until its end or a kill, again, `--undo`.
"""

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.scheduler import Process, SimKilled

from sparkmirror.errors import SparkMirrorError
from sparkmirror.model import TopicPartition
from sparkmirror.operations.cluster_pair import open_sides
from sparkmirror.operations.failover_run import Drain, MoveGroups, restore_offsets
from sparkmirror.operations.failover_snapshot import look
from sparkmirror.operations.journal import TopicJournal
from sparkmirror.operations.steps import Step, finish_steps, take_steps, undo_steps

if TYPE_CHECKING:
    from tests.simulation.history import Scene

_DRAIN_SECONDS = 20.0


class Person:
    """One at a time; what one has begun, the next one goes on with."""

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene
        self._process: Process | None = None
        self._runs = 0

    def act(self, random: Random) -> str:
        """Runs the failover, or takes it back."""
        if self._process is not None and self._process.is_alive:
            return ""
        world = self._scene.world
        self._runs += 1
        process = self._process = Process(world, f"failover {self._runs}")
        is_undone = random.random() < 0.3
        process.spawn(lambda: self._act(process, is_undone=is_undone), "failover")
        if random.random() < 0.4:
            world.after(0.6 * random.random() ** 2, process.kill)
        return f"{process.name} {'is taken back' if is_undone else 'begins'}"

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _act(self, process: Process, *, is_undone: bool) -> None:
        world, flow, began = self._scene.world, self._scene.flow, self._scene.world.now

        def tell(step: str, sentence: str) -> None:
            world.tell(f"{process.name}: {step}: {sentence}")

        journal = TopicJournal(flow.target, flow.ledger_topics.status, "failover", flow.name)
        try:
            with open_sides(flow, "failover") as pair:
                assert pair.source is not None
                groups = MoveGroups(pair.target, lambda: look(flow, pair, differences=False).moves(planned=True))
                steps: list[Step] = [Drain(flow, pair.source, _DRAIN_SECONDS), groups]
                if is_undone:
                    undo_steps(steps, journal, tell)
                else:
                    take_steps(steps, journal, tell)
                    self._judge(restore_offsets(journal.load().steps["drain"].note["ends"]), began)
                    finish_steps(journal)
                journal.forget()
        except SimKilled:
            raise
        except SparkMirrorError as problem:
            tell("stops", str(problem))
        except Exception as bug:
            world.bugs.append(bug)
        finally:
            process.is_alive = False

    def _judge(self, ends: Mapping[TopicPartition, int], began: float) -> None:
        """What is said to be drained is, where the log is still the one that the first step has looked at."""
        scene, view = self._scene, self._scene.checker.view()
        for where, end in ends.items():
            topic, truth = scene.source.topics.get(where.topic), scene.truth.of(where)
            if topic is None or topic.made_at > began or truth.truncations or truth.is_blind:
                continue
            position = view.position(where)
            if position is None or position.topic_id != topic.topic_id or position.offset < end:
                scene.checker.fail(f"{where} is said to be drained up to {end}, and stands at {position}")
