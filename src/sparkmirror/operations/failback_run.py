"""The step of a failback beside moving groups: where the reverse flow starts. Applied by `operations.steps`."""

from collections.abc import Callable, Mapping
from typing import Any

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger import connect
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster, Connector, TopicPartition
from sparkmirror.operations.steps import Note
from sparkmirror.policy.partitioner import murmur2_partition


class StartReverse:
    """Sets positions of the flow from the target back to the source, as Connect's own tools alter offsets."""

    name = "positions"

    def __init__(self, flow: FlowConfig, source: Admin, starts: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """`starts` is asked once, when the step begins."""
        self._cluster = Cluster(flow.source.alias, flow.source.client)
        self._source = source
        self._starts = starts
        self._topics = ledger_topics(flow.name.target)
        self._connector = Connector.of_dedicated_mode(flow.name.target)
        self._replicas = flow.offset_storage_replication_factor

    def prepare(self) -> Note:
        starts = self._starts()
        before = self._read() if self._source.list_topics([self._topics.offsets]) else {}
        return {
            "positions": [
                {"topic": where.topic, "partition": where.partition, "before": before.get(where), "after": at}
                for where, at in sorted(starts.items())
                if at > before.get(where, 0)
            ]
        }

    def apply(self, note: Note) -> str:
        if not note["positions"]:
            return "the reverse flow needs no positions: names tell what came from where, or it stands further already"
        self._write(note["positions"], "after")
        return f"the reverse flow starts behind what came from here in {len(note['positions'])} partitions"

    def undo(self, note: Note) -> str:
        if note["positions"]:
            self._write(note["positions"], "before")
        return f"{len(note['positions'])} positions of the reverse flow are as before"

    def _read(self) -> dict[TopicPartition, int]:
        if not self._source.list_topics([self._topics.positions]):
            return {}
        with LedgerReader(self._cluster, self._topics, self._connector) as ledger:
            found = {where: position.offset for where, position in ledger.read_to_end().items()}
            for where, problem in ledger.view.problems.items():
                raise SparkMirrorError(f"The reverse flow's start is not known, {where}: {problem}")
        return found

    def _write(self, moves: list[Mapping[str, Any]], which: str) -> None:
        ensure_ledger_topics(self._source, self._topics, replication_factor=self._replicas)
        partitions = self._source.list_topics([self._topics.offsets])[self._topics.offsets].partitions
        records = [
            (
                connect.encode_key(self._connector, TopicPartition(one["topic"], one["partition"])),
                None if one[which] is None else connect.encode_value(one[which]),
            )
            for one in moves
        ]
        publish(self._cluster, self._topics.offsets, records, place=lambda key: murmur2_partition(key, partitions))
