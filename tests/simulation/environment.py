"""Puts the simulated clock, sockets, threads and clients where the product's modules look for the real ones.

The product runs as it is: for the time of a history the system clock shows the simulated time, and the names `time`,
`selectors`, `threading`, `os` and those of the few classes that reach outside are exchanged in the modules that use
them. What is exchanged is listed here, and nowhere else.
"""

import os
import selectors
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any
from uuid import UUID

from tests.simulation.announcements import watched_announce, watched_take
from tests.simulation.clients import SimClusterConnection, SimPublisher, SimTail
from tests.simulation.kept import UNWRITTEN, Kept
from tests.simulation.messages import DECODERS, decode
from tests.simulation.network import Network, SimSelector
from tests.simulation.scheduler import Process, World

import sparkmirror.kafka.clients
import sparkmirror.kafka.offset_fillers
import sparkmirror.kafka.publish
import sparkmirror.kafka.start_filler
import sparkmirror.kafka.tail
import sparkmirror.kafka.wire.appending
import sparkmirror.kafka.wire.leader_search
import sparkmirror.kafka.wire.link
import sparkmirror.pipeline.fetch.reader
import sparkmirror.pipeline.fetch.responses
import sparkmirror.pipeline.produce.in_flight
import sparkmirror.pipeline.produce.sender
import sparkmirror.pipeline.produce.task_metrics
import sparkmirror.pipeline.produce.writer
import sparkmirror.pipeline.relay.board
import sparkmirror.pipeline.relay.ring
import sparkmirror.planning.hand_over
import sparkmirror.planning.log_alignment
import sparkmirror.planning.log_proof
import sparkmirror.planning.offset_starts
import sparkmirror.planning.planner
import sparkmirror.planning.sizing
import sparkmirror.policy.fillers
import sparkmirror.runtime.jobs
import sparkmirror.sharing.group
import sparkmirror.sync.heartbeat_job
import sparkmirror.sync.offset_job
from sparkmirror.batch.loading import kernels_ready
from sparkmirror.batch.merging import PASSED_BYTES_MIN
from sparkmirror.clock import SYSTEM_CLOCK, SystemClock
from sparkmirror.control.assignment import Assignment
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.background import Outcome
from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch import extents
from sparkmirror.pipeline.fetch import plain_turns as fetch_turns
from sparkmirror.pipeline.fetch.extents import EXTENT_BYTES_MAX, Extents
from sparkmirror.pipeline.fetch.plain_answers import PlainSession
from sparkmirror.pipeline.produce import direct_buffer
from sparkmirror.pipeline.produce import plain_turns as produce_turns
from sparkmirror.pipeline.produce.answer_taker import AnswerTaker
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.mapping import OffsetMapping
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.ring import RingPeer
from sparkmirror.planning.balance import Load
from sparkmirror.planning.plan import Move
from sparkmirror.planning.task_count import Bounds

_FAKE: int = 10_000_000
"""Numbers of simulated file descriptors."""
_RING_BYTES = (4096, 16384, 1 << 20)
"""A small ring is used again soon, and has often no room for an answer."""
_BOARD_ENTRIES = (1, 2, 5, 1024)
"""A small board is full often: what finds no room goes as a row."""
_PASSED_BYTES_MIN = (0, PASSED_BYTES_MIN)
"""All batches here are small: some histories have them go out as large ones do."""
_EXTENT_BYTES_MAX = (256, EXTENT_BYTES_MAX)
"""Extent rows come after each few answers in some histories."""
_MOVES_SHARE = 0.3
_MORE_TASKS_SHARE = 0.3
_CORES = 4
"""Of the looks at loads, how many find a partition to move."""
ORDERED = "ordered"
"""The event: a writer has ordered its reader to read a partition from somewhere again."""


