"""Reads a range of one partition's log as stored, in large fetches, with the next request always under way.

Called by `verify.data_source` and `records.range_reader` in Spark's workers. It blocks. When a leader moves or a
connection breaks, it connects again.
"""

import select
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from sparkmirror.batch.header import CONTROL, MAGIC, TRANSACTIONAL
from sparkmirror.batch.headers import (
    ATTRIBUTES,
    BASE_OFFSET,
    MAGIC_NUMBER,
    NEXT_OFFSET,
    PRODUCER_ID,
    read_headers,
)
from sparkmirror.batch.part import NO_PART, Part
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import AuthenticationFailed, ClusterError, ClusterUnreachable, ProtocolError
from sparkmirror.kafka.errors import error_name
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.data_requests import AbortedTransaction, FetchedPartition, FetchPosition, TopicKey
from sparkmirror.kafka.wire.leader_search import LeaderSearch
from sparkmirror.model import NO_EPOCH, NO_TOPIC_ID, TopicPartition, is_another_topic
from sparkmirror.pipeline.fetch.connection import FetchConnection, FetchLimits, Frame
from sparkmirror.pipeline.relay.private_memory import PrivateMemory

_ANSWER_BYTES: Final = 8 << 20
_SILENCE_SECONDS_MAX: Final = 30.0
_PAUSE_SECONDS: Final = 0.2
_OFFSET_OUT_OF_RANGE: Final = 1
_TOPIC_AUTHORIZATION_FAILED: Final = 29


class RangeGone(ClusterError):
    """The log no longer has the wanted offsets: retention deleted them, or the topic was made again."""


class AnotherTopic(RangeGone):
    """The topic of that name is another one than the range is of."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """The range to read: offsets `first` … `end - 1`; with `read_committed` without records of aborted transactions.
    The last offsets of a `compacted` log may have no records. Where `topic_id` is known, only that topic is read."""

    where: TopicPartition
    first: int
    end: int
    read_committed: bool
    compacted: bool = False
    topic_id: UUID = NO_TOPIC_ID


def read_parts(settings: ClientSettings, wanted: LogRange, clock: Clock = SYSTEM_CLOCK) -> Iterator[Part]:
    """The batches of the range, in order. `end` must not lie beyond the log's end. Raises RangeGone,
    ClusterUnreachable when the broker sends no records for 30 s, AuthorizationFailed, ProtocolError."""
    position = wanted.first
    with _Reader(settings, wanted, clock) as reader:
        while position < wanted.end:
            part = reader.next_part(position)
            position = part.next_offset
            yield part


class _Reader:
    """One connection to the partition's leader, with one request always under way."""

    def __init__(self, settings: ClientSettings, wanted: LogRange, clock: Clock) -> None:
        self._clock = clock
        self._settings = settings
        self._search = LeaderSearch(settings)
        self._wanted = wanted
        self._limits = FetchLimits(_ANSWER_BYTES, _ANSWER_BYTES, 1, 500, wanted.read_committed)
        self._connection: FetchConnection | None = None
        self._asked = -1
        self._topic_key: TopicKey = ""
        self._leader_epoch = NO_EPOCH
        self._problem = ""
        self._is_bare = False

    def __enter__(self) -> "_Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def next_part(self, position: int) -> Part:
        """The batches at `position`. It sends the request for the following ones before it returns. Only a compacted
        log may have no records there; the reader accepts that when the broker has sent none for 30 s."""
        self._is_bare, self._problem = False, ""
        give_up_at = self._clock.monotonic() + _SILENCE_SECONDS_MAX
        while True:
            try:
                part = self._try(position)
            except (OSError, ProtocolError, ClusterUnreachable) as problem:
                self._fail(str(problem))
                part = None
            if part is not None:
                return part
            if self._clock.monotonic() > give_up_at:
                if self._is_bare and self._wanted.compacted:
                    return NO_PART._replace(next_offset=self._wanted.end)
                raise ClusterUnreachable(
                    f"Cluster {self._settings.alias} sends no more of {self._wanted.where} from offset {position} on"
                    f"{': ' if self._problem else '.'}{self._problem}",
                    "A transaction that was never ended holds readers up too.",
                )

    def _fail(self, problem: str) -> None:
        self._close()
        self._problem, self._is_bare = problem, False
        time.sleep(_PAUSE_SECONDS)

    def _try(self, position: int) -> Part | None:
        connection = self._connection or self._connect()
        if not connection.waiting:
            self._ask(connection, position)
        frame = self._receive(connection)
        if frame is None:
            return None
        response = connection.decode(frame)
        fetched = next(iter(response.partitions), None)
        if response.error or fetched is None:
            self._fail(f"error {error_name(response.error)}" if response.error else "")
            return None
        if fetched.error or fetched.diverging_offset >= 0:
            self._judge(fetched, position)
            return None
        part = take_part(frame.buffer, fetched, position, self._wanted)
        if part is None and reaches_end(fetched, self._wanted):
            self._is_bare, self._problem = True, "it says that there are more, and gives none"
        if part is not None and part.next_offset < self._wanted.end:
            self._ask(connection, part.next_offset)
        return part

    def _connect(self) -> FetchConnection:
        where = self._wanted.where
        link, view = self._search.dial(where)
        if is_another_topic(self._wanted.topic_id, view.topic_ids.get(where.topic, NO_TOPIC_ID)):
            link.close()
            if self._search.is_shown(where.topic, self._wanted.topic_id):
                raise ClusterUnreachable(f"a broker shows another {where.topic} than the others")
            raise AnotherTopic(f"{where.topic} on {self._settings.alias} was deleted and made again.")
        connection = FetchConnection(link, PrivateMemory(), self._limits)
        self._connection = connection
        self._leader_epoch = view.epochs.get(where, NO_EPOCH)
        self._topic_key = view.topic_ids[where.topic].bytes if connection.by_id else where.topic
        return connection

    def _ask(self, connection: FetchConnection, position: int) -> None:
        connection.send_alone(
            FetchPosition(
                self._topic_key, self._wanted.where.partition, position, NO_EPOCH, _ANSWER_BYTES, self._leader_epoch
            )
        )

    def _receive(self, connection: FetchConnection) -> Frame | None:
        """The response; None when none arrives in time."""
        give_up_at = self._clock.monotonic() + _SILENCE_SECONDS_MAX
        while self._clock.monotonic() < give_up_at:
            frame = connection.receive()
            if frame is not None:
                return frame
            select.select([connection.link.socket], [], [], 1.0)
        self._fail("the broker does not answer")
        return None

    def _judge(self, fetched: FetchedPartition, position: int) -> None:
        if fetched.error == _OFFSET_OUT_OF_RANGE:
            raise RangeGone(f"{self._wanted.where} on {self._settings.alias} no longer holds offset {position}.")
        if fetched.error == _TOPIC_AUTHORIZATION_FAILED:
            raise AuthenticationFailed(
                f"Cluster {self._settings.alias} does not let us read {self._wanted.where.topic}.",
                "Grant READ on it to SparkMirror's principal.",
            )
        self._fail(error_name(fetched.error))


