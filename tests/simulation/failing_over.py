"""A person who fails the flow over or migrates it, by the product's steps with their journal, interrupted anywhere.

What `cli/failover.py`, `cli/migrate.py` and `cli/failback.py` do is played here: `run` until its end or a kill, again,
`--undo`. While a migration copies and follows, the mirrors of the history mirror. The way back is in `failing_back.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.failing_back import judge_way_back, steps_back
from tests.simulation.kept_moves import JudgedMove, Place
from tests.simulation.scheduler import START_SECONDS, Process, SimKilled

from sparkmirror.clock import SYSTEM_CLOCK
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.model import TopicPartition, is_another_topic
from sparkmirror.operations.cluster_pair import ClusterPair, open_sides
from sparkmirror.operations.failover_run import Drain, Fence, MoveGroups, Moves, restore_offsets
from sparkmirror.operations.failover_snapshot import look
from sparkmirror.operations.journal import TopicJournal
from sparkmirror.operations.migrate_run import Copy, CutOver, Follow
from sparkmirror.operations.steps import (
    Journal,
    JournalStore,
    Keep,
    Note,
    Step,
    Teller,
    finish_steps,
    keeper,
    take_steps,
    undo_steps,
)

if TYPE_CHECKING:
    from tests.simulation.history import Scene

_DRAIN_SECONDS = 20.0
_FOLLOW_SECONDS = 30.0
_QUIET_SECONDS = 1.0
_MIGRATES_SHARE = 0.35
_BACK = "failback"
_Judge = Callable[[Note, float], None]


class _JudgedDrain(Drain):
    """Judged when it ends: a moment later all may be mirrored that was not when it said so."""

    def __init__(self, flow: FlowConfig, source: Admin, seconds_max: float, judge: _Judge) -> None:
        super().__init__(flow, source, seconds_max)
        self._judge = judge

    def apply(self, note: Note) -> str:
        began = SYSTEM_CLOCK.monotonic()
        sentence = super().apply(note)
        self._judge(note, began)
        return sentence


class _JudgedFence(Fence):
    """From its end until it is lifted no record may be written."""

    def __init__(self, flow: FlowConfig, source: Admin, keep: Keep, claim: Callable[[float], None]) -> None:
        super().__init__(flow, source, keep)
        self._claim = claim

    def deny(self, note: Note) -> str:
        began = SYSTEM_CLOCK.monotonic()
        sentence = super().deny(note)
        self._claim(began)
        return sentence


class Person:
    """An operator. One procedure runs at a time; the next operator continues what an earlier one has begun.

    With `fences` the source is fenced before it drains. `fenced` names the procedure whose fence stands now.
    """

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene
        self._process: Process | None = None
        self._runs = 0
        self._lifted_at = self._fenced_at = 0.0
        self._began: dict[str, float] = {}
        """When the procedures began that the journals know; what they have noted is of that time."""
        self._places: dict[str, dict[TopicPartition, Place]] = {}
        self.fences = False
        self.fenced = ""

    def lift(self) -> None:
        """Somebody removes the fence, whatever the procedures say."""
        self.fenced, self._lifted_at = "", self._scene.world.now
        self._scene.source.acls.lift_fence("orders")

    def act(self, random: Random, *, goes_back: bool = False) -> str:
        """Runs a failover, a migration or the way back, or undoes it."""
        if self._process is not None and self._process.is_alive:
            return ""
        world = self._scene.world
        self._runs += 1
        is_undone, is_killed = random.random() < 0.3, random.random() < 0.4
        killed_after = 0.6 * random.random() ** 2
        kind = "migrate" if random.random() < _MIGRATES_SHARE else "failover"
        kind = _BACK if goes_back else kind
        process = self._process = Process(world, f"{kind} {self._runs}")
        if is_undone or goes_back:
            self.fenced = ""
        process.spawn(lambda: self._act(process, kind, is_undone=is_undone), kind)
        if is_killed:
            world.after(killed_after, process.kill)
        return f"{process.name} {'is taken back' if is_undone else 'begins'}"

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _act(self, process: Process, kind: str, *, is_undone: bool) -> None:
        world, flow = self._scene.world, self._scene.flow
        began = self._began.setdefault(kind, world.now)

        def tell(step: str, sentence: str) -> None:
            world.tell(f"{process.name}: {step}: {sentence}")

        journal = TopicJournal(flow, kind)
        try:
            with open_sides(flow, kind) as pair:
                steps = self._steps(kind, pair, journal, tell)
                if is_undone:
                    undo_steps(steps, journal, tell)
                else:
                    take_steps(steps, journal, tell)
                    self._judge_journal(kind, journal.load(), steps, began)
                    finish_steps(journal)
                journal.forget()
                del self._began[kind]
        except SimKilled:
            raise
        except SparkMirrorError as problem:
            tell("stops", str(problem))
        except Exception as bug:
            world.bugs.append(bug)
        finally:
            process.is_alive = False

    def _judge_journal(self, kind: str, journal: Journal, steps: Sequence[Step], began: float) -> None:
        """All that was taken is in it; the first step has noted where the source ended."""
        if lost := [step.name for step in steps if step.name not in journal.steps]:
            self._scene.checker.fail(f"the journal lacks what was taken: {', '.join(lost)}")
        elif kind == _BACK:
            judge_way_back(self._scene, journal)
        else:
            self._judge_fence(journal, steps)
            noted = next(step.name for step in steps if "ends" in journal.steps[step.name].note)
            self._judge_note(journal.steps[noted].note, began)

    def _judge_fence(self, journal: Journal, steps: Sequence[Step]) -> None:
        """A procedure that says at its end that topics of the source are fenced, in this run or a former one, has its
        fence."""
        notes = {step.name: journal.steps[step.name].note for step in steps}
        said = [note if name == "fence" else note.get("fence") for name, note in notes.items()]
        says = any(note and (note["bindings"] or note["stood"]) for note in said)
        acls = self._scene.source.acls
        if says and self._lifted_at < self._fenced_at and not acls.has_fence("orders"):
            self._scene.checker.fail("the procedure ends, and the fence that it speaks of is not there")

    def _steps(self, kind: str, pair: ClusterPair, journal: JournalStore, tell: Teller) -> list[Step]:
        flow = self._scene.flow
        assert pair.source is not None
        if kind == _BACK:
            return steps_back(self._scene, pair)
        groups = self._move_groups(kind, pair)
        keep = keeper(Fence.name, journal) if kind == "failover" else keeper(Follow.name, journal, part=Fence.name)
        fence = _JudgedFence(flow, pair.source, keep, self._claim)
        if kind == "failover" and self.fences:
            return [fence, _JudgedDrain(flow, pair.source, _DRAIN_SECONDS, self._judge_note), groups]
        if kind == "failover":
            return [_JudgedDrain(flow, pair.source, _DRAIN_SECONDS, self._judge_note), groups]
        cut_over = CutOver(_QUIET_SECONDS, fence, self.fences)
        follow = Follow(flow, pair.source, cut_over, self._mirror_until, tell)
        return [Copy(flow, pair.source, self._copy), follow, groups]

    def _move_groups(self, kind: str, pair: ClusterPair) -> MoveGroups:
        def moves() -> Moves:
            found = look(self._scene.flow, pair, differences=False, is_step=True)
            return Moves(found.moves(planned=True), found.topic_ids, found.upstream())

        if self._scene.script.kept is None:
            return MoveGroups(pair.target, moves, flow=self._scene.flow)
        return JudgedMove(self._scene, pair, moves, self._places.setdefault(kind, {}))

    def _claim(self, began: float) -> None:
        """Where another person removes the fence meanwhile, a broker may still know the former one."""
        acls = self._scene.source.acls
        assert self._process is not None
        self._fenced_at = began
        if acls.has_fence("orders") and acls.unfenced_at <= began:
            self.fenced = self._process.name

    def _copy(self) -> None:
        world = self._scene.world
        until = world.now + _DRAIN_SECONDS
        while world.now < until and not self._scene.checker.is_caught_up():
            world.sleep(0.5)

    def _mirror_until(self, is_over: Callable[[], bool]) -> bool:
        """Asks as the mirror does, which takes an end that is not known for not over."""
        world = self._scene.world
        until = world.now + _FOLLOW_SECONDS
        while world.now < until:
            before = {one.where: self._scene.readable_end(one) for one in self._scene.sources()}
            began = world.now
            with suppress(SparkMirrorError):
                if is_over():
                    self._judge(before, began)
                    return True
            world.sleep(0.5)
        return False

    def _judge_note(self, note: Note, began: float) -> None:
        """Of a topic that was made again since, nothing that the former one held is waited for."""
        now = {name: str(topic.topic_id) for name, topic in self._scene.source.topics.items()}
        ends = restore_offsets(note["ends"])
        same = {where: end for where, end in ends.items() if now.get(where.topic) == note["ids"].get(where.topic)}
        self._judge(same, began)

    def _is_deleted_since(self, began: float) -> bool:
        return any(one.name == self._scene.remote and one.gone_at > began for one in self._scene.target.graves)

    def _judge(self, ends: Mapping[TopicPartition, int], began: float) -> None:
        """What is said to be mirrored is, where the log is still the one that the first step has looked at."""
        scene, view, kept = self._scene, self._scene.checker.view(), self._scene.script.kept
        if kept is not None and kept.adopts_at and began <= START_SECONDS + kept.adopts_at:
            return  # a person has deleted the ledger since
        for where, end in ends.items():
            topic, truth = scene.source.topics.get(where.topic), scene.truth.of(where)
            if topic is None or topic.made_at > began or truth.truncations or truth.is_blind:
                continue
            if end <= topic.partitions[where.partition].log.start:  # nothing is there to be mirrored
                continue
            position = view.position(where)
            is_other = position is not None and is_another_topic(position.topic_id, topic.topic_id)
            if position is None or is_other or position.offset < end:
                scene.checker.fail(f"{where} is said to be mirrored up to {end}, and stands at {position}")
            elif kept is not None and not scene.checker.is_of_this_log(where) and not self._is_deleted_since(began):
                scene.checker.fail(f"{where} is said to be mirrored up to {end}, which is of a former log")
