"""Keeps MirrorMaker 2's MBeans in Spark's JVM up to date, if the environment asks for them (`telemetry.jmx_port`).

The data path is not involved: a thread reads the status topic every two seconds and sends the JVM what changed, in one
call. Called by `runtime.run`.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sparkmirror.runtime.jobs import Job
from sparkmirror.runtime.running_flow import RunningFlow
from sparkmirror.spark.jvm import jvm_expected
from sparkmirror.telemetry.beans import Beans, Own, TaskRates, connect_beans, mirror_beans, render
from sparkmirror.telemetry.follower import FlowFollower
from sparkmirror.telemetry.jmx_port import is_wanted
from sparkmirror.telemetry.scrape import FlowScrape

if TYPE_CHECKING:
    from pyspark import SparkContext

_LOOK_SECONDS: Final = 2.0
_CLASS: Final = "MirrorBeans"


@contextmanager
def serving_beans(context: "SparkContext", flows: Sequence[RunningFlow], environ: Mapping[str, str]) -> Iterator[None]:
    """Keeps the flows' MBeans up to date while the block runs, where they are wanted."""
    if not is_wanted(environ):
        yield
        return
    keeper = _Keeper(context, flows)
    job = Job("all JMX", _LOOK_SECONDS, keeper, look_seconds=_LOOK_SECONDS, cost_share=0.2, close=keeper.close)
    job.start()
    try:
        yield
    finally:
        job.stop(close=True)


class _Keeper:
    """Reads the flows' status records, and sends changes to the JVM. Called by one thread."""

    def __init__(self, context: "SparkContext", flows: Sequence[RunningFlow]) -> None:
        self._context = context
        self._flows = [
            (running, FlowScrape(follower, running.checkpoints.spreads, running.reporter.why_unwritten))
            for running in flows
            for follower in [FlowFollower(running.flow, "metrics")]
        ]
        self._rates = {str(running.flow.name): TaskRates() for running in flows}
        self._told: dict[str, str] = {}
        self._java: Any = None

    def __call__(self) -> None:
        """Raises SparkMirrorError where the JVM is gone."""
        if lines := render(self._look(), self._told):
            with jvm_expected():
                self._java = self._java or _compile(self._context)
                self._java.update("\n".join(lines))

    def _look(self) -> Beans:
        beans: Beans = {}
        seen = {}
        for running, scrape in self._flows:
            scrape.follower.poll()
            snapshot = scrape.look()
            flow = running.flow
            own = Own(flow.connector.name, running.tasks, not flow.transforms.steps, flow.metric_names)
            beans |= mirror_beans(snapshot, own)
            seen[str(flow.name)] = (snapshot, own, self._rates[str(flow.name)])
        return beans | connect_beans(seen, time.monotonic())

    def close(self) -> None:
        for _, scrape in self._flows:
            scrape.follower.close()


def _compile(context: "SparkContext") -> Any:
    """An object of `MirrorBeans.java` in the JVM."""
    gateway: Any = context._gateway
    jvm = gateway.jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(Path(__file__).with_name(f"{_CLASS}.java").read_text())
    none = gateway.new_array(jvm.java.lang.Class, 0)
    constructor = compiler.getClassLoader().loadClass(_CLASS).getDeclaredConstructor(none)
    return constructor.newInstance(gateway.new_array(jvm.java.lang.Object, 0))
