"""Where a partition begins to be mirrored. Called by `planning.planner`."""

import time
from collections.abc import Mapping
from uuid import UUID

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.log_offsets import LogOffsets
from sparkmirror.model import NO_TOPIC_ID, Position, Topic, TopicPartition
from sparkmirror.policy.start import start_ms


def first_offsets(
    flow: FlowConfig, source: Admin, partitions: list[TopicPartition], *, all_of_them: bool
) -> Mapping[TopicPartition, int]:
    """Of partitions that the ledger does not know, by `auto.offset.reset`; those that are not known now are left out.

    With `all_of_them`, as for a run that is to end, OffsetsUnknown is raised instead. Raises ClusterError.
    """
    found = _first_offsets(flow, source, partitions) if partitions else LogOffsets(source.alias, {})
    return found.all() if all_of_them else found.known


def _first_offsets(flow: FlowConfig, source: Admin, partitions: list[TopicPartition]) -> LogOffsets:
    start = flow.consumer.auto_offset_reset
    at_ms = start_ms(start, time.time_ns() // 1_000_000)
    if at_ms is not None:
        return source.offsets_at(partitions, at_ms)
    return source.latest_offsets(partitions) if start == "latest" else source.earliest_offsets(partitions)


def start_at(partition: TopicPartition, position: Position, topic_id: UUID, end: int | None) -> Assigned:
    """A start that notices a topic which was deleted and made anew since the position was stored."""
    if NO_TOPIC_ID not in (position.topic_id, topic_id) and position.topic_id != topic_id:
        return Assigned(partition, 0, topic_id=topic_id, end=end, restarted_from=position)
    return Assigned(partition, position.offset, position.epochs, topic_id, end)


def hold_unknown(partition: TopicPartition, problem: str, topic_id: UUID) -> Assigned:
    """No start: `problem` says why the position is unknown. To begin by `auto.offset.reset` would repeat or skip."""
    return Assigned(partition, 0, topic_id=topic_id, unknown=problem)


def start_again(item: Assigned, topic: Topic | None, position: Position | None, unknown: str | None) -> Assigned:
    """The start of a task that is tried again: where the ledger is now, which may have become `unknown`.

    The topic is what it was found as after the ledger was read: the position may lie in a newer log than the plan knew.
    One that is not there now says nothing: the log counts as the position's until a broker tells of another.
    """
    if unknown is not None:
        return hold_unknown(item.partition, unknown, item.topic_id)
    if position is None:
        return item
    if topic is not None:
        return start_at(item.partition, position, topic.topic_id, item.end)
    topic_id = item.topic_id if position.topic_id == NO_TOPIC_ID else position.topic_id
    return start_at(item.partition, position, topic_id, item.end)
