"""Writes a few small records to internal topics: commands, notes, positions, heartbeats, offset syncs, checkpoints.

Called by `planning.planner`, `engine` and `sync`.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Self

from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError

from sparkmirror.kafka.checksum import use_fast_checksums
from sparkmirror.kafka.errors import quiet_client_logging, translate
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import Cluster

Record = tuple[bytes, bytes | None]
"""Key and value; None is a tombstone."""

_BOOTSTRAP_SECONDS_MAX = 10.0
_CLOCK_READINGS = 3


class Publisher:
    """Writes to a cluster's internal topics, over connections that stay open. A context manager."""

    def __init__(self, cluster: Cluster, role: str, seconds_max: float = 30.0) -> None:
        """Connects. Raises ClusterError; neither this nor a `write` takes longer than `seconds_max`."""
        quiet_client_logging()
        use_fast_checksums()
        self._settings = client_settings(cluster, role)
        self._seconds_max = seconds_max
        try:
            self._producer = KafkaProducer(
                acks="all",
                enable_idempotence=False,
                max_block_ms=int(seconds_max * 1000),
                bootstrap_timeout_ms=int(min(seconds_max, _BOOTSTRAP_SECONDS_MAX) * 1000),
                **self._settings.client_arguments(),
            )
        except Exception as error:
            raise translate(error, self._settings, "connecting") from error
        # A job may be cut off when the process ends: the client's own hook would then print a stack trace.
        self._producer._unregister_cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """What is not acknowledged is given up: whoever wrote it has been told.

        The client's own `close` raises then, before it has ended its thread and its connections.
        """
        try:
            self._producer.close(timeout=1.0)
        except KafkaTimeoutError:
            self._producer._sender.force_close()
            self._producer._sender.join(1.0)
            with suppress(KafkaTimeoutError):
                self._producer.close(timeout=1.0)

    def write(
        self,
        topic: str,
        records: Iterable[Record],
        timestamp_ms: int | None = None,
        *,
        place: Callable[[bytes], int] | None = None,
    ) -> None:
        """Writes all records and waits for them; their time is `timestamp_ms` or now. Raises ClusterError.

        They go to partition 0, or where `place` puts a key.
        """
        ends_at = time.monotonic() + self._seconds_max
        try:
            sent = [
                self._producer.send(
                    topic, key=key, value=value, partition=place(key) if place else 0, timestamp_ms=timestamp_ms
                )
                for key, value in records
            ]
            for future in sent:
                future.get(timeout=max(ends_at - time.monotonic(), 0.1))
        except Exception as error:
            raise translate(error, self._settings, f"writing to topic {topic}") from error

    def read_clock(self, topic: str) -> float:
        """How many seconds the clock of the broker that leads `topic` is ahead of ours, but for half a round trip.

        Asked a few times, the quickest answer counts: the first waits for the connection. The topic has
        `message.timestamp.type=LogAppendTime`. Raises ClusterError.
        """
        try:
            _, ahead_seconds = min(self._ask_clock(topic) for _ in range(_CLOCK_READINGS))
        except Exception as error:
            raise translate(error, self._settings, f"writing to topic {topic}") from error
        return round(ahead_seconds, 3)

    def _ask_clock(self, topic: str) -> tuple[float, float]:
        """The round trip, and how far the broker is ahead, in seconds."""
        before = time.time()
        written = self._producer.send(topic, value=b"", partition=0).get(timeout=self._seconds_max)
        after = time.time()
        return after - before, written.timestamp / 1000 - (before + after) / 2


def publish(
    cluster: Cluster,
    topic: str,
    records: Iterable[Record],
    seconds_max: float = 5.0,
    *,
    place: Callable[[bytes], int] | None = None,
) -> None:
    """Write the (key, value) pairs to `topic` and wait for them; to partition 0, or where `place` puts a key.

    Raises ClusterError.
    """
    with Publisher(cluster, "commands", seconds_max) as publisher:
        publisher.write(topic, records, place=place)
