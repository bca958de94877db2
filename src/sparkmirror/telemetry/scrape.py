"""Reads the status topics of a process's flows when Prometheus asks. Made by `runtime.page`."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterError
from sparkmirror.model import TopicPartition
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.bus import BusReader
from sparkmirror.telemetry.exposition import CONTENT_TYPE, expose
from sparkmirror.telemetry.metrics import FlowSnapshot
from sparkmirror.telemetry.records import Spread

_AGAIN_SECONDS: Final = 30.0
Checkpoints = Callable[[int], Mapping[tuple[str, TopicPartition], Spread]]


class FlowScrape:
    """One flow. Its reader is opened by the first scrape; a target that does not answer is asked again after 30 s."""

    def __init__(self, flow: FlowConfig, checkpoints: Checkpoints) -> None:
        self._flow = flow
        self._checkpoints = checkpoints
        self._reader: BusReader | None = None
        self._board = StatusBoard(flow.name.source)
        self._open_at = 0.0

    def look(self) -> FlowSnapshot:
        is_read = self._read()
        now_ms = time.time_ns() // 1_000_000
        flow = self._flow
        return FlowSnapshot(flow.name, self._board, now_ms, flow.remote_topic, is_read, self._checkpoints(now_ms))

    def _read(self) -> bool:
        if self._reader is None and time.monotonic() < self._open_at:
            return False
        try:
            if self._reader is None:
                self._reader = BusReader(self._flow, role="metrics")
                self._board = self._reader.read_to_end()
            while self._reader.poll():
                pass
        except ClusterError:
            self.close()
            self._open_at = time.monotonic() + _AGAIN_SECONDS
            return False
        return True

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class Scrapes:
    """All flows of a process; one scrape at a time."""

    def __init__(self) -> None:
        self._flows: list[FlowScrape] = []
        self._lock = threading.Lock()

    def add(self, flow: FlowConfig, checkpoints: Checkpoints) -> None:
        with self._lock:
            self._flows.append(FlowScrape(flow, checkpoints))

    def answer(self) -> tuple[bytes, str]:
        """The body of `/metrics` and its content type."""
        with self._lock:
            return expose([flow.look() for flow in self._flows]), CONTENT_TYPE

    def close(self) -> None:
        with self._lock:
            for flow in self._flows:
                flow.close()
