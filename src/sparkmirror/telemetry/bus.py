"""Reads a flow's status topic, whose records `telemetry.records` defines.

The CLI, the running mirror itself (`runtime.progress`), the status page and the metrics use it. They need the target
cluster only: a mirror need not run.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Self

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.health import clock_ahead_seconds
from sparkmirror.kafka.tail import FOLLOWING_WAIT_SECONDS, TailRecord
from sparkmirror.model import TopicPartition
from sparkmirror.telemetry.board import StatusBoard

_READ_SECONDS_MAX = 10.0
_JUMP_MS = 1500


class BusReader:
    """Folds the records that arrive into `board`. A context manager, for one thread.

    With a `run` the board shows that run alone, otherwise the latest. Opening raises ClusterError. While the topic does
    not exist, no records arrive. The brokers stamp the records; with an `admin` of the target the reader subtracts the
    difference between the two clocks, so that no process seems silent because this machine's clock is wrong. It asks
    again after this machine's clock was set: a process that was killed would else seem to live until the clock has come
    back to where it was.
    """

    def __init__(
        self,
        flow: FlowConfig,
        run: str = "",
        role: str = "status",
        admin: Admin | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.flow = flow
        self._admin = admin
        self._clock = clock
        self._began_at = self._wall_began_at()
        self._ahead_ms = (_ahead_ms(admin) or 0) if admin is not None else 0
        self.board = StatusBoard(flow.name.source, run)
        topics = flow.ledger_topics
        self._tail = open_tail(flow.target, role, [TopicPartition(topics.status, 0)], FOLLOWING_WAIT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._tail.close()

    def poll(self, seconds_max: float = 0.0) -> int:
        """Fold the records that have arrived, or arrive within the time; their number. Raises ClusterError."""
        records = self.receive(seconds_max)
        self.fold(records)
        return len(records)

    def receive(self, seconds_max: float = 0.0) -> list[TailRecord]:
        """The records that have arrived, or arrive within the time, for `fold`. Raises ClusterError."""
        if self._admin is not None:
            self._mind_clock(self._admin)
        return self._tail.poll(seconds_max) if seconds_max or self._tail.may_have_news else []

    def _wall_began_at(self) -> float:
        """What the wall clock showed when the monotonic one began: it changes where the wall clock is set."""
        return self._clock.time_ns() / 1e9 - self._clock.monotonic()

    def _mind_clock(self, admin: Admin) -> None:
        began_at = self._wall_began_at()
        moved_ms = round((began_at - self._began_at) * 1000)
        if abs(moved_ms) < _JUMP_MS:
            return
        self._began_at = began_at
        # A machine that slept looks like one whose clock was set. Where the target does not tell, what seems longer ago
        # is believed.
        found_ms = _ahead_ms(admin)
        ahead_ms = max(self._ahead_ms, self._ahead_ms - moved_ms) if found_ms is None else found_ms
        self.board.shift(self._ahead_ms - ahead_ms)
        self._ahead_ms = ahead_ms

    def read_to_end(self, seconds_max: float = _READ_SECONDS_MAX) -> StatusBoard:
        """Fold all records up to the topic's present end. Raises ClusterError."""
        self.fold(self._tail.read_to_end(seconds_max))
        return self.board

    def fold(self, records: Iterable[TailRecord]) -> None:
        for record in records:
            self.board.take(record.key, record.value, record.timestamp_ms - self._ahead_ms)


def read_board(flow: FlowConfig, role: str = "status") -> StatusBoard:
    """The board of the flow's latest run, from its status topic; empty where it never ran. Raises ClusterError."""
    topic = flow.ledger_topics.status
    with open_admin(flow.target, role) as admin:
        if not admin.list_topics([topic]):
            return StatusBoard(flow.name.source)
        with BusReader(flow, "", role, admin) as reader:
            return reader.read_to_end()


def _ahead_ms(admin: Admin) -> int | None:
    """How many ms the target's clock is ahead of this machine's; None where the target does not tell its time."""
    with suppress(ClusterError):
        ahead = clock_ahead_seconds(admin)
        return None if ahead is None else round(ahead * 1000)
    return None
