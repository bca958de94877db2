"""Writes a flow's offset map anew when its topic was deleted, from what the running mirror remembers of it.

Called by `sync.offset_job`. A mirror that was down when the topic went has offset syncs and checkpoints left, which
give earlier offsets.
"""

import logging
import time
from uuid import UUID

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.publish import Publisher
from sparkmirror.ledger.map_records import MapView
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import TopicPartition

log = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0


class MapKeeper:
    """Of one flow; outlives the connections of its job."""

    def __init__(self, flow: FlowConfig) -> None:
        self._flow = flow
        self._topics = ledger_topics(flow.name.source, flow.offset_storage_topic)
        self._due_at = 0.0
        self._topic_id: UUID | None = None
        self._maps = MapView(flow.name.source)

    def keep(self, target: Admin, publisher: Publisher, maps: MapView) -> bool:
        """Whether the topic was gone, or another one, and has been written; then `maps` must be read anew.

        `maps` is what was read from it. Raises ClusterError; the next call tries again.
        """
        if time.monotonic() < self._due_at:
            return False
        found = target.list_topics([self._topics.offset_map]).get(self._topics.offset_map)
        if found is not None and self._topic_id in (None, found.topic_id):
            self._due_at = time.monotonic() + _LOOK_SECONDS
            self._topic_id, self._maps = found.topic_id, maps
            return False
        if self._topic_id is None:
            return False
        self._write(target, publisher)
        return True

    def _write(self, target: Admin, publisher: Publisher) -> None:
        """What writers have stored there since is younger than what we remember, and stays."""
        flow = self._flow
        ensure_ledger_topics(
            target,
            self._topics,
            replication_factor=flow.offset_storage_replication_factor,
            offsets_partitions=flow.offset_storage_partitions,
        )
        topic = self._topics.offset_map
        with open_tail(flow.target, "offsets", [TopicPartition(topic, 0)]) as tail:
            there = {record.key for record in tail.read_to_end()}
        records = [(one.key, one.value) for one in self._maps.records() if one.key not in there]
        publisher.write(topic, records)
        self._topic_id = target.list_topics([topic])[topic].topic_id
        log.warning(
            "%s: topic %s was gone; the offset map of %d partitions was written anew (%d records).",
            flow.name, topic, len(self._maps.partitions), len(records),
        )  # fmt: skip
