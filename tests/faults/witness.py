"""Follows a target topic while faults strike: every record in its order, repeats, and the offset map record by record.

As `numbered.Arrival`, but over one consumer for as long as a flow lives, so that each fault is judged by itself.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from tests.faults.numbered import SOON_BACK, end_offsets
from tests.faults.story import PARTITIONS, Story

from sparkmirror import model
from sparkmirror.kafka.clients import open_tail
from sparkmirror.ledger.map_records import MapView
from sparkmirror.ledger.topics import ledger_topics

REOPEN_SECONDS = 20.0


@dataclass(slots=True)
class Log:
    """One target partition: for each number where its record lies, first and last."""

    first: list[int]
    last: list[int]
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

    `silence_seconds` is the longest that it read and nothing came; set it to 0 to measure anew. `reopened` counts how
    often it went on with a new consumer.
    """

    def __init__(self, story: Story, bootstrap: str) -> None:
        self._story = story
        self._bootstrap = bootstrap
        self.logs = [Log([], []) for _ in range(PARTITIONS)]
        self._following = [0] * PARTITIONS
        self._silent_seconds = 0.0
        self.silence_seconds = 0.0
        self.reopened = 0
        self._consumer = self._open()
        self._opened_at = time.monotonic()

    def _open(self) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "witness",
                "log_level": 0,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                **SOON_BACK,
            }
        )
        remote_topic = self._story.remote_topic
        consumer.assign([TopicPartition(remote_topic, number, at) for number, at in enumerate(self._following)])
        return consumer

    def _reopen_if_silent(self) -> None:
        """Whether silence is the consumer's or the topic's: another consumer goes on where this one stands."""
        if min(self._silent_seconds, time.monotonic() - self._opened_at) > REOPEN_SECONDS:
            self._consumer.close()
            self._consumer = self._open()
            self._opened_at = time.monotonic()
            self.reopened += 1

    @property
    def repeats(self) -> int:
        return sum(log.repeats for log in self.logs)

    def read(self, seconds: float = 0.1) -> None:
        """What has come. Fails on a gap."""
        began = time.monotonic()
        messages = [message for message in self._consumer.consume(10_000, timeout=seconds) if not message.error()]
        self._silent_seconds = 0.0 if messages else self._silent_seconds + time.monotonic() - began
        self.silence_seconds = max(self.silence_seconds, self._silent_seconds)
        self._reopen_if_silent()
        for message in messages:
            self._take(message)

    def read_until(self, produced: Sequence[int], seconds: float) -> float:
        """Until so many records of each partition are there; how long that took."""
        began = time.monotonic()
        while any(len(log.first) < count for log, count in zip(self.logs, produced, strict=True)):
            here = [len(log.first) for log in self.logs]
            assert time.monotonic() < began + seconds, (
                f"after {seconds:g} s {here} of {list(produced)} have arrived; the witness is at {self._following}, "
                f"the partitions end at {end_offsets(self._bootstrap, self._story.remote_topic, PARTITIONS)}"
            )
            self.read()
        return time.monotonic() - began

    def assert_mapped(self) -> int:
        """Each source offset translates to no later than its record; gives how far before it, at most.

        The writer's source has no other records: a record's number is its source offset.
        """
        furthest = 0
        view = self._map()
        for number, log in enumerate(self.logs):
            found = view.map_of(model.TopicPartition(self._story.topic, number))
            assert found is not None, f"partition {number} has no offset map"
            for offset, (first, last) in enumerate(zip(log.first, log.last, strict=True)):
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

    def _take(self, message: Any) -> None:
        self.logs[message.partition()].take(int(message.value()[:11]), message.offset())
        self._following[message.partition()] = message.offset() + 1

    def close(self) -> None:
        self._consumer.close()
