"""How long checkpoints take from being read to being stored, for each group and partition apart.

MirrorMaker's own metric of that name mixes all groups of a task. Filled by `sync.offset_job`, read by `metrics`.
"""

import threading
from collections.abc import Iterable, Mapping

from sparkmirror.model import TopicPartition
from sparkmirror.telemetry.records import Spread
from sparkmirror.telemetry.window import Window

GroupPartition = tuple[str, TopicPartition]
"""A group, and a partition by its name on the target."""


class CheckpointLatency:
    """One flow's. Filled by one thread, read by others."""

    def __init__(self) -> None:
        self._windows: dict[GroupPartition, Window] = {}
        self._lock = threading.Lock()

    def add(self, stored: Iterable[GroupPartition], ms: int, now_ms: int) -> None:
        """These checkpoints took `ms`."""
        with self._lock:
            for one in stored:
                self._windows.setdefault(one, Window()).add(ms, ms, 1, now_ms)

    def spreads(self, now_ms: int) -> Mapping[GroupPartition, Spread]:
        with self._lock:
            return {one: window.spread(now_ms) for one, window in self._windows.items()}
