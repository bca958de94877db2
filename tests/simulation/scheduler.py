"""Simulated time, processes and threads: one real thread, in which the seed says who runs next.

A simulated thread is a greenlet. It runs until it waits: for a socket, a row, a time. Whatever it would wait for
becomes an event here, and the hub, `World.run`, takes events in the order of their time. Nothing else switches, so a
history is a function of its seed and of the code.
"""

import itertools
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import Any

import greenlet

START_SECONDS = 1_000.0
"""The monotonic clock at the beginning; the product takes 0 for "never"."""
EVENTS_MAX = 200_000
"""Of one history; most have some 6,000. What needs more goes round in circles."""
_EPOCH_SECONDS = 1_790_000_000.0


class SimKilled(BaseException):
    """Its process is dead: unwinds a simulated thread. Nothing it does meanwhile leaves the process."""


class Process:
    """Something that can be killed and frozen as a whole."""

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name
        self.is_alive = True
        self.ended_at = inf
        self.frozen_until = 0.0
        self.slow_until, self.lag = 0.0, 0.0
        self.standing: Any = None
        """Of a task's writer: what the ledger said when its task was about to be planned."""
        self.threads: list[Thread] = []
        self.at_end: list[Callable[[], None]] = []

    def kill(self) -> None:
        """As by SIGKILL: its connections are closed by the system, none of its code runs again."""
        if not self.is_alive:
            return
        self.is_alive, self.ended_at = False, self.world.now
        for close in self.at_end:
            close()
        for thread in self.threads:
            if self.world.current is None:
                thread.unwind()
            else:  # an unwound thread ends in the hub; the thread that killed it has to go on
                self.world.at(self.world.now, thread.unwind)

    def freeze(self, seconds: float) -> None:
        self.frozen_until = max(self.frozen_until, self.world.now + seconds)
        self.world.has_slept = True

    def thaw(self) -> None:
        """It goes on at once, wherever it stood still."""
        if self.frozen_until > self.world.now:
            self.frozen_until = self.world.now
            for thread in self.threads:
                thread.wake()

    def slow(self, seconds: float, lag: float) -> None:
        """Each turn of its threads comes up to `lag` seconds late, as where the machine has too much to do."""
        self.slow_until, self.lag = max(self.slow_until, self.world.now + seconds), lag
        self.world.has_slept = True

    @property
    def is_held(self) -> bool:
        """Whether it stands still, or is slow."""
        return max(self.frozen_until, self.slow_until) > self.world.now

    @property
    def was_held(self) -> bool:
        """Whether it has ever stood still, or was slow."""
        return max(self.frozen_until, self.slow_until) > 0

    def spawn(self, work: Callable[[], Any], name: str = "") -> "Thread":
        thread = Thread(self, work, name)
        self.threads = [one for one in self.threads if not one.is_over]
        self.threads.append(thread)
        thread.resume_at(self.world.now + self.world.hiccup())
        return thread


class Thread:
    """One simulated thread: runs `work` when the hub first comes to it."""

    def __init__(self, process: Process, work: Callable[[], Any], name: str) -> None:
        self.process = process
        self.world = process.world
        self.name = name
        self.is_over = False
        self.error: BaseException | None = None
        self._work = work
        self._token = 0
        self._is_parked = True
        self.joiners: list[Thread] = []
        self.greenlet = greenlet.greenlet(self._run, parent=process.world.hub)
        self._wakes = self._resume
        self._due: float | None = None
        """Of a slow process: when it has its turn, whatever wakes it meanwhile."""

    def _run(self) -> None:
        try:
            self._work()
        except SimKilled:
            pass
        except Exception as error:  # a thread that ends by one is missed by nobody
            self.error = error
            self.process.world.bugs.append(error)
        finally:
            self.is_over = True
            for joiner in self.joiners:
                joiner.wake()

    def resume_at(self, at: float) -> None:
        self._token += 1
        self.world.at(at, self._wakes, self._token)

    def _resume(self, token: int) -> None:
        process, world = self.process, self.world
        if token != self._token or self.is_over or not process.is_alive:
            return
        if process.frozen_until > world.now:
            self.resume_at(process.frozen_until + world.hiccup())
            return
        if self._due is not None or process.slow_until > world.now:
            if self._due is None:
                self._due = world.now + process.lag * world.random.random() ** 2
            if world.now < self._due and process.slow_until > world.now:
                self.resume_at(self._due)
                return
            self._due = None
        self._is_parked = False
        before, world.current = world.current, self
        try:
            self.greenlet.switch()
        finally:
            world.current = before

    def wake(self) -> None:
        """What it waits for may have come."""
        if self._is_parked and not self.is_over:
            self.resume_at(self.world.now + self.world.hiccup())

    def park(self, until: float) -> None:
        """Called by the thread itself: the others' turn, at most until then."""
        process, world = self.process, self.world
        if not process.is_alive:
            raise SimKilled
        self.resume_at(until if until > world.now else world.now)
        self._is_parked = True
        world.hub.switch()
        if not process.is_alive:
            raise SimKilled

    def unwind(self) -> None:
        if self.is_over:
            return
        if not self.greenlet:  # has not begun
            self.is_over = True
            return
        world = self.world
        before, world.current = world.current, self
        try:
            self.greenlet.throw(SimKilled)
        finally:
            world.current = before


