"""Follows a target topic while faults strike: every record in its order, repeats, and the offset map record by record.

As `numbered.Arrival`, but over one consumer for as long as a flow lives, so that each fault is judged by itself.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from confluent_kafka import Consumer, TopicPartition
from tests.faults.numbered import LOG_NUMBERS_MAX, SOON_BACK, end_offsets
from tests.faults.story import PARTITIONS, Story
from tests.second_client import find_left_out

from sparkmirror import model
from sparkmirror.kafka.clients import open_tail
from sparkmirror.ledger.gaps import Gap, list_gaps
from sparkmirror.ledger.map_records import MapView
from sparkmirror.ledger.topics import ledger_topics

REOPEN_SECONDS = 20.0
LEFT_OUT_SECONDS_MAX = 60.0


@dataclass(slots=True)
class Log:
    """What a target partition has of one source log: for each number where its record lies, first and last.

    `number` counts the source's logs: how often its topic was deleted and made again.
    """

    number: int = 0
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    before: int = -1
    repeats: int = 0

    def take(self, number: int, offset: int) -> None:
        """The next record. Fails on a gap: numbers rise by one, or step back to repeat all that comes after."""
        assert number <= self.before + 1, f"record {number} follows {self.before}: a gap"
        if number < len(self.last):
            self.repeats += 1
            self.last[number] = offset
        else:
            self.first.append(offset)
            self.last.append(offset)
        self.before = number


class Witness:
    """A read_committed consumer of the remote topic, from its beginning on.

    `silence_seconds` is the longest that it read and nothing came; set it to 0 to measure again. `reopened` counts how
    often it went on with a new consumer: because of silence, or because this one left out what another client finds.
    `logs` are those of the source's present log, by partition, `former` those of logs before it, which may end early:
    the gap ledger must say so, see `assert_told`.
    """

    def __init__(self, story: Story, bootstrap: str, topic: str = "", *, stride: int = 1, phase: int = 0) -> None:
        """Of `topic` instead of the remote one. Only every `stride`th number is due there, from `phase` on."""
        self._topic = topic or story.remote_topic
        self._stride, self._phase = stride, phase
        self._story = story
        self._bootstrap = bootstrap
        self._client = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
        self.logs = [Log() for _ in range(PARTITIONS)]
        self.former: list[list[Log]] = [[] for _ in range(PARTITIONS)]
        self._following = [0] * PARTITIONS
        self._silent_seconds = 0.0
        self.silence_seconds = 0.0
        self.reopened = 0
        self._consumer = self._open()
        self._opened_at = time.monotonic()

    def _open(self) -> Consumer:
        consumer = Consumer(
            {**self._client, "group.id": "witness", "log_level": 0, "enable.auto.commit": False, **SOON_BACK}
        )
        consumer.assign([TopicPartition(self._topic, number, at) for number, at in enumerate(self._following)])
        return consumer

    def _reopen_if_silent(self) -> None:
        """Whether silence is the consumer's or the topic's: another consumer goes on where this one stands."""
        if min(self._silent_seconds, time.monotonic() - self._opened_at) > REOPEN_SECONDS:
            self._reopen()

    def _reopen(self) -> None:
        self._consumer.close()
        self._consumer = self._open()
        self._opened_at = time.monotonic()
        self.reopened += 1

    @property
    def repeats(self) -> int:
        return sum(log.repeats for logs in (self.logs, *self.former) for log in logs)

    def read(self, seconds: float = 0.1) -> None:
        """What has come. Fails on a gap."""
        began = time.monotonic()
        messages = [message for message in self._consumer.consume(10_000, timeout=seconds) if not message.error()]
        self._silent_seconds = 0.0 if messages else self._silent_seconds + time.monotonic() - began
        self.silence_seconds = max(self.silence_seconds, self._silent_seconds)
        self._reopen_if_silent()
        for message in messages:
            if self._has_left_out(message):
                self._reopen()
                break
            self._take(message)

    def read_until(
        self, produced: Sequence[int], seconds: float, *, log: int = 0, meanwhile: Callable[[], None] | None = None
    ) -> float:
        """Until so many records of each partition of the source's log are there; how long that took."""
        began = time.monotonic()
        due = [self._place(count + self._stride - 1) for count in produced]
        while any(self._count(number, log) < count for number, count in enumerate(due)):
            here = [self._count(number, log) for number in range(PARTITIONS)]
            assert time.monotonic() < began + seconds, (
                f"{self._topic}: after {seconds:g} s {here} of {due} have come; the witness is at {self._following}, "
                f"the partitions end at {end_offsets(self._bootstrap, self._topic, PARTITIONS)}"
            )
            self.read()
            if meanwhile is not None:
                meanwhile()
        return time.monotonic() - began

    def _count(self, partition: int, log: int) -> int:
        """Records of the source's log that have arrived."""
        at = self.logs[partition]
        return len(at.first) if at.number == log else 0

    def assert_mapped(self, since: Sequence[int] = ()) -> int:
        """Each source offset translates to no later than its record; gives how far before it, at most.

        The writer's source has no other records: a record's number is its source offset in the present log. Of each
        partition those from offset `since` on are looked at.
        """
        furthest = 0
        view = self._map()
        for number, log in enumerate(self.logs):
            found = view.map_of(model.TopicPartition(self._story.topic, number))
            assert found is not None, f"partition {number} has no offset map"
            begin = since[number] if since else 0
            for place, (first, last) in enumerate(zip(log.first[begin:], log.last[begin:], strict=True), begin):
                offset = place * self._stride + self._phase
                translated = found.translate(offset)
                if translated is not None:
                    assert translated.offset <= last, f"{offset} translates to {translated.offset}, beyond {last}"
                    furthest = max(furthest, first - translated.offset)
        return furthest

    def _map(self) -> MapView:
        view = MapView(self._story.alias)
        topic = model.TopicPartition(ledger_topics(self._story.alias).offset_map, 0)
        with open_tail(self._story.cluster(), "witness", [topic]) as tail:
            for record in tail.read_to_end(30.0):
                view.take(record.key, record.value)
        return view

    def gaps(self) -> list[Gap]:
        """What the flow's gap ledger holds."""
        topic = ledger_topics(self._story.alias).gaps
        with open_tail(self._story.cluster(), "witness", [model.TopicPartition(topic, 0)]) as tail:
            records = [(record.key, record.value) for record in tail.read_to_end(30.0)]
        return list_gaps(self._story.alias, records)

    def assert_told(self, gaps: Sequence[Gap], topic_id: UUID, *, behind_max: int) -> None:
        """The gaps say where mirroring left the source's log before, and that it began the log of `topic_id`.

        What had arrived may be ahead of what the flow knew, by `behind_max` records; never the other way round: then
        records lack that no gap tells of.
        """
        assert all(gap.topic_id == topic_id for gap in gaps), f"gaps of other logs than {topic_id}: {gaps}"
        for number, logs in enumerate(self.former):
            arrived = len(logs[-1].first) if logs else 0
            told = [gap for gap in gaps if gap.partition.partition == number]
            assert told, f"partition {number}: no gap tells that its source log ended at {arrived} or later"
            for gap in told:
                assert gap.resumed == 0, f"partition {number}: of the new log what is before {gap.resumed} lacks"
                assert arrived - behind_max <= gap.expected <= arrived, (
                    f"partition {number}: {arrived} records of the log before have arrived, the gap begins at "
                    f"{gap.expected}: {told}"
                )

    def _has_left_out(self, message: Any) -> bool:
        """Whether records that seem to be missing before this one are there after all: librdkafka went past them."""
        partition, offset = message.partition(), message.offset()
        number, record = _numbers(message)
        log = self.logs[partition]
        if number == log.number and self._place(record) <= log.before + 1:
            return False
        holes = [(self._following[partition], offset)] if offset > self._following[partition] else []
        topic = self._topic
        left_out = find_left_out(self._client, topic, partition, holes, seconds_max=LEFT_OUT_SECONDS_MAX)
        if left_out:
            print(f"{topic}-{partition}: librdkafka left out {len(left_out)} records from offset {left_out[0]} on")
        return bool(left_out)

    def _take(self, message: Any) -> None:
        partition = message.partition()
        number, record = _numbers(message)
        log = self.logs[partition]
        assert number >= log.number, f"record {record} of the source's log {number} follows one of log {log.number}"
        if number > log.number:
            self.former[partition].append(log)
            log = self.logs[partition] = Log(number)
        assert record % self._stride == self._phase, f"record {record} is in {self._topic}"
        log.take(self._place(record), message.offset())
        self._following[partition] = message.offset() + 1

    def _place(self, record: int) -> int:
        """Which of the numbers that are due here it is."""
        return (record - self._phase) // self._stride

    def close(self) -> None:
        self._consumer.close()


class RoutedWitness(Witness):
    """Of a flow that sends odd numbers to a topic of their own (`scene.ODD_RECORDS_APART`)."""

    def __init__(self, story: Story, bootstrap: str) -> None:
        super().__init__(story, bootstrap, stride=2)
        self._odd = Witness(story, bootstrap, f"{story.remote_topic}-odd", stride=2, phase=1)

    @property
    def repeats(self) -> int:
        return super().repeats + self._odd.repeats

    def read(self, seconds: float = 0.1) -> None:
        super().read(seconds)
        self._odd.read(seconds)

    def read_until(
        self, produced: Sequence[int], seconds: float, *, log: int = 0, meanwhile: Callable[[], None] | None = None
    ) -> float:
        own = super().read_until(produced, seconds, log=log, meanwhile=meanwhile)
        return own + self._odd.read_until(produced, seconds, log=log, meanwhile=meanwhile)

    def close(self) -> None:
        super().close()
        self._odd.close()


def _numbers(message: Any) -> tuple[int, int]:
    """Of the source's log, and of the record in it."""
    return divmod(int(message.value()[:11]), LOG_NUMBERS_MAX)
