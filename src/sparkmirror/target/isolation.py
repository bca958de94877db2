"""Partitions in trouble, kept apart from the others: FAILED ones are paused and tried again, stuck ones evicted.

Orders to the reader go over the control page. Without one (no shared memory to be had), or without a slot on it, a
partition cannot be ordered back: the task is then begun anew from the ledger. Owned by `target.sender`.
"""

import math
import time
from collections.abc import Callable, Iterable
from typing import Final

from sparkmirror.errors import SparkMirrorError
from sparkmirror.relay.lease import RingPeer
from sparkmirror.target.intake import Intake
from sparkmirror.target.outbox import Outbox
from sparkmirror.target.standing import State
from sparkmirror.target.tally import Tally

_RETRY_SECONDS: Final = 5.0
_RETRY_SECONDS_MAX: Final = 60.0
_STUCK_SECONDS: Final = 2.0
_PAST_ALL: Final = 1 << 62
"""Where a bounded read of a partition that is held is over."""


class Isolation:
    """Decides when a partition fails, comes back, or gives its memory up.

    `before_evict` ends half-written requests. `may_keep` is asked about a partition of which the target may have more
    than it said: whether that is to be sent again as it was.
    """

    def __init__(
        self,
        peer: RingPeer | None,
        intake: Intake,
        tally: Tally,
        before_evict: Callable[[Outbox], None],
        may_keep: Callable[[Outbox], bool] = lambda _: False,
    ) -> None:
        self._peer = peer
        self._intake = intake
        self._tally = tally
        self._before_evict = before_evict
        self._may_keep = may_keep
        self._resting: list[tuple[float, Outbox]] = []

    def fail(self, outbox: Outbox, reason: str) -> None:
        """Pause one partition at the reader and tell why; it is rewound once all its answers are in."""
        if outbox.state is State.FAILED:
            return
        outbox.state = State.FAILED
        outbox.reason = reason
        outbox.failures += 1
        self._tally.failed[outbox.source] = reason
        self._order(outbox, paused=True)
        self.settle(outbox)

    def hold(self, outbox: Outbox, reason: str) -> None:
        """As `fail`, for a cause that no time heals: a later run, told otherwise, goes on."""
        outbox.is_held = True
        self.fail(outbox, reason)

    def settle(self, outbox: Outbox) -> None:
        """Rewind a failed partition once it is quiet, and set the time of its retry."""
        if outbox.state is not State.FAILED or not outbox.quiet or outbox.retry_at:
            return
        if outbox.is_in_doubt and self._may_keep(outbox) and (outbox.is_ledger or self._can_order(outbox)):
            outbox.keep_sent()
        else:
            outbox.rewind()
        self._intake.release_if_idle(outbox)
        pause = min(_RETRY_SECONDS * 2 ** (outbox.failures - 1), _RETRY_SECONDS_MAX)
        outbox.retry_at = math.inf if outbox.is_held else time.monotonic() + pause
        if not outbox.is_held:
            self._tally.retry_at_ms[outbox.source] = round((time.time() + pause) * 1000)
        self.rest(outbox, outbox.retry_at)

    def rest(self, outbox: Outbox, until: float) -> None:
        """Look at it again then."""
        self._resting.append((until, outbox))

    @property
    def wake_at(self) -> float:
        """When the first of those that rest is due."""
        return min((until for until, _ in self._resting), default=math.inf)

    def due(self, now: float) -> list[Outbox]:
        """Those that have rested long enough, once each."""
        due = [outbox for until, outbox in self._resting if until <= now]
        if due:
            self._resting = [(until, outbox) for until, outbox in self._resting if until > now]
        return due

    def retry_now(self, outbox: Outbox, now: float) -> None:
        """The cause of a failure may be gone."""
        if outbox.retry_at and not outbox.is_held:
            outbox.retry_at = now
            self.rest(outbox, now)

    def force(self, outbox: Outbox, now: float) -> None:
        """The operator wants it tried again; if it fails, the pauses begin anew with the shortest."""
        outbox.failures = 0
        self.retry_now(outbox, now)

    def wake_up(self, outbox: Outbox, now: float) -> None:
        """Let a failed partition flow again when its time has come. Raises when the reader cannot be told."""
        if outbox.state is not State.FAILED or not outbox.retry_at or outbox.retry_at > now:
            return
        outbox.retry_at = 0.0
        outbox.state = State.REWINDING
        self._tally.failed.pop(outbox.source, None)
        if not outbox.idle:  # what was kept goes out first
            return
        if outbox.source in self._intake.outboxes and not self._order(outbox, paused=False):
            raise SparkMirrorError(f"{outbox.source} is read again by a new attempt of the task: {outbox.reason}")

    def roll_back(self, outbox: Outbox) -> None:
        """Back to what is committed: the reader comes again from there. Raises when it cannot be told."""
        lost = outbox.roll_back()
        self._intake.release_if_idle(outbox)
        is_failed = outbox.state is State.FAILED
        if lost and not is_failed:
            outbox.state = State.REWINDING
        if lost and not self._order(outbox, paused=is_failed):
            raise SparkMirrorError(f"{outbox.source} is read again by a new attempt of the task")

    def after_progress(self, outbox: Outbox) -> None:
        """An evicted partition that has caught up is read on."""
        self._tally.moved(outbox)
        if outbox.state is State.REWINDING and outbox.idle:
            outbox.fall_back()
            self._order(outbox, paused=False)
        self._intake.release_if_idle(outbox)

    def evict_stuck(self, outboxes: Iterable[Outbox], now: float) -> None:
        """Give the reader its memory back where a target partition does not move, so that the others can.

        Only while the reader waits for memory, and only if not all are stuck: on a slow link it would help nobody.
        """
        if self._peer is None or not self._peer.reader_waits:
            return
        flowing = [outbox for outbox in outboxes if outbox.state is State.FLOWING]
        stuck = [outbox for outbox in flowing if outbox.slot >= 0 and outbox.is_stuck(now, _STUCK_SECONDS)]
        if len(stuck) < len(flowing):
            for outbox in stuck:
                self._before_evict(outbox)
                self._order(outbox, paused=True)
                outbox.evict()

    def _can_order(self, outbox: Outbox) -> bool:
        return self._peer is not None and outbox.slot >= 0

    def _order(self, outbox: Outbox, *, paused: bool) -> bool:
        if self._peer is None or outbox.slot < 0:
            return False
        offset, lineage = outbox.place
        self._peer.order(
            outbox.slot, paused=paused, offset=_PAST_ALL if outbox.is_held else offset, turns=lineage.turns
        )
        return True
