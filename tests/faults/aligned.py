"""What the fault matrix needs of flows that keep offsets: holes in the source's log, and a witness of both logs."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from tests.faults.numbered import SOON_BACK
from tests.faults.story import PARTITIONS, Story
from tests.faults.witness import Witness
from tests.waiting import wait_until

_PAUSE_SECONDS = 0.33
_TRANSACTION_MS = 5000
_REQUEST_SECONDS = 10.0
_FOLLOW_SECONDS = 0.2
_ABORTED = b"aborted"


class HoleWriter:
    """Aborts a transaction in all partitions of the source now and then, on a thread, until `stop`: each leaves two
    offsets without a record that is read. A client that its broker has left is replaced."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._client = {
            "bootstrap.servers": bootstrap, "transactional.id": f"holes of {topic}", "log_level": 0,
            "transaction.timeout.ms": _TRANSACTION_MS, **SOON_BACK,
        }  # fmt: skip
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hole-writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(_PAUSE_SECONDS):
            with suppress(KafkaException):
                self._abort_many(Producer(self._client))

    def _abort_many(self, producer: Producer) -> None:
        producer.init_transactions(_REQUEST_SECONDS)
        while not self._stopping.wait(_PAUSE_SECONDS):
            producer.begin_transaction()
            for number in range(PARTITIONS):
                producer.produce(self._topic, _ABORTED, partition=number)
            producer.flush(_REQUEST_SECONDS)
            producer.abort_transaction(_REQUEST_SECONDS)


class AlignedWitness(Witness):
    """Also follows the source: each record must lie on the target where it lies there."""

    def __init__(self, story: Story, bootstrap: str) -> None:
        super().__init__(story, bootstrap)
        self._source = Consumer({
            "bootstrap.servers": story.source, "isolation.level": "read_committed", "group.id": "aligned-witness",
            "log_level": 0, "enable.auto.commit": False, **SOON_BACK,
        })  # fmt: skip
        self._source.assign([TopicPartition(story.topic, number, 0) for number in range(PARTITIONS)])
        self._places: list[dict[int, int]] = [{} for _ in range(PARTITIONS)]
        """Of each partition: where the source has each number."""

    def read(self, seconds: float = 0.1) -> None:
        super().read(seconds)
        self._follow(0.0)

    def _follow(self, seconds: float) -> None:
        for message in self._source.consume(10_000, timeout=seconds):
            if not message.error():
                self._places[message.partition()][_number(message)] = message.offset()

    def _has_read(self, number: int) -> bool:
        """Whether the source's records are known up to the last one that has arrived."""
        self._follow(_FOLLOW_SECONDS)
        arrived = len(self.logs[number].first)
        return not arrived or arrived - 1 in self._places[number]

    def assert_mapped(self, since: Sequence[int] = ()) -> int:
        """Records from number `since` on lie at the same offsets in both logs; gives 0, as offsets need no map."""
        for number, log in enumerate(self.logs):
            places, begin = self._places[number], since[number] if since else 0
            wait_until(partial(self._has_read, number), f"partition {number} of the source is read")
            for place in range(begin, len(log.first)):
                assert log.first[place] == log.last[place] == places[place], (
                    f"partition {number}: record {place} lies at {log.first[place]} to {log.last[place]}, and at "
                    f"{places[place]} on the source"
                )
        return 0

    def close(self) -> None:
        super().close()
        self._source.close()


def _number(message: Any) -> int:
    return int(message.value()[:11])
