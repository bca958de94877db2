"""Transactions that have ended badly: one that is decided and cannot end, and what an aborted one may have left open.

While a partition of the target is away, the coordinator of a decided transaction answers CONCURRENT_TRANSACTIONS: no
other transaction begins under that transactional id until a marker stands in each of its partitions. The task goes on
under another id, its spare one. It never writes under this one again: a planner that takes the flow over meanwhile
leaves it alone (`planning.fencing`), and so does not fence it.

If a partition has no leader when its transaction ends, brokers (4.3 was looked at) take it for deleted and leave its
marker out. The records stay open there, and the next commit of the same producer commits them with its own. So what
goes to such a partition waits until the partition is reached again and an empty transaction was aborted over it: the
marker of that one ends both. Owned by `pipeline.produce.transaction`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.kafka.errors import NO_ERROR
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.wire.coordinator import UNENDED_STATES, Describe
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.coordinator import Coordinator

_NEVER: Final = float("inf")
_LOOK_SECONDS: Final = 1.0
_ID_NOT_FOUND: Final = 105


@dataclass(frozen=True, slots=True)
class Seat:
    """One of the task's transactional ids: the producer's identity under it, and the connection to its coordinator."""

    transactional_id: str
    identity: ProducerIdentity
    coordinator: Coordinator


class Unfinished:
    """The transaction that cannot end, and the target partitions that it waits for: no record is sent to them
    meanwhile."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._seat: Seat | None = None
        self._look_at = _NEVER
        self._away: frozenset[TopicPartition] = frozenset()

    @property
    def coordinator(self) -> Coordinator | None:
        return self._seat.coordinator if self._seat is not None else None

    @property
    def wake_at(self) -> float:
        return min(self._look_at, self._seat.coordinator.wake_at) if self._seat is not None else _NEVER

    def note_away(self, partitions: frozenset[TopicPartition]) -> None:
        self._away |= partitions

    def holds(self, buffer: PartitionBuffer) -> bool:
        """Whether the buffer's partition is away: a record sent there would hold up the next transaction too."""
        return bool(self._away) and any(buffer.is_aimed_at(*where) for where in self._away)

    def leave(self, seat: Seat) -> None:
        """The task goes on under another id; when the transaction of this one has ended, its partitions are usable
        again."""
        self._seat = seat
        seat.coordinator.ask(Describe(seat.transactional_id))

    def poll(self, now: float) -> None:
        seat = self._seat
        if seat is None:
            return
        seat.coordinator.poll(now)
        if now >= self._look_at:
            self._look_at = _NEVER
            seat.coordinator.ask(Describe(seat.transactional_id))

    def end(self) -> None:
        """All markers are written: the partitions are usable again."""
        self._away = frozenset()

    def serve(self) -> None:
        """Ask again later, until the transaction has ended."""
        seat = self._seat
        answer = seat.coordinator.serve() if seat is not None else None
        if seat is None or answer is None:
            return
        is_known = answer.error in (NO_ERROR, _ID_NOT_FOUND)
        if not is_known or answer.state in UNENDED_STATES:
            self._look_at = self._clock.monotonic() + _LOOK_SECONDS
            return
        self._seat = None
        self.end()
        seat.coordinator.close()

    def close(self) -> None:
        if self._seat is not None:
            self._seat.coordinator.close()


_TOPIC_AUTHORIZATION_FAILED: Final = 29
_NOT_THERE: Final = frozenset({3, 17})  # UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION


class Leftovers:
    """The partitions that an aborted transaction may have left open; records wait for those in `wanted`, which are
    reachable."""

    def __init__(self) -> None:
        self._partitions: set[TopicPartition] = set()
        self._lot: tuple[TopicPartition, ...] = ()
        self.wanted: set[TopicPartition] = set()

    def note(self, buffers: Iterable[PartitionBuffer]) -> None:
        """The transaction with records of these buffers is aborted. The ledger's records come with the next one,
        newer."""
        self._partitions.update(buffer.target for buffer in buffers if not buffer.is_ledger)

    def hold_back(self, buffer: PartitionBuffer) -> bool:
        """Whether the buffer's partition must be cleared before a record goes there."""
        if buffer.target not in self._partitions:
            return False
        self.wanted.add(buffer.target)
        return True

    def next_lot(self) -> tuple[TopicPartition, ...]:
        """All wanted partitions, for one empty transaction."""
        self._lot = tuple(sorted(self.wanted))
        return self._lot

    def drop_refused(self, refused: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Remove the refused partitions; returns the reasons to report."""
        self._partitions -= {where for where, code in refused.items() if code in _NOT_THERE}
        said = {where: code for where, code in refused.items() if code == _TOPIC_AUTHORIZATION_FAILED}
        self.wanted.intersection_update(self._partitions - said.keys())
        return said

    def clear_lot(self) -> None:
        """The aborted marker stands in all partitions of the lot."""
        self._partitions.difference_update(self._lot)
        self.wanted.difference_update(self._lot)
