"""The two edges of a partition's log: which producers its leader knows at the end, and where its start is moved to.

Called by `planning.offset_starts`, for flows that keep offsets, and by `ledger.reader`. Source: DescribeProducers of
KIP-664, DeleteRecords of KIP-107.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from kafka.protocol.admin import DeleteRecordsRequest

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NO_LEADER
from sparkmirror.kafka.connection import waits_within
from sparkmirror.kafka.errors import LEADER_MOVED, NO_ERROR, is_retriable, refusal
from sparkmirror.kafka.log_offsets import OffsetsUnknown
from sparkmirror.kafka.wire.open_transactions import describe_producers
from sparkmirror.model import TopicPartition

_PAUSE_SECONDS: Final = 0.1
_SECONDS_MAX: Final = 10.0
_DELETE_MS: Final = 10_000

_Ask = Callable[[list[TopicPartition]], Any]
_Take = Callable[[TopicPartition, Any], None]


def last_sequences(
    admin: Admin, partitions: Iterable[TopicPartition], producer_id: int
) -> dict[TopicPartition, int | None]:
    """The last sequence number of a producer in each partition, by the leader; None where the leader does not know the
    producer. Raises ClusterError, AuthorizationFailed without READ on a topic."""
    found: dict[TopicPartition, int | None] = {}

    def take(where: TopicPartition, result: Any) -> None:
        known = {one.producer_id: one.last_sequence for one in result.active_producers}
        last = known.get(producer_id, -1)
        found[where] = last if last >= 0 else None

    _ask_leaders(admin, partitions, describe_producers, take, "describing producers")
    return found


def open_transactions(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
    """Where the first transaction begins that is open in each partition, by the leader; None without one. Raises as
    `last_sequences`."""
    found: dict[TopicPartition, int | None] = {}

    def take(where: TopicPartition, result: Any) -> None:
        starts = (one.current_txn_start_offset for one in result.active_producers)
        found[where] = min((start for start in starts if start >= 0), default=None)

    _ask_leaders(admin, partitions, describe_producers, take, "describing producers")
    return found


def delete_before(admin: Admin, offsets: Mapping[TopicPartition, int]) -> None:
    """Moves the logs' starts to these offsets. Raises ClusterError, RequestRefused where a topic is only compacted."""

    def make(partitions: list[TopicPartition]) -> Any:
        topic_class = DeleteRecordsRequest.DeleteRecordsTopic
        part_class = topic_class.DeleteRecordsPartition
        topics = [
            topic_class(
                name=name, partitions=[part_class(partition_index=one.partition, offset=offsets[one]) for one in some]
            )
            for name, some in _by_topic(partitions).items()
        ]
        return DeleteRecordsRequest(topics=topics, timeout_ms=_DELETE_MS, max_version=2)

    _ask_leaders(admin, offsets, make, lambda _, __: None, "deleting the records before an offset")


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = defaultdict(list)
    for where in partitions:
        found[where.topic].append(where)
    return found


def _ask_leaders(admin: Admin, partitions: Iterable[TopicPartition], make: _Ask, take: _Take, doing: str) -> None:
    """One request to each leader, again where a leader has moved or is away for a moment."""
    waiting, ends_at = set(partitions), time.monotonic() + _SECONDS_MAX
    while waiting:
        for node_id, some in _by_leader(admin, waiting).items():
            answer = admin.connection.ask(partial(make, some), doing, node_id)
            for topic in answer.topics:
                for result in topic.partitions:
                    where = TopicPartition(topic.name, result.partition_index)
                    code = result.error_code
                    if code == NO_ERROR:
                        take(where, result)
                        waiting.discard(where)
                    elif code not in LEADER_MOVED and not is_retriable(code):
                        raise refusal(code, admin.alias, f"{doing} of {where}")
        if waiting and not waits_within(admin.connection, _PAUSE_SECONDS, ends_at):
            named = ", ".join(map(str, sorted(waiting)[:5]))
            raise OffsetsUnknown(f"Cluster {admin.alias}: {doing} of {named} has no answer from a leader.")


def _by_leader(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
    leaders = admin.leaders({where.topic for where in partitions})
    found: dict[int, list[TopicPartition]] = defaultdict(list)
    for where in sorted(partitions):
        leader = leaders.get(where)
        if leader is not None and leader.node_id != NO_LEADER:
            found[leader.node_id].append(where)
    return found
