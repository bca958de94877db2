"""The partitions of an open transaction with the first protocol, where the coordinator must know each before its first
batch (KIP-98). Owned by `pipeline.produce.transaction`.
"""

from collections.abc import Collection, Mapping
from typing import Final

from sparkmirror.model import TopicPartition

_AGAIN_SECONDS: Final = 0.1
_NEVER: Final = float("inf")
_TOPIC_AUTHORIZATION_FAILED: Final = 29
ABSENT: Final = frozenset({3, 17})  # UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION


class AddedPartitions:
    """`due_at` is when the next are to be added: those that the target did not know after a pause, others at once."""

    def __init__(self) -> None:
        self._wanted: dict[TopicPartition, None] = {}
        self._asked: tuple[TopicPartition, ...] = ()
        self._added: set[TopicPartition] = set()
        self._absent: set[TopicPartition] = set()
        self._again_at = 0.0

    def __contains__(self, where: TopicPartition) -> bool:
        return where in self._added

    def __len__(self) -> int:
        return len(self._added)

    def want(self, where: TopicPartition) -> None:
        self._wanted[where] = None

    def note(self, partitions: Collection[TopicPartition]) -> None:
        """The coordinator knows them."""
        self._added.update(partitions)

    @property
    def due_at(self) -> float:
        """Inf if none is wanted."""
        if not self._wanted:
            return _NEVER
        return 0.0 if self._wanted.keys() - self._absent else self._again_at

    def next_lot(self) -> tuple[TopicPartition, ...]:
        """Those to add now; absent ones alone, since one refused partition makes the whole request fail."""
        self._asked = tuple(where for where in self._wanted if where not in self._absent) or tuple(self._wanted)
        return self._asked

    def take(self, refused: Mapping[TopicPartition, int], now: float) -> dict[TopicPartition, int]:
        """Take the answer for the last lot. Returns those that the target refuses for good, with the reasons."""
        for_good = {where: code for where, code in refused.items() if code == _TOPIC_AUTHORIZATION_FAILED}
        for where in self._asked:
            if where not in refused:
                self._added.add(where)
                self._absent.discard(where)
            if where not in refused or where in for_good:
                del self._wanted[where]
        absent = {where for where, code in refused.items() if code in ABSENT}
        if absent:
            self._absent |= absent
            self._again_at = now + _AGAIN_SECONDS
        return for_good

    def forget(self) -> None:
        """The transaction is over."""
        self._wanted.clear()
        self._added.clear()