class SimTime:
    """Stands for the module `time`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        return self._world.now

    def time(self) -> float:
        return self._world.wall

    def time_ns(self) -> int:
        return int(self._world.wall * 1e9)

    def thread_time(self) -> float:
        """Work takes no time of the processor here."""
        return 0.0

    def sleep(self, seconds: float) -> None:
        self._world.sleep(seconds)


class SimBackground:
    """Stands for `Background`: each piece of work is a simulated thread, and its outcome may come later."""

    def __init__(self, world: World, wake: Callable[[], None]) -> None:
        self._world = world
        self._process = world.thread().process
        self._wake = wake
        self._running: set[Hashable] = set()
        self._done: list[Outcome] = []
        self._is_closed = False

    def submit(self, key: Hashable, work: Callable[[], Any], pool: str = "") -> None:
        if key in self._running or self._is_closed:
            return
        self._running.add(key)
        self._process.spawn(lambda: self._work(key, work), f"background {key}")

    def _work(self, key: Hashable, work: Callable[[], Any]) -> None:
        try:
            outcome = Outcome(key, work(), None)
        except Exception as problem:
            if not isinstance(problem, SparkMirrorError | OSError):
                self._world.bugs.append(problem)
            outcome = Outcome(key, None, problem)
        if self._world.random.random() < 0.1:
            self._world.sleep(0.05 * self._world.random.random())
        self._done.append(outcome)
        if not self._is_closed:
            self._wake()

    def collect(self) -> list[Outcome]:
        done, self._done = self._done, []
        for outcome in done:
            self._running.discard(outcome.key)
        return done

    def close(self) -> None:
        self._is_closed = True


class SimThread:
    """Stands for `threading.Thread`."""

    def __init__(self, world: World, target: Callable[[], None], name: str = "", daemon: bool = False) -> None:
        self._world = world
        self._target = target
        self._name = name
        self._thread: Any = None

    def start(self) -> None:
        self._thread = self._world.thread().process.spawn(self._target, self._name)

    def is_alive(self) -> bool:
        return self._thread is not None and not self._thread.is_over

    def join(self, timeout: float | None = None) -> None:
        me = self._world.thread()
        until = self._world.now + (1e6 if timeout is None else timeout)
        while self.is_alive() and self._world.now < until:
            self._thread.joiners.append(me)
            me.park(until)


class SimEvent:
    """Stands for `threading.Event`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._is_set = False
        self._waiters: list[Any] = []

    def set(self) -> None:
        self._is_set = True
        for waiter in self._waiters:
            waiter.wake()
        self._waiters.clear()

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        me = self._world.thread()
        until = self._world.now + (1e6 if timeout is None else timeout)
        while not self._is_set and self._world.now < until:
            self._waiters.append(me)
            me.park(until)
        return self._is_set


class SimPool:
    """Stands for `ThreadPoolExecutor`: one piece of work after the other."""

    map = staticmethod(map)

    def __enter__(self) -> "SimPool":
        return self

    def __exit__(self, *_: object) -> None: ...


class _NoLock:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class SimLock:
    """Stands for `threading.Lock` where a thread waits while it holds it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._is_held = False
        self._waiting: list[Any] = []

    def __enter__(self) -> None:
        while self._is_held:
            me = self._world.thread()
            self._waiting.append(me)
            me.park(self._world.now + 1.0)
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.wake()


class SimOs:
    """Stands for `os` in the ring and the two loops: memory is real, pipes and processes are not."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = _FAKE

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pipe2(self, flags: int) -> tuple[int, int]:
        self._numbers += 2
        return self._numbers, self._numbers + 1

    def open(self, path: str, flags: int) -> int:
        number = int(path.rpartition("/")[2])
        return number if number >= _FAKE else os.open(path, flags)

    def write(self, descriptor: int, data: bytes) -> int:
        for selector in self._world.pipes.get(descriptor - 1, ()):
            selector.rouse(descriptor - 1)
        return len(data)

    def read(self, descriptor: int, size: int) -> bytes:
        return b"\0"

    def close(self, descriptor: int) -> None:
        if descriptor < _FAKE:
            os.close(descriptor)
        else:
            self._world.pipes.pop(descriptor, None)

    def pidfd_open(self, pid: int) -> int:
        self._numbers += 2
        number = self._numbers
        writer: Process = self._world.thread().process.peer  # type: ignore[attr-defined]

        def end() -> None:
            self._world.dead_ends.add(number)
            for selector in self._world.pipes.get(number, ()):
                selector.rouse(number)

        if writer.is_alive:
            writer.at_end.append(end)
        else:
            end()
        return number


class SimTaskCount:
    """Stands for the decision by load: an epoch begins with some number of tasks, and now and then ends for more."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(f"tasks of {world.seed}")  # kept histories have drawn their numbers without it
        self.tasks = 0
        self.is_first = False
        self.reason = "simulated"

    def begin(self, bounds: Bounds, backlog: float, held: float = 0) -> int:
        self.tasks = self._random.randint(bounds.least, bounds.most)
        if self._world.begins_small:
            self._world.begins_small, self.tasks = False, bounds.least
        return self.tasks

    def look(self, loads: object, bounds: Bounds) -> bool:
        if self.tasks >= bounds.most or self._random.random() > _MORE_TASKS_SHARE:
            return False
        self._world.tell("the epoch is to end for more tasks")
        return True


class SimBalance:
    """Stands for the decision by load: now and then some partition is to change its task."""

    def __init__(self, world: World) -> None:
        self._world = world

    def look(self, assignment: Assignment, loads: Mapping[TopicPartition, Load]) -> tuple[Move, ...]:
        random = self._world.random
        held = sorted((where, task) for task, members in assignment.items() for where in members)
        if len(assignment) < 2 or not held or random.random() > _MOVES_SHARE:
            return ()
        where, task = random.choice(held)
        to = random.choice(sorted(assignment.keys() - {task}))
        self._world.tell(f"{where} is to move from task {task} to task {to}")
        return (Move(where, task, to),)


def _watched_refusal(world: World) -> Callable[[SequenceGate, PartitionBuffer, Delivery], None]:
    """Stands for the gate's refusal: Spark loses no rows here, so none of one log may come before its turn."""
    refuse = SequenceGate._refuse

    def watched(gate: SequenceGate, buffer: PartitionBuffer, delivery: Delivery) -> None:
        if delivery.turns == buffer.turns:
            came = f"{delivery.kind} {delivery.first_offset}-{delivery.next_offset}"
            world.wrongs.append(f"{buffer.source}: {came} came where {buffer.position} was due")
        refuse(gate, buffer, delivery)

    return watched


