"""The reading end of a Spark task: one selector loop over all brokers that lead its partitions.

`read_task` is what `DataSourceStreamReader.read` returns: a generator of Arrow record batches. It receives fetch
responses into the ring, turns them into rows, obeys the writer's orders (`pipeline.relay.ring`) and the planner's
commands, and ends by the clock, on stop, when its bounded partitions are done, or when the writer is gone. No broker's
error ends it: it opens connections and looks up leaders again, without limit. Runs in a Python worker, for
`spark.run_reader`.
"""

import selectors
import time
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from typing import Any

import pyarrow as pa

from sparkmirror.control.admission import Admission
from sparkmirror.control.assignment import Assigned, TaskPlan
from sparkmirror.control.commands import Assign, Command, Pause, Resume, Retry, is_written_again
from sparkmirror.control.commands import Throttle as RateOrder
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.background import Background, Outcome
from sparkmirror.kafka.wire.leaders import LOOK_UP_KEYS, Leaders
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch import log_bounds
from sparkmirror.pipeline.fetch.command_tail import DIAL_KEY, CommandTail
from sparkmirror.pipeline.fetch.connection import FetchConnection
from sparkmirror.pipeline.fetch.flushes import Flushes
from sparkmirror.pipeline.fetch.homes import Homes
from sparkmirror.pipeline.fetch.loss import judge_recreated
from sparkmirror.pipeline.fetch.orders import EpochEnd, Orders
from sparkmirror.pipeline.fetch.partitions import NO_SLOT, PartitionFetchState, Partitions
from sparkmirror.pipeline.fetch.peer_watch import PEER, PeerWatch
from sparkmirror.pipeline.fetch.plain_answers import PlainAnswers
from sparkmirror.pipeline.fetch.plain_turns import PlainTurns
from sparkmirror.pipeline.fetch.read_ahead_connections import ReadAheadConnection, ReadAheadConnections
from sparkmirror.pipeline.fetch.reader_options import ReaderOptions
from sparkmirror.pipeline.fetch.responses import FetchResponseReader
from sparkmirror.pipeline.fetch.throttle import Throttle
from sparkmirror.pipeline.relay.plan_row import plan_row
from sparkmirror.pipeline.relay.ring import Ring, SlotOrder
from sparkmirror.pipeline.relay.schema import RELEASE, Row, end_batch, propose_targets

INLINE_OUTSTANDING_BYTES_MAX = 16 << 20
_PEER_SECONDS_MAX = 5.0
_REST_SECONDS_MAX = 1.0
_LOOK_SECONDS = 0.25
_CALM_SECONDS = 1.0
"""How long a turn waits at most while something is to be tried again, and while it is not."""
_STARVED_POLL_SECONDS = 0.02
_TEND_SECONDS, _CALM_TEND_SECONDS = 0.02, 0.2
"""How often all that is not an answer is looked after while answers come, where time alone may change it, and else."""
_WAKE = "wake"


def read_task(plan: TaskPlan, options: ReaderOptions) -> Iterator[pa.RecordBatch]:
    """Yield the task's rows until its epoch ends."""
    reader = TaskReader(plan, options)
    try:
        yield from options.decode(reader.batches(), reader.at_lease)
    finally:
        reader.close()


