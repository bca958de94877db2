"""Follows a flow's offset records: its maps, the opposite flow's maps, syncs and checkpoints; of a flow that keeps
offsets its positions too.

Read once and then followed, by `sync.offset_job` and the CLI. `ledger.translate` turns it into answers.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Self

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import TopicFollower, open_tail
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.ledger.checkpoints import Checkpoints, Places, note_place
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.map_records import MapView
from sparkmirror.ledger.mirror_records import Checkpoint, OffsetSync
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.setup import mirror_topics
from sparkmirror.ledger.syncs import OffsetSyncStore
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.ledger.translate import TargetLogs, Translated, Translator, downstream_now, settle_known
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Cluster, TopicPartition


class OffsetState:
    """Follows the topics of one flow. The admins are the caller's; a context manager, for one thread."""

    def __init__(self, flow: FlowConfig, source: Admin | None, target: Admin) -> None:
        """Reads what there is. Raises ClusterError; a topic that is not there yet is looked for again.

        Without a `source` that answers, the records on the target are used alone: the map and the checkpoints.
        """
        self._flow = flow
        self._source = source
        self._target = target
        self._open = ExitStack()
        self._names = mirror_topics(flow.name, flow.policy, flow.offsets.syncs_location)
        self.maps = MapView(flow.name.source)
        self.opposite = MapView(flow.name.target)
        self.syncs = OffsetSyncStore()
        self.last_syncs: dict[TopicPartition, OffsetSync] = {}
        self.checkpoints: Checkpoints = {}
        self.places: Places = {}
        self.checkpoint_times_ms: dict[tuple[str, TopicPartition], int] = {}
        self._ledger = LedgerView(flow.connector)
        self._positions: TopicFollower | None = None
        if flow.preserves_offsets:
            self._positions = TopicFollower(flow.target, target, flow.ledger_topics.positions, "offsets")
            self._open.callback(self._positions.close)
        known = self.maps, self.syncs, self.opposite, self._ledger.records
        accepted = self._ledger.accepted
        self.scattered: frozenset[str] = frozenset()
        """Topics of the source whose records stand in other partitions of the target than they do there: a transform
        sets the partition, or they are put by key into another number of partitions."""
        self.translator = Translator(
            flow.name, flow.policy, *known, keeps=flow.keeps_offsets, accepted=accepted,
            is_scattered=lambda topic: topic in self.scattered,
        )  # fmt: skip
        self._maps = TopicFollower(flow.target, target, flow.ledger_topics.offset_map, "offsets")
        back = ledger_topics(flow.name.target).offset_map
        self._opposite = None if source is None else TopicFollower(flow.source, source, back, "offsets")
        self._open.callback(self._maps.close)
        self._checkpoints = TopicFollower(flow.target, target, self._names.checkpoints, "offsets")
        self._open.callback(self._checkpoints.close)
        self._syncs: TopicFollower | None = None
        cluster, admin = self._syncs_at()
        if admin is not None and not flow.offsets.emit_syncs:
            self._syncs = TopicFollower(cluster, admin, self._names.syncs, "offsets")
            self._open.callback(self._syncs.close)
        if self._opposite is not None:
            self._open.callback(self._opposite.close)
        try:
            self._read_once()
        except BaseException:
            self.close()  # what a follower has opened has a thread, which would go on asking brokers
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._open.close()

    def _syncs_at(self) -> tuple[Cluster, Admin | None]:
        """The cluster with the offset syncs, and its admin."""
        flow = self._flow
        return (flow.source, self._source) if self._names.syncs_on_source else (flow.target, self._target)

    def follow(self) -> set[TopicPartition]:
        """Takes in what is new; the source partitions whose maps changed. Raises ClusterError."""
        if self._syncs is not None:
            self._follow_syncs(self._syncs)
        self._follow_checkpoints()
        for record in self._opposite.read() if self._opposite is not None else ():
            self.opposite.take(record.key, record.value)
        for record in self._positions.read() if self._positions is not None else ():
            self._ledger.take_ours(record.key, record.value, record.place)
        taken = (self.maps.take(record.key, record.value) for record in self._maps.read())
        changed = {partition for partition in taken if partition is not None}
        if self._flow.transforms.sets_partition:
            self.scattered = frozenset(where.topic for where in self.maps.partitions)
        elif self._flow.partitioning == "key":
            self.scattered = self._find_scattered()
        return changed

    def _find_scattered(self) -> frozenset[str]:
        """Of the topics that have a map. Without the source, its partitions are those of which something is mapped."""
        counts: dict[str, int] = {}
        for where in self.maps.partitions:
            counts[where.topic] = max(counts.get(where.topic, 0), where.partition + 1)
        if self._source is not None:
            counts |= {name: topic.partitions for name, topic in self._source.list_topics(counts).items()}
        remote = {name: self._flow.remote_topic(name) for name in counts}
        there = self._target.list_topics(remote.values())
        alike = {name for name, at in remote.items() if at in there and there[at].partitions == counts[name]}
        return frozenset(counts.keys() - alike)

    def sources(self) -> dict[TopicPartition, TopicPartition]:
        """The partition on the source of each one on the target that a map or a kept position names."""
        known = (*self.maps.partitions, *self._ledger.records, *self._homeward())
        return {self.translator.remote(where): where for where in known}

    def now(
        self, checkpoint: Checkpoint, sources: Mapping[TopicPartition, TopicPartition], logs: TargetLogs
    ) -> int | None:
        """Where a checkpoint puts its group in the log that is there; None where that is not known."""
        source = sources.get(checkpoint.partition)
        found = None if source is None else self.settled(source, checkpoint.upstream, logs)
        topic = self._flow.policy.upstream_topic(checkpoint.partition.topic) if source is None else source.topic
        keeps = self._flow.preserves_offsets if topic is None else self._flow.keeps_offsets(topic)
        return downstream_now(checkpoint, found, logs, keeps_offsets=keeps)

    def keeps_offsets(self, partition: TopicPartition) -> bool:
        """Whether the stored position was reached with all records at their own offsets."""
        record = self._ledger.records.get(partition)
        return self._flow.keeps_offsets(partition.topic) and record is not None and record.is_aligned

    @property
    def records(self) -> Mapping[TopicPartition, PositionRecord]:
        """The stored positions of a flow that keeps offsets: `operations.identical_offsets` judges them."""
        return self._ledger.records

    def _homeward(self) -> list[TopicPartition]:
        """The partitions that came from the target, by their names on the source."""
        policy, alias = self._flow.policy, self._flow.name.target
        return [
            TopicPartition(policy.format_remote_topic(alias, home.topic), home.partition)
            for home in self.opposite.partitions
        ]

    def settled(self, partition: TopicPartition, offset: int, logs: TargetLogs) -> Translated | None:
        """A translation within the logs that the target has now; None where either is unknown."""
        return settle_known(self.translator.translate(partition, offset), logs)

    def _read_once(self) -> None:
        """Syncs are our own to write from here on, and need not be followed; where the flow writes none, another
        MirrorMaker may."""
        cluster, admin = self._syncs_at()
        if self._syncs is not None:
            self._follow_syncs(self._syncs)
        elif admin is not None:
            for record in _read_all(cluster, admin, self._names.syncs):
                self._take_sync(record)
        self._follow_checkpoints()

    def _follow_checkpoints(self) -> None:
        """Our own, and those of a mirror that another has replaced and that wakes up late: its older map puts groups
        elsewhere, and what it wrote has to be written again."""
        for record in self._checkpoints.read():
            self._take_checkpoint(record)

    def _follow_syncs(self, syncs: TopicFollower) -> None:
        for record in syncs.read():
            self._take_sync(record)

    def _take_sync(self, record: TailRecord) -> None:
        try:
            sync = OffsetSync.parse(record.key, record.value)
        except ProtocolError:
            return  # As MirrorMaker does: others may have written there.
        self.syncs.add(sync)
        self.last_syncs[sync.partition] = sync

    def _take_checkpoint(self, record: TailRecord) -> None:
        try:
            checkpoint = Checkpoint.parse(record.key, record.value)
        except ProtocolError:
            return  # As above (`CheckpointStore`).
        self.checkpoints[checkpoint.group, checkpoint.partition] = checkpoint
        note_place(self.places, checkpoint)
        self.checkpoint_times_ms[checkpoint.group, checkpoint.partition] = record.timestamp_ms


def read_target_logs(target: Admin, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Extent]:
    """The target's logs as they are now; one that is not there, or whose leader does not answer, is left out.

    The ids are asked last, and the map is read before: a log that is made again in between is then never taken for the
    one that the map is of. Raises ClusterError.
    """
    return target_logs(target, target.latest_offsets(partitions).known)


def target_logs(target: Admin, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, Extent]:
    """Logs that end there, with their topics' ids. Raises ClusterError."""
    topics = target.list_topics({where.topic for where in ends}) if ends else {}
    return {
        where: Extent(where.topic, topics[where.topic].topic_id, end)
        for where, end in ends.items()
        if where.topic in topics
    }


def _read_all(cluster: Cluster, admin: Admin, topic: str) -> Sequence[TailRecord]:
    if not admin.list_topics([topic]):
        return ()
    with open_tail(cluster, "offsets", [TopicPartition(topic, 0)]) as tail:
        return tail.read_to_end()