def _heard(method: Callable[..., None], hear: Callable[..., None]) -> Callable[..., None]:
    """Stands for a method of the product: judges hear of each call, with its arguments, before it is made."""

    def heard(*args: Any) -> None:
        hear(*args)
        method(*args)

    return heard


def _watched_order(net: Network) -> Callable[..., None]:
    """Stands for a writer's orders to its reader: who waits for one hears of it when it is given."""
    order = RingPeer.order

    def watched(peer: RingPeer, slot: int, *, paused: bool, offset: int, turns: int) -> None:
        order(peer, slot, paused=paused, offset=offset, turns=turns)
        if not paused:
            net.ordered = net.world.thread().process
            for cluster in net.clusters.values():
                cluster.note(ORDERED)

    return watched


def _judges(world: World) -> list[tuple[Any, str, Any]]:
    """What a writer does of which judges hear: it takes an answer that gives a batch its place, counts a gap as stored,
    or a cut of the target's log as said in the stored map."""

    def place(_: AnswerTaker, buffer: PartitionBuffer, __: Batch, base_offset: int, ___: int) -> None:
        for hear in world.placed:
            hear(world.thread().process, buffer.source, base_offset)

    def record(_: TaskMetrics, gap: Gap) -> None:
        for hear in world.recorded:
            hear(gap)

    def map_cut(_: OffsetMapping, where: TopicPartition, cut: Any) -> None:
        for hear in world.mapped:
            hear(where, cut.chunk.name)

    return [
        (AnswerTaker, "go_on", _heard(AnswerTaker.go_on, place)),
        (TaskMetrics, "lost", _heard(TaskMetrics.lost, record)),
        (OffsetMapping, "_forget_cut", _heard(OffsetMapping._forget_cut, map_cut)),
    ]


