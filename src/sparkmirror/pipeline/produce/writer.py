"""The writing end of a Spark task: takes rows from Spark and hands them to the sender. Runs in a Python worker, for
`spark.run_writer`."""

import errno
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa

from sparkmirror.batch.header import Codec
from sparkmirror.batch.rewrite import Limits
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.aligned_offsets import AlignmentOptions
from sparkmirror.pipeline.produce.assembly import SenderOptions
from sparkmirror.pipeline.produce.delivery import Arrival, Delivery
from sparkmirror.pipeline.produce.packing import Packing
from sparkmirror.pipeline.produce.progress import ProgressOptions
from sparkmirror.pipeline.produce.receipts import Receipt
from sparkmirror.pipeline.produce.repartition import Pieces, Repartition
from sparkmirror.pipeline.produce.sender import Sender
from sparkmirror.pipeline.produce.transaction_phase import TransactionOptions
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingPeer
from sparkmirror.pipeline.relay.schema import FLUSH, PLAN, ROW_SCHEMA, RUN, TRAIL
from sparkmirror.policy.fillers import id_prefix

log = logging.getLogger(__name__)

_INLINE_BYTES_MAX = 32 << 20
_ROOM_POLL_SECONDS = 0.002
_PAYLOAD = ROW_SCHEMA.get_field_index("payload")
_FIRST_OFFSET = ROW_SCHEMA.get_field_index("first_offset")
_COLUMNS = len(ROW_SCHEMA) + 1
"""The reader's columns, and the target topic."""
_EMPTY = memoryview(b"")


def _ring_is_over(pid: int, problem: OSError) -> bool:
    """Whether the reader ended before its writer began: its process lives on, and the ring's descriptors are closed."""
    return problem.errno in (errno.ENOENT, errno.ENXIO) and Path(f"/proc/{pid}").exists()


