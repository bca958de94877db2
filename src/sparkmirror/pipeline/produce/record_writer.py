"""The writing end of `flow-records`: takes rows of records and hands batches to the sender. Runs in a Python worker.

As `pipeline.produce.writer`, which it extends. The records of a run are passed on when its own row comes: it accounts
for those that a filter dropped. Topics that transforms route to are looked up, or created, once per topic
and task on the row thread.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow as pa

from sparkmirror.batch.header import Codec, iterate_headers
from sparkmirror.batch.unpacking import Unpacking, bound_for
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterUnreachable, ProtocolError
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.clients import OpenAdmins
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.assembly import SenderOptions
from sparkmirror.pipeline.produce.delivery import Arrival, Bundle, Delivery, MadeRange
from sparkmirror.pipeline.produce.kept_records import Kept, are_whole_run
from sparkmirror.pipeline.produce.record_pieces import Origin, Unroutable, make_pieces, staying
from sparkmirror.pipeline.produce.repartition import NO_TOPIC, SILENT
from sparkmirror.pipeline.produce.writer import WritingTask
from sparkmirror.pipeline.relay.options import TARGET_COLUMNS
from sparkmirror.pipeline.relay.schema import (
    DEAD,
    FLUSH,
    MISFIT,
    PLAN,
    RECORD,
    REFUSED,
    ROW_SCHEMA,
    ROWS_PER_BATCH,
    RUN,
    TRAIL,
    WRITTEN_COLUMNS,
    Row,
    rows_at,
)

_EMPTY = memoryview(b"")
_PAYLOAD = ROW_SCHEMA.get_field_index("payload")
_PAYLOAD_OF_RECORDS = WRITTEN_COLUMNS.index("payload")


class RecordTask(WritingTask):
    """One `write` call of records. `returned` are the columns that the flow's steps set."""

    def __init__(self, options: SenderOptions, flow: FlowConfig, returned: frozenset[str]) -> None:
        super().__init__(options)
        self._listens = False
        self._flow = flow
        self._returned = returned
        self._all_stay = returned.isdisjoint(TARGET_COLUMNS) and not flow.transforms.may_multiply
        # Else a partition of the target may have records of several of the source's, and no offset of it tells which
        # of them a group has read.
        self._is_mapped = "target_partition" not in returned
        self._bound = bound_for(flow.unpacked_bytes_max)
        self._unpacking: defaultdict[TopicPartition, Unpacking] = defaultdict(Unpacking)
        self._sizes = TopicSizes(flow)
        self._open: list[pa.RecordBatch] = []
        self._flushed = 0
        self._has_misfit = False

    def take(self, batch: pa.RecordBatch) -> None:
        """Rows in order: records, and behind those of a run the row that closes it."""
        stretches, flushed, has_misfit = _sort_out(batch)
        self._has_misfit = has_misfit or (self._has_misfit and bool(self._open))
        controls = [at for start, stop, is_control in stretches if is_control for at in range(start, stop)]
        closing = iter(rows_at(batch, controls) if controls else ())
        ready: list[Arrival] = []
        for start, stop, is_control in stretches:
            if not is_control:
                self._open.append(batch.slice(start, stop - start))
                continue
            for at in range(start, stop):
                ready += self._close(batch, at, *next(closing))
        if ready:
            self._put(*ready)
        self._note_taken(flushed)
        self._raise_if_failed()

    def _note_taken(self, flushed: int) -> None:
        """Tell the reader of each of its batches that has come: the first row of its padding has."""
        before, self._flushed = self._flushed, self._flushed + flushed
        begun, known = (-(-rows // ROWS_PER_BATCH) for rows in (self._flushed, before))
        if self._peer is not None and begun > known:
            self._peer.note_taken(begun - known)

    def _close(self, batch: pa.RecordBatch, at: int, row: Row, codec: int | None) -> Iterator[Arrival]:
        payload = batch.column(_PAYLOAD_OF_RECORDS)[at]
        if row.kind == PLAN and self._sender is None:
            self._begin(payload.as_py())
            return
        delivery = self._read([*row[:_PAYLOAD], *row[_PAYLOAD + 1 :], None], payload)
        assert isinstance(delivery, Delivery), "a flow with transforms puts no records by key"
        if row.kind not in (RUN, REFUSED):
            yield delivery
            return
        rows, self._open = self._open, []
        if row.kind == RUN:
            yield self._as_it_came(delivery, rows) or self._make_range(delivery, rows, row.bytes, Codec(codec or 0))
        else:
            reason = payload.as_py().decode()
            yield from self._refuse(delivery, rows, row.bytes, batch.column("offset")[at].as_py(), reason)

    def _as_it_came(self, run: Delivery, rows: list[pa.RecordBatch]) -> Delivery | None:
        """The run itself, where the steps have left all of it as it was; None where they have not."""
        if not self._all_stay or self._has_misfit or run.partition is None:
            return None
        home = TopicPartition(self._flow.remote_topic(run.partition.topic), run.partition.partition)
        return run._replace(target_topic=home.topic) if are_whole_run(rows, run, self._returned, home) else None

    def _make_range(self, run: Delivery, rows: list[pa.RecordBatch], size: int, codec: Codec) -> Bundle | MadeRange:
        assert run.partition is not None
        remote = self._flow.remote_topic(run.partition.topic)
        bare = run._replace(target_topic=remote, payload=_EMPTY)
        origin = Origin(run.partition, remote, codec)
        try:
            if self._has_misfit:
                _refuse_misfit(rows)
            kept = Kept(run.payload, self._returned, self._bound, self._unpacking[run.partition])
            pieces = make_pieces(rows, kept, origin, self._sizes.count, self._asked)
            if not self._all_stay:
                extra_bytes = self._note_extra(size, pieces)
                return Bundle(bare, size, pieces, extra_bytes=extra_bytes, is_mapped=self._is_mapped)
            own = staying(pieces, origin)
            return MadeRange(bare, size, own, extra_bytes=self._note_extra(size, pieces))
        except (Unroutable, ProtocolError) as problem:
            return self._broken(bare, size, str(problem))

    def _broken(self, run: Delivery, size: int, problem: str) -> Bundle | MadeRange:
        return MadeRange(run, size, (), problem) if self._all_stay else Bundle(run, size, (), problem)

    def _refuse(
        self, delivery: Delivery, rows: list[pa.RecordBatch], size: int, at: int, reason: str
    ) -> Iterator[Bundle | MadeRange]:
        """The records before the offset `at`, which cannot be read, go on; what is left of the run waits."""
        if delivery.lease is not None and at > delivery.first_offset:
            readable = _whole_before(delivery.payload, at)
            before = delivery._replace(kind=RUN, next_offset=at, lease=None, payload=readable)
            yield self._make_range(before, rows, 0, _codec_of(readable))
        assert delivery.partition is not None
        remote = self._flow.remote_topic(delivery.partition.topic)
        rest = delivery._replace(kind=RUN, first_offset=at, target_topic=remote, payload=_EMPTY)
        yield self._broken(rest, size, reason)

    def _close_clients(self) -> None:
        self._sizes.close()


def _refuse_misfit(rows: Sequence[pa.RecordBatch]) -> None:
    """Raises Unroutable for the first record for which a step cannot be done, with what its row says."""
    for batch in rows:
        at = batch.column(0).index(MISFIT).as_py()
        if at >= 0:
            raise Unroutable(batch.column(_PAYLOAD_OF_RECORDS)[at].as_py().decode(errors="replace"))


def _whole_before(payload: memoryview, offset: int) -> memoryview:
    """The batches that begin before a source offset."""
    stop = 0
    for at, header in iterate_headers(payload, 0, len(payload)):
        if header.base_offset >= offset:
            break
        stop = at + header.total_bytes
    return payload[:stop]


def _codec_of(batches: memoryview) -> Codec:
    codec = Codec.NONE
    for _, header in iterate_headers(batches, 0, len(batches)):
        codec = codec if header.is_control else header.codec
    return codec


def _sort_out(batch: pa.RecordBatch) -> tuple[list[tuple[int, int, bool]], int, bool]:
    """From where to where rows are records, or are neither records nor padding (True), in order; how many rows are
    there to flush; and whether a step cannot be done for one of the records."""
    import pyarrow.compute as pc

    kinds = pc.run_end_encode(batch.column(0))
    stretches: list[tuple[int, int, bool]] = []
    start = flushed = 0
    has_misfit = False
    for kind, stop in zip(kinds.values.to_pylist(), kinds.run_ends.to_pylist(), strict=True):
        is_control = kind not in (RECORD, DEAD, MISFIT)
        has_misfit = has_misfit or kind == MISFIT
        if kind == FLUSH:
            flushed += stop - start
        elif kind == TRAIL:
            pass
        elif stretches and stretches[-1][1:] == (start, is_control):
            stretches[-1] = (stretches[-1][0], stop, is_control)
        else:
            stretches.append((start, stop, is_control))
        start = stop
    return stretches, flushed, has_misfit


log = logging.getLogger(__name__)

_KNOWN_SECONDS = 60.0
"""Topics grow rarely; until the writer sees it, records of the new partitions go by their keys."""
_ASK_AGAIN_SECONDS = 1.0
_SILENT_SECONDS = 30.0
"""Each try may take as long, and all partitions of the task wait for it."""


class TopicSizes:
    """Partition counts of target topics that are not simply mirrored."""

    def __init__(self, flow: FlowConfig, clock: Clock = SYSTEM_CLOCK) -> None:
        self._flow = flow
        self._clock = clock
        self._admins = OpenAdmins("routed-topics")
        self._known: dict[str, tuple[int, float]] = {}
        self._silence = ""
        self._silent_until = 0.0

    def count(self, topic: str, source: TopicPartition) -> int:
        """The number of `topic`'s partitions; a topic that is not there gets as many as the mirrored topic of `source`.
        That one the topic job makes, like its source: until it has, Unroutable is raised. While a cluster does not
        answer the number that is known counts, and Unroutable is raised where none is.

        Raises SparkMirrorError when the target refuses.
        """
        count, until = self._known.get(topic, (0, 0.0))
        if self._clock.monotonic() >= max(until, self._silent_until):
            count = self._look(topic, source, count)
        if not count and self._silence:
            raise Unroutable(f"{SILENT} topic {topic} has, to which records of {source} go: {self._silence}")
        if not count:
            raise Unroutable(f"{NO_TOPIC} {topic} yet, to which records of {source} go")
        return count

    def _look(self, topic: str, source: TopicPartition, known: int) -> int:
        self._silence = ""
        try:
            count = self._ask(topic, source)
        except ClusterUnreachable as problem:
            self._silence, self._silent_until = str(problem.args[0]), self._clock.monotonic() + _SILENT_SECONDS
            return known
        self._known[topic] = count, self._clock.monotonic() + (_KNOWN_SECONDS if count else _ASK_AGAIN_SECONDS)
        return count

    def _ask(self, topic: str, source: TopicPartition) -> int:
        try:
            return self._find_or_create(topic, source)
        except ClusterUnreachable:
            self.close()  # addresses may have moved
            return self._find_or_create(topic, source)

    def _find_or_create(self, topic: str, source: TopicPartition) -> int:
        """0 for the mirrored topic, where it is not there."""
        admin, remote = self._admins.of(self._flow.target), self._flow.remote_topic(source.topic)
        found = admin.list_topics([topic, remote])
        if topic in found:
            return found[topic].partitions
        if topic == remote:
            return 0
        like = found.get(remote) or self._admins.of(self._flow.source).list_topics([source.topic]).get(source.topic)
        count = max(like.partitions if like else 1, source.partition + 1)
        outcome = admin.create_topics([NewTopic(topic, count, self._flow.replication_factor)])[topic]
        found = admin.list_topics([topic])
        if topic not in found:
            raise Unroutable(f"{source}: topic {topic}, to which records are routed, is missing: {outcome}")
        log.info(
            "%s: topic %s was created for records that are routed to it, %d partitions.", self._flow.name, topic, count
        )
        return found[topic].partitions

    def close(self) -> None:
        self._admins.close()
