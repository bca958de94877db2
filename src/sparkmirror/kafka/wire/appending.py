"""Appends small record batches to partitions, one after the other, on the calling thread.

For records that come one at a time for as long as a mirror runs: heartbeats, status, offset syncs, commands.
kafka-python's producer passes each through a thread and an event loop of its own, 2 ms of CPU where this takes 0.4.
Called by `kafka.publish`.
"""

import time
from collections.abc import Sequence
from threading import Lock
from typing import Any, Final, NamedTuple

from kafka.errors import KafkaTimeoutError
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from sparkmirror.batch.records import Pair, encode_batch
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.errors import (
    LEADER_MOVED,
    NO_ERROR,
    SHORT_OF_REPLICAS,
    error_name,
    is_retriable,
    refusal,
    translate,
)
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.data_requests import FIRST_TRANSACTIONS
from sparkmirror.kafka.wire.leader_search import LeaderSearch
from sparkmirror.kafka.wire.link import SETUP_SECONDS_MAX, Link, dial
from sparkmirror.kafka.wire.lookup import sensible_answers
from sparkmirror.model import TopicPartition

_PRODUCE: Final = 0
_VERSIONS: Final = (8, 12)
_ALL_REPLICAS: Final = -1
_LEADER_NOT_AVAILABLE: Final = 5
_MESSAGE_TOO_LARGE: Final = 10
_PAUSE_SECONDS: Final = 0.05
_PAUSE_SECONDS_MAX: Final = 0.5
_BROKER_SECONDS_MAX: Final = 30.0
_LEAST_SECONDS: Final = 0.05

_Topic = ProduceRequest.TopicProduceData
_Partition = _Topic.PartitionProduceData


class Appender:
    """Connections to the leaders of partitions, each opened when it is first needed. One `append` at a time: others
    wait."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._search = LeaderSearch(settings)
        self._links: dict[TopicPartition, Link] = {}
        self._lock = Lock()

    def close(self) -> None:
        """Closes the connections. Idempotent."""
        with self._lock:
            for where in list(self._links):
                self._hang_up(where)

    def append(self, where: TopicPartition, records: Sequence[Pair], timestamp_ms: int, ends_at: float) -> int:
        """Appends all records and waits until all replicas have them; the time in ms that the broker stamped the last
        batch with, -1 if the topic keeps the records' own time.

        What a broker has not answered by `ends_at`, in monotonic seconds, may be there or not. Until then a leader that
        moves or is away is tried again. Raises ClusterError and ProtocolError.
        """
        with self._lock:
            return self._append(where, records, timestamp_ms, ends_at)

    def append_batch(
        self, where: TopicPartition, batch: bytes | bytearray, ends_at: float, transactional_id: str | None = None
    ) -> int:
        """Appends one batch that has a producer's stamp, in a transaction where there is an id; the offset at which it
        begins. Raises as `append`."""
        with self._lock:
            pause = _PAUSE_SECONDS
            while True:
                answer = self._ask(where, bytes(batch), ends_at, transactional_id)
                if answer.code == NO_ERROR and answer.problem is None:
                    return answer.base_offset
                self._judge(where, answer, is_late=time.monotonic() + pause >= ends_at)
                time.sleep(pause)
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    def _append(self, where: TopicPartition, records: Sequence[Pair], timestamp_ms: int, ends_at: float) -> int:
        batch, pause = encode_batch(records, timestamp=timestamp_ms), _PAUSE_SECONDS
        while True:
            answer = self._ask(where, batch, ends_at)
            if answer.code == NO_ERROR and answer.problem is None:
                return answer.stamped_ms
            if answer.code == _MESSAGE_TOO_LARGE and len(records) > 1:
                middle = len(records) // 2
                self._append(where, records[:middle], timestamp_ms, ends_at)
                return self._append(where, records[middle:], timestamp_ms, ends_at)
            self._judge(where, answer, is_late=time.monotonic() + pause >= ends_at)
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    def _judge(self, where: TopicPartition, answer: "_Answer", *, is_late: bool) -> None:
        """Raises what the caller is to see, unless it may be tried again."""
        doing, problem = f"writing to topic {where.topic}", answer.problem
        if problem is not None or answer.code in LEADER_MOVED | SHORT_OF_REPLICAS:
            self._hang_up(where)
        if isinstance(problem, SparkMirrorError) and not problem.retriable:
            raise problem
        if answer.code and answer.code not in LEADER_MOVED and not is_retriable(answer.code):
            raise refusal(answer.code, self._settings.alias, doing)
        if is_late:
            last = problem or KafkaTimeoutError(error_name(answer.code))
            raise translate(last, self._settings, doing) from problem

    def _ask(
        self, where: TopicPartition, batch: bytes, ends_at: float, transactional_id: str | None = None
    ) -> "_Answer":
        try:
            if code := self._connect(where, ends_at):
                return _Answer(code)
            return self._produce(self._links[where], where, batch, ends_at, transactional_id)
        except (OSError, SparkMirrorError) as problem:
            return _Answer(problem=problem)

    def _connect(self, where: TopicPartition, ends_at: float) -> int:
        """Connects to the partition's leader, if there is no connection; the error code by which there is none.

        Raises ClusterError and ProtocolError.
        """
        if (link := self._links.get(where)) is not None:
            if time.monotonic() < link.reauthenticate_at:
                return NO_ERROR
            self._hang_up(where)
        seconds_max = _seconds_left(ends_at, SETUP_SECONDS_MAX)
        view = self._search.look_up([where.topic], seconds_max)
        address = view.brokers.get(view.leaders.get(where, -1))
        if address is None:
            return view.errors.get(where.topic, _LEADER_NOT_AVAILABLE)
        self._links[where] = dial(*address, self._settings, seconds_max=seconds_max)
        return NO_ERROR

    def _produce(
        self, link: Link, where: TopicPartition, batch: bytes, ends_at: float, transactional_id: str | None
    ) -> "_Answer":
        """Raises OSError and ProtocolError."""
        seconds = _seconds_left(ends_at, _BROKER_SECONDS_MAX)
        link.socket.settimeout(seconds)
        part = _Topic(name=where.topic, partition_data=[_Partition(index=where.partition, records=batch)])
        request = ProduceRequest(
            transactional_id=transactional_id, acks=_ALL_REPLICAS, timeout_ms=int(seconds * 1000), topic_data=[part]
        )
        with sensible_answers(link):
            versions = _VERSIONS if transactional_id is None else FIRST_TRANSACTIONS
            answer: Any = link.ask(request, ProduceResponse, link.version(_PRODUCE, versions))
            produced = answer.responses[0].partition_responses[0]
            code, stamped_ms = int(produced.error_code), int(produced.log_append_time_ms)
            return _Answer(code, stamped_ms, base_offset=int(produced.base_offset))

    def _hang_up(self, where: TopicPartition) -> None:
        if link := self._links.pop(where, None):
            link.close()


class _Answer(NamedTuple):
    """The broker's error code and its time, or why there is no answer."""

    code: int = NO_ERROR
    stamped_ms: int = -1
    problem: OSError | SparkMirrorError | None = None
    base_offset: int = -1


def _seconds_left(ends_at: float, most: float) -> float:
    return max(min(ends_at - time.monotonic(), most), _LEAST_SECONDS)
