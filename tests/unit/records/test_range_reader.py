"""A task reads its range and nothing else; where the log has lost the beginning, it ends or says so and goes on."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.records.test_rows import part_of

from sparkmirror.batch.part import Part
from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire import lookup
from sparkmirror.kafka.wire.lookup import ClusterView, Span
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch.log_range import AnotherTopic, LogRange, RangeGone
from sparkmirror.records import range_reader
from sparkmirror.records.options import read_options
from sparkmirror.records.range_reader import TaskRange, read_range
from sparkmirror.records.ranges import OffsetRange
from sparkmirror.records.source_log import DataLoss

WHERE = TopicPartition("t", 0)


class Log:
    """A log of batches of five records from offset `start` to 30; asked below, it has nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, start: int) -> None:
        self.start = start
        self.asked: list[LogRange] = []
        monkeypatch.setattr(range_reader, "read_parts", self._read)
        monkeypatch.setattr(range_reader, "_newest_span", lambda *_: Span(self.start, 30))
        monkeypatch.setattr(range_reader, "gone_partitions", lambda *_: set())

    def _read(self, _settings: object, wanted: LogRange) -> Iterator[Part]:
        self.asked.append(wanted)
        if not self.start <= wanted.first <= 30:
            raise RangeGone("gone")
        for first in range(wanted.first // 5 * 5, wanted.end, 5):
            yield part_of(
                encode_batch([Record(at, 0, None, b"v") for at in range(first, first + 5)], base_offset=first)
            )


def offsets(first: int, end: int, **options: str) -> list[int]:
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "t", **options}
    task = TaskRange(OffsetRange(WHERE, first, end), compacted=True)
    batches: list[Any] = list(read_range(read_options(given, is_stream=False), task))
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_a_range_may_begin_and_end_inside_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(monkeypatch, 0)
    assert offsets(7, 18) == list(range(7, 18))
    assert log.asked == [LogRange(WHERE, 7, 18, read_committed=False, compacted=True)]
    assert offsets(10, 10) == []


def test_the_isolation_level_reaches_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(monkeypatch, 0)
    offsets(0, 5, **{"kafka.isolation.level": "read_committed"})
    assert log.asked[0].read_committed


def test_what_retention_took_ends_the_read_or_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Log(monkeypatch, 10)
    with pytest.raises(DataLoss, match="t-0 no longer holds offset 3: its log goes from 10 to 30"):
        offsets(3, 18)
    assert caplog.messages == []
    assert offsets(3, 18, failondataloss="false") == list(range(10, 18))
    assert offsets(3, 8, failondataloss="false") == [], "all of it is gone"
    assert offsets(40, 50, failondataloss="false") == [], "the log was cut"
    assert len(caplog.messages) == 3


def answers(monkeypatch: pytest.MonkeyPatch, *problems: Exception) -> list[tuple[int, int]]:
    """What was asked of a log of offsets 0 … 999, whose first answers are these."""
    asked: list[tuple[int, int]] = []
    waiting = list(problems)

    def read(_settings: object, wanted: LogRange) -> Iterator[Part]:
        asked.append((wanted.first, wanted.end))
        if waiting:
            raise waiting.pop(0)
        records = [Record(at, 0, None, b"v") for at in range(wanted.first, wanted.end)]
        yield part_of(encode_batch(records, base_offset=wanted.first))

    monkeypatch.setattr(range_reader, "read_parts", read)
    monkeypatch.setattr(range_reader, "_newest_span", lambda *_: Span(0, 1000))
    monkeypatch.setattr(range_reader, "gone_partitions", lambda *_: set())
    monkeypatch.setattr(range_reader, "_PAUSE_SECONDS", 0.0)
    return asked


def test_one_wrong_answer_of_a_broker_skips_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, RangeGone("gone"))
    assert offsets(5, 9, failondataloss="false") == [5, 6, 7, 8]
    assert asked == [(5, 9), (5, 9)]
    answers(monkeypatch, *[RangeGone("t-0 no longer holds offset 5.")] * 20)
    with pytest.raises(ClusterUnreachable, match="Its leader says that the log holds it"):
        offsets(5, 9, failondataloss="false")


def test_a_topic_that_was_made_again_is_not_read_by_the_offsets_of_the_former(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers(monkeypatch, AnotherTopic("made again"))
    with pytest.raises(DataLoss, match="The topic t was deleted and made again before offsets 5 to 8 were read"):
        offsets(5, 9)
    asked = answers(monkeypatch, AnotherTopic("made again"))
    assert offsets(5, 9, failondataloss="false") == []
    assert (asked, len(caplog.messages)) == ([(5, 9)], 1)


def test_a_range_longer_than_its_log_ends_where_the_log_does(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = ClusterUnreachable("sends no more")
    answers(monkeypatch, silent)
    with pytest.raises(DataLoss, match="t-0 was to be read to offset 2000, and its log ends at 1000: it was cut"):
        offsets(1000, 2000)
    answers(monkeypatch, silent)
    assert offsets(1000, 2000, failondataloss="false") == []
    answers(monkeypatch, silent)
    with pytest.raises(ClusterUnreachable):
        offsets(5, 9, failondataloss="false")


def test_what_a_former_leader_says_of_its_log_skips_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cut off from the others, and still calls itself the leader; only the other server knows better."""
    span_of_any = range_reader._newest_span
    answers(monkeypatch, RangeGone("gone"), RangeGone("gone"))
    monkeypatch.setattr(range_reader, "_newest_span", span_of_any)

    def view(settings: ClientSettings, *_: object) -> ClusterView:
        node, epoch = (1, 4) if settings.bootstrap_servers[0] == "one:1" else (2, 5)
        return ClusterView({1: ("one", 1), 2: ("two", 1)}, {WHERE: node}, {"t": UUID(int=1)}, epochs={WHERE: epoch})

    def ends(link: Any, _where: TopicPartition, timestamp: int, epoch: int) -> tuple[int, int]:
        return (0, epoch) if timestamp == -2 else (70 if link.address == "one" else 90, epoch)

    monkeypatch.setattr(lookup, "ask_anyone", view)
    monkeypatch.setattr(lookup, "dial", lambda host, *_: SimpleNamespace(address=host, close=lambda: None))
    monkeypatch.setattr(lookup, "_list_offset", ends)
    servers = {"kafka.bootstrap.servers": "one:1,two:1", "failondataloss": "false"}
    assert offsets(75, 80, **servers) == [75, 76, 77, 78, 79]
