"""Which of the target's logs a flow's checkpoints are of: notes on the flow's status topic, by the target's partition.

A checkpoint, in MirrorMaker's format, does not name the topic that it is of. Where a person deletes the topic on the
target, and the mirror makes it again, the former checkpoints would count in it. Owned by `sync.group_sync`.
"""

from collections.abc import Mapping
from uuid import UUID

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.publish import publish
from sparkmirror.model import NO_TOPIC_ID, Cluster, TopicPartition, is_another_topic
from sparkmirror.stored_json import Number, TopicName, decode_or_none, encode
from sparkmirror.sync.status_notes import read_notes

_KIND = "log"


class LogNotes:
    """Read once, when they are first asked for."""

    def __init__(self, target: Cluster, topic: str, source_alias: str) -> None:
        self._target = target
        self._topic = topic
        self._source_alias = source_alias
        self._known: dict[TopicPartition, UUID] | None = None

    def known(self, target: Admin) -> Mapping[TopicPartition, UUID]:
        """The topic ids of the last notes. Raises ClusterError."""
        if self._known is None:
            self._known = self._read(target)
        return self._known

    def remade(self, target: Admin, now: Mapping[TopicPartition, UUID]) -> set[TopicPartition]:
        """The partitions whose topic is another one than was noted. Raises ClusterError."""
        known = self.known(target)
        return {where for where, found in now.items() if is_another_topic(known.get(where, NO_TOPIC_ID), found)}

    def note(self, target: Admin, now: Mapping[TopicPartition, UUID]) -> None:
        """Raises ClusterError; what is not noted is looked at again by the next process."""
        if not now:
            return
        known = self.known(target)
        changed = {where: found for where, found in now.items() if found not in (NO_TOPIC_ID, known.get(where))}
        if changed:
            publish(self._target, self._topic, [(self._key(where), encode(found)) for where, found in changed.items()])
            self._known = {**known, **changed}

    def _key(self, where: TopicPartition) -> bytes:
        return encode([_KIND, self._source_alias, where.topic, where.partition])

    def _read(self, target: Admin) -> dict[TopicPartition, UUID]:
        found: dict[TopicPartition, UUID] = {}
        for record in read_notes(self._target, target, self._topic, "offsets"):
            named = decode_or_none(record.key, tuple[str, str, TopicName, Number])
            topic_id = decode_or_none(record.value, UUID)
            if named is not None and named[:2] == (_KIND, self._source_alias) and topic_id is not None:
                found[TopicPartition(*named[2:])] = topic_id
        return found
