"""How long a tail waits: as long as records come, and no longer; with a consumer that is told what comes."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka import tail as module
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.tail import TopicTail
from sparkmirror.model import TopicPartition

WHERE = TopicPartition("positions", 0)
SETTINGS = ClientSettings("B", ("one:9092",), "test")


class SlowConsumer:
    """One partition of `end` records, one of which comes every `seconds` until `stop`. Only waiting moves the clock."""

    def __init__(self, clock: ManualClock, end: int, seconds: float, stop: int) -> None:
        self.clock, self._end, self._seconds, self._stop = clock, end, seconds, stop
        self._position = 0

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None  # assign, seek_to_beginning, close

    def end_offsets(self, partitions: list[Any], timeout_ms: int) -> dict[Any, int]:
        return dict.fromkeys(partitions, self._end)

    def position(self, _: Any, timeout_ms: int) -> int:
        return self._position

    def poll(self, timeout_ms: int) -> dict[Any, list[Any]]:
        self.clock.now += self._seconds
        if self._position == self._stop:
            return {}
        self._position += 1
        record = SimpleNamespace(
            topic=WHERE.topic, partition=0, offset=self._position - 1, timestamp=0, key=b"k", value=b"v", headers=[]
        )
        return {WHERE: [record]}


def tail(monkeypatch: pytest.MonkeyPatch, consumer: SlowConsumer) -> TopicTail:
    monkeypatch.setattr(module, "_open_consumer", lambda *_: consumer)
    return TopicTail(SETTINGS, [WHERE], clock=consumer.clock)


def test_a_long_topic_may_take_longer_than_the_deadline_as_long_as_records_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock(0.0)
    found = tail(monkeypatch, SlowConsumer(clock, end=100, seconds=5.0, stop=100)).read_to_end(60)
    assert [record.offset for record in found] == list(range(100))
    assert clock.now == 500


def test_a_broker_that_falls_silent_is_given_up_with_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(0.0)
    with pytest.raises(ClusterUnreachable, match="90 offsets of topic positions could not be read: nothing came"):
        tail(monkeypatch, SlowConsumer(clock, end=100, seconds=5.0, stop=10)).read_to_end(60)
    assert 10 * 5 + 60 <= clock.now <= 10 * 5 + 60 + 10
