"""Translates committed offsets of one flow, and checks them against the target's log; pure (invariant 7).

Translates by the offset map, below it by offset syncs, and on the way home by the opposite flow's map. A topic of the
target that is deleted and made again has another id; one that an unclean election cut is shorter than the map.
`sync.offset_state` observes both. A partition with an unknown log is not among the logs, and nothing is written for it.
Called by `ledger.checkpoints` and the CLI.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.map_records import MapView
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.ledger.offset_map import OffsetMap, Translation
from sparkmirror.ledger.positions import Accepted, PositionRecord
from sparkmirror.ledger.syncs import NOT_COVERED, OffsetSyncStore
from sparkmirror.model import NO_TOPIC_ID, FlowName, TopicPartition, is_another_topic
from sparkmirror.policy.naming import ReplicationPolicy


class MapBegin(NamedTuple):
    """Where the map of one topic of the source begins: its id, its first offset that translates, and the place of that
    on the target, or one before it."""

    source_id: UUID
    upstream: int
    downstream: int


@dataclass(frozen=True, slots=True)
class Translated:
    """A translated position: the target's partition and offset, and whether the offset is exact.

    `topic_id` is the target's topic that the map is of, NO_TOPIC_ID where it does not say. `cut` says that the log is
    another one, or shorter, than the map has it (`ledger.target_logs`). `records_end` is set where no record lies
    between it and `offset`; `at_most` where a position that is not exact surely lies at it or before. `is_kept` says
    that it is the source's offset itself, which says nothing of any other topic. `begin` is that of the map, where it
    names the source's topic.
    """

    partition: TopicPartition
    offset: int
    exact: bool
    topic_id: UUID = NO_TOPIC_ID
    cut: bool = False
    records_end: int | None = field(default=None, compare=False)
    at_most: int | None = field(default=None, compare=False)
    is_kept: bool = False
    begin: MapBegin | None = field(default=None, compare=False)

    def lies_before(self, offset: int) -> bool:
        """Surely: one that is merely lower, because less is known than before, proves nothing."""
        if self.exact or self.cut:
            return self.offset < offset
        return self.at_most is not None and self.at_most < offset


def keeps_none(_: str) -> bool:
    """Of a flow that keeps no offsets, or scatters no topic."""
    return False


@dataclass(frozen=True, slots=True)
class Translator:
    """`maps` and `syncs` are of the flow, `opposite` the maps of the flow from target to source, if there is one.

    Of topics whose offsets the flow `keeps`, the position records are `kept`: up to a stored position, in the topic
    that it was stored for, a group's place on the source is its place on the target. Where it is `accepted` that the
    logs part, it is so up to there, and the map tells what follows.

    Of a topic that `is_scattered`, put into other partitions than its own, nothing is known: a partition of the target
    has records of several of the source's, of which a group may have read one and not another.
    """

    flow: FlowName
    policy: ReplicationPolicy
    maps: MapView
    syncs: OffsetSyncStore = field(default_factory=OffsetSyncStore)
    opposite: MapView | None = None
    kept: Mapping[TopicPartition, PositionRecord] = field(default_factory=dict)
    keeps: Callable[[str], bool] = keeps_none
    accepted: Mapping[TopicPartition, Accepted] = field(default_factory=dict)
    is_scattered: Callable[[str], bool] = keeps_none

    def translate(self, partition: TopicPartition, offset: int) -> Translated | None:
        """None where nothing is known. The answer never lies beyond the truth (invariant 7), as long as the target has
        the log that the map is of: `ledger.target_logs` settles that."""
        home = self._home(partition)
        if home is not None:
            return self._back(home, offset)
        if self.is_scattered(partition.topic):
            return None
        remote = TopicPartition(self.policy.format_remote_topic(self.flow.source, partition.topic), partition.partition)
        found = self.maps.map_of(partition)
        topic_id = NO_TOPIC_ID if found is None else found.topic_id
        if self.keeps(partition.topic):
            parted = self._parted(partition)
            if parted is None:
                return _keep(self.kept.get(partition), remote, offset, topic_id)
            if offset < parted.parted_at or topic_id != parted.topic_id:
                return _keep_before(parted, remote, offset)
        answer = self._answer(remote, self._forth(found, partition, offset), topic_id)
        if answer is None or found is None:
            return answer
        at_most = None if answer.exact else found.at_most(offset)
        begin = MapBegin(found.source_id, found.begin, found.segments[0].target)
        return replace(answer, records_end=found.records_end(offset), at_most=at_most, begin=begin)

    def _parted(self, partition: TopicPartition) -> Accepted | None:
        """What was accepted counts no more once the topic was made again, and keeps its offsets."""
        record = self.kept.get(partition)
        return None if record is not None and record.is_aligned else self.accepted.get(partition)

    def remote(self, partition: TopicPartition) -> TopicPartition:
        """The target's partition that offsets of `partition` translate to."""
        topic = self.policy.format_remote_topic(self.flow.source, partition.topic)
        return self._home(partition) or TopicPartition(topic, partition.partition)

    def _forth(self, found: OffsetMap | None, partition: TopicPartition, offset: int) -> Translation | None:
        if found is not None and (translated := found.translate(offset)) is not None:
            return translated
        synced = self.syncs.translate(partition, offset)
        if synced is None or synced == NOT_COVERED:
            return None
        return Translation(synced if found is None else min(synced, found.segments[0].target), False)

    def _home(self, partition: TopicPartition) -> TopicPartition | None:
        """The target's own partition that `partition` was mirrored from: a group returns to where it came from.

        One hop back, where MirrorMaker strips all (`MirrorCheckpointTask.renameTopicPartition`).
        """
        if self.opposite is None or self.policy.topic_source(partition.topic) != self.flow.target:
            return None
        topic = self.policy.upstream_topic(partition.topic)
        return None if topic is None else TopicPartition(topic, partition.partition)

    def _back(self, home: TopicPartition, offset: int) -> Translated | None:
        """In the topic that was the opposite flow's source: one that was made again since has another id."""
        found = self.opposite.map_of(home) if self.opposite is not None else None
        return None if found is None else self._answer(home, found.translate_back(offset), found.source_id)

    @staticmethod
    def _answer(partition: TopicPartition, found: Translation | None, topic_id: UUID) -> Translated | None:
        return None if found is None else Translated(partition, found.offset, found.exact, topic_id)


