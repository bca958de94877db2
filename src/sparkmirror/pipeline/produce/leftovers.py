"""What an aborted transaction may have left open in a partition of the target.

Where a partition has no leader when its transaction ends, brokers (4.3 was looked at) take it for deleted and leave its
marker out. The records stay open there, and the next commit of the same producer commits them with its own. So what
goes to such a partition waits until it is reached again and an empty transaction was aborted over it: that one's marker
ends both. Owned by `pipeline.produce.transaction`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer

_TOPIC_AUTHORIZATION_FAILED: Final = 29
_NOT_THERE: Final = frozenset({3, 17})  # UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION


class Leftovers:
    """`wanted` are those that something waits for: they are reached now."""

    def __init__(self) -> None:
        self._partitions: set[TopicPartition] = set()
        self._lot: tuple[TopicPartition, ...] = ()
        self.wanted: set[TopicPartition] = set()

    def note(self, buffers: Iterable[PartitionBuffer]) -> None:
        """The transaction that has their records is aborted. The ledger's come again with the next one, newer."""
        self._partitions.update(buffer.target for buffer in buffers if not buffer.is_ledger)

    def hold_back(self, buffer: PartitionBuffer) -> bool:
        """Whether its partition must be cleared before anything goes there."""
        if buffer.target not in self._partitions:
            return False
        self.wanted.add(buffer.target)
        return True

    def next_lot(self) -> tuple[TopicPartition, ...]:
        """All that are wanted, in one transaction."""
        self._lot = tuple(sorted(self.wanted))
        return self._lot

    def drop_refused(self, refused: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Those of the lot that are not to be had leave it; gives what has to be said of them."""
        self._partitions -= {where for where, code in refused.items() if code in _NOT_THERE}
        said = {where: code for where, code in refused.items() if code == _TOPIC_AUTHORIZATION_FAILED}
        self.wanted.intersection_update(self._partitions - said.keys())
        return said

    def clear_lot(self) -> None:
        """Nothing is left there."""
        self._partitions.difference_update(self._lot)
        self.wanted.difference_update(self._lot)
