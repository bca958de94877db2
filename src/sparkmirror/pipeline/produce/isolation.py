"""Isolates partitions that cannot be produced: FAILED ones are paused and retried, stuck ones evicted from memory.

Orders to the reader go over the control page. Without shared memory, or without a slot on the page, a partition cannot
be ordered back: the task then starts again from the ledger. Owned by `pipeline.produce.produce_task`.
"""

import math
import time
from collections.abc import Iterable
from typing import Final

from sparkmirror.errors import SparkMirrorError
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.effects import Effects, Evict, InDoubt
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.ring import RingPeer

_RETRY_SECONDS: Final = 5.0
_RETRY_SECONDS_MAX: Final = 60.0
_STUCK_SECONDS: Final = 2.0
_PAST_ALL: Final = 1 << 62
"""An offset beyond every log: a bounded read of a held partition is over there."""


class Isolation:
    """Decides when a partition fails, comes back, or gives its memory up.

    `keeps_doubtful`: batches in doubt are sent again as they were. In transactions a new epoch settles the doubt.
    """

    def __init__(
        self,
        peer: RingPeer | None,
        gate: SequenceGate,
        task_metrics: TaskMetrics,
        effects: Effects,
        *,
        keeps_doubtful: bool,
    ) -> None:
        self._peer = peer
        self._gate = gate
        self._task_metrics = task_metrics
        self._effects = effects
        self._keeps_doubtful = keeps_doubtful
        self._resting: list[tuple[float, PartitionBuffer]] = []

    def fail(self, buffer: PartitionBuffer, reason: str) -> None:
        """Pause a partition at the reader and report why; it is rewound when all its answers are in."""
        if not (buffer.is_failed or self._gate.has_left(buffer)):
            buffer.fail(reason)
            self._pause(buffer, reason)

    def hold(self, buffer: PartitionBuffer, reason: str) -> None:
        """As `fail`, for a cause that no retry removes: it goes on in a later run with another setting."""
        if self._gate.has_left(buffer):
            return
        has_failed = buffer.is_failed
        buffer.hold(reason)
        if not has_failed:
            self._pause(buffer, reason)

    def _pause(self, buffer: PartitionBuffer, reason: str) -> None:
        self._task_metrics.failed[buffer.source] = reason
        self._order(buffer, paused=True)
        self.settle(buffer)

    def settle(self, buffer: PartitionBuffer) -> None:
        """Rewind a failed partition once it is quiet, and set the time of its retry."""
        if not (buffer.state is State.FAILING or buffer.state is State.HOLDING) or not buffer.quiet:
            return
        is_in_doubt = buffer.is_in_doubt
        if is_in_doubt:
            self._effects.append(InDoubt(buffer))
        if is_in_doubt and self._keeps_doubtful and (buffer.is_ledger or self._can_order(buffer)):
            buffer.keep_sent()
        else:
            buffer.rewind()
        self._gate.release_if_idle(buffer)
        pause = min(_RETRY_SECONDS * 2 ** (buffer.failures - 1), _RETRY_SECONDS_MAX)
        buffer.settle(math.inf if buffer.is_held else time.monotonic() + pause)
        if not (buffer.is_held or self._gate.has_left(buffer)):
            self._task_metrics.retry_at_ms[buffer.source] = round((time.time() + pause) * 1000)
        self.back_off(buffer, buffer.retry_at)

    def back_off(self, buffer: PartitionBuffer, until: float) -> None:
        """Retry the partition at `until`."""
        self._resting.append((until, buffer))

    @property
    def wake_at(self) -> float:
        """When the first retry is due."""
        return min(until for until, _ in self._resting) if self._resting else math.inf

    def due(self, now: float) -> list[PartitionBuffer]:
        """The partitions whose retry is due, once each."""
        due = [buffer for until, buffer in self._resting if until <= now]
        if due:
            self._resting = [(until, buffer) for until, buffer in self._resting if until > now]
        return due

    def retry_now(self, buffer: PartitionBuffer, now: float) -> None:
        """Retry at once, since the cause of the failure may be gone."""
        if buffer.state is State.FAILED:
            buffer.retry_soon(now)
            self.back_off(buffer, now)

    def force(self, buffer: PartitionBuffer, now: float) -> None:
        """Retry at once on the operator's command; if it fails, the pauses begin with the shortest."""
        buffer.forget_failures()
        self.retry_now(buffer, now)

    def wake_up(self, buffer: PartitionBuffer, now: float) -> None:
        """Resume a failed partition whose retry is due. Raises SparkMirrorError when the reader cannot be ordered."""
        if buffer.state is not State.FAILED or buffer.retry_at > now or self._gate.has_left(buffer):
            return
        buffer.resume()
        self._task_metrics.failed.pop(buffer.source, None)
        if not buffer.idle:  # kept batches go out first
            return
        if buffer.source in self._gate.buffers and not self._order(buffer, paused=False):
            raise SparkMirrorError(f"{buffer.source} is read again by a new attempt of the task: {buffer.reason}")

    def roll_back(self, buffer: PartitionBuffer) -> None:
        """Go back to the committed position, from which the reader reads again. Raises SparkMirrorError when it cannot
        be ordered."""
        lost = buffer.roll_back()
        self._gate.release_if_idle(buffer)
        if lost and not self._order(buffer, paused=buffer.is_failed):
            raise SparkMirrorError(f"{buffer.source} is read again by a new attempt of the task")

    def after_progress(self, buffer: PartitionBuffer) -> None:
        """Resume reading an evicted partition whose kept batches are acknowledged."""
        self._task_metrics.moved(buffer)
        state = buffer.state
        if (state is State.REWINDING or state is State.DRAINING) and buffer.idle:
            if state is State.DRAINING:
                buffer.finish_draining()
            buffer.fall_back()
            self._order(buffer, paused=False)
        if self._gate.is_releasing:
            self._gate.release_if_idle(buffer)

    def evict_stuck(self, buffers: Iterable[PartitionBuffer], now: float, *, row_thread_waits: bool = False) -> None:
        """Free the reader's memory of target partitions that do not move, so that the others can.

        A partition that rests because its batches become very large moves too slowly to keep memory. Only while the
        reader waits for memory, or the row thread for room; does nothing if all partitions are stuck, as on a slow
        link, where it would not help. One whose records the reader has still to send again is no stuck one: what it
        waits for is this memory. All others that do not flow wait for the target, or for their retry.
        """
        if self._peer is None or not (self._peer.reader_waits or row_thread_waits):
            return
        reading = [buffer for buffer in buffers if buffer.state is State.FLOWING or buffer.state is State.REWINDING]
        stuck = [buffer for buffer in reading if buffer.slot >= 0 and _keeps_memory(buffer, now)]
        if len(stuck) < len(reading):
            self._effects.extend(Evict(buffer) for buffer in stuck if buffer.state is State.FLOWING)

    def evict(self, buffer: PartitionBuffer) -> None:
        """Give a partition's memory back, of which no request is half-written. If no batch can be kept, whose
        acknowledgement would lead the reader back, it is read again at once."""
        self._order(buffer, paused=True)
        buffer.evict()
        self.after_progress(buffer)

    def _can_order(self, buffer: PartitionBuffer) -> bool:
        return self._peer is not None and buffer.slot >= 0

    def _order(self, buffer: PartitionBuffer, *, paused: bool) -> bool:
        if self._peer is None or buffer.slot < 0:
            return False
        offset, lineage = buffer.place
        self._peer.order(
            buffer.slot, paused=paused, offset=_PAST_ALL if buffer.is_held else offset, turns=lineage.turns
        )
        return True


def _keeps_memory(buffer: PartitionBuffer, now: float) -> bool:
    is_slowed = buffer.rests and buffer.unpacking.is_poor and not buffer.idle
    return is_slowed or buffer.is_stuck(now, _STUCK_SECONDS)
