"""Reads the log of commits, `__consumer_offsets`, to find whether our commit overwrote one that we had not seen.

Kafka's OffsetCommit knows no compare-and-set, so between reading a group's offset and committing a higher one, a
consumer may have committed one that is higher still, or somebody may have put the group back. Only the log of commits
still shows it. Used by `sync.group_sync`.
Record formats: OffsetCommitKey.json and OffsetCommitValue.json of Apache Kafka 4.3.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from struct import Struct
from struct import error as StructError

from sparkmirror.errors import AuthorizationFailed, ClusterUnreachable, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.kafka.tail import TailRecord, read_range
from sparkmirror.model import TopicPartition

Commit = tuple[str, TopicPartition, Committed]
"""Group, partition, and committed offset."""

log = logging.getLogger(__name__)

COMMITS_TOPIC = "__consumer_offsets"
_KEY_VERSIONS = (0, 1)
_EPOCH_VERSION = 3
_COMPACT_VERSION = 4
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_INT32_MASK = 0xFFFFFFFF
_VARINT_BYTES_MAX = 5
"""A longer one is hostile: its value would be a number of as many bits as the record has."""


class CommitLog:
    """The log of one cluster. Without the right to see the topic and to read it no commit is found, which is logged
    once."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._told = False

    def ends(self) -> dict[TopicPartition, int]:
        """Where the log ends now, all its partitions, to be taken before the groups' offsets are read.

        Raises ClusterError: an end that is unknown cannot be read from.
        """
        return self._admin.await_latest_offsets(TopicPartition(COMMITS_TOPIC, at) for at in range(self._partitions()))

    def _partitions(self) -> int:
        found = self._admin.list_topics([COMMITS_TOPIC]).get(COMMITS_TOPIC)
        return found.partitions if found else 0

    def overtaken(
        self,
        before: Mapping[TopicPartition, int],
        seen: Mapping[str, GroupOffsets],
        written: Mapping[str, GroupOffsets],
    ) -> dict[str, GroupOffsets]:
        """What others committed since `before` and `written`, our own commits, may not take the place of.

        `seen` is where the groups stood when `written` was planned (`overwritten`). A partition of the log that only
        our own commits have made longer is not read. Raises ClusterError.
        """
        partitions = self._partitions()
        if not partitions:
            self._tell(
                AuthorizationFailed(
                    f"Cluster {self._admin.alias} shows no topic {COMMITS_TOPIC}.",
                    "Grant READ on it to the mirror's principal.",
                )
            )
            return {}
        ours: dict[TopicPartition, int] = defaultdict(int)
        for group, offsets in written.items():
            ours[TopicPartition(COMMITS_TOPIC, commits_partition(group, partitions))] += len(offsets)
        try:
            ends = self._admin.await_latest_offsets(ours)
        except ClusterUnreachable as problem:
            self._tell(problem)
            return {}
        found: dict[str, GroupOffsets] = {}
        for partition, count in ours.items():
            first, end = before.get(partition, 0), ends.get(partition, 0)
            if end - first > count:
                found |= overwritten(self._commits(partition, first, end), seen, written)
        return found

    def _commits(self, partition: TopicPartition, first: int, end: int) -> list[Commit]:
        try:
            records = read_range(self._admin.connection.settings, partition, first, end)
        except SparkMirrorError as problem:
            self._tell(problem)
            return []
        return [commit for record in records if (commit := parse_commit(record)) is not None]

    def _tell(self, problem: SparkMirrorError) -> None:
        """Log a problem once."""
        if not self._told:
            self._told = True
            log.warning("A commit that crosses ours on %s cannot be restored: %s", self._admin.alias, problem)


def overwritten(
    commits: Iterable[Commit], seen: Mapping[str, GroupOffsets], written: Mapping[str, GroupOffsets]
) -> dict[str, GroupOffsets]:
    """From commits in the log's order: the last foreign one before ours, unless another commit follows.

    It is restored if it is higher than ours, or if it put the group back: ours was planned for where it stood before.
    One between the two is a step on the way to ours.
    """
    logs: dict[tuple[str, TopicPartition], list[Committed]] = defaultdict(list)
    for group, partition, committed in commits:
        if partition in written.get(group, {}):
            logs[group, partition].append(committed)
    lost: dict[str, dict[TopicPartition, Committed]] = defaultdict(dict)
    for (group, partition), log_of in logs.items():
        own = written[group][partition]
        *earlier, last = log_of
        while earlier and earlier[-1] == own:  # it was sent again, or another process of the flow committed the same
            earlier.pop()
        if last != own or not earlier:
            continue
        stood = seen.get(group, {}).get(partition)
        highest = max(one.offset for one in (*earlier, *((stood,) if stood else ())))
        foreign = earlier[-1]
        if foreign.offset > own.offset or foreign.offset < highest:
            lost[group][partition] = foreign
    return dict(lost)


def commits_partition(group: str, partitions: int) -> int:
    """`GroupCoordinator.partitionFor`: Java's hash of the group's name."""
    hashed = 0
    units = group.encode("utf-16-be")
    for at in range(0, len(units), 2):
        hashed = (hashed * 31 + int.from_bytes(units[at : at + 2], "big")) & _INT32_MASK
    # Utils.abs: the smallest integer counts as 0.
    number = hashed - (1 << 32) if hashed >> 31 else hashed
    return 0 if number == -(1 << 31) else abs(number) % partitions


def parse_commit(record: TailRecord) -> Commit | None:
    """The commit; None for tombstones and for records of other kinds."""
    if record.key is None or record.value is None:
        return None
    try:
        if _INT16.unpack_from(record.key)[0] not in _KEY_VERSIONS:
            return None
        group, at = _string(record.key, 2)
        topic, at = _string(record.key, at)
        number = _INT32.unpack_from(record.key, at)[0]
        version, offset = _INT16.unpack_from(record.value)[0], _INT64.unpack_from(record.value, 2)[0]
        metadata = _metadata(version, record.value)
    except (StructError, ValueError, IndexError):
        return None
    return group, TopicPartition(topic, number), Committed(offset, metadata)


def _metadata(version: int, value: bytes) -> str:
    """Behind version and offset, from version 3 on behind the leader epoch too, and compact from version 4 on."""
    if version < _COMPACT_VERSION:
        return _string(value, 14 if version == _EPOCH_VERSION else 10)[0]
    size = 0
    for number, byte in enumerate(value[14 : 14 + _VARINT_BYTES_MAX]):
        size |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return value[15 + number : 14 + number + size].decode(errors="replace")
    raise ValueError("no end of a length")


def _string(data: bytes, at: int) -> tuple[str, int]:
    size = _INT16.unpack_from(data, at)[0]
    end = at + 2 + size
    if size < 0 or end > len(data):
        raise ValueError("short string")
    return data[at + 2 : end].decode(errors="replace"), end
