"""Appends record batches to partitions as one idempotent producer, many partitions at a time. Blocks.

A request has at most one batch of each partition, and a partition has one batch under way: so records stay in order,
and a batch whose answer was lost is sent again with its sequence number, by which brokers know it. Used by
`records.sink`, and by `records.task_transaction`, which gives it a transaction to write in.
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from sparkmirror.batch.columns import decode
from sparkmirror.batch.encoding import encode
from sparkmirror.batch.header import parse_header, stamp
from sparkmirror.batch.piece import Piece
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import ClusterError, ClusterUnreachable, ProtocolError, RecordTooLarge, SparkMirrorError
from sparkmirror.kafka.errors import SHORT_OF_REPLICAS, UNKNOWN_TOPIC_OR_PARTITION, error_name
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.data_requests import ProducedPartition, ProduceItem, TopicKey
from sparkmirror.kafka.wire.leader_search import LeaderSearch
from sparkmirror.kafka.wire.link import Link, dial
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.kafka.wire.producer_ids import fresh_producer
from sparkmirror.kafka.wire.transaction import Transaction
from sparkmirror.model import NO_TOPIC_ID, TopicPartition
from sparkmirror.pipeline.produce.answers import MESSAGE_TOO_LARGE, BatchOutcome, describe, judge, leaves_doubt
from sparkmirror.records.left_open import LeftOpen

_PAUSE_SECONDS: Final = 0.05
_PAUSE_SECONDS_MAX: Final = 1.0
_APPEARS_SECONDS: Final = 2.0
"""A broker may report a new topic this much later than another one."""
_SEQUENCES: Final = 1 << 31
_MARGIN_SECONDS: Final = 5.0


@dataclass(slots=True)
class Appended:
    """What one partition was given: records, and the offsets between which they lie, -1 where no broker said."""

    records: int = 0
    first_offset: int = -1
    next_offset: int = -1

    def add(self, other: "Appended") -> None:
        self.records += other.records
        if other.first_offset >= 0:
            known = self.first_offset >= 0
            self.first_offset = min(self.first_offset, other.first_offset) if known else other.first_offset
            self.next_offset = max(self.next_offset, other.next_offset)


@dataclass(slots=True)
class _Request:
    """One that is not answered yet, and the partitions by the keys that its answer will have."""

    link: Link
    version: int
    partitions: dict[tuple[TopicKey, int], TopicPartition] = field(default_factory=dict)


class BatchProducer:
    """For one thread. `appended` has what was acknowledged by all replicas in sync. All goes into the `transaction` if
    there is one, which the caller ends, and behind what is `left_open`."""

    def __init__(
        self,
        settings: ClientSettings,
        delivery_seconds: float,
        transaction: Transaction | None = None,
        left_open: LeftOpen | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.appended: dict[TopicPartition, Appended] = {}
        self._settings = settings
        self._search = LeaderSearch(settings)
        self._delivery_seconds = delivery_seconds
        self._transaction = transaction
        self._left_open = left_open
        self._clock = clock
        self._topic_ids: dict[str, UUID] = {}
        self._identity = fresh_producer(settings) if transaction is None else transaction.identity
        self._sequences: dict[TopicPartition, int] = {}
        self._view = ClusterView()
        self._links: dict[int, Link] = {}
        self._waiting: dict[TopicPartition, deque[Piece]] = {}
        self._requests: dict[int, _Request] = {}
        self._problem = ""
        self._is_stalled = False
        self._is_unknown = False
        self._doubtful: set[TopicPartition] = set()
        """Whose batch may be in the log though no broker has said so: only as it is can brokers know it again."""

    def close(self) -> None:
        """Drops what is not acknowledged."""
        for node in list(self._links):
            self._hang_up(node)

    def size_of(self, topic: str) -> int:
        """The number of its partitions. Raises ClusterError for a topic that is not there."""
        ends_at = self._clock.monotonic() + _APPEARS_SECONDS
        while (found := self._view.sizes.get(topic)) is None:
            self._look_up({topic, *self._view.sizes})
            if topic in self._view.sizes:
                continue
            if self._clock.monotonic() > ends_at:
                code = self._view.errors.get(topic, UNKNOWN_TOPIC_OR_PARTITION)
                raise ClusterError(
                    f"Cluster {self._settings.alias}: records cannot go to topic {topic}: {error_name(code)}.",
                    "Create the topic first, and grant WRITE and DESCRIBE on it.",
                )
            self._clock.sleep(_PAUSE_SECONDS)
        if self._left_open is not None:
            self._left_open.clear(topic)
        return found

    def send(self, batches: Mapping[TopicPartition, Piece]) -> None:
        """Sends one batch of each partition; waits first until those before are acknowledged. Raises as `flush`."""
        self.flush()
        self._waiting = {where: deque([piece]) for where, piece in batches.items()}
        self._post()

    def flush(self) -> None:
        """Until all is acknowledged. Raises ClusterError where a broker refuses a batch, or none takes it in time: that
        counts from here, since rows may come slowly; RecordTooLarge."""
        pause, ends_at = _PAUSE_SECONDS, self._clock.monotonic() + self._delivery_seconds
        while self._waiting:
            self._collect()
            if self._is_unknown and self._transaction is not None:
                raise ClusterError(f"The transaction cannot go on: {self._problem}.", self._transaction.why_lost)
            if self._is_unknown and not self._doubtful:
                self._identity, self._sequences, self._is_unknown = fresh_producer(self._settings), {}, False
            if self._waiting and self._is_stalled:
                if self._clock.monotonic() + pause > ends_at:
                    raise self._late()
                self._clock.sleep(pause)
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)
            if self._waiting:
                self._post()

    def check_topics(self) -> None:
        """Whether those that were written to are still there, before the transaction is committed. Brokers take what
        comes behind for a topic of the same name. Raises ClusterError."""
        pause, ends_at = _PAUSE_SECONDS, self._clock.monotonic() + self._delivery_seconds
        appears_at = self._clock.monotonic() + _APPEARS_SECONDS
        topics = {where.topic for where in self.appended}
        while True:
            self._is_stalled = False
            self._try_look_up(topics)
            if not self._is_stalled:
                gone = sorted(topics - self._view.sizes.keys())
                if not gone:
                    return
                if self._clock.monotonic() > appears_at:
                    raise self._lost(gone[0])
            elif self._clock.monotonic() + pause > ends_at:
                raise ClusterUnreachable(f"The topics of a transaction cannot be looked up: {self._problem}.")
            self._clock.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    def _lost(self, where: TopicPartition | str) -> ClusterError:
        return ClusterError(
            f"Records of the transaction that {where} had acknowledged are there no more: the topic was deleted, or "
            "made again, or its log was cut. Nothing of the transaction is committed.",
            "Repeat the write.",
        )

    def _late(self) -> ClusterUnreachable:
        why = f": {self._problem.rstrip('.')}" if self._problem else ""
        return ClusterUnreachable(
            f"Cluster {self._settings.alias} did not take records of {min(self._waiting)} in "
            f"{self._delivery_seconds:g} s{why}.",
            "kafka.delivery.timeout.ms says for how long a batch is tried.",
        )

    def _post(self) -> None:
        """One request to each leader, with the first batch that each of its partitions has left."""
        self._is_stalled = False
        if self._transaction is not None:
            self._transaction.add(self._waiting)
        if any(where not in self._view.leaders for where in self._waiting):
            self._try_look_up({where.topic for where in self._waiting} | self._view.sizes.keys())
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for where in self._waiting:
            node = self._view.leaders.get(where)
            if node is None:
                self._stall(f"{where} has no leader")
            elif node not in self._view.brokers:
                self._stall(f"the leader of {where}, broker {node}, has no address in the brokers' metadata")
                self._forget([where])
            else:
                by_leader[node].append(where)
        for node, partitions in by_leader.items():
            try:
                self._requests[node] = self._request(node, partitions)
            except (OSError, ClusterUnreachable, ProtocolError) as problem:
                self._lose(node, problem)

    def _request(self, node: int, partitions: list[TopicPartition]) -> _Request:
        link = self._link(node)
        versions = wire.PRODUCE_VERSIONS if self._transaction is None else wire.FIRST_TRANSACTIONS
        request = _Request(link, link.version(wire.PRODUCE, versions))
        items = []
        for where in partitions:
            by_id = request.version >= wire.TOPIC_ID_PRODUCE
            key = self._view.topic_ids[where.topic].bytes if by_id else where.topic
            request.partitions[key, where.partition] = where
            items.append(ProduceItem(key, where.partition, self._stamped(where)))
        name = None if self._transaction is None else self._transaction.transactional_id
        timeout_ms = int(self._settings.request_timeout_seconds * 1000)
        body = wire.encode_produce(items, transactional_id=name, timeout_ms=timeout_ms)
        link.correlation += 1
        header = wire.request_header(wire.PRODUCE, request.version, link.correlation, link.client_id)
        try:
            link.post(b"".join(wire.frame(header, *body)))
        except OSError:
            self._doubtful.update(partitions)
            raise
        return request

    def _stamped(self, where: TopicPartition) -> memoryview:
        data = memoryview(self._waiting[where][0].data)
        sequence, is_transactional = self._sequences.get(where, 0), self._transaction is not None
        stamp(data, 0, parse_header(data, 0), *self._identity, sequence, is_transactional)
        return data

    def _collect(self) -> None:
        requests, self._requests = self._requests, {}
        for node, request in requests.items():
            try:
                answer = wire.decode_produce(request.version, memoryview(request.link.collect()))
            except (OSError, ProtocolError) as problem:
                self._doubtful.update(request.partitions.values())
                self._lose(node, problem)
                continue
            for produced in answer.partitions:
                where = request.partitions.get((produced.topic_key, produced.partition))
                if where in self._waiting:
                    self._take(where, produced)

    def _take(self, where: TopicPartition, produced: ProducedPartition) -> None:
        piece = self._waiting[where][0]
        outcome = judge(produced.error, is_head=True)
        if outcome in (BatchOutcome.DONE, BatchOutcome.RESTART):  # a log that had it would have known it
            self._doubtful.discard(where)
        elif leaves_doubt(produced.error):
            self._doubtful.add(where)
        if outcome is BatchOutcome.DONE:
            self._done(where, piece, produced.base_offset)
        elif produced.error == MESSAGE_TOO_LARGE and where in self._doubtful:
            raise ClusterError(
                f"{where} no longer takes a batch of {len(piece.data)} bytes, and may have taken it when it was sent "
                "before: no broker answered then. In smaller batches its records might come twice.",
                "Raise max.message.bytes of the topic again, and repeat the write.",
            )
        elif produced.error == MESSAGE_TOO_LARGE:
            self._waiting[where].popleft()
            self._waiting[where].extendleft(reversed(_halves(where, piece)))
        elif outcome in (BatchOutcome.RETRY, BatchOutcome.MOVED, BatchOutcome.RESTART):
            self._stall(describe(produced))
            self._is_unknown |= outcome is BatchOutcome.RESTART
            if outcome is BatchOutcome.MOVED or produced.error in SHORT_OF_REPLICAS:
                self._forget([where])
        else:
            hint = "" if self._transaction is None or outcome is not BatchOutcome.FENCED else self._transaction.why_lost
            raise ClusterError(f"Records cannot be written to {where}: {describe(produced)}.", hint)

    def _done(self, where: TopicPartition, piece: Piece, base_offset: int) -> None:
        left = self._waiting[where]
        left.popleft()
        if not left:
            del self._waiting[where]
        self._sequences[where] = (self._sequences.get(where, 0) + piece.records) % _SEQUENCES
        end = base_offset + piece.records if base_offset >= 0 else -1
        appended = self.appended.setdefault(where, Appended())
        if self._transaction is not None and 0 <= base_offset < appended.next_offset:
            raise self._lost(where)
        appended.add(Appended(piece.records, base_offset, end))

    def _stall(self, problem: str) -> None:
        self._is_stalled, self._problem = True, problem

    def _link(self, node: int) -> Link:
        link = self._links.get(node)
        if link is not None and self._clock.monotonic() >= link.reauthenticate_at:
            self._hang_up(node)
            link = None
        if link is None:
            link = self._links[node] = dial(*self._view.brokers[node], self._settings)
            link.socket.settimeout(self._settings.request_timeout_seconds + _MARGIN_SECONDS)
        return link

    def _try_look_up(self, topics: set[str]) -> None:
        try:
            self._look_up(topics)
        except (ClusterUnreachable, ProtocolError) as problem:
            self._stall(str(problem.args[0]))

    def _look_up(self, topics: set[str]) -> None:
        self._view = self._search.look_up(topics)
        if self._transaction is not None:
            self._transaction.know_brokers(self._view.brokers.values())
            self._check_ids()

    def _check_ids(self) -> None:
        """Raises ClusterError where a topic that has records of the transaction was made again."""
        written = {where.topic for where in self.appended} | {where.topic for where in self._doubtful}
        for topic, topic_id in self._view.topic_ids.items():
            known = self._topic_ids.get(topic, topic_id)
            if topic in written and known != topic_id and NO_TOPIC_ID not in (known, topic_id):
                raise self._lost(topic)
            self._topic_ids[topic] = topic_id

    def _forget(self, partitions: list[TopicPartition]) -> None:
        """Looks their leaders up again before they are used."""
        leaders = {where: node for where, node in self._view.leaders.items() if where not in partitions}
        view = self._view
        self._view = ClusterView(view.brokers, leaders, view.topic_ids, view.errors, view.sizes)

    def _lose(self, node: int, problem: Exception) -> None:
        self._stall(str(problem.args[0]) if isinstance(problem, SparkMirrorError) else str(problem))
        self._hang_up(node)
        self._forget([where for where, leader in self._view.leaders.items() if leader == node])

    def _hang_up(self, node: int) -> None:
        if (link := self._links.pop(node, None)) is not None:
            link.close()


def _halves(where: TopicPartition, piece: Piece) -> list[Piece]:
    """The batch in two or more, for a topic with a small max.message.bytes. Raises RecordTooLarge for one record."""
    data = memoryview(piece.data)
    if piece.records == 1:
        raise RecordTooLarge(
            f"{where} does not take a record of {len(data)} bytes.",
            "raise max.message.bytes of the topic",
            offset=-1, size_bytes=len(data), limit_bytes=-1,
        )  # fmt: skip
    columns, codec = decode(data, 0, len(data)), parse_header(data, 0).codec
    middle = len(columns) // 2
    halves = (columns.rows(0, middle), columns.rows(middle, len(columns)))
    return [part for half in halves for part in encode(half, codec, len(data))]
