"""The one reader of a flow's status topic; the nouns on it are those of `telemetry.records`.

Used by the CLI, by the running mirror itself (`runtime.progress`), by the status page and by the metrics: none of them
needs a running process of ours, only the target.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Self

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.health import clock_ahead_seconds
from sparkmirror.kafka.tail import FOLLOWING_WAIT_SECONDS, TailRecord
from sparkmirror.model import TopicPartition
from sparkmirror.telemetry.board import StatusBoard

_READ_SECONDS_MAX = 10.0


class BusReader:
    """Folds what comes into `board`. A context manager, for one thread.

    With a `run` it shows that one alone, otherwise the latest. Opening raises ClusterError; the topic must exist for
    anything to come. Records bear the brokers' time: with an `admin` of the target it is given in ours, so that a clock
    that is wrong here makes nobody silent.
    """

    def __init__(self, flow: FlowConfig, run: str = "", role: str = "status", admin: Admin | None = None) -> None:
        self.flow = flow
        self._ahead_ms = _ahead_ms(admin) if admin is not None else 0
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
        """Take in what has come, or comes within the time; how many records that were. Raises ClusterError."""
        records = self.receive(seconds_max)
        self.fold(records)
        return len(records)

    def receive(self, seconds_max: float = 0.0) -> list[TailRecord]:
        """What has come, or comes within the time; `fold` takes it in. Raises ClusterError."""
        return self._tail.poll(seconds_max) if seconds_max or self._tail.may_have_news else []

    def read_to_end(self, seconds_max: float = _READ_SECONDS_MAX) -> StatusBoard:
        """Take in all that there is now. Raises ClusterError."""
        self.fold(self._tail.read_to_end(seconds_max))
        return self.board

    def fold(self, records: Iterable[TailRecord]) -> None:
        for record in records:
            self.board.take(record.key, record.value, record.timestamp_ms - self._ahead_ms)


def read_board(flow: FlowConfig, role: str = "status") -> StatusBoard:
    """All that the flow has left on its target, of its latest run; nothing where it never ran. Raises ClusterError."""
    topic = flow.ledger_topics.status
    with open_admin(flow.target, role) as admin:
        if not admin.list_topics([topic]):
            return StatusBoard(flow.name.source)
        with BusReader(flow, "", role, admin) as reader:
            return reader.read_to_end()


def _ahead_ms(admin: Admin) -> int:
    """By how much the target's clock is ahead of ours; one that does not tell is taken to go as ours does."""
    with suppress(ClusterError):
        return round((clock_ahead_seconds(admin) or 0.0) * 1000)
    return 0