class TaskReader:
    """One task's loop. Everything happens on the caller's thread, between two rows."""

    def __init__(self, plan: TaskPlan, options: ReaderOptions) -> None:
        self._plan = plan
        self._options = options
        self._ring = Ring(options.ring_bytes)
        self.at_lease = self._ring.slice
        self._background = Background(self._ring.wake)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._ring.wake_reader, selectors.EVENT_READ, _WAKE)
        self._partitions = Partitions(options.limits.partition_bytes_max)
        self._leaders = Leaders(options.source, self._background, addresses=plan.brokers, leaders=plan.leaders)
        self._connections: dict[int, FetchConnection] = {}
        self._bounds = log_bounds.LogBounds(self._leaders.settings_from, self._background)
        committed = options.limits.read_committed
        self._response_reader = FetchResponseReader(self._ring, self._bounds.ask, read_committed=committed)
        self._homes = Homes(self._response_reader)
        self._plain = PlainAnswers(self._ring, self._partitions, self._response_reader)
        self._turns = PlainTurns(self._ring, self._plain, self._selector, options.limits)
        self._lanes = ReadAheadConnections(
            self._leaders, options.source.request_timeout_seconds, options.limits, options.receive_bytes, self._ring,
            self._response_reader, self._partitions, self._selector, self._has_credit,
        )  # fmt: skip
        self._flushes = Flushes(options.stages)
        self._throttle = Throttle(plan.limits, plan.topics, plan.orders)
        self._orders = Orders(plan.orders)
        self._admission = Admission(plan, options.wants)
        self._turned_at = time.monotonic()
        self._tend_at = 0.0
        self._peer = PeerWatch(self._ring, self._selector)
        self._started = time.monotonic()
        self._end = EpochEnd(plan, self._started)
        self._commands: CommandTail | None = None
        if options.commands is not None:
            settings, topic = options.commands
            self._commands = CommandTail(settings, topic, plan.commands_from, self._background, self._selector)

    def batches(self) -> Iterator[list[Row]]:
        self._take_on(self._plan.assigned, self._plan.generation)
        self._let_go(self._plan.release)
        self._throttle.share_out(self._partitions, time.monotonic())
        while True:
            rows = self._response_reader.take_rows()
            is_over, extents = self._finished(), self._response_reader.extents
            due = self._flushes.due(sum(row.records for row in rows) if rows else None, time.monotonic())
            if due or extents.are_due or (is_over and extents):
                yield self._close(rows, due or 1)
                self._flushes.note_given(time.monotonic())
            if is_over:
                return
            self._turn()

    def _close(self, rows: list[Row], stages: int) -> list[Row]:
        """A batch of rows for Spark, to pass so many stages. What accounts for announcements comes first: rows behind
        it may go back."""
        self._plain.settle()
        self._ring.note_given(is_awaited=bool(rows))
        rows = [*self._response_reader.extents.take_rows(), *rows]
        if self._options.propose is not None:
            rows = propose_targets(rows, self._options.propose)
        return end_batch(rows, self._ring.announcer.announced, stages)

    def _finished(self) -> bool:
        if self._peer.is_gone or self._ring.peer_failed or self._end.has_come(time.monotonic()):
            return True
        return not self._plan.seconds and self._partitions.all_done()

    def _turn(self) -> None:
        while True:
            self._ring.collect()
            now = time.monotonic()
            starved = any(one.starved for one in self._connections.values())
            is_short = now < self._tend_at and self._lanes.is_empty and not starved
            timeout = self._ask_again(now) if is_short else self._tend()
            held = self._flushes.seconds_left(now)
            if is_short and self._take_plain_turns(min(self._tend_at, now + held)):
                return
            for key, _ in self._selector.select(0 if self._response_reader.rows else max(min(timeout, held), 0)):
                self._serve(key.data)
            if self._response_reader.rows or not is_short or held <= 0:
                return

    def _take_plain_turns(self, until: float) -> bool:
        """Have compiled code go on until then, or anything unusual comes; whether it did."""
        is_free = self._throttle.is_free and self._has_credit() and not self._response_reader.rows
        here = self._turns.take(self._connections, self._options.limits.bytes_max, until) if is_free else None
        for node in here or ():
            self._receive(node)
        for key, _ in self._selector.select(0) if here is not None else ():
            self._serve(key.data)
        return here is not None

    def _ask_again(self, now: float) -> float:
        """Ask the brokers that have rested. Returns for how many seconds to wait."""
        wake_at = self._tend_at
        for node, connection in list(self._connections.items()):
            if not connection.waiting and now >= connection.asks_at:
                self._ask(node)
            if not connection.waiting and now < (asks_at := connection.asks_at):
                wake_at = min(wake_at, asks_at)
        return max(wake_at - now, 0.0)

    def _tend(self) -> float:
        """Look after everything. Returns for how many seconds to wait."""
        self._plain.settle()
        self._tend_at = time.monotonic() + (_TEND_SECONDS if self._partitions.await_time else _CALM_TEND_SECONDS)
        self._peer.begin()
        for order in self._ring.slot_orders(self._partitions.slots):
            fetch_state = self._partitions.in_slot(order.slot)
            if fetch_state is not None:
                self._heed(fetch_state, order)
        for outcome in self._background.collect():
            self._take_outcome(outcome)
        if self._commands is not None:
            self._commands.connect()
        self._find_homes()
        now = time.monotonic()
        for node, connection in list(self._connections.items()):
            if connection.is_silent(now, self._options.source.request_timeout_seconds):
                self._drop(node)
            else:
                self._ask(node)
        self._lanes.poll(now)
        starved = self._retry_starved() or self._lanes.starved
        self._ring.set_waiting(starved)
        held_back = self._limited(now)
        return _STARVED_POLL_SECONDS if starved else min(held_back, self._rest_left(now))

    def _heed(self, fetch_state: PartitionFetchState, order: SlotOrder) -> None:
        fetch_state.held_by_writer = order.paused
        if order.paused:
            fetch_state.offset = order.offset
        else:
            self._response_reader.seek(fetch_state, order.offset, order.turns)

    def _rest_left(self, now: float) -> float:
        """Seconds until the next broker may be asked again."""
        rests = (one.asks_at - now for one in self._connections.values() if not one.waiting)
        return min((left for left in rests if left > 0), default=_REST_SECONDS_MAX)

    def _limited(self, now: float) -> float:
        """How long to wait for sockets; notes how long our own rate limits have held something back."""
        wait = self._throttle.seconds_until_ready(now)
        if wait:
            self._ring.note_limited(round((now - self._turned_at) * 1000))
        self._turned_at = now
        return min(wait or _CALM_SECONDS, self._end.seconds_left(now) if self._is_calm() else _LOOK_SECONDS)

    def _is_calm(self) -> bool:
        """Whether only sockets, the writer and the clock of the epoch bring something to do."""
        connections = self._connections
        return (
            self._lanes.is_empty
            and (self._commands is None or self._commands.connection is not None)
            and all(node in connections for node in self._partitions.nodes)
            and all(one.waiting and not one.starved for one in connections.values())
            and not self._partitions.leaderless(inf)
        )

    def _serve(self, what: Any) -> None:
        if not isinstance(what, int):
            self._plain.settle()
            self._tend_at = 0.0
        if what == _WAKE:
            self._ring.drain_wake()
        elif what == PEER:
            self._peer.is_gone = True
        elif what == DIAL_KEY:
            assert self._commands is not None
            for command in self._commands.take_commands():
                self._obey(command)
        elif isinstance(what, ReadAheadConnection):
            self._lanes.receive(what)
        else:
            self._receive(what)

    # Brokers: look up leaders, dial, ask, receive.

    def _find_homes(self) -> None:
        if self._leaders.may_ask():
            leaderless = self._partitions.leaderless(time.monotonic())
            self._leaders.want(fetch_state.partition.topic for fetch_state in leaderless)
            self._leaders.refresh()
            self._leaders.poll()
        for node in list(self._partitions.nodes):
            if node in self._connections:
                continue
            if not self._leaders.dial(("dial", node), node, receive_bytes=self._options.receive_bytes):
                self._forget_home(node)

    def _take_outcome(self, outcome: Outcome) -> None:
        match outcome.key:
            case str(key) if key in LOOK_UP_KEYS:
                self._take_view(outcome)
            case "command-topic":
                if self._commands is not None:
                    self._commands.take_link(outcome)
            case ("dial", int(node)):
                self._take_link(node, outcome)
            case ("lane", int(node), int(number)):
                self._lanes.take_link(node, number, outcome)
            case (log_bounds.KEY, TopicPartition() as partition):
                fetch_state = self._partitions.get(partition)
                if fetch_state is not None:
                    self._bounds.take(fetch_state, outcome, self._response_reader)

    def _take_link(self, node: int, outcome: Outcome) -> None:
        if outcome.error is not None:
            self._response_reader.report([r for r in self._partitions if r.node == node], str(outcome.error))
            self._forget_home(node)
            return
        try:
            connection = FetchConnection(outcome.result, self._ring, self._options.limits)
        except ProtocolError as problem:
            self._response_reader.report([r for r in self._partitions if r.node == node], str(problem))
            return
        self._connections[node] = connection
        self._selector.register(connection.link.socket, selectors.EVENT_READ, node)

    def _take_view(self, outcome: Outcome) -> None:
        view = self._leaders.take(outcome)
        if view is None:
            self._response_reader.report(self._partitions.leaderless(time.monotonic()), self._leaders.problem)
            return
        self._homes.take(self._partitions, view, self._leaders.addresses)

    def _ask(self, node: int) -> None:
        connection = self._connections[node]
        now = time.monotonic()
        if connection.waiting or connection.rests(now) or not self._has_credit():
            return
        if now >= connection.link.reauthenticate_at:
            self._drop(node)
            return
        try:
            bytes_max = self._throttle.bytes_max(self._options.limits.bytes_max)
            if not self._plain.ask(node, bytes_max):
                wanted = self._partitions.wanted(node, by_id=connection.by_id, now=now)
                if wanted:
                    connection.send(wanted, bytes_max, self._partitions.take_changes(node))
        except OSError:
            self._drop(node)

    def _has_credit(self) -> bool:
        if self._ring.inline_outstanding_bytes < INLINE_OUTSTANDING_BYTES_MAX:
            return True
        return not self._ring.peer and time.monotonic() - self._started > _PEER_SECONDS_MAX

    def _retry_starved(self) -> bool:
        starved = False
        for node, connection in list(self._connections.items()):
            if connection.starved:
                self._ring.collect()
                self._receive(node)
                if node not in self._connections:
                    continue
                if connection.starved:
                    starved = True
                else:
                    self._selector.register(connection.link.socket, selectors.EVENT_READ, node)
        return starved

    def _receive(self, node: int) -> None:
        connection = self._connections[node]
        was_starved = connection.starved
        try:
            frame = connection.receive()
            if connection.starved and not was_starved:
                self._selector.unregister(connection.link.socket)
            if frame is not None:
                if not self._plain.take(node, connection, frame):
                    self._plain.settle()
                    self._response_reader.take_frame(node, connection, frame, self._partitions)
                    self._lanes.recruit(node, connection.link)
                self._ask(node)
        except OSError:
            self._drop(node)
        except ProtocolError as problem:
            self._response_reader.report([one for one in self._partitions if one.node == node], str(problem))
            self._drop(node)

    def _drop(self, node: int) -> None:
        """Close a broken connection; the leaders of its partitions are looked up again."""
        self._plain.settle()
        self._tend_at = 0.0
        connection = self._connections.pop(node)
        with suppress(KeyError):  # a starved connection is not watched
            self._selector.unregister(connection.link.socket)
        connection.close()
        self._leaders.broke(("dial", node))
        self._forget_home(node)

    def _forget_home(self, node: int) -> None:
        for fetch_state in self._partitions:
            if fetch_state.node == node:
                fetch_state.node = None
        self._leaders.forget_node(node)

    # Commands.

    def _obey(self, command: Command) -> None:
        if command.run != self._plan.run or is_written_again(command):  # the plan has the orders of before
            return
        self._end.hear(command, time.monotonic())
        if isinstance(command, RateOrder):
            self._throttle.order(command.pattern, command.bytes_per_second)
        elif isinstance(command, Pause | Resume | Retry):
            self._response_reader.rows += self._orders.take(command, self._partitions)
        elif isinstance(command, Assign) and self._admission.is_for_task(command):
            self._throttle.note_topics(command.topics)
            self._take_on(self._admission.admit(command), command.generation)
            self._let_go(command.release)
        self._throttle.share_out(self._partitions, time.monotonic())

    def _take_on(self, assigned: tuple[Assigned, ...], generation: int) -> None:
        unknown = [(item, NO_SLOT) for item in assigned if item.unknown]
        fresh = [item for item in assigned if not item.unknown and self._partitions.get(item.partition) is None]
        fetch_states = [self._partitions.add(item, self._leaders.of(item.partition)) for item in fresh]
        slots = [(item, fetch_state.slot) for item, fetch_state in zip(fresh, fetch_states, strict=True)]
        self._response_reader.rows.append(plan_row(self._plan, generation, [*slots, *unknown], self._ring.address))
        self._response_reader.rows += self._orders.apply(fetch_states)
        for item, fetch_state in zip(fresh, fetch_states, strict=True):
            if item.restarted_from is not None:
                self._response_reader.lose(
                    fetch_state, judge_recreated(fetch_state.offset, fetch_state.lineage, item.topic_id)
                )

    def _let_go(self, released: tuple[TopicPartition, ...]) -> None:
        for partition in released:
            if (fetch_state := self._partitions.remove(partition)) is not None:
                row = Row(RELEASE, partition.topic, partition.partition, fetch_state.offset, fetch_state.offset)
                self._response_reader.rows.append(row)

    def close(self) -> None:
        self._background.close()
        if self._commands is not None:
            self._commands.drop()
        for connection in self._connections.values():
            connection.close()
        self._lanes.close()
        self._selector.close()
        self._peer.close()
        self._ring.close()
