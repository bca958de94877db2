"""Reports in the flow's status that the target can have no transaction coordinator, and restarts the tasks when it can.

Such a flow runs at least once with plain producer ids, which fence no predecessor. Run by `runtime.jobs`' `Job`.
"""

import time
from collections.abc import Callable

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.commands import Restart, command_record
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.fencing import COORDINATOR_HINT, NoTransactionCoordinator, rouse_coordinator
from sparkmirror.kafka.publish import publish

LOOK_SECONDS = 10.0


class FencingJob:
    """Fails as long as no coordinator can exist; then has the tasks of `run` begin again, which fences predecessors."""

    def __init__(self, flow: FlowConfig, run: Callable[[], str]) -> None:
        self._flow = flow
        self._run = run
        self._is_unfenced = True

    def __call__(self) -> None:
        """One look. Raises NoTransactionCoordinator, and ClusterError if the target does not answer."""
        if not self._is_unfenced:
            return
        flow = self._flow
        with open_admin(flow.target, "fencing") as target:
            if why := rouse_coordinator(target, flow.connector):
                raise NoTransactionCoordinator(f"Predecessors are not fenced: {why}.", COORDINATOR_HINT)
        commands = flow.ledger_topics.commands
        publish(flow.target, commands, [command_record(Restart(self._run(), time.time_ns() // 1_000_000))])
        self._is_unfenced = False


def refuse_exactly_once(flow: FlowConfig, why: str) -> None:
    """Raises SparkMirrorError if the flow needs transactions, which the target cannot have because of `why`."""
    if flow.is_exactly_once and why:
        raise SparkMirrorError(f"{flow.name}: exactly-once needs transactions, and {why}.", COORDINATOR_HINT)
