"""What the ledger's records say, folded into positions; pure. Fed by `ledger.reader`."""

from sparkmirror.errors import ProtocolError
from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.positions import PositionRecord, authoritative
from sparkmirror.model import Connector, Position, TopicPartition


class LedgerView:
    """The last value of each key wins, tombstones delete. Holds one flow's connector and source alias only."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._offsets: dict[TopicPartition, int] = {}
        self.records: dict[TopicPartition, PositionRecord] = {}
        self.problems: dict[TopicPartition, str] = {}

    @property
    def positions(self) -> dict[TopicPartition, Position]:
        """Where each partition goes on; partitions in `problems` are left out."""
        found = ((partition, self.position(partition)) for partition in self._offsets)
        return {partition: position for partition, position in found if position is not None}

    def position(self, partition: TopicPartition) -> Position | None:
        """Where one partition goes on; None if nothing is stored or what is stored cannot be read."""
        if partition in self.problems:
            return None
        return authoritative(self._offsets.get(partition), self.records.get(partition))

    def take_connect(self, key: bytes | None, value: bytes | None) -> TopicPartition | None:
        """Folds in a record of Connect's offsets topic; returns the partition it is about, if it is this flow's."""
        partition = connect.decode_key(key, self._connector)
        if partition is not None:
            self._take_offset(partition, value)
        return partition

    def take_ours(self, key: bytes | None, value: bytes | None) -> TopicPartition | None:
        """Folds in a record of the positions topic; one that cannot be read counts as absent, Connect's still holds."""
        match positions.decode_key(key):
            case (self._connector.source_alias, partition):
                self._take_record(partition, value)
                return partition
        return None

    def _take_offset(self, partition: TopicPartition, value: bytes | None) -> None:
        self.problems.pop(partition, None)
        try:
            offset = connect.decode_value(value)
        except ProtocolError as problem:
            self.problems[partition] = f"{partition}: {problem}"
            return
        if offset is None:
            self._offsets.pop(partition, None)
        else:
            self._offsets[partition] = offset

    def _take_record(self, partition: TopicPartition, value: bytes | None) -> None:
        try:
            record = positions.decode_value(value)
        except ProtocolError:
            record = None
        if record is None:
            self.records.pop(partition, None)
        else:
            self.records[partition] = record
