"""One of several processes that share a flow: the product's group of processes, and around it what `RunningFlow` and
Spark do. A query is begun for each run of the group; its epochs run the tasks that the group grants."""

from contextlib import suppress

from tests.simulation.mirror import STOPPED, Mirror, Stopped, TaskFailed

from sparkmirror.errors import FencedError, RunReplaced, SparkMirrorError
from sparkmirror.planning.planner import Planner
from sparkmirror.sharing.flow_share import FlowShare
from sparkmirror.sharing.group import FencedBy, ProcessGroup

_JOIN_SECONDS_MAX = 60.0
_IDLE_SECONDS = 0.2
_RESTART_SECONDS = 1.0


class _OtherRun(Exception):
    """The group has begun a run without this process: its query ends, and another one begins."""


class SharedMirror(Mirror):
    """One `sparkmirror run` of several."""

    def _drive(self) -> None:
        self.group = ProcessGroup([FlowShare(self.flow, "as the others'", 0)], "flow.properties")
        self.group.start()
        try:
            self.group.wait_until_joined(_JOIN_SECONDS_MAX)
        except SparkMirrorError as problem:
            self._end(str(problem))
            return
        self._start_jobs()
        while not self.is_over:
            self._query()

    @property
    def is_led(self) -> bool:
        return 0 in self.group.assignment(self.flow.name).tasks

    def _query(self) -> None:
        name, world = self.flow.name, self.world
        started_at = world.now
        self.run = self.group.assignment(name).run
        self.queries += 1
        self.process = f"{self.name} query {self.queries}"
        self.group.begin_query(name, self.run, self.process)
        planner = self.planner = Planner(self.flow, self.run, once=False, process=self.process)
        try:
            self._epochs(planner)
        except _OtherRun:
            world.tell(f"{self.name}: the group goes on as {self.group.assignment(name).run}")
        except RunReplaced:
            self._end_tasks()
            while not self.group.replace_run(name, self.run):
                world.sleep(0.2)
            world.tell(f"{self.name}: the group begins {self.group.assignment(name).run} in place of {self.run}")
        except Stopped:
            with suppress(SparkMirrorError):
                planner.close()
            self._end(STOPPED)
            return
        except FencedError as problem:
            self._end_tasks()
            fenced_at = world.now
            while (by := self.group.fenced_by(name, started_at, fenced_at)) is not FencedBy.GROUP:
                if by is FencedBy.OTHERS:
                    world.wrongs.append(f"{self.name} ends, and nobody but its group runs the flow: {problem}")
                    self._end(str(problem))
                    return
                world.sleep(0.2)
            world.tell(f"{self.name} was put out of the group, and joins it again")
        except (SparkMirrorError, TaskFailed) as problem:
            world.tell(f"{self.name}: the query begins again: {problem}")
        self._end_tasks()
        with suppress(SparkMirrorError):
            planner.close()
        world.sleep(_RESTART_SECONDS)

    def _end(self, reason: str) -> None:
        super()._end(reason)
        self.group.leave()

    def _epochs(self, planner: Planner) -> None:
        epoch = 0
        while True:
            self._stay()
            self._note_epoch()
            planner.end_epoch()
            if planner.is_stopped() or not planner.has_work():
                if not epoch and planner.is_told_to_wait:
                    epoch = 1
                    continue
                planner.back_off(_IDLE_SECONDS)
                continue
            epoch += 1
            self._run_epoch(planner)

    def _stay(self) -> None:
        super()._stay()
        run = self.group.assignment(self.flow.name).run
        if run and run != self.run:
            raise _OtherRun
