"""The ledger of the flow from the target of a failover back to its source, as operators write it. Used by
`operations.reverse_start` and `operations.parted_logs`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger import connect, gaps, positions
from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.positions import Accepted, PositionRecord
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.setup import count_offsets_partitions, ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Cluster, Connector, Position, TopicPartition
from sparkmirror.operations.kept_return import KeptReturn
from sparkmirror.policy.partitioner import murmur2_partition


class ReverseLedger:
    """The ledger of the flow from the target back to the source, on the source."""

    def __init__(self, flow: FlowConfig, source: Admin) -> None:
        self.connector = Connector.of_dedicated_mode(flow.name.target)
        self.topics = ledger_topics(flow.name.target, replication_factor=flow.offset_storage_replication_factor)
        self._cluster = Cluster(flow.source.alias, flow.source.client)
        self._source = source

    def read(self) -> LedgerView:
        """Also where a MirrorMaker alone has run so far; up to the ends that the newest leaders tell which several
        brokers know: a former one lacks what was written since. Raises ClusterError, and SparkMirrorError where a
        position of it cannot be read."""
        view = LedgerView(self.connector)
        if self._source.list_known_topics([self.topics.offsets, self.topics.positions]):
            with LedgerReader(self._cluster, self.topics, self.connector, is_ours_needed=False) as ledger:
                ledger.read_through(self._source)
                view = ledger.view
        for where, problem in view.problems.items():
            raise SparkMirrorError(f"The reverse flow's start is not known, {where}: {problem}")
        return view

    def ensure(self) -> None:
        """Makes its topics: the flow may never have run."""
        ensure_ledger_topics(self._source, self.topics)

    def write(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Positions in the format of Connect's own tools; None deletes one."""
        partitions = count_offsets_partitions(self._source, self.topics)
        records = [
            (connect.encode_key(self.connector, where), None if offset is None else connect.encode_value(offset))
            for where, offset in offsets.items()
        ]
        self._publish(self.topics.offsets, records, place=lambda key: murmur2_partition(key, partitions))

    def write_ours(self, records: Mapping[TopicPartition, str | None]) -> None:
        """Position records, encoded; None deletes one."""
        values = [
            (positions.encode_key(self.connector.source_alias, where), None if record is None else record.encode())
            for where, record in records.items()
        ]
        self._publish(self.topics.positions, values)

    def write_accepted(self, records: Mapping[TopicPartition, Accepted | None]) -> None:
        """What a person accepts; None takes it back."""
        values = [
            (
                positions.accepted_key(self.connector.source_alias, where),
                None if one is None else positions.encode_accepted(one),
            )
            for where, one in records.items()
        ]
        self._publish(self.topics.positions, values)

    def write_gaps(self, found: Iterable[Gap]) -> None:
        alias = self.connector.source_alias
        self._publish(self.topics.gaps, [(gaps.encode_key(alias, one), gaps.encode_value(one)) for one in found])

    def _publish(
        self, topic: str, records: Sequence[tuple[bytes, bytes | None]], place: Callable[[bytes], int] | None = None
    ) -> None:
        if records:
            publish(self._cluster, topic, records, place=place)

    def next_generation(self) -> int:
        """The generation of what is written now: a planner's that begins later is greater."""
        return max((tenure.generation for tenure in self.read().tenures()), default=0) + 1


def kept_record(one: KeptReturn, generation: int, run: str) -> PositionRecord:
    """The reverse flow stands at the end of the old primary's log, at the same offsets."""
    extent = Extent(one.partition.topic, one.home_id, one.start)
    stands_at = Position(one.start, topic_id=one.away_id)
    return PositionRecord(stands_at, generation, 0, released=True, run=run, extent=extent, is_aligned=True)
