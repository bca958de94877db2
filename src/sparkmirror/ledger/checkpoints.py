"""Which checkpoints to write, and which group offsets to commit on the target; pure. Asked by `sync.offset_job`.

Rules of `MirrorCheckpointTask` in connect-mirror 4.3, but for group offsets: there, a group that is not empty on the
target is overwritten without a look; here only what moves a group forward is ever committed (invariant 7).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.ledger.translate import Translate
from sparkmirror.model import TopicPartition

Checkpoints = dict[tuple[str, TopicPartition], Checkpoint]
"""The last checkpoint of each group and target partition."""


@dataclass(frozen=True, slots=True)
class GroupWrite:
    """Offsets to commit for one group on the target."""

    group: str
    offsets: GroupOffsets


def plan_checkpoints(
    committed: Mapping[str, GroupOffsets], last: Mapping[tuple[str, TopicPartition], Checkpoint], translate: Translate
) -> list[Checkpoint]:
    """Checkpoints of what moved: forward on the target, or backward on the source (`checkpointsForGroup`).

    A translation that is merely lower than the last one, because less is known than before, is not written.
    """
    plan: list[Checkpoint] = []
    for group, offsets in committed.items():
        for partition, committed_here in offsets.items():
            offset = committed_here.offset
            translated = translate(partition, offset) if offset >= 0 else None
            if translated is None:
                continue
            found = Checkpoint(group, translated.partition, offset, translated.offset, committed_here.metadata)
            before = last.get((group, translated.partition))
            if before is None or offset < before.upstream or translated.offset > before.downstream:
                plan.append(found)
    return plan


def plan_group_writes(
    checkpoints: Mapping[str, Mapping[TopicPartition, Checkpoint]],
    active: frozenset[str],
    on_target: Mapping[str, GroupOffsets],
) -> list[GroupWrite]:
    """What to commit: for groups without members on the target, where they stand before their checkpoint or nowhere.

    `on_target` must hold every group that is to be looked at: one that could not be read is left alone.
    """
    plan: list[GroupWrite] = []
    for group, wanted in checkpoints.items():
        if group in active or group not in on_target:
            continue
        offsets = {
            partition: Committed(checkpoint.downstream, checkpoint.metadata)
            for partition, checkpoint in wanted.items()
            if is_forward(on_target[group].get(partition), checkpoint.downstream)
        }
        if offsets:
            plan.append(GroupWrite(group, offsets))
    return plan


def is_forward(committed: Committed | None, offset: int) -> bool:
    """Whether `offset` would move a partition of a group forward. -1 is what a client commits to forget."""
    return committed is None or committed.offset < offset