def reaches_end(fetched: FetchedPartition, wanted: LogRange) -> bool:
    """Whether the broker's response shows that consumers may read the whole range."""
    return (fetched.last_stable_offset if wanted.read_committed else fetched.high_watermark) >= wanted.end


def take_part(buffer: memoryview, fetched: FetchedPartition, position: int, wanted: LogRange) -> Part | None:
    """The data batches from `position` on; None where the response has none."""
    headers = read_headers(buffer, fetched.start, fetched.stop)
    table = headers.table[headers.table[:, NEXT_OFFSET] > position]
    if not len(table):
        return None
    next_offset = int(table[-1, NEXT_OFFSET])
    _begin_old_messages(table, position)
    data = table[:, ATTRIBUTES] & CONTROL == 0
    if fetched.aborted:
        data &= _committed(table, fetched.aborted)
    return Part(buffer, table[data & (table[:, BASE_OFFSET] < wanted.end)], next_offset)


def _begin_old_messages(table: NDArray[np.int64], position: int) -> None:
    """Widens the range of old messages: a compressed message of magic 0 or 1 has the offset of its last record, and
    its first record's offset may be as low as the one after the message before."""
    old = table[:, MAGIC_NUMBER] != MAGIC
    if old.any():
        before = np.concatenate(([position], table[:-1, NEXT_OFFSET]))
        table[old, BASE_OFFSET] = np.minimum(before, table[:, BASE_OFFSET])[old]


def _committed(table: NDArray[np.int64], aborted: Sequence[AbortedTransaction]) -> NDArray[np.bool_]:
    """Marks the batches that no aborted transaction wrote (KIP-98). An aborted transaction ends at its producer's
    next marker."""
    waiting = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
    open_producers: set[int] = set()
    committed = np.ones(len(table), np.bool_)
    columns = table[:, [NEXT_OFFSET, ATTRIBUTES, PRODUCER_ID]].tolist()
    for row, (next_offset, attributes, producer) in enumerate(columns):
        while waiting and waiting[0].first_offset < next_offset:
            open_producers.add(waiting.popleft().producer_id)
        if attributes & CONTROL:
            open_producers.discard(producer)
        elif attributes & TRANSACTIONAL and producer in open_producers:
            committed[row] = False
    return committed