@contextmanager
def simulated(world: World, net: Network, kept: Kept | None = None) -> Iterator[None]:
    """For the time of the block the product's modules see the simulated world; of `kept` they have its numbers."""
    kernels_wait()
    time, sim_os = SimTime(world), SimOs(world)
    allocate, ring_bytes = sparkmirror.pipeline.relay.ring._allocate, world.random.choice(_RING_BYTES)
    threads = SimpleNamespace(
        Thread=lambda target, name="", daemon=False: SimThread(world, target, name, daemon),
        Event=lambda: SimEvent(world),
        Lock=_NoLock,
    )
    select = SimpleNamespace(
        DefaultSelector=lambda: SimSelector(world),
        EVENT_READ=selectors.EVENT_READ, EVENT_WRITE=selectors.EVENT_WRITE, BaseSelector=selectors.BaseSelector,
    )  # fmt: skip

    def connect(host: str, port: int, receive_bytes: int, send_bytes: int, seconds_max: float) -> tuple[Any, float]:
        sock = net.connect(host, world.thread().process)
        sock.settimeout(seconds_max)
        return sock, inf  # links of a history are as long as their first answers say

    package = sparkmirror.kafka
    exchanged: list[tuple[Any, str, Any]] = [
        *((SYSTEM_CLOCK, name, getattr(time, name)) for name in SystemClock.__slots__),
        (package.wire.link, "_connect", connect),
        (package.wire.leader_search, "random", SimpleNamespace(randrange=lambda _: 0)),
        (package.clients, "ClusterConnection", lambda settings: SimClusterConnection(world, net, settings)),
        (package.clients, "TopicTail", lambda *args, **more: SimTail(world, net, *args, **more)),
        (package.tail, "TopicTail", lambda *args, **more: SimTail(world, net, *args, **more)),
        (package.publish, "Publisher", lambda *args: SimPublisher(world, net, *args)),
        (sparkmirror.sync.offset_job, "Publisher", lambda *args: SimPublisher(world, net, *args)),
        (sparkmirror.sync.heartbeat_job, "Publisher", lambda *args: SimPublisher(world, net, *args)),
        (sparkmirror.planning.planner, "Publisher", lambda *args: SimPublisher(world, net, *args)),
        (sparkmirror.planning.hand_over, "Balance", lambda: SimBalance(world)),
        (sparkmirror.planning.sizing, "TaskCount", lambda: SimTaskCount(world)),
        (sparkmirror.planning.sizing, "usable_cores", lambda: _CORES),
        (sparkmirror.pipeline.produce.task_metrics, "used_seconds", lambda _: 0.0),
        (sparkmirror.sharing.group, "Publisher", lambda *args: SimPublisher(world, net, *args)),
        (sparkmirror.sharing.group, "ThreadPoolExecutor", lambda _: SimPool()),
        (sparkmirror.sharing.group, "is_dead_neighbour", lambda _: False),
        (sparkmirror.sharing.group, "uuid4", lambda: UUID(int=world.random.getrandbits(128))),
        (sparkmirror.pipeline.fetch.reader, "Background", lambda wake: SimBackground(world, wake)),
        (sparkmirror.pipeline.produce.sender, "Background", lambda wake: SimBackground(world, wake)),
        (sparkmirror.pipeline.fetch.peer_watch, "os", sim_os),
        (sparkmirror.pipeline.produce.sender, "os", sim_os),
        (sparkmirror.pipeline.relay.ring, "os", sim_os),
        (SequenceGate, "_refuse", _watched_refusal(world)),
        *_judges(world),
        (Extents, "announce", watched_announce(world, net)),
        (PlainSession, "take", watched_take(world, net)),
        *((module, "KEEPS_ORDER", False) for module in (fetch_turns, produce_turns)),  # they wait for real sockets
        (RingPeer, "order", _watched_order(net)),
        *((module, "Lock", lambda: SimLock(world)) for module in (package.offset_fillers, package.wire.appending)),
        (sparkmirror.pipeline.relay.ring, "RING_BYTES_MIN", ring_bytes),
        (sparkmirror.pipeline.relay.ring, "_allocate", lambda memory, _: allocate(memory, ring_bytes)),
        (sparkmirror.pipeline.relay.board, "ENTRIES", world.random.choice(_BOARD_ENTRIES)),
        (extents, "EXTENT_BYTES_MAX", Random(f"extents of {world.seed}").choice(_EXTENT_BYTES_MAX)),
        (direct_buffer, "PASSED_BYTES_MIN", Random(f"batches of {world.seed}").choice(_PASSED_BYTES_MIN)),
    ]
    exchanged += _kept_numbers(kept) if kept is not None else []
    for name, module in list(sys.modules.items()):
        if name.startswith("sparkmirror.") and not name.startswith("sparkmirror.testing"):
            exchanged += [
                (module, attribute, stand_in)
                for attribute, stand_in in (("time", time), ("selectors", select), ("threading", threads))
                if isinstance(getattr(module, attribute, None), ModuleType)
            ]
            if hasattr(module, "kernels_ready"):
                exchanged.append((module, "kernels_ready", lambda: True))
            if hasattr(module, "kernels_pay"):
                exchanged.append((module, "kernels_pay", lambda _: True))
    before = [(module, name, getattr(module, name)) for module, name, _ in exchanged]
    exchanged += [(kind, "decode", decode) for kind in DECODERS]
    before += [(kind, "decode", real) for kind, real in DECODERS.items()]
    for module, name, stand_in in exchanged:
        setattr(module, name, stand_in)
    try:
        yield
    finally:
        for module, name, real in before:
            setattr(module, name, real)


def _kept_numbers(kept: Kept) -> list[tuple[Any, str, Any]]:
    """Where sequence numbers begin again, and how many empty records a batch has."""
    policy, starts = sparkmirror.policy.fillers, sparkmirror.kafka.start_filler
    fillers = sparkmirror.kafka.offset_fillers, starts
    planning = sparkmirror.planning
    users = (*fillers, policy, planning.log_alignment, planning.log_proof, planning.offset_starts)
    return [
        *((module, "SEQUENCES", kept.sequences) for module in users),
        (sparkmirror.pipeline.produce.in_flight, "_SEQUENCE_MASK", kept.sequences - 1),
        *((module, "RECORDS_MAX", kept.records_max) for module in (*fillers, policy)),
        (policy, "WRITTEN_MAX", kept.records_max),
        (policy, "_UNWRITTEN", UNWRITTEN),
    ]


def kernels_wait() -> None:
    """Loaded before a history begins: a real thread would load them at a time of its own."""
    import sparkmirror.batch.plain_answers  # noqa: F401

    while not kernels_ready():
        import time

        time.sleep(0.01)
