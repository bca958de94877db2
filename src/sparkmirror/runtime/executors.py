"""Waits for the executors of a Spark cluster, counts them, and fits the mirror's flows to them.

Used only with `--master`; on one machine every task has a slot. Owned by `runtime.run`.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import EnvironmentProblem, SparkMirrorError
from sparkmirror.runtime.running_flow import RunningFlow, reason_of
from sparkmirror.spark.cluster import SlotPlan, Steady, master_kind, plan_slots
from sparkmirror.spark.jvm import jvm_expected
from sparkmirror.stop_request import StopRequest

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_SETTLED_SECONDS = 3.0
"""After this time without a new executor, no other is expected."""
_PATIENCE_SECONDS = 15.0
_REMIND_SECONDS = 60.0
_AGAIN_SECONDS = 10.0


class Executors:
    """The executors that the cluster gives to this mirror's flows."""

    def __init__(
        self,
        context: "SparkContext",
        master: str,
        flows: Sequence[RunningFlow],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._context = context
        self._clock = clock
        self._master = master
        self._flows = flows
        self._wanted = [running.flow.tasks_max for running in flows]
        self._plan: SlotPlan | None = None
        self._steady = Steady(0)
        self._look_at = 0.0
        self._remind_at = 0.0

    def wait(self, stop: StopRequest) -> bool:
        """Wait until there are slots for all tasks, or for some and no more come; False when asked to stop meanwhile.

        Raises SparkMirrorError when the cluster ends the application, EnvironmentProblem when executors are unfit.
        """
        began = changed = self._clock.monotonic()
        self._remind_at = began + _PATIENCE_SECONDS
        slots = 0
        while slots < sum(self._wanted) and not (slots and self._clock.monotonic() - changed >= _SETTLED_SECONDS):
            if stop.wait(_LOOK_SECONDS / 4):
                return False
            now, counted = self._clock.monotonic(), self._count()
            if counted != slots:
                slots, changed = counted, now
            self._remind(slots, now)
        self._steady = Steady(slots)
        if master_kind(self._master) != "local":
            self._check_python(slots)
        self._fit(slots)
        return True

    def _check_python(self, slots: int) -> None:
        """Runs one small job: executors whose Python lacks the packages would fail each query without a reason. Raises
        EnvironmentProblem.

        It costs little, because the tasks of the queries are forked from the processes that it starts.
        """
        from py4j.protocol import Py4JJavaError

        try:
            self._context.parallelize(range(slots), slots).foreach(lambda _: None)
        except Py4JJavaError as problem:
            raise EnvironmentProblem(
                f"The executors of {self._master} cannot start SparkMirror's Python: {reason_of(str(problem))}",
                f"Each needs {self._context.pythonExec}, and the packages for it: `sparkmirror submit` brings them.",
            ) from None

    def poll(self) -> None:
        """Looks once a second, and fits the flows to executors that were lost or have come. Raises SparkMirrorError."""
        now = self._clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_SECONDS
        slots = self._steady.see(self._count(), now)
        self._remind(slots, now)
        if slots:
            self._fit(slots)

    def _count(self) -> int:
        """The tasks that the registered executors can run at once, without executors that are being removed."""
        with jvm_expected():
            scala: Any = self._context._jsc.sc()
            if scala.isStopped():
                hint = "See the page of the cluster for the reason, and start the mirror again: nothing is lost."
                raise SparkMirrorError(f"The Spark cluster {self._master} has ended the application.", hint)
            return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))

    def _remind(self, slots: int, now: float) -> None:
        if slots:
            self._remind_at = now + _PATIENCE_SECONDS
        elif now >= self._remind_at:
            self._remind_at = now + _REMIND_SECONDS
            log.warning(
                "Spark at %s gives the mirror no executor: its tasks wait. Its page shows which applications hold the "
                "cores, and the executors' logs whether they reach the driver at %s.",
                self._master,
                self._context.getConf().get("spark.driver.host"),
            )

    def _fit(self, slots: int) -> None:
        plan = plan_slots(self._wanted, slots)
        if plan == self._plan:
            return
        try:
            for running, tasks in zip(self._flows, plan.tasks, strict=True):
                running.fit(tasks, plan.turn_seconds)
        except SparkMirrorError as problem:  # meanwhile tasks that are too many wait for a slot
            log.warning("The number of tasks could not be changed, and is tried again: %s", problem)
            self._look_at += _AGAIN_SECONDS
            return
        first, self._plan = self._plan is None, plan
        if slots < sum(self._wanted) or not first:
            self._say(slots, plan)

    def _say(self, slots: int, plan: SlotPlan) -> None:
        names = [str(running.flow.name) for running in self._flows]
        parts = [f"{name} {few} of {many}" for name, few, many in zip(names, plan.tasks, self._wanted, strict=True)]
        turns = f", in turns of {plan.turn_seconds} s" if plan.turn_seconds else ""
        have = f"{slots} slot" if slots == 1 else f"{slots} slots"
        sentence = f"Spark at {self._master} has {have} for {sum(self._wanted)} tasks: {', '.join(parts)} run{turns}."
        if slots < sum(self._wanted):
            log.warning("%s More cores or executors are used as soon as they come.", sentence)
        else:
            log.info("%s", sentence)
