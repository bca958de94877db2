"""Decides in which partitions offsets are identical on both clusters, for all that says so: `status`, `groups`, `lag`,
`verify`, `failover`, `migrate`.

A stored position that was reached so, in the log that the target has now, of a partition that is not FAILED. What
nobody has reported is unknown.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import Admin
from sparkmirror.ledger.positions import PositionRecord, is_of_this_log
from sparkmirror.model import NO_TOPIC_ID, Topic, TopicPartition
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.bus import read_board
from sparkmirror.telemetry.facts import failed_partitions

_NO_LOG: Final = "its position does not say in which log of the target it lies"
_NO_REPORT: Final = "no task has reported whether it is FAILED"


class Identical(NamedTuple):
    """The source partitions of which the target has each record at its own offset, up to the stored position, and
    those of which that is not known, with the reason."""

    partitions: frozenset[TopicPartition] = frozenset()
    unknown: Mapping[TopicPartition, str] = MappingProxyType({})

    def of(self, where: TopicPartition) -> bool | None:
        return None if where in self.unknown else where in self.partitions


NONE_IDENTICAL: Final = Identical()


def judge_identical(
    flow: FlowConfig,
    records: Mapping[TopicPartition, PositionRecord],
    topics: Mapping[str, Topic],
    board: StatusBoard | None,
) -> Identical:
    """From the stored positions, the `topics` that the target has now, and what tasks have reported, None where that
    cannot be read; pure."""
    failed = frozenset() if board is None else failed_partitions(board)
    reported = frozenset() if board is None else board.partitions.keys()
    identical: set[TopicPartition] = set()
    unknown: dict[TopicPartition, str] = {}
    for where, record in records.items():
        topic = topics.get(flow.remote_topic(where.topic))
        if not flow.keeps_offsets(where.topic) or where in failed or topic is None or not is_of_this_log(record, topic):
            continue
        if record.extent is None or NO_TOPIC_ID in (record.extent.topic_id, topic.topic_id):
            unknown[where] = _NO_LOG
        elif where not in reported:
            unknown[where] = _NO_REPORT
        else:
            identical.add(where)
    return Identical(frozenset(identical), unknown)


def look_at_identical(
    flow: FlowConfig,
    target: Admin,
    records: Mapping[TopicPartition, PositionRecord],
    board: StatusBoard | None = None,
) -> Identical:
    """Asks the target for its topics, and reads what the tasks have reported where the caller has no `board`. Raises
    ClusterError."""
    if not flow.preserves_offsets or not records:
        return NONE_IDENTICAL
    topics = target.list_topics({flow.remote_topic(where.topic) for where in records})
    return judge_identical(flow, records, topics, board or _reported(flow))


def in_former_logs(
    flow: FlowConfig, records: Mapping[TopicPartition, PositionRecord], topics: Mapping[str, Topic]
) -> frozenset[TopicPartition]:
    """The source partitions whose offsets are kept, and whose stored position lies in a log of the target that is gone:
    of the `topics` that it has now, nothing is mirrored; pure."""
    return frozenset(
        where
        for where, record in records.items()
        if flow.keeps_offsets(where.topic)
        and record.is_aligned
        and _is_gone(record, topics.get(flow.remote_topic(where.topic)))
    )


def _is_gone(record: PositionRecord, topic: Topic | None) -> bool:
    return record.extent is not None and (topic is None or not is_of_this_log(record, topic))


def _reported(flow: FlowConfig) -> StatusBoard | None:
    """None where the status topic cannot be read."""
    try:
        return read_board(flow)
    except ClusterError:
        return None