class World:
    """The clock, the events to come, and the seed's random numbers."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now = START_SECONDS
        self.events = 0
        self.current: Thread | None = None
        self.hub = greenlet.getcurrent()
        self.log: list[str] = []
        self.is_told = False
        self.pipes: dict[int, Any] = {}
        """Selectors by the number of the pipe's end that they watch."""
        self.dead_ends: set[int] = set()
        self.bugs: list[BaseException] = []
        """What the product's code raised that is no error of its own."""
        self.wrongs: list[str] = []
        """What else was seen that must not be."""
        self.begins_small = False
        """Whether the next run begins with the fewest tasks, as one does that is not behind."""
        self.has_slept = False
        """Whether any process has stood still, or was slow."""
        self.placed: list[Callable[[Process, Any, int], None]] = []
        """Hear of each answer that a writer takes: who, the source's partition, and its batch's place on the target."""
        self.recorded: list[Callable[[Any], None]] = []
        """Hear of each gap that a writer counts as stored."""
        self.mapped: list[Callable[[Any, Any], None]] = []
        """Hear of each cut of the target's log of which a writer believes that the stored map has it: the source's
        partition, and the name of the map's chunk."""
        self._order = itertools.count()
        self._heap: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._wall_ahead = _EPOCH_SECONDS

    def hiccup(self) -> float:
        """What a turn of a thread takes: tens of microseconds."""
        return 0.00001 + 0.0001 * self.random.random()

    def at(self, when: float, what: Callable[..., object], *args: Any) -> None:
        heappush(self._heap, (when, next(self._order), what, args))

    def after(self, seconds: float, what: Callable[..., object], *args: Any) -> None:
        heappush(self._heap, (self.now + seconds, next(self._order), what, args))

    @property
    def wall(self) -> float:
        return self.now + self._wall_ahead

    def step_wall(self, seconds: float) -> None:
        self._wall_ahead += seconds

    def run(self, until: float, stop: Callable[[], bool] | None = None) -> bool:
        """Takes events until then, or until `stop` holds, which is looked at now and then. Returns whether it does."""
        looked_at, heap = self.now, self._heap
        while heap and heap[0][0] <= until and self.events < EVENTS_MAX:
            when, _, what, args = heappop(heap)
            if when > self.now:
                self.now = when
            self.events += 1
            what(*args)
            if stop is not None and self.now - looked_at > 0.2:
                looked_at = self.now
                if stop():
                    return True
        self.now = max(self.now, until)
        return stop is not None and stop()

    def thread(self) -> Thread:
        assert self.current is not None, "only simulated threads wait"
        return self.current

    def sleep(self, seconds: float) -> None:
        thread, until = self.thread(), self.now + max(seconds, 0.0)
        while self.now < until:
            thread.park(until)

    def tell(self, text: str) -> None:
        """A line of the story."""
        if self.is_told:
            self.log.append(f"{self.now - START_SECONDS:9.3f}  {text}")
