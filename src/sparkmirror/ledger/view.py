"""Folds the ledger's records into positions; pure. `ledger.reader` feeds it."""

from collections.abc import Iterable, Iterator

from sparkmirror.errors import ProtocolError
from sparkmirror.ledger import connect, misplaced, positions
from sparkmirror.ledger.chosen_starts import ChosenStart, decode_start, decode_start_key
from sparkmirror.ledger.copies import Mark
from sparkmirror.ledger.misplaced import Misplaced
from sparkmirror.ledger.positions import Accepted, PositionRecord, Tenure, authoritative
from sparkmirror.model import Connector, Position, Topic, TopicPartition

Headers = Iterable[tuple[str, bytes | None]]


class LedgerView:
    """The last value of each key wins, tombstones delete. Holds one flow's connector and source alias only.

    An unreadable record makes its partition's position unknown, not absent: no planner may start it as a new one.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._offsets: dict[TopicPartition, Position] = {}
        self._written_by: dict[TopicPartition, int] = {}
        self._deleted: set[TopicPartition] = set()
        """Partitions whose record of Connect's says that there is no position."""
        self.last_sequence = 0
        """The greatest in a mark (`ledger.copies`), of whatever generation: each task has its own."""
        self.records: dict[TopicPartition, PositionRecord] = {}
        self._tenures: dict[TopicPartition, Tenure] = {}
        self._unreadable_offsets: dict[TopicPartition, str] = {}
        self._unreadable_records: dict[TopicPartition, str] = {}
        self.unknown_tenures: dict[TopicPartition, str] = {}
        """Records in our format without a readable generation, each as a sentence."""
        self.accepted: dict[TopicPartition, Accepted] = {}
        self.misplaced: dict[TopicPartition, dict[Misplaced, str]] = {}
        """Offsets that hold what does not belong there, each with the reason."""
        self.starts: dict[TopicPartition, ChosenStart] = {}
        """Of two processes that chose at once the one that begins earlier counts."""
        self.last_starts: dict[TopicPartition, ChosenStart] = {}
        """Those that compaction will leave."""
        self.offsets_producer: int | None = None
        """The producer id of a flow that keeps offsets: the first one, where two processes began at the same time."""
        self.last_offsets_producer: int | None = None
        """The one that compaction will leave."""

    @property
    def positions(self) -> dict[TopicPartition, Position]:
        """The position of each partition; partitions in `problems` are left out."""
        found = ((partition, self.position(partition)) for partition in {**self._offsets, **self.records})
        return {partition: position for partition, position in found if position is not None}

    @property
    def known(self) -> set[TopicPartition]:
        """All partitions that have a record, whatever it says."""
        return {*self._offsets, *self.records, *self.problems}

    @property
    def problems(self) -> dict[TopicPartition, str]:
        """Partitions whose position is unknown: which record cannot be read, and what to do, in sentences."""
        return self._unreadable_records | self._unreadable_offsets

    def position(self, partition: TopicPartition) -> Position | None:
        """One partition's position; None if none is stored or the stored one cannot be read.

        Where Connect's topic has no record of it, ours counts: that topic was cut, or made again.
        """
        if partition in self._unreadable_offsets or partition in self._unreadable_records:
            return None
        if self._lacks_connect(partition):
            return self.records[partition].position
        generation = self._written_by.get(partition)
        return authoritative(self._offsets.get(partition), self.records.get(partition), generation)

    @property
    def without_connect(self) -> set[TopicPartition]:
        """Partitions of which there is a record of ours, and none of Connect's, not even that of a deletion."""
        return {partition for partition in self.records if self._lacks_connect(partition)}

    def _lacks_connect(self, partition: TopicPartition) -> bool:
        has_one = partition in self._offsets or partition in self._deleted or partition in self._unreadable_offsets
        return partition in self.records and not has_one

    def is_whole(self, partition: TopicPartition) -> bool:
        """Whether Connect's record and ours of its position agree: one may still be on its way, or never come. A record
        of Connect's that does not count beside ours takes nothing away, and one that is lost is not missed beside a
        release, which comes behind it, or with it in a transaction."""
        position, record = self._offsets.get(partition), self.records.get(partition)
        if position is None or record is None:
            return record is not None and record.released and self._lacks_connect(partition)
        return position.offset == record.position.offset or record.outdates(self._written_by.get(partition))

    def tenures(self) -> Iterator[Tenure]:
        """The writers of the readable records in our format; see `unknown_tenures`."""
        yield from self._tenures.values()

    def take_connect(
        self, key: bytes | None, value: bytes | None, place: str = "", headers: Headers = ()
    ) -> TopicPartition | None:
        """Folds in a record of Connect's offsets topic; returns the partition it is about, if it is this flow's.

        `place` says where the record lies, for people.
        """
        partition = connect.decode_key(key, self._connector)
        if partition is not None:
            self._take_offset(partition, value, place, headers)
        return partition

    def take_ours(self, key: bytes | None, value: bytes | None, place: str = "") -> TopicPartition | None:
        """Folds in a record of the positions topic, as `take_connect` does."""
        if key == positions.producer_key(self._connector.source_alias):
            self._take_producer(value)
            return None
        match positions.decode_accepted_key(key):
            case (self._connector.source_alias, partition):
                self._take_accepted(partition, value)
                return None
        match misplaced.decode_key(key):
            case (self._connector.source_alias, partition, found):
                self._take_misplaced(partition, found, misplaced.decode_reason(value))
                return None
        match decode_start_key(key):
            case (self._connector.source_alias, partition):
                self._take_start(partition, value)
                return None
        match positions.decode_key(key):
            case (self._connector.source_alias, partition):
                self._take_record(partition, value, place)
                return partition
        return None

    def has_accepted(self, partition: TopicPartition, remote: Topic | None) -> bool:
        """Whether it is accepted that the partition's log parts from that of the target's topic as it is now."""
        found = self.accepted.get(partition)
        return found is not None and remote is not None and found.topic_id == remote.topic_id

    def _take_accepted(self, partition: TopicPartition, value: bytes | None) -> None:
        self.accepted.pop(partition, None)
        found = positions.decode_accepted(value)
        if found is not None:
            self.accepted[partition] = found

    def _take_misplaced(self, partition: TopicPartition, found: Misplaced, reason: str | None) -> None:
        known = self.misplaced.setdefault(partition, {})
        known.pop(found, None)
        if reason is not None:
            known[found] = reason

    def _take_start(self, partition: TopicPartition, value: bytes | None) -> None:
        found, known = decode_start(value), self.starts.pop(partition, None)
        self.last_starts.pop(partition, None)
        if found is not None:
            self.last_starts[partition] = self.starts[partition] = found
            if known is not None and known.is_same(found) and known.offset < found.offset:
                self.starts[partition] = known

    def _take_producer(self, value: bytes | None) -> None:
        """What cannot be read changes nothing: a log is written with one producer id for good."""
        found = positions.decode_producer(value)
        self.last_offsets_producer = found
        if value is None or self.offsets_producer is None:
            self.offsets_producer = found

    def _take_offset(self, partition: TopicPartition, value: bytes | None, place: str, headers: Headers) -> None:
        self._unreadable_offsets.pop(partition, None)
        self._offsets.pop(partition, None)
        self._written_by.pop(partition, None)
        self._deleted.discard(partition)
        headers = tuple(headers)
        try:
            offset = connect.decode_value(value)
            position = None if offset is None else positions.decode_log(offset, headers)
        except ProtocolError as problem:
            key = connect.encode_key(self._connector, partition).decode()
            self._unreadable_offsets[partition] = (
                f"its position is unknown: {_at(place)}{problem} Write the offset of the last mirrored record as "
                f'{{"offset":N}} under the key {key}, or a tombstone: then it begins by auto.offset.reset.'
            )
            return
        if position is None:
            self._deleted.add(partition)
        else:
            self._offsets[partition] = position
        if (mark := Mark.read(headers)) is not None:
            self._written_by[partition] = mark.generation
            self.last_sequence = max(self.last_sequence, mark.sequence)

    def _take_record(self, partition: TopicPartition, value: bytes | None, place: str) -> None:
        for known in (self.records, self._tenures, self._unreadable_records, self.unknown_tenures):
            known.pop(partition, None)
        try:
            record = positions.decode_value(value)
        except ProtocolError as problem:
            self._note_unreadable(partition, value or b"", f"{_at(place)}{problem}")
            return
        if record is not None:
            self.records[partition] = record
            self._tenures[partition] = Tenure(record.generation, record.task, record.run)

    def _note_unreadable(self, partition: TopicPartition, value: bytes, problem: str) -> None:
        key = positions.encode_key(self._connector.source_alias, partition).decode()
        mend = f"Write a tombstone under the key {key}"
        self._unreadable_records[partition] = (
            f"its position is unknown: {problem} {mend}: then Connect's offset counts alone."
        )
        try:
            self._tenures[partition] = positions.decode_tenure(value)
        except ProtocolError:
            self.unknown_tenures[partition] = f"{problem} Make sure that no other instance runs. {mend}."


def _at(place: str) -> str:
    return f"{place}: " if place else ""
