"""Follows a flow's status topic and its gap ledger on the target while they grow."""

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import SparkMirrorError, describe_unexpected
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import TopicFollower, open_admin
from sparkmirror.ledger.gaps import Gap, decode
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.bus import BusReader

_GAPS_SECONDS: Final = 3.0


class GapFollower:
    """Reads the gap ledger, in one thread. The caller closes `admin`, a client of the target. `gaps` holds all gaps
    read so far, by record key."""

    def __init__(self, flow: FlowConfig, admin: Admin, role: str) -> None:
        self._source_alias = flow.name.source
        topic = flow.ledger_topics.gaps
        self._follower = TopicFollower(flow.target, admin, topic, role)
        self.gaps: dict[bytes | None, Gap] = {}

    def read(self) -> bool:
        """Read the new records; whether there were any. Raises ClusterError."""
        records = self._follower.read()
        for record in records:
            gap = decode(self._source_alias, record.key, record.value)
            if gap is not None:
                self.gaps[record.key] = gap
        return bool(records)

    def close(self) -> None:
        self._follower.close()


class FlowFollower:
    """Follows the latest run of a flow for all parts of this process that show it: the page's thread polls, and
    `/metrics` and JMX read the same board.

    One thread calls `poll` and `close`. Other threads may read `board` while they hold `lock`; `poll` does not hold it
    while it waits for a broker. A board that is read again counts no less than the one before.
    """

    def __init__(self, flow: FlowConfig, role: str) -> None:
        """`role` names its clients to the brokers."""
        self.flow = flow
        self._role = role
        self.lock = threading.Lock()
        self.board = StatusBoard(flow.name.source)
        self.gaps: Mapping[bytes | None, Gap] = {}
        """All gaps by record key; `poll` replaces the mapping when a gap has arrived, and never changes it."""
        self.problem = f"{flow.name.target} has not been asked yet"
        """Why the last `poll` could not read the target; empty where it could."""
        self._open = ExitStack()
        self._readers: tuple[BusReader, GapFollower] | None = None
        self._gaps_at = 0.0

    def poll(self) -> bool:
        """Read new records; whether the board has changed. After a failure, which `problem` describes, the next call
        connects again."""
        try:
            is_new = self._poll()
        except SparkMirrorError as problem:
            self.close()
            self.problem = str(problem.args[0])
            return False
        except Exception as problem:  # else what was read last would be shown for good
            self.close()
            self.problem = describe_unexpected(problem)
            raise
        self.problem = ""
        return is_new

    def _poll(self) -> bool:
        is_first = self._readers is None
        bus, gap_follower = self._readers = self._readers or self._connect()
        records = bus.receive()
        with self.lock:
            bus.fold(records)
            self.board = bus.board
        if is_first or time.monotonic() - self._gaps_at >= _GAPS_SECONDS:
            self._gaps_at = time.monotonic()
            if gap_follower.read():
                self.gaps = dict(gap_follower.gaps)
        return is_first or bool(records)

    def _connect(self) -> tuple[BusReader, GapFollower]:
        admin = self._open.enter_context(open_admin(self.flow.target, self._role))
        gaps = GapFollower(self.flow, admin, self._role)
        self._open.callback(gaps.close)
        bus = self._open.enter_context(BusReader(self.flow, "", self._role, admin))
        bus.read_to_end()
        bus.board.keep_counts(self.board)
        return bus, gaps

    def close(self) -> None:
        self._open.close()
        self._readers = None
