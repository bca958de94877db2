"""The writer's sender thread. It owns all sockets and timers, so that acknowledgements, retries and progress go on
while no row comes.

Rows arrive through `put`, announcements on the control page; `finish` drains for a bounded time. No broker blocks the
others: a partition whose target does not answer is evicted from the reader's memory and paused there, a partition that
the target refuses is FAILED and retried later, and all others go on. What is done with rows and answers is
`pipeline.produce.produce_task`'s. Runs in a Python worker; owned by `pipeline.produce.writer`.
"""

import os
import selectors
import threading
from contextlib import suppress
from typing import Final
from uuid import UUID

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.kafka.background import Background
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.arrivals import Arrivals
from sparkmirror.pipeline.produce.assembly import SenderOptions, assemble
from sparkmirror.pipeline.produce.connection import ProduceConnection
from sparkmirror.pipeline.produce.coordinator import Coordinator
from sparkmirror.pipeline.produce.delivery import Arrival
from sparkmirror.pipeline.produce.limits import TopicLimits
from sparkmirror.pipeline.produce.plain_turns import PlainTurns
from sparkmirror.pipeline.produce.produce_task import ProduceTask
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingPeer

_JOIN_SECONDS_MAX: Final = 60.0
"""The loop ends within twice the time to drain; only the compilation of kernels may hold it up for longer."""
_TEND_SECONDS: Final = 0.02
"""How often timers are checked while data flows: the loop has tens of thousands of turns a second."""
_CALM_TEND_SECONDS: Final = 0.2
"""And how often where none runs."""
_REST_SECONDS: Final = 0.25
"""How long a turn waits at most; an idle task's waits for the next flush, if the last turn brought nothing either."""
_LEAVE_SECONDS: Final = 0.06
"""How long answers lie unread at most where nothing waits for them. A caught-up mirror hears of the next records
sooner: it then wakes once for both."""
_PLAIN_SECONDS: Final = 0.5
"""How long compiled code goes on at most before the books are kept of what it did."""
_WAKE: Final = "wake"
_CALL: Final = "call"


