"""Control-plane jobs of a flow, on threads: observe, plan, apply, again and again. Started by `engine.run`.

Kafka tells nobody of a new topic, setting or ACL, so the jobs look: often while that is cheap, and at least as often as
the configured intervals say.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack

from sparkmirror.config.flows import FlowConfig
from sparkmirror.config.syncing import LOOK_SECONDS
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.clients import open_admin
from sparkmirror.sync.change import Round, Sync
from sparkmirror.sync.flow import flow_syncs, run_round

log = logging.getLogger(__name__)

_COST_SHARE = 0.02
_CHANGES_TOLD_MAX = 5


def pause_seconds(cost_seconds: float, seconds_max: float) -> float:
    """How long to wait after a round that took `cost_seconds`: 5 s, or more, so that rounds take 2 % of the time."""
    return min(seconds_max, max(LOOK_SECONDS, cost_seconds / _COST_SHARE))


class Job:
    """Runs `work` until stopped, at least every `seconds_max`; a failure is told once and tried again."""

    def __init__(self, name: str, seconds_max: float, work: Callable[[], None]) -> None:
        self._name = name
        self._seconds_max = seconds_max
        self._work = work
        self._stopping = threading.Event()
        self._told = ""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the job to end; a round under way is not waited for."""
        self._stopping.set()

    def _run(self) -> None:
        cost_seconds = 0.0
        while not self._stopping.wait(pause_seconds(cost_seconds, self._seconds_max)):
            began, cost_seconds = time.monotonic(), 0.0
            try:
                self._work()
                cost_seconds = time.monotonic() - began
                self._told = ""
            except SparkMirrorError as problem:
                if str(problem) != self._told:
                    self._told = str(problem)
                    log.warning("%s: %s", self._name, problem)


class FlowSync:
    """All sync jobs of one flow, over connections that stay open between rounds and are made anew after a failure."""

    def __init__(self, flow: FlowConfig, told: Sequence[Round] = ()) -> None:
        """`told` are the rounds that the person has heard of."""
        self._flow = flow
        self._syncs: list[Sync] = []
        self._connections = ExitStack()
        self._told = {sentence for one in told for sentence in _sentences(one)}
        self._changed: set[str] = set()

    @property
    def seconds_max(self) -> float | None:
        """The shortest of the intervals in the file; None when nothing is to be kept in step."""
        flow = self._flow
        intervals = [
            (flow.refresh_topics_enabled, flow.refresh_topics_interval_seconds),
            (flow.sync.configs_enabled, flow.sync.configs_interval_seconds),
            (flow.sync.acls_enabled, flow.sync.acls_interval_seconds),
        ]
        return min((float(seconds) for enabled, seconds in intervals if enabled), default=None)

    def __call__(self) -> None:
        """One round. Raises ClusterError if a cluster does not answer."""
        try:
            if not self._syncs:
                self._open()
            rounds = [run_round(sync) for sync in self._syncs]
        except SparkMirrorError:
            self._connections.close()
            self._syncs = []
            raise
        tell_changes(self._flow, rounds, self._changed)
        self._changed = {change.sentence for one in rounds for change in one.plan.changes}
        sentences = {sentence for one in rounds for sentence in _sentences(one)}
        for sentence in sorted(sentences - self._told):
            log.warning("%s: %s", self._flow.name, sentence)
        self._told = sentences

    def _open(self) -> None:
        source = self._connections.enter_context(open_admin(self._flow.source, "sync"))
        target = self._connections.enter_context(open_admin(self._flow.target, "sync"))
        self._syncs = flow_syncs(self._flow, source, target, first=False)


def tell_changes(flow: FlowConfig, rounds: Sequence[Round], before: Collection[str] = ()) -> None:
    """Says what was done, a sentence for each change as long as there are few; not again what failed `before`."""
    for one in rounds:
        sentences = [change.sentence for change in one.plan.changes if change.sentence not in before]
        for sentence in sentences[:_CHANGES_TOLD_MAX]:
            log.info("%s: %s.", flow.name, sentence)
        if (more := len(sentences) - _CHANGES_TOLD_MAX) > 0:
            log.info("%s: and %d more.", flow.name, more)


def _sentences(one: Round) -> Sequence[str]:
    return (*one.plan.warnings, *one.failures)
