"""The position of a streaming read, as Spark's checkpoint keeps it. Pure; used by `records.stream_reader`.

The JSON has the next `offsets` to read, as Spark's connector writes them. Beside them `begin` has where a partition
begins that the batch before did not have: the first offsets of a query, and those of new partitions. So a batch that is
repeated reads what it read before, also where the logs have moved on. `topics` has the ids of the topics (KIP-516): an
offset of one topic says nothing about another one of the same name. `cluster` is the id of the cluster that gave them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from sparkmirror.errors import ProtocolError
from sparkmirror.model import TopicPartition

_HINT = "The checkpoint is of another source; give the query one of its own."


class StreamOffset(NamedTuple):
    """One position; `is_initial` before the first batch."""

    offsets: dict[TopicPartition, int]
    begin: dict[TopicPartition, int]
    topics: dict[str, UUID]
    is_initial: bool = False
    cluster: str = ""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "StreamOffset":
        """Raises ProtocolError for what another source wrote."""
        try:
            topics = {name: UUID(text) for name, text in value.get("topics", {}).items()}
            begin = _read(value.get("begin", {}))
            is_initial, cluster = bool(value.get("initial", False)), str(value.get("cluster", ""))
            return cls(_read(value["offsets"]), begin, topics, is_initial, cluster)
        except (KeyError, TypeError, ValueError, AttributeError) as strange:
            raise ProtocolError(f"The stream cannot read the position {value} in the checkpoint.", _HINT) from strange

    def as_json(self) -> dict[str, Any]:
        """Equal positions give equal text: topics and partitions are in order."""
        found: dict[str, Any] = {"offsets": _write(self.offsets)}
        if self.begin:
            found["begin"] = _write(self.begin)
        if self.topics:
            found["topics"] = {name: str(self.topics[name]) for name in sorted(self.topics)}
        if self.cluster:
            found["cluster"] = self.cluster
        if self.is_initial:
            found["initial"] = True
        return found


def _read(value: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(number)): int(offset)
        for topic, numbers in value.items()
        for number, offset in numbers.items()
    }


def _write(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for where in sorted(offsets):
        found.setdefault(where.topic, {})[str(where.partition)] = offsets[where]
    return found
