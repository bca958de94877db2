"""The writing end of `kafka-records`: takes rows of records and hands batches to the sender. Runs in a Python worker.

As `pipeline.produce.writer`, which it extends. A range of records is passed on when its run row comes: the range
accounts for records that a filter dropped. Topics that transforms route to are looked up, or created, once per topic
and task on the row thread.
"""

import logging
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparkmirror.batch.header import Codec
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.clients import open_admin
from sparkmirror.model import NO_EPOCH, TopicPartition
from sparkmirror.pipeline.produce.assembly import SenderOptions
from sparkmirror.pipeline.produce.delivery import Bundle, Delivery
from sparkmirror.pipeline.produce.record_pieces import Origin, Unroutable, make_pieces
from sparkmirror.pipeline.produce.writer import WritingTask
from sparkmirror.pipeline.relay.schema import DEAD, FLUSH, PLAN, RECORD, REFUSED, ROW_SCHEMA, RUN, WRITTEN_COLUMNS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_EMPTY = memoryview(b"")
_PAYLOAD = ROW_SCHEMA.get_field_index("payload")
_RANGE_BYTES_MAX = 4 << 20
_FIELDS = {name: place for place, name in enumerate(WRITTEN_COLUMNS)}
_CONTROL_COLUMNS = (*(place for place in range(len(ROW_SCHEMA)) if place != _PAYLOAD), _FIELDS["target_topic"])


class _Range:
    """One source partition's next range: its rows, and the run rows that close it."""

    def __init__(self) -> None:
        self.rows: list[pa.RecordBatch] = []
        self.first = 0
        self.following = -1
        self.records = 0
        self.size_bytes = 0
        self.max_timestamp = -1
        self.high_watermark = -1
        self.fetched_at_ms = 0
        self.leader_epoch = NO_EPOCH
        self.turns = 0
        self.codec = 0

    def is_continued_by(self, run: dict[str, Any]) -> bool:
        """Whether the run row continues this range. Rows that were read again after an order, from another offset or of
        another epoch, are another range."""
        return self.following < 0 or (
            (self.following, self.leader_epoch, self.turns) == (run["first_offset"], run["leader_epoch"], run["turns"])
        )

    def close_with(self, run: dict[str, Any]) -> None:
        """Extend the range by that of a run row."""
        if self.following < 0:
            self.first = run["first_offset"]
            self.fetched_at_ms = run["fetched_at"]
        self.following = run["next_offset"]
        self.records += run["records"]
        self.size_bytes += run["bytes"]
        self.max_timestamp = max(self.max_timestamp, run["max_timestamp"])
        self.high_watermark = run["high_watermark"]
        self.leader_epoch, self.turns = run["leader_epoch"], run["turns"]
        self.codec = run["codec"] or 0


class RecordTask(WritingTask):
    """One `write` call of records."""

    def __init__(self, options: SenderOptions, flow: FlowConfig) -> None:
        super().__init__(options)
        self._listens = False
        self._flow = flow
        self._sizes = TopicSizes(flow)
        self._open: list[pa.RecordBatch] = []
        self._ranges: dict[TopicPartition, _Range] = {}

    def take(self, batch: pa.RecordBatch) -> None:
        """Rows in order: records, and behind those of a range the row that closes it."""
        records, controls = _sort_out(batch)
        start = 0
        for at in [*controls, batch.num_rows]:
            between = records[start:at]
            if between.all():
                self._open += [batch.slice(start, at - start)] if at > start else []
            elif between.any():
                self._open.append(batch.slice(start, at - start).filter(pa.array(between)))
            start = at + 1
            if at < batch.num_rows:
                self._take_control(batch, at)
        self._pass_on_ranges()
        self._raise_if_failed()

    def _take_control(self, batch: pa.RecordBatch, at: int) -> None:
        kind = batch.column(0)[at].as_py()
        if kind == RUN:
            self._close_range(_row(batch, at))
            return
        self._pass_on_ranges()
        if kind == REFUSED:
            self._refuse(_row(batch, at))
            return
        payload = batch.column(_PAYLOAD)[at]
        if kind == PLAN and self._sender is None:
            self._begin(payload.as_py())
        else:
            self._put(self._read([batch.column(place)[at].as_py() for place in _CONTROL_COLUMNS], payload))

    def _close_range(self, run: dict[str, Any]) -> None:
        source = TopicPartition(run["topic"], run["partition"])
        if source in self._ranges and not self._ranges[source].is_continued_by(run):
            self._pass_on_ranges()
        found = self._ranges.setdefault(source, _Range())
        found.rows += self._open
        self._open = []
        found.close_with(run)
        if found.size_bytes > _RANGE_BYTES_MAX:
            self._pass_on_ranges()

    def _pass_on_ranges(self) -> None:
        ranges, self._ranges = self._ranges, {}
        for source, found in ranges.items():
            remote = self._flow.remote_topic(source.topic)
            try:
                pieces = make_pieces(found.rows, Origin(source, remote, Codec(found.codec)), self._sizes.count)
                problem = ""
            except Unroutable as unroutable:
                pieces, problem = [], str(unroutable)
            self._put(
                Bundle(
                    Delivery(
                        RUN, source, remote, found.first, found.following, found.records, found.high_watermark,
                        found.max_timestamp, _EMPTY, None, found.fetched_at_ms, found.leader_epoch, found.turns,
                    ),
                    found.size_bytes, tuple(pieces), problem,
                )
            )  # fmt: skip

    def _close_clients(self) -> None:
        self._sizes.close()

    def _refuse(self, row: dict[str, Any]) -> None:
        source = TopicPartition(row["topic"], row["partition"])
        delivery = Delivery(
            RUN, source, None, row["first_offset"], row["next_offset"], row["records"], row["high_watermark"],
            row["max_timestamp"], _EMPTY, None, 0, row["leader_epoch"], row["turns"],
        )  # fmt: skip
        self._put(Bundle(delivery, row["bytes"], (), bytes(row["payload"]).decode()))