def _keep(record: PositionRecord | None, remote: TopicPartition, offset: int, topic_id: UUID) -> Translated | None:
    """The offset itself, up to the stored position. The map's topic counts where no batch was acknowledged since the
    start."""
    if record is None or not record.is_aligned:
        return None
    at = min(offset, record.position.offset)
    written_to = topic_id if record.extent is None else record.extent.topic_id
    return Translated(remote, at, exact=at == offset, topic_id=written_to, at_most=offset, is_kept=True)


def _keep_before(parted: Accepted, remote: TopicPartition, offset: int) -> Translated:
    """The offset itself up to where the logs part. What follows lies behind that, where the map does not tell."""
    at = min(offset, parted.parted_at)
    return Translated(remote, at, exact=offset < parted.parted_at, topic_id=parted.topic_id, is_kept=True)


Translate = Callable[[TopicPartition, int], Translated | None]


TargetLogs = Mapping[TopicPartition, Extent]
"""Each partition's topic, its id and the log's end, as the target says now."""


def is_former(topic_id: object, log: Extent) -> bool:
    """Whether something known of a topic is of another one than has the name now; False where either id is unknown."""
    return is_another_topic(topic_id, log.topic_id)


def settle(found: Translated, log: Extent) -> Translated:
    """The translation limited to the log: the log's beginning if it is another log, its end if it is shorter.

    Such an answer lies before the true one, or at it, and says that it is `cut`.
    """
    if is_former(found.topic_id, log):
        return replace(found, offset=0, exact=False, cut=True)
    if found.offset > log.end:
        return replace(found, offset=log.end, exact=False, cut=True)
    return found


def settle_known(found: Translated | None, logs: TargetLogs) -> Translated | None:
    """`settle`; None where the translation or the log is not known, and of kept offsets in another topic."""
    log = None if found is None else logs.get(found.partition)
    if found is None or log is None:
        return None
    is_elsewhere = found.is_kept and (found.topic_id == NO_TOPIC_ID or found.topic_id != log.topic_id)
    return None if is_elsewhere else settle(found, log)


def is_stale(checkpoint: Checkpoint, now: Translated | None, log: Extent) -> bool:
    """Whether a checkpoint is of a log that no longer exists: it lies beyond the log's end, or beyond the translation.

    `now` is its source offset as it translates today, settled.
    """
    return checkpoint.downstream > log.end or (now is not None and now.lies_before(checkpoint.downstream))


def downstream_now(
    checkpoint: Checkpoint, now: Translated | None, logs: TargetLogs, *, keeps_offsets: bool = False
) -> int | None:
    """Where a checkpoint puts its group in the present log; None if unknown. Of a topic that `keeps_offsets` no
    checkpoint counts without a translation."""
    log = logs.get(checkpoint.partition)
    if log is None or (keeps_offsets and now is None):
        return None
    if not is_stale(checkpoint, now, log):
        return checkpoint.downstream
    return 0 if now is None else now.offset
