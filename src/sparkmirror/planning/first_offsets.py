"""Where partitions begin that the ledger does not know, by `auto.offset.reset`, or by `preserve.offsets.start` where
offsets are kept. Called by `planning.starts` and `planning.offset_starts`."""

import time
from collections import defaultdict
from collections.abc import Mapping

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.log_offsets import LogOffsets
from sparkmirror.model import TopicPartition
from sparkmirror.policy.start import start_ms


def first_offsets(
    flow: FlowConfig, source: Admin, partitions: list[TopicPartition], *, all_of_them: bool
) -> Mapping[TopicPartition, int]:
    """The starts of partitions that the ledger does not know; unknown offsets are left out.

    With `all_of_them`, as for a run that is to end, OffsetsUnknown is raised instead. Raises ClusterError.
    """
    by_start: dict[str, list[TopicPartition]] = defaultdict(list)
    for where in partitions:
        by_start[flow.first_offset(where.topic)].append(where)
    first: dict[TopicPartition, int] = {}
    for start, some in by_start.items():
        found = _first_offsets(start, source, some)
        first |= found.all() if all_of_them else found.known
    return first


def _first_offsets(start: str, source: Admin, partitions: list[TopicPartition]) -> LogOffsets:
    at_ms = start_ms(start, time.time_ns() // 1_000_000)
    if at_ms is not None:
        return source.offsets_at(partitions, at_ms)
    return source.latest_offsets(partitions) if start == "latest" else source.earliest_offsets(partitions)
