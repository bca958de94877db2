"""Where the target's logs end that keep their offsets, with the flow's last sequence numbers there: both are of one
moment. Called by `planning.offset_starts`.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.broker_settings import broker_setting
from sparkmirror.kafka.connection import waits_within
from sparkmirror.kafka.log_edges import last_sequences
from sparkmirror.kafka.log_offsets import LogOffsets
from sparkmirror.model import TopicPartition
from sparkmirror.policy.producer_memory import DAY_MS, MEMORY_KEY

_SETTLE_SECONDS: Final = 5.0
_REPLICATE_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.05
_MEMORY_SECONDS: Final = 1.0
"""A broker that is silent tells nothing that the others do not."""


class TargetEnds(NamedTuple):
    """By partition: where its log ends, and the flow's last sequence number up to there, None where its leader knows
    none. Of those that are `growing` the flow itself, another process of it, was appending all the time. `unreplicated`
    are those whose replicas lack what the leader has: nobody can read it."""

    ends: Mapping[TopicPartition, int]
    last_sequences: Mapping[TopicPartition, int | None]
    growing: Collection[TopicPartition] = ()
    unreplicated: Collection[TopicPartition] = ()


def read_ends(
    target: Admin,
    partitions: Collection[TopicPartition],
    producer_id: int,
    known: Callable[[LogOffsets], Mapping[TopicPartition, int]],
) -> TargetEnds:
    """`known` says what becomes of offsets that nobody answers. Each partition is read again until no batch of the flow
    came between: what others append changes no sequence number, and must not hold up the rest. Raises ClusterError,
    AuthorizationFailed without READ on a topic."""
    ends: dict[TopicPartition, int] = {}
    sequences: dict[TopicPartition, int | None] = {}
    before: dict[TopicPartition, int | None] = {}
    due = known(target.log_ends(partitions))
    ends_at = time.monotonic() + _SETTLE_SECONDS
    while due:
        found = last_sequences(target, due, producer_id)
        now = known(target.log_ends(due))
        calm = {
            where
            for where, end in due.items()
            if now.get(where) == end or (where in before and where in found and before[where] == found[where])
        }
        ends |= {where: due[where] for where in calm}
        sequences |= {where: found.get(where) for where in calm}
        due, before = {where: end for where, end in now.items() if where not in calm}, found
        if due and not waits_within(target.connection, _PAUSE_SECONDS, ends_at):
            break
    return TargetEnds(ends, sequences, frozenset(due), _unreplicated(target, ends))


def _unreplicated(target: Admin, ends: Mapping[TopicPartition, int]) -> frozenset[TopicPartition]:
    """Of those whose high watermarks are known: replicas are behind for a moment also where all is well."""
    ends_at, due = time.monotonic() + _REPLICATE_SECONDS, ends
    while due:
        found = target.latest_offsets(due).known
        due = {where: end for where, end in due.items() if found.get(where, end) < end}
        if due and not waits_within(target.connection, _PAUSE_SECONDS, ends_at):
            break
    return frozenset(due)


def producer_memory_ms(target: Admin) -> int:
    """How long the logs know a producer: the least that a broker tells, or the default. Raises ClusterError."""
    told = (one for one in read_memory_ms(target).values() if one is not None)
    return min(told, default=DAY_MS)


def read_memory_ms(target: Admin) -> dict[int, int | None]:
    """What each broker says of it, None where it does not. Raises ClusterError."""
    return {node_id: _memory_ms(target, node_id) for node_id in target.brokers()}


def _memory_ms(target: Admin, node_id: int) -> int | None:
    try:
        return broker_setting(target, node_id, MEMORY_KEY, _MEMORY_SECONDS)
    except ClusterUnreachable:
        return None