def _row(batch: pa.RecordBatch, at: int) -> dict[str, Any]:
    return {name: batch.column(_FIELDS[name])[at].as_py() for name in _RANGE_FIELDS}


_RANGE_FIELDS = (
    "topic", "partition", "first_offset", "next_offset", "records", "bytes", "max_timestamp", "high_watermark",
    "fetched_at", "leader_epoch", "turns", "payload", "codec",
)  # fmt: skip


def _sort_out(batch: pa.RecordBatch) -> "tuple[NDArray[np.bool_], list[int]]":
    """Which rows are records, and the places of those that are neither records nor there to flush."""
    import numpy as np
    import pyarrow.compute as pc

    kinds = batch.column(0)
    records = pc.is_in(kinds, value_set=pa.array([RECORD, DEAD])).to_numpy(zero_copy_only=False)
    flush = pc.equal(kinds, FLUSH).to_numpy(zero_copy_only=False)
    return records, np.flatnonzero(~(records | flush)).tolist()


log = logging.getLogger(__name__)

_KNOWN_SECONDS = 60.0
"""Topics grow rarely; until the writer sees it, records of the new partitions go by their keys."""


class TopicSizes:
    """Partition counts of target topics that are not simply mirrored."""

    def __init__(self, flow: FlowConfig) -> None:
        self._flow = flow
        self._admin: Admin | None = None
        self._known: dict[str, tuple[int, float]] = {}

    def count(self, topic: str, source: TopicPartition) -> int:
        """The number of `topic`'s partitions; a topic that is not there gets as many as the mirrored topic of `source`.

        Raises SparkMirrorError when the target does not answer or refuses.
        """
        count, until = self._known.get(topic, (0, 0.0))
        if time.monotonic() < until:
            return count
        count = self._ask(topic, source)
        self._known[topic] = (count, time.monotonic() + _KNOWN_SECONDS)
        return count

    def _ask(self, topic: str, source: TopicPartition) -> int:
        try:
            return self._find_or_create(self._open(), topic, source)
        except ClusterUnreachable:
            self.close()  # addresses may have moved
            return self._find_or_create(self._open(), topic, source)

    def _open(self) -> Admin:
        if self._admin is None:
            self._admin = open_admin(self._flow.target, "routed-topics")
        return self._admin

    def _find_or_create(self, admin: Admin, topic: str, source: TopicPartition) -> int:
        remote = self._flow.remote_topic(source.topic)
        found = admin.list_topics([topic, remote])
        if topic in found:
            return found[topic].partitions
        count = max(found[remote].partitions if remote in found else 1, source.partition + 1)
        outcome = admin.create_topics([NewTopic(topic, count, self._flow.replication_factor)])[topic]
        found = admin.list_topics([topic])
        if topic not in found:
            raise SparkMirrorError(
                f"{self._flow.name}: topic {topic}, to which records are routed, is missing: {outcome}"
            )
        log.info(
            "%s: topic %s was created for records that are routed to it, %d partitions.", self._flow.name, topic, count
        )
        return found[topic].partitions

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None
