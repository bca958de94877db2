"""Deletes the status records of tasks and partitions that a flow has no more. Owned by `planning.planner`."""

from collections.abc import Collection, Iterable, Sequence

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.publish import publish
from sparkmirror.model import TopicPartition
from sparkmirror.telemetry.records import encode_key


class StatusRecords:
    """Those of one flow. `gone` are the partitions that were taken back in the last round."""

    def __init__(self, flow: FlowConfig) -> None:
        self._flow = flow
        self.gone: set[TopicPartition] = set()

    def forget_tasks(self, tasks: Collection[int]) -> None:
        """Raises ClusterError."""
        self._forget("task", [(task,) for task in sorted(tasks)])

    def forget_gone(self, partitions: Collection[TopicPartition], gone: Iterable[list[TopicPartition]]) -> None:
        """Of partitions that are not mirrored any more, a round after their release: their task may tell until then.
        Raises ClusterError."""
        if self.gone:
            self._forget("partition", [(tp.topic, tp.partition) for tp in sorted(self.gone.difference(partitions))])
        self.gone = set().union(*gone)

    def _forget(self, kind: str, names: Sequence[tuple[str | int, ...]]) -> None:
        keys = (encode_key(kind, self._flow.name.source, *name) for name in names)
        if gone := [(key, None) for key in keys]:
            publish(self._flow.target, self._flow.ledger_topics.status, gone)
