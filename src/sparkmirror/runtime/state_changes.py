"""Says a sentence when a running mirror's flow or partition changes its state. Called by `runtime.progress`.

Where thousands change at once, some are named and the others counted.
"""

import logging
from collections.abc import Mapping

from sparkmirror.clock import show_moment
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.records import FlowState, PartitionRecord, PartitionState

log = logging.getLogger(__name__)

_NAMED_MAX = 10
_FLOW_STATES = (FlowState.RUNNING, FlowState.STOPPED)
"""Of the others `engine` says more than that."""
_LEVELS = {PartitionState.FAILED: logging.WARNING, PartitionState.WAITING: logging.WARNING}
_WORDS = {
    PartitionState.RUNNING: "RUNNING again",
    PartitionState.PAUSED: "PAUSED by order",
    PartitionState.WAITING: "WAITING for the source",
    PartitionState.FAILED: "FAILED",
}


class StateChanges:
    """What was said last of each partition of a flow."""

    def __init__(self, flow: FlowName) -> None:
        self._flow = flow
        self._said: dict[TopicPartition, tuple[PartitionState, str]] = {}
        self._flow_said: FlowState | None = None

    def tell(self, board: StatusBoard) -> None:
        """Say what differs from the last time. What one run said of the next one's partitions is none of its."""
        if board.flow is not None and board.flow.state != self._flow_said:
            self._flow_said = board.flow.state
            if board.flow.state in _FLOW_STATES:
                state = board.flow.state
                log.info("%s: %s.", self._flow, state.value, extra={"event": f"flow-{state.lower()}"})
        self._tell_partitions(board.take_news())

    def _tell_partitions(self, partitions: Mapping[TopicPartition, PartitionRecord]) -> None:
        """That a partition runs is no news at first."""
        told: dict[PartitionState, int] = {}
        for where, record in partitions.items():
            now = (record.state, record.reason)
            if self._said.get(where, (PartitionState.RUNNING, "")) == now:
                continue
            self._said[where] = now
            told[record.state] = told.get(record.state, 0) + 1
            if told[record.state] <= _NAMED_MAX:
                self._say(where, record)
        for state, count in told.items():
            if count > _NAMED_MAX:
                log.log(
                    _LEVELS.get(state, logging.INFO), "%s: %d more partitions: %s.", self._flow, count - _NAMED_MAX,
                    _WORDS[state], extra={"event": f"partitions-{state.lower()}"},
                )  # fmt: skip

    def _say(self, where: TopicPartition, record: PartitionRecord) -> None:
        why = f": {record.reason.splitlines()[0].rstrip('.')}" if record.reason else ""
        again = None if record.retry_at_ms is None else show_moment(record.retry_at_ms // 1000 * 1000)
        event = {"event": f"partition-{record.state.lower()}", "figures": {"retry_at": again} if again else {}}
        level = _LEVELS.get(record.state, logging.INFO)
        log.log(level, "%s %s: %s%s.", self._flow, where, _WORDS[record.state], why, extra=event)
