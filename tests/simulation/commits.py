"""What the groups of a simulated cluster have committed, and the log of it, `__consumer_offsets`.

Source of the rules: OffsetMetadataManager and ClassicGroup.validateOffsetCommit of Apache Kafka 4.3; of the records:
OffsetCommitKey.json and OffsetCommitValue.json.
"""

import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import OffsetCommitResponse, OffsetDeleteResponse, OffsetFetchResponse

from sparkmirror.kafka.commit_log import commits_partition
from sparkmirror.model import TopicPartition

NO_ERROR, UNKNOWN_TOPIC, GROUP_NOT_FOUND, SUBSCRIBED = 0, 3, 69, 86
LOG_PARTITIONS = 3
"""Real clusters have 50; in fewer, groups share one more often."""


@dataclass(frozen=True, slots=True)
class Commit:
    """`topic_id` is of the topic that had the name then, which real coordinators do not keep; `client_id` tells who."""

    offset: int
    metadata: str
    leader_epoch: int
    topic_id: UUID
    client_id: str
    at: float


Watcher = Callable[[str, TopicPartition, Commit | None, Commit], None]
"""Hears of each commit as it is taken: group, partition, what stood there, and what does now."""


class CommittedOffsets:
    """Those of one cluster; whether a commit is allowed, its group has said before."""

    def __init__(
        self, topic_id: Callable[[TopicPartition], UUID | None], append: Callable[[int, bytes, bytes | None], None],
        now: Callable[[], float],
    ) -> None:  # fmt: skip
        """`topic_id` is None for a partition that is not there; `append` writes to a partition of the log."""
        self._topic_id = topic_id
        self._append = append
        self._now = now
        self._offsets: dict[str, dict[TopicPartition, Commit]] = {}
        self.watchers: list[Watcher] = []
        self.read_at: dict[tuple[str, str], float] = {}
        """When a client, by its id, last read the offsets of a group."""

    @property
    def groups(self) -> Collection[str]:
        return self._offsets.keys()

    def of(self, group: str) -> dict[TopicPartition, Commit]:
        return self._offsets.get(group, {})

    def take(self, group: str, where: TopicPartition, offset: int, metadata: str, epoch: int, client_id: str) -> int:
        """The error code."""
        topic_id = self._topic_id(where)
        if topic_id is None:
            return UNKNOWN_TOPIC
        known = self._offsets.setdefault(group, {})
        before = known.get(where)
        taken = known[where] = Commit(offset, metadata, epoch, topic_id, client_id, self._now())
        self._append(commits_partition(group, LOG_PARTITIONS), _key(group, where), _value(taken))
        for watcher in self.watchers:
            watcher(group, where, before, taken)
        return NO_ERROR

    def drop(self, group: str, where: TopicPartition) -> None:
        if self._offsets.get(group, {}).pop(where, None) is not None:
            self._append(commits_partition(group, LOG_PARTITIONS), _key(group, where), None)

    def forget_topic(self, topic: str, topic_id: UUID) -> None:
        """What was committed for a topic goes with it (`GroupCoordinatorService.onPartitionsDeleted`)."""
        for group, known in self._offsets.items():
            for where in [at for at, one in known.items() if at.topic == topic and one.topic_id == topic_id]:
                self.drop(group, where)

    # Answers.

    def commit(self, request: Any, client_id: str, error: int) -> Any:
        """`error` is what the group says of the whole request."""
        kind = OffsetCommitResponse.OffsetCommitResponseTopic
        one_kind = kind.OffsetCommitResponsePartition
        topics = []
        for topic in request.topics:
            told = []
            for one in topic.partitions:
                where = TopicPartition(topic.name, one.partition_index)
                code = UNKNOWN_TOPIC if self._topic_id(where) is None else error
                code = code or self.take(
                    request.group_id, where, one.committed_offset, one.committed_metadata or "",
                    one.committed_leader_epoch, client_id,
                )  # fmt: skip
                told.append(one_kind(partition_index=one.partition_index, error_code=code))
            topics.append(kind(name=topic.name, partitions=told))
        return OffsetCommitResponse(throttle_time_ms=0, topics=topics)

    def fetch(self, request: Any, client_id: str, error: int) -> Any:
        """From version 8 on; always all of a group."""
        kind = OffsetFetchResponse.OffsetFetchResponseGroup
        groups = []
        for asked in request.groups:
            known = {} if error else self.of(asked.group_id)
            self.read_at[asked.group_id, client_id] = self._now()
            groups.append(kind(group_id=asked.group_id, topics=list(_fetched(kind, known)), error_code=error))
        return OffsetFetchResponse(throttle_time_ms=0, groups=groups)

    def delete(self, request: Any, error: int, *, is_subscribed: bool) -> Any:
        kind = OffsetDeleteResponse.OffsetDeleteResponseTopic
        one_kind = kind.OffsetDeleteResponsePartition
        topics = []
        for topic in request.topics if not error else ():
            told = []
            for one in topic.partitions:
                if not is_subscribed:
                    self.drop(request.group_id, TopicPartition(topic.name, one.partition_index))
                code = SUBSCRIBED if is_subscribed else NO_ERROR
                told.append(one_kind(partition_index=one.partition_index, error_code=code))
            topics.append(kind(name=topic.name, partitions=told))
        return OffsetDeleteResponse(error_code=error, throttle_time_ms=0, topics=topics)


def _fetched(kind: Any, known: dict[TopicPartition, Commit]) -> Iterator[Any]:
    topic_kind = kind.OffsetFetchResponseTopics
    for topic in sorted({where.topic for where in known}):
        told = [
            topic_kind.OffsetFetchResponsePartitions(
                partition_index=where.partition, committed_offset=one.offset, committed_leader_epoch=one.leader_epoch,
                metadata=one.metadata, error_code=NO_ERROR,
            )
            for where, one in sorted(known.items())
            if where.topic == topic
        ]  # fmt: skip
        yield topic_kind(name=topic, partitions=told)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _key(group: str, where: TopicPartition) -> bytes:
    return struct.pack(">h", 1) + _string(group) + _string(where.topic) + struct.pack(">i", where.partition)


def _value(one: Commit) -> bytes:
    return struct.pack(">hqi", 3, one.offset, one.leader_epoch) + _string(one.metadata) + struct.pack(">q", 0)
