"""A reader of the status topic that connects again after its target was away."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from tests.flows import flow_of

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.stored_json import encode
from sparkmirror.telemetry import follower
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.records import encode_key


def task(epoch: int, records: int) -> tuple[bytes, bytes]:
    return encode_key("task", "A", 0), encode({"run": "r", "task": 0, "epoch": epoch, "records": records})


class Bus:
    """Reads what the topic has now; a closed one cannot be asked."""

    def __init__(self, topic: list[tuple[bytes, bytes]], is_away: Callable[[], bool]) -> None:
        self.board = StatusBoard("A")
        self._topic, self._is_away = topic, is_away

    def __enter__(self) -> "Bus":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def read_to_end(self) -> None:
        for record in self._topic:
            self.board.take(*record)

    def receive(self) -> list[Any]:
        if self._is_away():
            raise ClusterUnreachable("Cluster B does not answer.", "")
        return []

    def fold(self, records: list[Any]) -> None:
        assert not records


class Gaps:
    def __init__(self, *_: object) -> None:
        self.gaps: dict[bytes | None, Any] = {}

    def read(self) -> bool:
        return False

    def close(self) -> None:
        return None


def test_what_was_counted_stays_counted_where_the_target_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    topic, away = [task(1, 40), task(2, 5)], [False]
    monkeypatch.setattr(follower, "open_admin", lambda *_: nullcontext())
    monkeypatch.setattr(follower, "BusReader", lambda *_: Bus(topic, lambda: away[0]))
    monkeypatch.setattr(follower, "GapFollower", Gaps)
    reader = follower.FlowFollower(flow_of(), "page")
    reader.poll()
    assert (reader.board.status().records, reader.problem) == (45, "")
    away[0] = True
    reader.poll()
    assert (reader.board.status().records, reader.problem) == (45, "Cluster B does not answer.")
    away[0] = False
    del topic[0]
    reader.poll()
    assert (reader.board.status().records, reader.problem) == (45, ""), "compaction has taken the first epoch's record"
