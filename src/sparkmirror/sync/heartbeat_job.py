"""Heartbeats of one pair of clusters: a record a second on the target, which shows that a mirror can write there.

As `MirrorHeartbeatTask` of MirrorMaker 2: the source is never asked. The source's heartbeats, mirrored like any topic,
show that data flows. Run by `runtime.jobs`.
"""

import time
from contextlib import ExitStack

from sparkmirror.config.flow.settings import HeartbeatSettings
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.publish import Publisher
from sparkmirror.ledger.mirror_records import Heartbeat
from sparkmirror.ledger.setup import ensure_compacted_topic
from sparkmirror.policy.naming import HEARTBEATS_TOPIC


class HeartbeatJob:
    """One heartbeat a call. The connection stays open and is made again after a failure."""

    def __init__(self, settings: HeartbeatSettings) -> None:
        self._settings = settings
        self._connections = ExitStack()
        self._publisher: Publisher | None = None

    def __call__(self) -> None:
        """Raises ClusterError when the target does not take it."""
        try:
            if self._publisher is None:
                self._open()
            assert self._publisher is not None
            beat = Heartbeat(self._settings.flow, time.time_ns() // 1_000_000)
            self._publisher.write(HEARTBEATS_TOPIC, [(beat.key(), beat.value())], beat.timestamp_ms)
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        self._connections.close()
        self._publisher = None

    def _open(self) -> None:
        settings = self._settings
        with open_admin(settings.target, "heartbeats") as admin:
            ensure_compacted_topic(admin, HEARTBEATS_TOPIC, settings.replication_factor)
        self._publisher = self._connections.enter_context(Publisher(settings.target, "heartbeats"))
