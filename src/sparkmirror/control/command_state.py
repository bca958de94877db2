"""The state of a run by all commands so far, as its planner reads them from the command topic. Owned by
`planning.planner`.

Read once from the beginning and then followed, over a connection that stays open: a planner without work waits here.
"""

import time
from contextlib import ExitStack, suppress
from typing import Final

from msgspec.structs import replace

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.commands import (
    Assign,
    Pause,
    Resume,
    Share,
    Slots,
    Stop,
    Throttle,
    command_record,
    decode_command,
)
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.publish import publish
from sparkmirror.kafka.tail import FOLLOWING_WAIT_SECONDS, TailRecord, TopicTail
from sparkmirror.model import TopicPartition

_READ_SECONDS_MAX = 10.0
_KEPT_MS: Final = 12 * 3_600_000
"""The command topic keeps its records for seven days (`ledger.topics`)."""
_GENERATION_MAX = 1 << 30
"""Anybody who may write to the topic may order: more than any flow comes to, and far from what a record can say."""


class CommandState:
    """The commands in force for one `run`, and for one `process` of those that share it; they outlive the topic's
    retention."""

    def __init__(self, flow: FlowConfig, run: str, process: str) -> None:
        self._flow = flow
        self._run = run
        self._process = process
        self._where = TopicPartition(flow.ledger_topics.commands, 0)
        self._open = ExitStack()
        self._tail: TopicTail | None = None
        self._ear: TopicTail | None = None
        self._read_to = 0
        self._written_ms: dict[Pause | Resume | Throttle, int] = {}
        self._since_ms: dict[Pause | Resume | Throttle, int] = {}
        """The orders in force, with when the topic took each first."""
        self._last_ms = 0
        self._kept_ms = 0
        self.is_stopped = False
        self.share: Share | None = None
        self.ordered_generation = 0
        """The greatest of all orders to tasks, of whatever run: one that slept since writes under it when it wakes."""
        self.slots: Slots | None = None
        """The slots of a Spark cluster; None if no command gave them, as on one machine, which has a slot for every
        task."""

    @property
    def orders(self) -> tuple[Pause | Resume | Throttle, ...]:
        """Pauses and resumes, in their order, and then throttles, the last of each pattern, in theirs."""
        in_order = sorted(self._since_ms, key=self._since_ms.__getitem__)
        return tuple(sorted(in_order, key=lambda one: isinstance(one, Throttle)))

    def read(self) -> None:
        """Read all commands up to the topic's end, and have it keep the person's. Raises ClusterError."""
        self._read(self._follow().read_to_end(_READ_SECONDS_MAX))
        self._keep_orders()

    def wait(self, seconds_max: float) -> None:
        """Read the commands that come within the time. Raises ClusterError."""
        self._read(self._follow().poll(seconds_max))

    def hear(self, seconds_max: float) -> None:
        """As `wait`, again and again, over a connection of its own. Raises ClusterError.

        A broker that has nothing new holds its answer back, and on that connection a `read` would wait for it. What was
        read already is passed over: an earlier one of its commands would undo a later one, until that comes again.
        """
        if self._ear is None:
            tail = open_tail(self._flow.target, "orders-heard", [self._where], FOLLOWING_WAIT_SECONDS)
            self._ear = self._open.enter_context(tail)
        self._fold([record for record in self._ear.poll(seconds_max) if record.offset >= self._read_to])

    def close(self) -> None:
        """Close the connections; the state stays."""
        self._open.close()
        self._tail = self._ear = None

    def _follow(self) -> TopicTail:
        if self._tail is None:
            self._tail = self._open.enter_context(open_tail(self._flow.target, "orders", [self._where]))
        return self._tail

    def _keep_orders(self) -> None:
        """Write all orders again, in their order, where the topic has had one for long: planners of later queries and
        of other processes need them. What cannot be written now is written when commands are read again. Once in as
        long, whatever time the topic gives the records: each of them wakes those that wait for commands."""
        now_ms = time.time_ns() // 1_000_000
        since_ms = now_ms - _KEPT_MS
        if self._kept_ms < since_ms and any(self._written_ms[one] < since_ms for one in self.orders):
            with suppress(ClusterError):
                again = [replace(one, since_ms=self._since_ms[one]) for one in self.orders]
                publish(self._flow.target, self._where.topic, [command_record(one) for one in again])
                self._kept_ms = now_ms

    def _read(self, records: list[TailRecord]) -> None:
        if records:
            self._read_to = records[-1].offset + 1
        self._fold(records)

    def _fold(self, records: list[TailRecord]) -> None:
        for record in records:
            command = decode_command(record.value)
            if isinstance(command, Assign):
                self.ordered_generation = max(self.ordered_generation, min(command.generation, _GENERATION_MAX))
            if command is None or command.run != self._run:
                continue
            if isinstance(command, Throttle | Pause | Resume):
                self._take_order(command, record.timestamp_ms)
            elif isinstance(command, Stop) and command.process in ("", self._process):
                self.is_stopped = True
            elif isinstance(command, Slots) and command.process == self._process:
                self.slots = command
            elif isinstance(command, Share):
                self._take_share(command)

    def _take_order(self, told: Throttle | Pause | Resume, written_ms: int) -> None:
        """Each has a moment that to write it again keeps: who does that may have slept since it read what it writes,
        and a person has ordered something else meanwhile. A person's order is later than all before it in the topic,
        whatever its broker's clock says."""
        order, since_ms = replace(told, since_ms=0), told.since_ms or max(written_ms, self._last_ms + 1)
        self._last_ms = max(self._last_ms, since_ms)
        self._written_ms[order] = written_ms
        known = self._since_ms
        if not isinstance(order, Throttle):
            known[order] = min(since_ms, known.get(order, since_ms))
            return
        others = [one for one in known if isinstance(one, Throttle) and one.pattern == order.pattern]
        if all(known[one] <= since_ms for one in others):
            for one in others:
                del known[one]
            known[order] = since_ms

    def _take_share(self, share: Share) -> None:
        is_newer = self.share is None or share.number > self.share.number
        if share.process == self._process and is_newer:
            self.share = share