class WritingTask:
    """One `write` call: opens the ring at the first plan row, then feeds the sender."""

    def __init__(self, options: SenderOptions, repartition: Repartition | None = None) -> None:
        self._options = options
        self._repartition = repartition
        self._listens = repartition is None
        self._peer: RingPeer | None = None
        self._sender: Sender | None = None
        self._reader_pid = 0
        self._pending: list[Arrival] = []
        self._extra_bytes = 0
        self.number = -1

    @property
    def is_orphan(self) -> bool:
        """Whether the reader was killed: Spark then repeats the task, perhaps while this writer still drains."""
        return self._reader_pid > 0 and not Path(f"/proc/{self._reader_pid}").exists()

    def take(self, batch: pa.RecordBatch) -> None:
        """Rows in order. Those of one batch of the reader's, which Spark may have cut, go on with the flush row that
        ends it: it says which announcements come before them."""
        columns = batch.columns[:_COLUMNS]
        payloads = columns.pop(_PAYLOAD)
        for at, row in enumerate(zip(*(column.to_pylist() for column in columns), strict=True)):
            if row[0] == FLUSH:
                self._pass_on(row[_FIRST_OFFSET] or 0)
            elif row[0] == PLAN and self._sender is None:
                self._begin(payloads[at].as_py())
            elif row[0] != TRAIL:
                self._pending.append(self._read(row, payloads[at]))
        self._raise_if_failed()

    def _pass_on(self, announced: int) -> None:
        rows, self._pending = self._pending, []
        if self._peer is not None:
            self._peer.note_taken(1)
        if self._sender is not None:
            self._put(*rows, announced=announced)

    def _raise_if_failed(self) -> None:
        if self._sender is not None and self._sender.error is not None:
            raise self._sender.error

    def _begin(self, payload: bytes) -> None:
        plan = PlanRow.parse(payload)
        self.number = plan.task
        self._reader_pid = plan.ring.pid
        try:
            self._peer = RingPeer(plan.ring)
        except OSError as problem:
            if _ring_is_over(plan.ring.pid, problem):
                log.debug("task %d: its reader has ended already.", plan.task)
            else:
                log.warning("task %d: no shared memory (%s): payload goes through Spark.", plan.task, problem)
        if self._peer is not None and self._listens:
            self._peer.listener.listen()
        self._sender = Sender(self._options, plan, self._peer)
        self._sender.start()

    def _read(self, row: Sequence[Any], inline: pa.Scalar) -> Arrival:
        """A delivery from a row and its payload, which stands beside it."""
        kind, topic, partition, first, following, _, records, size, latest, high, fetched, *log, lease, _, to = row
        payload = _EMPTY
        if lease is not None and self._peer is not None:
            payload = self._peer.slice(lease, size)
        elif inline.is_valid:
            payload = memoryview(bytearray(inline.as_buffer()))
        where = None if topic is None else TopicPartition(topic, partition)
        span = (first, following, records, high, latest)
        delivery = Delivery(kind, where, to, *span, payload, lease, fetched, *log)
        if self._repartition is None or kind != RUN:
            return delivery
        made = self._repartition.bundle(delivery, self._asked, self._topic_id)
        return delivery if made is None else made._replace(extra_bytes=self._note_extra(made.size_bytes, made.pieces))

    def _note_extra(self, size_bytes: int, pieces: Pieces) -> int:
        """Count what the batches that were made of so many bytes of the reader's take beyond these."""
        extra_bytes = max(sum([len(piece.data) for _, piece in pieces]) - size_bytes, 0)
        self._extra_bytes += extra_bytes
        return extra_bytes

    def _topic_id(self, topic: str) -> UUID | None:
        assert self._sender is not None, "the reader's first row is a plan row"
        return self._sender.topic_id_of(topic)

    def _asked(self, topic: str) -> Limits:
        """What the flow and a target topic, as far as it is known, ask of batches that are made here."""
        assert self._sender is not None, "the reader's first row is a plan row"
        return self._options.packing.asked(self._sender.limits_of(topic))

    def _put(self, *deliveries: Arrival, announced: int = 0) -> None:
        sender = self._sender
        assert sender is not None, "the reader's first row is a plan row"
        sender.put(*deliveries, announced=announced)
        while self._is_full(sender) and sender.error is None:
            sender.row_thread_waits = True
            time.sleep(_ROOM_POLL_SECONDS)
        sender.row_thread_waits = False

    def _is_full(self, sender: Sender) -> bool:
        """Whether more lies in this process than the reader's memory bounds. One thread counts what comes, the other
        what has gone."""
        return sender.inline_bytes + self._extra_bytes - sender.freed_extra_bytes > _INLINE_BYTES_MAX

    def finish(self) -> Receipt:
        if self._sender is None:
            return Receipt(self.number)
        self._sender.finish()
        self._close_peer()
        self._close_clients()
        task_metrics = self._sender.task_metrics
        return Receipt(self.number, self._sender.acknowledged(), task_metrics.records, task_metrics.bytes)

    def fail(self) -> None:
        """End the reader and the sender at once."""
        if self._peer is not None:
            self._peer.fail()
        if self._sender is not None:
            with suppress(Exception):
                self._sender.finish()
        self._close_peer()
        self._close_clients()

    def _close_clients(self) -> None:
        """Close the clients beside the sender's own connections."""
        if self._repartition is not None:
            self._repartition.close()

    def _close_peer(self) -> None:
        if self._peer is not None and (self._sender is None or self._sender.ended):
            self._peer.close()
            self._peer = None


def sender_options(flow: FlowConfig) -> SenderOptions:
    progress = ProgressOptions(
        flow.connector,
        flow.ledger_topics,
        flow.offset_flush_interval_ms / 1000,
        cache(flow.policy.is_heartbeats_topic),
    )
    return SenderOptions(
        client_settings(flow.producer.reach(flow.target), "writer"),
        progress,
        flow.connections_per_broker,
        max(flow.producer.send_buffer_bytes, 0),
        flow.producer.request_timeout_ms / 1000,
        _transactions(flow) if flow.is_exactly_once else None,
        _packing(flow),
        flow.on_data_loss,
        _alignment(flow) if flow.preserves_offsets else None,
    )


def _packing(flow: FlowConfig) -> Packing:
    producer = flow.producer
    return Packing(
        _codec(producer.compression_type),
        flow.clamp_timestamps,
        batch_bytes=max(producer.batch_size_bytes, 1),
        linger_seconds=producer.linger_ms / 1000,
        unpacked_bytes_max=flow.unpacked_bytes_max,
    )


def _codec(name: str) -> Codec | None:
    return None if name == "source" else Codec[name.upper()]


def _alignment(flow: FlowConfig) -> AlignmentOptions:
    target = flow.producer.reach(flow.target)
    return AlignmentOptions(target, flow.offsets_filler, id_prefix(flow.connector.group))


def _transactions(flow: FlowConfig) -> TransactionOptions:
    return TransactionOptions(
        flow.name.target,
        flow.connector,
        flow.producer.transaction_timeout_ms,
        flow.transaction_interval_ms / 1000,
        flow.offset_flush_interval_ms / 1000,
    )
