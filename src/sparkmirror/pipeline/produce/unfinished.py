"""A transaction that is decided and cannot end.

While a partition of the target is away, the coordinator of a decided transaction answers CONCURRENT_TRANSACTIONS: no
other transaction begins under that transactional id until a marker stands in each of its partitions. The task goes on
under another id, its spare one. It never writes under this one again: a planner that takes the flow over meanwhile
leaves it alone (`planning.fencing`), and so does not fence it. Owned by `pipeline.produce.transaction`.
"""

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
