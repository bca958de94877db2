"""Reads the status topics of a process's flows when Prometheus asks. Made by `runtime.page`."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.clients import open_admin
from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import TopicPartition
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.bus import BusReader
from sparkmirror.telemetry.exposition import CONTENT_TYPE, expose
from sparkmirror.telemetry.gap_follower import GapFollower
from sparkmirror.telemetry.metrics import FlowSnapshot
from sparkmirror.telemetry.records import Spread

_AGAIN_SECONDS: Final = 30.0
Checkpoints = Callable[[int], Mapping[tuple[str, TopicPartition], Spread]]


class FlowScrape:
    """One flow. Its reader is opened by the first scrape; a target that does not answer is asked again after 30 s."""

    def __init__(self, flow: FlowConfig, checkpoints: Checkpoints, unwritten: Callable[[], str] = str) -> None:
        """`unwritten` says why the target does not take what the flow tells, if so."""
        self._flow = flow
        self._checkpoints = checkpoints
        self._unwritten = unwritten
        self._open = ExitStack()
        self._reader: BusReader | None = None
        self._gaps: GapFollower | None = None
        self._known_gaps: tuple[Gap, ...] = ()
        self._board = StatusBoard(flow.name.source)
        self._open_at = 0.0

    def look(self) -> FlowSnapshot:
        is_read = self._read() and not self._unwritten()
        now_ms = time.time_ns() // 1_000_000
        flow, checkpoints = self._flow, self._checkpoints(now_ms)
        return FlowSnapshot(flow.name, self._board, now_ms, flow.remote_topic, is_read, checkpoints, self._known_gaps)

    def _read(self) -> bool:
        if self._reader is None and time.monotonic() < self._open_at:
            return False
        try:
            if self._reader is None or self._gaps is None:
                admin = self._open.enter_context(open_admin(self._flow.target, "metrics"))
                self._reader = self._open.enter_context(BusReader(self._flow, "", "metrics", admin))
                self._gaps = GapFollower(self._flow, admin, "metrics")
                self._open.callback(self._gaps.close)
                self._board = self._reader.read_to_end()
            while self._reader.poll():
                pass
            self._known_gaps = tuple(self._gaps.read())
        except ClusterError:
            self.close()
            self._open_at = time.monotonic() + _AGAIN_SECONDS
            return False
        return True

    def close(self) -> None:
        self._open.close()
        self._reader = self._gaps = None


class Scrapes:
    """All flows of a process; one scrape at a time."""

    def __init__(self) -> None:
        self._flows: list[FlowScrape] = []
        self._lock = threading.Lock()

    def add(self, flow: FlowConfig, checkpoints: Checkpoints, unwritten: Callable[[], str]) -> None:
        """As `FlowScrape` takes them."""
        with self._lock:
            self._flows.append(FlowScrape(flow, checkpoints, unwritten))

    def answer(self) -> tuple[bytes, str]:
        """The body of `/metrics` and its content type."""
        with self._lock:
            return expose([flow.look() for flow in self._flows]), CONTENT_TYPE

    def close(self) -> None:
        with self._lock:
            for flow in self._flows:
                flow.close()
