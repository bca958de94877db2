"""Where partitions begin that the ledger does not know, by `auto.offset.reset`, or by `preserve.offsets.start` where
offsets are kept. Called by `planning.starts` and `planning.offset_starts`."""

import time
from collections import defaultdict
from collections.abc import Mapping

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.log_offsets import LogOffsets
from sparkmirror.model import Position, TopicPartition
from sparkmirror.policy.start import start_ms


def first_offsets(
    flow: FlowConfig, source: Admin, partitions: list[TopicPartition], *, all_of_them: bool
) -> Mapping[TopicPartition, int]:
    """The starts of partitions that the ledger does not know; unknown offsets are left out.

    With `all_of_them`, as for a run that is to end, OffsetsUnknown is raised instead. Raises ClusterError.
    """
    return {
        where: place.offset for where, place in first_places(flow, source, partitions, all_of_them=all_of_them).items()
    }


def first_places(
    flow: FlowConfig, source: Admin, partitions: list[TopicPartition], *, all_of_them: bool
) -> dict[TopicPartition, Position]:
    """As `first_offsets`, with the leader epoch that the log has there, where brokers tell it."""
    by_start: dict[str, list[TopicPartition]] = defaultdict(list)
    for where in partitions:
        by_start[flow.first_offset(where.topic)].append(where)
    first: dict[TopicPartition, Position] = {}
    for start, some in by_start.items():
        found = _first_offsets(start, source, some)
        known = found.all() if all_of_them else found.known
        for where, offset in known.items():
            epoch = found.epochs.get(where)
            first[where] = Position(offset, () if epoch is None else ((epoch, offset),))
    return first


def _first_offsets(start: str, source: Admin, partitions: list[TopicPartition]) -> LogOffsets:
    at_ms = start_ms(start, time.time_ns() // 1_000_000)
    if at_ms is not None:
        return source.offsets_at(partitions, at_ms)
    return source.latest_offsets(partitions) if start == "latest" else source.earliest_offsets(partitions)
