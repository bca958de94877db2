"""Translates committed offsets of one flow: by the offset map, below it by offset syncs, on the way home by the map of
the opposite flow; pure. Asked by `ledger.checkpoints` and the CLI.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from sparkmirror.ledger.map_records import MapView
from sparkmirror.ledger.offset_map import Translation
from sparkmirror.ledger.sync_store import NOT_COVERED, OffsetSyncStore
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.policy.naming import ReplicationPolicy


@dataclass(frozen=True, slots=True)
class Translated:
    """Where a group goes on: the target's partition and offset, and whether that is exact."""

    partition: TopicPartition
    offset: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Translator:
    """`maps` and `syncs` are of the flow, `opposite` the maps of the flow from target to source, if there is one."""

    flow: FlowName
    policy: ReplicationPolicy
    maps: MapView
    syncs: OffsetSyncStore = field(default_factory=OffsetSyncStore)
    opposite: MapView | None = None

    def translate(self, partition: TopicPartition, offset: int) -> Translated | None:
        """None where nothing is known. The answer never lies beyond the truth (invariant 7)."""
        home = self._home(partition)
        if home is not None:
            return self._answer(home, self._back(home, offset))
        remote = TopicPartition(self.policy.format_remote_topic(self.flow.source, partition.topic), partition.partition)
        return self._answer(remote, self._forth(partition, offset))

    def _forth(self, partition: TopicPartition, offset: int) -> Translation | None:
        found = self.maps.map_of(partition)
        if found is not None and (translated := found.translate(offset)) is not None:
            return translated
        synced = self.syncs.translate(partition, offset)
        if synced is None or synced == NOT_COVERED:
            return None
        return Translation(synced if found is None else min(synced, found.segments[0].target), False)

    def _home(self, partition: TopicPartition) -> TopicPartition | None:
        """The target's own partition that `partition` was mirrored from: a group returns to where it came from.

        One hop back, where MirrorMaker strips all (`MirrorCheckpointTask.renameTopicPartition`).
        """
        if self.opposite is None or self.policy.topic_source(partition.topic) != self.flow.target:
            return None
        topic = self.policy.upstream_topic(partition.topic)
        return None if topic is None else TopicPartition(topic, partition.partition)

    def _back(self, home: TopicPartition, offset: int) -> Translation | None:
        found = self.opposite.map_of(home) if self.opposite is not None else None
        return None if found is None else found.translate_back(offset)

    @staticmethod
    def _answer(partition: TopicPartition, found: Translation | None) -> Translated | None:
        return None if found is None else Translated(partition, found.offset, found.exact)


Translate = Callable[[TopicPartition, int], Translated | None]
