"""Answers Prometheus from the boards that the page's followers keep. `runtime.page` makes it; `runtime.jmx` makes its
beans from the same snapshots."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from sparkmirror.model import TopicPartition
from sparkmirror.telemetry.exposition import CONTENT_TYPE, expose
from sparkmirror.telemetry.follower import FlowFollower
from sparkmirror.telemetry.records import Spread
from sparkmirror.telemetry.snapshot import FlowSnapshot


@dataclass(frozen=True, slots=True)
class FlowScrape:
    """One flow. `checkpoints` returns the checkpoint latencies at a time in ms, by group and partition. `unwritten`
    returns why the flow's status cannot be written to the target; empty where it can."""

    follower: FlowFollower
    checkpoints: Callable[[int], Mapping[tuple[str, TopicPartition], Spread]]
    unwritten: Callable[[], str]

    def look(self) -> FlowSnapshot:
        now_ms, follower, flow = time.time_ns() // 1_000_000, self.follower, self.follower.flow
        is_read = not (follower.problem or self.unwritten())
        checkpoints, gaps = self.checkpoints(now_ms), tuple(follower.gaps.values())
        return FlowSnapshot(flow.name, follower.board, now_ms, flow.remote_topic, is_read, checkpoints, gaps)


class Scrapes:
    """All flows of a process; one scrape at a time."""

    def __init__(self) -> None:
        self._flows: list[FlowScrape] = []
        self._lock = threading.Lock()

    def add(self, flow: FlowScrape) -> None:
        with self._lock:
            self._flows.append(flow)

    def answer(self) -> tuple[bytes, str]:
        """The body of `/metrics` and its content type."""
        with self._lock, ExitStack() as held:
            for flow in self._flows:
                held.enter_context(flow.follower.lock)
            return expose([flow.look() for flow in self._flows]), CONTENT_TYPE
