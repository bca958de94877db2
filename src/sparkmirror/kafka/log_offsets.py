"""Asks leaders where their logs begin and end; offsets that are not known are reported with the reason. Used by
`kafka.admin`.

One ListOffsets goes to each leader. A leader that does not answer is asked again, or the one that has taken its place.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.consumer import ListOffsetsRequest

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.answers import NO_LEADER, Leader
from sparkmirror.kafka.connection import ClusterConnection, portions
from sparkmirror.kafka.errors import NO_ERROR, UNKNOWN_TOPIC_OR_PARTITION, error_name, is_retriable
from sparkmirror.model import NO_EPOCH, TopicPartition

_PARTITIONS_PER_REQUEST: Final = 5_000
_LEADER_SECONDS_MAX: Final = 2.0
_PAUSE_SECONDS: Final = 0.05
_PAUSE_SECONDS_MAX: Final = 1.0
_SHOWN_MAX: Final = 5
_CONSUMER: Final = -1
ANY_READER: Final = -2
"""The replica id by which a leader tells where its log ends, also beyond the high watermark
(`ListOffsetsRequest.DEBUGGING_REPLICA_ID`)."""


class OffsetsUnknown(ClusterUnreachable):
    """The offsets of some partitions are not known now. The message names the partitions, and the brokers that do not
    tell."""


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """One offset for each partition that was asked for: `known`, or `unknown` with the reason as a clause.

    A partition that does not exist is in neither. `epochs` are the leader epochs that came with the offsets: of the
    record there, or of the leader at a log's end.
    """

    alias: str
    known: Mapping[TopicPartition, int]
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)

    def all(self) -> dict[TopicPartition, int]:
        """The offsets of all partitions that exist. Raises OffsetsUnknown."""
        if self.unknown:
            raise OffsetsUnknown(
                f"Cluster {self.alias} does not tell the offsets of {name_unknown(self.unknown)}.",
                "Check that all its brokers are up: what a partition holds, its leader alone knows.",
            )
        return dict(self.known)

    def of(self, partition: TopicPartition) -> int:
        """The offset of one partition. Raises OffsetsUnknown, also where the partition does not exist."""
        if partition not in self.all():
            raise OffsetsUnknown(f"Cluster {self.alias} has no partition {partition}.")
        return self.known[partition]


def name_unknown(unknown: Mapping[TopicPartition, str]) -> str:
    """The first few partitions of each reason, for a sentence."""
    by_reason: dict[str, list[TopicPartition]] = defaultdict(list)
    for where, reason in sorted(unknown.items()):
        by_reason[reason].append(where)
    return "; ".join(f"{_name_some(some)} ({reason})" for reason, some in by_reason.items())


def _name_some(partitions: Collection[TopicPartition]) -> str:
    shown = ", ".join(map(str, list(partitions)[:_SHOWN_MAX]))
    more = len(partitions) - _SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def list_log_offsets(
    connection: ClusterConnection,
    describe: Callable[[list[str]], Any],
    timestamps_ms: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
    seconds_max: float,
    missing_seconds: float = 0.0,
    replica_id: int = _CONSUMER,
) -> LogOffsets:
    """Asks until all offsets are known, at most for `seconds_max`; `describe` gives the metadata of topics by name.

    A partition that the metadata lacks does not exist; where the metadata may be that of a broker that lags behind, it
    is asked for again for `missing_seconds`. Raises ClusterUnreachable when no broker gives the metadata.
    """
    question = _Question(connection, timestamps_ms, read_committed, replica_id)
    if not question.waiting:
        return LogOffsets(connection.alias, {})
    began = time.monotonic()
    pause = _PAUSE_SECONDS
    while True:
        question.look_up(describe)
        question.ask()
        now = time.monotonic()
        if now - began >= missing_seconds:
            question.drop_missing()
        if not question.waiting or now + pause > began + seconds_max or connection.wait(pause):
            break
        pause = min(pause * 2, _PAUSE_SECONDS_MAX)
    question.drop_missing()
    return LogOffsets(connection.alias, question.known, question.refused | question.waiting, question.epochs)


class _Question:
    """`waiting` are the partitions without an offset yet, and why; `refused` those that a broker refuses for good."""

    def __init__(
        self,
        connection: ClusterConnection,
        timestamps_ms: Mapping[TopicPartition, int],
        read_committed: bool,
        replica_id: int,
    ) -> None:
        self._connection = connection
        self._timestamps_ms = timestamps_ms
        self._read_committed = read_committed
        self._replica_id = replica_id
        self._leaders: dict[TopicPartition, Leader] = {}
        self._brokers: dict[int, str] = {}
        self._missing: set[TopicPartition] = set()
        self.known: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int] = {}
        self.refused: dict[TopicPartition, str] = {}
        self.waiting: dict[TopicPartition, str] = dict.fromkeys(timestamps_ms, "nobody has answered")

    def look_up(self, describe: Callable[[list[str]], Any]) -> None:
        answer = describe(sorted({where.topic for where in self.waiting}))
        self._brokers = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
        codes = {topic.name: topic.error_code for topic in answer.topics}
        self._leaders = leaders_of(answer)
        replicas = {
            TopicPartition(topic.name, one.partition_index): ", ".join(map(str, one.replica_nodes))
            for topic in answer.topics
            for one in topic.partitions or ()
        }
        self._missing = set()
        for where in list(self.waiting):
            code = codes.get(where.topic, UNKNOWN_TOPIC_OR_PARTITION)
            if code == UNKNOWN_TOPIC_OR_PARTITION or (code == NO_ERROR and where not in self._leaders):
                self._missing.add(where)
                self.waiting[where] = "it is not in the cluster's metadata"
            elif code != NO_ERROR:
                self._note(where, code)
            elif self._leaders[where].node_id == NO_LEADER:
                self.waiting[where] = f"it has no leader; its replicas are on broker {replicas[where]}"

    def drop_missing(self) -> None:
        for where in self._missing:
            self.waiting.pop(where, None)

    def ask(self) -> None:
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for where in self.waiting:
            leader = self._leaders.get(where)
            if leader is not None and leader.node_id != NO_LEADER:
                by_leader[leader.node_id].append(where)
        for node_id, some in by_leader.items():
            for chunk in portions(some, _PARTITIONS_PER_REQUEST):
                if not self._ask_leader(node_id, chunk):
                    break

    def _ask_leader(self, node_id: int, partitions: Collection[TopicPartition]) -> bool:
        try:
            answer = self._connection.ask(
                lambda: self._request(partitions), "listing offsets", node_id, _LEADER_SECONDS_MAX
            )
        except ClusterUnreachable:
            # A leader that does not answer is replaced in the metadata sooner or later: the next round asks its heir.
            address = self._brokers.get(node_id, "which has no address")
            self.waiting |= dict.fromkeys(partitions, f"its leader, broker {node_id} ({address}), does not answer")
            return False
        for topic in answer.topics:
            for result in topic.partitions:
                self._take(TopicPartition(topic.name, result.partition_index), result)
        return True

    def _take(self, where: TopicPartition, result: Any) -> None:
        if where not in self.waiting:
            return
        if result.error_code == NO_ERROR:
            del self.waiting[where]
            self.known[where] = result.offset
            if result.leader_epoch is not None and result.leader_epoch != NO_EPOCH:
                self.epochs[where] = result.leader_epoch
        else:
            self._note(where, result.error_code)

    def _note(self, where: TopicPartition, code: int) -> None:
        """A leader that has no such partition yet, or not any more, is asked again: the metadata decides."""
        self.waiting[where] = f"the answer is {error_name(code)}"
        if code != UNKNOWN_TOPIC_OR_PARTITION and not is_retriable(code):
            self.refused[where] = self.waiting.pop(where)

    def _request(self, partitions: Iterable[TopicPartition]) -> Any:
        """The request, with the leader epoch of the metadata: a former leader that has slept refuses it."""
        listed = ListOffsetsRequest.ListOffsetsTopic
        by_topic: dict[str, list[Any]] = defaultdict(list)
        for where in partitions:
            wanted = listed.ListOffsetsPartition(
                partition_index=where.partition,
                current_leader_epoch=self._leaders[where].epoch,
                timestamp=self._timestamps_ms[where],
            )
            by_topic[where.topic].append(wanted)
        return ListOffsetsRequest(
            replica_id=self._replica_id,
            isolation_level=int(self._read_committed),
            topics=[listed(name=name, partitions=wanted) for name, wanted in by_topic.items()],
            max_version=9,
        )


def leaders_of(metadata: Any) -> dict[TopicPartition, Leader]:
    """The leader of each partition of the topics that exist; NO_LEADER for a partition that has none now."""
    return {
        TopicPartition(topic.name, partition.partition_index): Leader(
            partition.leader_id, NO_EPOCH if partition.leader_epoch is None else partition.leader_epoch
        )
        for topic in metadata.topics
        if topic.error_code == NO_ERROR
        for partition in topic.partitions
    }
