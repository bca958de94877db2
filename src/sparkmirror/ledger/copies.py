"""Finds the newest of several values of one key in Connect's offsets topic; pure. Used by `ledger.reader`.

A key's partition follows from the number of partitions. A topic that has grown may have a value of the key in the old
partition and one in the new, and nothing says in which order a reader sees them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from sparkmirror.policy.partitioner import murmur2_partition

if TYPE_CHECKING:
    from sparkmirror.kafka.tail import TailRecord

HEADER: Final = "sparkmirror.written"
"""The header of SparkMirror's records in Connect's topic. Connect reads keys and values alone."""
_DIGITS_MAX: Final = 17
"""Of each number of a mark. Longer ones are not ours, and could not be counted on."""


class Mark(NamedTuple):
    """When SparkMirror wrote a record: the generation, and the order within it."""

    generation: int
    sequence: int

    def header(self) -> tuple[bytes, bytes]:
        return HEADER.encode(), b"%d.%d" % self

    @classmethod
    def read(cls, headers: Sequence[tuple[str, bytes | None]]) -> Self | None:
        """None for a record of Connect's, or where no writer's numbers are."""
        for name, value in headers:
            generation, _, sequence = (value or b"").partition(b".")
            numbers = generation, sequence
            if name == HEADER and all(one.isdigit() and len(one) <= _DIGITS_MAX for one in numbers):
                return cls(int(generation), int(sequence))
        return None


@dataclass(frozen=True, slots=True)
class Copies:
    """The last record of each key and partition that was read, tombstones included."""

    by_key: "dict[bytes | None, dict[int, TailRecord]]"
    doubtful: set[bytes]
    """Keys of which Connect has written one of several values, so that no order of ours decides."""

    def take(self, record: "TailRecord", partitions: int) -> "TailRecord":
        """The newest of the record's key, with it, in a topic of so many partitions."""
        copies = self.by_key.setdefault(record.key, {})
        copies[record.partition.partition] = record
        if len(copies) == 1 or record.key is None:
            return record
        newest, is_certain = choose(copies, murmur2_partition(record.key, partitions))
        (self.doubtful.discard if is_certain else self.doubtful.add)(record.key)
        return newest


def choose(copies: "Mapping[int, TailRecord]", home: int) -> "tuple[TailRecord, bool]":
    """The newest by partition, and whether that is certain; `home` is the key's partition now.

    SparkMirror's records are ordered by their marks, and Connect's by their time if it alone wrote. Beside ours, a
    record of Connect's counts if it is in the key's present partition: no writer uses another one after the topic has
    grown.
    """
    marks = {at: mark for at, one in copies.items() if (mark := Mark.read(one.headers)) is not None}
    theirs = {at: one for at, one in copies.items() if at not in marks}
    if not marks:
        return max(theirs.items(), key=lambda item: (item[1].timestamp_ms, item[0] == home))[1], False
    if home in theirs:
        return theirs[home], False
    return copies[max(marks, key=marks.__getitem__)], not theirs
