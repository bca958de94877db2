"""Decides when the records of one range, which go to several target partitions, may go out. In transactions they go
together, in the transaction that has the range's position. Called by `pipeline.produce.routing`.
"""

from collections.abc import Callable, Collection, Hashable
from enum import Enum
from typing import Final

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.drain import Drain
from sparkmirror.pipeline.produce.guarantee import Guarantee
from sparkmirror.pipeline.produce.progress import Progress

UNREACHED_SECONDS_MAX: Final = 15.0
"""How long a range waits for a target partition that has no reachable leader. Then its source partition fails, with the
reason; the others do not wait for it."""

_UNASKED_SECONDS_MAX: Final = 1.0
"""So much of a time counts in which nobody asked for the leader, as while a transaction ends: other partitions' commits
do not begin the wait over, and a long pause does not end it."""
AWAY: Final = "its leader is away, or the topic is gone"


class Answer(Enum):
    """What becomes of a range now."""

    GO = "it goes out"
    WAIT = "it is asked about again"


class RangeAdmission:
    """`reaches` says whether a connection to a partition's leader is open, and opens one."""

    def __init__(
        self,
        guarantee: Guarantee,
        progress: Progress,
        drain: Drain,
        reaches: Callable[[PartitionBuffer], bool],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._guarantee = guarantee
        self._progress = progress
        self._drain = drain
        self._reaches = reaches
        self._clock = clock
        self._unreached: dict[Hashable, tuple[float, float]] = {}

    @property
    def in_transactions(self) -> bool:
        return self._guarantee.transactional

    def judge(self, source: PartitionBuffer, lanes: Collection[PartitionBuffer]) -> Answer | str:
        """About the oldest range of `source` that waits; a string is why its partition is to fail.

        A transaction waits for all that it has begun to send. So nothing of a range goes out before all of its
        partitions can be reached, and before the coordinator knows them: a range that cannot end holds up no
        transaction.
        """
        if not (self._guarantee.transactional and lanes):
            return Answer.GO
        now = self._clock.monotonic()
        if not (self._guarantee.takes_data and self._drain.takes_new(now)):
            return Answer.WAIT
        if obstacle := self._progress.obstacle(source.source):
            return obstacle
        for lane in lanes:
            if lane.is_failed:
                return f"its records for {lane.target} are refused: {lane.reason}"
        away = [lane for lane in lanes if not self._reaches(lane)]
        if away:
            return self._wait_for(source, away[0], now)
        self.forget(source)
        return Answer.GO if self._guarantee.takes_in(lanes) else Answer.WAIT

    def _wait_for(self, source: PartitionBuffer, lane: PartitionBuffer, now: float) -> Answer | str:
        waited, asked_at = self._unreached.get(source, (0.0, now))
        waited += min(now - asked_at, _UNASKED_SECONDS_MAX)
        self._unreached[source] = waited, now
        if waited <= UNREACHED_SECONDS_MAX:
            return Answer.WAIT
        self.forget(source)
        return f"its records for {lane.target} wait: {AWAY}"

    def note_gone(self, source: PartitionBuffer, lanes: Collection[PartitionBuffer], size_bytes: int) -> None:
        """The range enters its lanes: the open transaction, or the one that begins with it, waits for all of it."""
        self._guarantee.took_in(source, lanes, size_bytes)

    def forget(self, source: PartitionBuffer) -> None:
        """The range that waited is dropped."""
        self._unreached.pop(source, None)
