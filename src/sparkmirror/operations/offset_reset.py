"""Which offsets to set for a consumer group whose place is to change: by time, by checkpoint, to an end; pure.

Asked by `cli.offsets`; observed and applied by `operations.offset_reset_job`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.model import TopicPartition, plain


@dataclass(frozen=True, slots=True)
class Move:
    """One partition: where the group stands (None: nowhere) and where it is to stand."""

    partition: TopicPartition
    before: int | None
    after: int

    @property
    def effect(self) -> str:
        """What that means for the group, in words. Transaction markers count as records."""
        if self.before is None:
            return "set"
        distance = self.before - self.after
        if not distance:
            return "as it is"
        return f"{distance} again" if distance > 0 else f"{-distance} skipped"

    def as_json(self) -> dict[str, Any]:
        return plain(self) | {"effect": self.effect}


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """All partitions looked at, and sentences about what is not as was asked."""

    moves: tuple[Move, ...]
    warnings: tuple[str, ...] = ()

    @property
    def commits(self) -> GroupOffsets:
        """What is to be committed: only what moves."""
        return {move.partition: Committed(move.after) for move in self.moves if move.after != move.before}


def plan_reset(
    committed: GroupOffsets,
    wanted: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> ResetPlan:
    """To each partition of `wanted` its offset, kept within the log's start and end.

    A partition whose log nobody knows, that of a deleted topic, is left out and named.
    """
    moves: list[Move] = []
    warnings: list[str] = []
    for partition, offset in sorted(wanted.items()):
        if partition not in starts or partition not in ends:
            warnings.append(f"{partition} is left as it is: the cluster does not say where it begins and ends")
            continue
        after = min(max(offset, starts[partition]), ends[partition])
        if after != offset:
            which = "start" if after > offset else "end"
            warnings.append(f"{partition}: offset {offset} is outside of the log, its {which}, {after}, is taken")
        stands = committed.get(partition)
        moves.append(Move(partition, None if stands is None else stands.offset, after))
    return ResetPlan(tuple(moves), tuple(warnings))
