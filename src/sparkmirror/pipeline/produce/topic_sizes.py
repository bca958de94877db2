"""How many partitions the topics have that transforms route to; those that are missing are created.

Asked once per topic and task, by `pipeline.produce.record_writer` on its row thread.
"""

import logging
import time

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.clients import open_admin
from sparkmirror.model import TopicPartition

log = logging.getLogger(__name__)

_KNOWN_SECONDS = 60.0
"""Topics grow seldom; until this end sees it, records of the new partitions go by their keys."""


class TopicSizes:
    """Partition counts of target topics that are not simply mirrored."""

    def __init__(self, flow: FlowConfig) -> None:
        self._flow = flow
        self._admin: Admin | None = None
        self._known: dict[str, tuple[int, float]] = {}

    def count(self, topic: str, source: TopicPartition) -> int:
        """The number of `topic`'s partitions; a topic that is not there gets as many as the mirrored topic of `source`.

        Raises SparkMirrorError when the target does not answer or refuses.
        """
        count, until = self._known.get(topic, (0, 0.0))
        if time.monotonic() < until:
            return count
        count = self._ask(topic, source)
        self._known[topic] = (count, time.monotonic() + _KNOWN_SECONDS)
        return count

    def _ask(self, topic: str, source: TopicPartition) -> int:
        try:
            return self._find_or_create(self._open(), topic, source)
        except ClusterUnreachable:
            self.close()  # addresses may have moved
            return self._find_or_create(self._open(), topic, source)

    def _open(self) -> Admin:
        if self._admin is None:
            self._admin = open_admin(self._flow.target, "routed-topics")
        return self._admin

    def _find_or_create(self, admin: Admin, topic: str, source: TopicPartition) -> int:
        remote = self._flow.remote_topic(source.topic)
        found = admin.list_topics([topic, remote])
        if topic in found:
            return found[topic].partitions
        count = max(found[remote].partitions if remote in found else 1, source.partition + 1)
        outcome = admin.create_topics([NewTopic(topic, count, self._flow.replication_factor)])[topic]
        found = admin.list_topics([topic])
        if topic not in found:
            raise SparkMirrorError(
                f"{self._flow.name}: topic {topic}, to which records are routed, is missing: {outcome}"
            )
        log.info(
            "%s: topic %s was created for records that are routed to it, %d partitions.", self._flow.name, topic, count
        )
        return found[topic].partitions

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None