class Sender:
    """One task's producing loop, from `start` to `finish`."""

    def __init__(
        self, options: SenderOptions, plan: PlanRow, peer: RingPeer | None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._clock = clock
        self._peer = peer
        self._arrivals = Arrivals(peer.listener if peer is not None else None)
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._pipe_lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._calls = selectors.DefaultSelector()
        """Hears the reader and this process, and no broker."""
        for selector in (self._selector, self._calls):
            selector.register(self._wake_reader, selectors.EVENT_READ, _WAKE)
            if peer is not None:
                selector.register(peer.called, selectors.EVENT_READ, _CALL)
        self._left_answers = False
        self._background = Background(self._wake)
        parts = assemble(options, plan, peer, self._background, self._selector, clock)
        self._drain, self._dispatch, self._guarantee = parts.drain, parts.dispatch, parts.guarantee
        self._task = ProduceTask(parts, clock)
        self._plain = PlainTurns(peer, self._wake_reader, self._arrivals, parts, clock)
        self._tend_at = self._timers_at = 0.0
        self._is_quiet = self.row_thread_waits = False
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="sparkmirror-sender", daemon=True)
        self._task.take_plan(plan)

    # Called by the row thread.

    def start(self) -> None:
        self._task.prefetch()
        self._thread.start()

    def put(self, *rows: Arrival, announced: int = 0) -> None:
        """A batch of the reader's rows, before which it made so many announcements."""
        self._arrivals.put(rows, announced)
        self._wake()

    @property
    def task_metrics(self) -> TaskMetrics:
        return self._task.task_metrics

    @property
    def inline_bytes(self) -> int:
        """Bytes of unacknowledged inline payload in this process."""
        return self._task.inline_bytes

    @property
    def freed_extra_bytes(self) -> int:
        return self._task.freed_extra_bytes

    def limits_of(self, topic: str) -> TopicLimits:
        """What is known of a target topic's limits."""
        return self._task.limits_of(topic)

    def topic_id_of(self, topic: str) -> UUID | None:
        """The id of the target topic that is written to now, if it is known."""
        return self._task.topic_id_of(topic)

    def finish(self) -> None:
        """Drain for at most two seconds, store the last positions, and end. Raises what ended the loop early."""
        self._drain.begin()
        self._wake()
        self._thread.join(_JOIN_SECONDS_MAX)
        if self.error is not None:
            raise self.error

    @property
    def ended(self) -> bool:
        """Whether the loop is over: until then it may touch the reader's memory."""
        return not self._thread.is_alive()

    def acknowledged(self) -> dict[TopicPartition, int]:
        """Each partition's acknowledged position; with exactly-once, the committed one."""
        return self._task.acknowledged()

    def _wake(self) -> None:
        with self._pipe_lock, suppress(OSError):
            if self._wake_writer >= 0:
                os.write(self._wake_writer, b"\0")

    def _close_pipe(self) -> None:
        with self._pipe_lock:
            os.close(self._wake_reader)
            os.close(self._wake_writer)
            self._wake_writer = -1

    # The loop.

    def _run(self) -> None:
        try:
            while not self._done():
                self._turn()
        except Exception as problem:
            self.error = problem
            if self._peer is not None:
                self._peer.fail()
        finally:
            self._background.close()
            self._task.close()
            self._selector.close()
            self._calls.close()
            self._close_pipe()

    def _done(self) -> bool:
        return self._drain.has_begun and not self._arrivals and self._task.is_over(self._clock.monotonic())

    def _turn(self) -> None:
        now = self._clock.monotonic()
        is_plain = self._take_arrivals()
        if is_plain:
            self._plain.note_turn()
        is_plain = is_plain and self._left_answers
        if now >= self._tend_at or (now >= self._timers_at and self._task.has_timers):
            is_plain = False
            self._timers_at, self._tend_at = now + _TEND_SECONDS, now + _CALM_TEND_SECONDS
            self._task.tend(now, self._background.collect(), row_thread_waits=self.row_thread_waits)
        if is_plain:
            self._task.send_announced()
        else:
            self._task.send(now)
        if self._left_answers:
            self._left_answers = False
            self._serve_all(self._selector.select(0))
        self._publish()
        has_news = self._has_news()
        if not has_news and self._take_plain_turns(now):
            return
        if not has_news and not self._plain.is_due and self._may_leave_answers():
            self._left_answers = True
            self._serve_all(self._calls.select(_LEAVE_SECONDS))
        else:
            self._serve_all(self._selector.select(0.0 if has_news else self._timeout(now)))
            self._publish()

    def _take_plain_turns(self, now: float) -> bool:
        """Have compiled code go on until timers are due, or anything but small runs comes; whether it did."""
        if not self._plain.is_due or self._task.has_timers or self._peer is None or self._peer.reader_waits:
            return False
        to_serve = self._plain.take(now + min(self._timeout(now), _PLAIN_SECONDS))
        if to_serve is None:
            return False
        for connection in to_serve:
            self._task.serve(connection, selectors.EVENT_READ)
        self._publish()
        self._serve_all(self._selector.select(0))
        return True

    def _has_news(self) -> bool:
        """Whether the next turn has something to do at once: a call may have been heard already, and comes once."""
        return bool(self._arrivals) or not self._tend_at

    def _may_leave_answers(self) -> bool:
        return self._peer is not None and not self._peer.reader_waits and self._task.may_leave_answers

    def _serve_all(self, served: list[tuple[selectors.SelectorKey, int]]) -> None:
        self._is_quiet = not served
        for key, events in served:
            self._serve(key.data, events)

    def _take_arrivals(self) -> bool:
        """Whether there were announcements and nothing else, all of which are gathered to be sent at once."""
        arrivals, task = self._arrivals, self._task
        taken, is_plain = 0, True
        while True:
            if announced := arrivals.take_announced():
                taken += 1
                is_plain = task.take_announced(announced) and is_plain
            elif (row := arrivals.take_row()) is not None:
                task.take(row)
                is_plain = False
            else:
                return is_plain and taken > 0

    def _publish(self) -> None:
        if self._peer is not None:
            self._peer.publish()

    def _timeout(self, now: float) -> float:
        may_rest = self._is_quiet and not self._drain.has_begun and self._dispatch.is_idle
        rest_seconds = self._guarantee.rest_seconds if may_rest else _REST_SECONDS
        return max(self._task.wake_at(now, min(self._timers_at, self._tend_at), rest_seconds) - now, 0.0)

    def _serve(self, what: ProduceConnection | Coordinator | str, events: int) -> None:
        if what == _CALL:
            assert self._peer is not None
            self._peer.drain_call()
        elif isinstance(what, str):
            self._tend_at = 0.0
            with suppress(BlockingIOError):
                os.read(self._wake_reader, 4096)
        elif isinstance(what, Coordinator):
            self._task.serve_coordinator()
        else:
            self._task.serve(what, events)
