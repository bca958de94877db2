"""The transaction coordinator of a simulated cluster: both protocols (KIP-98, KIP-360, KIP-890); no I/O.

Markers go out one by one, as the cluster lets them, so a transaction may stay decided and not ended for a while.
Source of the rules: org.apache.kafka.coordinator.transaction of Apache Kafka 4.3.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from sparkmirror.model import TopicPartition

EMPTY, ONGOING = "Empty", "Ongoing"
PREPARE_COMMIT, PREPARE_ABORT = "PrepareCommit", "PrepareAbort"
COMPLETE_COMMIT, COMPLETE_ABORT = "CompleteCommit", "CompleteAbort"
_PREPARED = (PREPARE_COMMIT, PREPARE_ABORT)
_COMPLETE = (COMPLETE_COMMIT, COMPLETE_ABORT)
NO_ERROR, BAD_EPOCH, BAD_STATE, BAD_MAPPING, CONCURRENT, FENCED = 0, 47, 48, 49, 51, 90


@dataclass(slots=True)
class Transaction:
    """What the coordinator stores of one transactional id. `awaited` lack the marker of a decided transaction."""

    producer_id: int
    epoch: int
    timeout_ms: int
    last_epoch: int = -1
    state: str = EMPTY
    is_second: bool = False
    partitions: set[TopicPartition] = field(default_factory=set)
    awaited: set[TopicPartition] = field(default_factory=set)
    opened_at: float = 0.0
    number: int = 0

    @property
    def is_unended(self) -> bool:
        return self.state == ONGOING or self.state in _PREPARED


class Coordinator:
    """Of all transactional ids of a cluster. `end` is called for each marker that is to be written."""

    def __init__(
        self, clock: Callable[[], float], end: Callable[[str, int, TopicPartition], None], *, fences_own: bool = False
    ) -> None:
        """`fences_own`: InitProducerId that aborts a transaction fences its own caller, too (KAFKA-9803)."""
        self._clock = clock
        self._fences_own = fences_own
        self._end = end
        self._producer_ids = 1000
        self.known: dict[str, Transaction] = {}

    def new_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    def initialize(self, name: str | None, timeout_ms: int, producer_id: int, epoch: int) -> tuple[int, int, int]:
        """InitProducerId: error, producer id, epoch."""
        if name is None:
            return NO_ERROR, self.new_producer_id(), 0
        found = self.known.get(name)
        if found is None:
            found = self.known[name] = Transaction(self.new_producer_id(), -1, timeout_ms)
        if epoch >= 0 and producer_id != found.producer_id:
            return FENCED, -1, -1
        if found.state in _PREPARED:
            return CONCURRENT, -1, -1
        if found.state == ONGOING:  # whatever epoch asks: a holder that was fenced aborts its successor's transaction
            self._abort_fenced(name, found, is_own=epoch >= 0 and not self._fences_own)
            return CONCURRENT, -1, -1
        if epoch >= 0 and epoch not in (found.epoch, found.last_epoch):
            return FENCED, -1, -1
        if epoch >= 0 and epoch == found.last_epoch and epoch != found.epoch:
            found.state, found.partitions = EMPTY, set()
            return NO_ERROR, found.producer_id, found.epoch
        found.last_epoch = found.epoch if epoch >= 0 else -1
        found.epoch += 1
        found.timeout_ms = timeout_ms
        found.state = EMPTY
        found.partitions = set()
        return NO_ERROR, found.producer_id, found.epoch

    def _abort_fenced(self, name: str, found: Transaction, *, is_own: bool = False) -> None:
        """The epoch rises before the abort, so that its holder is fenced."""
        found.last_epoch = found.epoch if is_own else -1
        found.epoch += 1
        self._decide(name, found, commits=False, is_second=False)

    def add(self, name: str, producer_id: int, epoch: int, partitions: set[TopicPartition], *, is_second: bool) -> int:
        """AddPartitionsToTxn, or what a batch of the second protocol does by itself."""
        found = self.known.get(name)
        if found is None or found.producer_id != producer_id:
            return BAD_MAPPING
        if found.epoch != epoch:
            return FENCED
        if found.state in _PREPARED:
            return CONCURRENT
        if found.state != ONGOING:
            found.state, found.partitions, found.opened_at = ONGOING, set(), self._clock()
            found.number += 1
        found.partitions |= partitions
        found.is_second = is_second
        return NO_ERROR

    def verify(self, name: str, producer_id: int, epoch: int, partition: TopicPartition) -> int:
        found = self.known.get(name)
        if found is None or found.producer_id != producer_id:
            return BAD_MAPPING
        if found.epoch != epoch:
            return BAD_EPOCH
        return NO_ERROR if found.state == ONGOING and partition in found.partitions else BAD_STATE

    def end(self, name: str, producer_id: int, epoch: int, *, commits: bool, is_second: bool) -> tuple[int, int, int]:
        """EndTxn: error, and with the second protocol the identity from then on."""
        found = self.known.get(name)
        if found is None or found.producer_id != producer_id:
            return BAD_MAPPING, -1, -1
        is_retry = is_second and found.epoch == epoch + 1 and found.last_epoch == epoch
        if found.epoch != epoch and not is_retry:
            return FENCED, -1, -1
        wanted = (PREPARE_COMMIT, COMPLETE_COMMIT) if commits else (PREPARE_ABORT, COMPLETE_ABORT)
        if found.state == ONGOING and not is_retry:
            found.is_second = is_second
            self._decide(name, found, commits=commits, is_second=is_second)
            return NO_ERROR, found.producer_id, found.epoch
        if found.state in _PREPARED:
            return (CONCURRENT if found.state == wanted[0] else BAD_STATE), -1, -1
        if found.state == wanted[1] and (is_retry or not is_second):
            return NO_ERROR, found.producer_id, found.epoch
        if is_second and not commits and not is_retry:
            found.last_epoch, found.epoch = found.epoch, found.epoch + 1
            found.state, found.partitions = COMPLETE_ABORT, set()
            return NO_ERROR, found.producer_id, found.epoch
        return BAD_STATE, -1, -1

    def _decide(self, name: str, found: Transaction, *, commits: bool, is_second: bool) -> None:
        if is_second:
            found.last_epoch, found.epoch = found.epoch, found.epoch + 1
        found.state = PREPARE_COMMIT if commits else PREPARE_ABORT
        found.awaited = set(found.partitions)
        if not found.awaited:
            found.state = COMPLETE_COMMIT if commits else COMPLETE_ABORT
        for partition in sorted(found.awaited):
            self._end(name, found.number, partition)

    def ended(self, name: str, partition: TopicPartition) -> None:
        """The marker stands, or its partition is gone."""
        found = self.known[name]
        found.awaited.discard(partition)
        if not found.awaited and found.state in _PREPARED:
            found.state = COMPLETE_COMMIT if found.state == PREPARE_COMMIT else COMPLETE_ABORT

    def abort_late(self) -> None:
        """Transactions that took longer than their producer said."""
        for name, found in self.known.items():
            if found.state == ONGOING and self._clock() - found.opened_at > found.timeout_ms / 1000:
                self._abort_fenced(name, found)
