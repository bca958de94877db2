"""Records for the ledger on their way, where they go, and the lots that they go out in. Pure; made by
`pipeline.produce.progress`."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from sparkmirror.batch.records import RecordHeader
from sparkmirror.ledger import connect
from sparkmirror.ledger.topics import LedgerTopics
from sparkmirror.model import Connector, TopicPartition
from sparkmirror.policy.partitioner import murmur2_partition

_LOT_BYTES_MAX: Final = 512 << 10
_RECORD_OVERHEAD_BYTES_MAX: Final = 32


class Entry(NamedTuple):
    """One record of the ledger; `forget` makes it due again if it was lost, `keep` is called when it is stored for
    good, `holds` says whether it is true before that."""

    key: bytes
    value: bytes
    forget: Callable[[], None]
    headers: tuple[RecordHeader, ...] = ()
    keep: Callable[[], None] | None = None
    holds: Callable[[], bool] | None = None

    @property
    def bytes_max(self) -> int:
        """The most bytes that it takes of a batch."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key) + len(self.value) + headers + _RECORD_OVERHEAD_BYTES_MAX


class LedgerHomes:
    """The partitions of the ledger's topics. The offsets topic has as many as it has, and a position's key says which
    one it goes to."""

    def __init__(self, topics: LedgerTopics, connector: Connector, offsets_partitions: int) -> None:
        names = topics.positions, topics.gaps, topics.offset_map, topics.status
        self.positions, self.gaps, self.maps, self.status = (TopicPartition(name, 0) for name in names)
        self._offsets = topics.offsets
        self._connector = connector
        self._offsets_partitions = offsets_partitions

    def of_position(self, where: TopicPartition) -> tuple[bytes, TopicPartition]:
        """Connect's key of a partition's position, and the partition of the offsets topic that has it."""
        key = connect.encode_key(self._connector, where)
        return key, TopicPartition(self._offsets, murmur2_partition(key, self._offsets_partitions))


def keep_all(stored: Iterable[Entry]) -> None:
    """They are stored for good."""
    for entry in stored:
        if entry.keep is not None:
            entry.keep()


class Uncommitted:
    """The entries that an open transaction stores: all of them are stored for good by its commit, and due again by its
    abort."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}

    def add(self, entries: Iterable[Entry]) -> None:
        self._entries.update((id(entry), entry) for entry in entries)

    @property
    def is_false(self) -> bool:
        """Whether an entry that cannot be corrected by a later one is not true."""
        return any(entry.holds is not None and not entry.holds() for entry in self._entries.values())

    def drop(self, lot: Iterable[Entry]) -> None:
        """The target has refused them: the commit does not store them."""
        for entry in lot:
            self._entries.pop(id(entry), None)

    def keep(self) -> None:
        keep_all(self._entries.values())
        self._entries.clear()

    def forget(self) -> None:
        for entry in self._entries.values():
            entry.forget()
        self._entries.clear()


def lots_of(entries: list[Entry]) -> Iterator[list[Entry]]:
    """Lots that any topic's `max.message.bytes` allows."""
    lot: list[Entry] = []
    size = 0
    for entry in entries:
        if lot and size + entry.bytes_max > _LOT_BYTES_MAX:
            yield lot
            lot, size = [], 0
        lot.append(entry)
        size += entry.bytes_max
    yield lot
