"""The steps of a failback that set where the reverse flow starts. Called by `cli.failback`; `operations.failback` finds
the places.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from uuid import uuid4

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Cluster, Connector, Position, TopicPartition
from sparkmirror.operations.kept_return import KeptReturn
from sparkmirror.operations.steps import Note
from sparkmirror.policy.partitioner import murmur2_partition


class _ReverseLedger:
    """The ledger of the flow from the target back to the source, on the source."""

    def __init__(self, flow: FlowConfig, source: Admin) -> None:
        self.connector = Connector.of_dedicated_mode(flow.name.target)
        self.topics = ledger_topics(flow.name.target, replication_factor=flow.offset_storage_replication_factor)
        self._cluster = Cluster(flow.source.alias, flow.source.client)
        self._source = source

    def read(self) -> LedgerView:
        """Raises SparkMirrorError where a position of it cannot be read."""
        view, needed = LedgerView(self.connector), {self.topics.offsets, self.topics.positions}
        if self._source.list_topics(needed).keys() == needed:
            with LedgerReader(self._cluster, self.topics, self.connector) as ledger:
                ledger.read_to_end()
                view = ledger.view
        for where, problem in view.problems.items():
            raise SparkMirrorError(f"The reverse flow's start is not known, {where}: {problem}")
        return view

    def write(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Positions in the format of Connect's own tools; None deletes one."""
        ensure_ledger_topics(self._source, self.topics)
        partitions = self._source.list_topics([self.topics.offsets])[self.topics.offsets].partitions
        records = [
            (connect.encode_key(self.connector, where), None if offset is None else connect.encode_value(offset))
            for where, offset in offsets.items()
        ]
        publish(self._cluster, self.topics.offsets, records, place=lambda key: murmur2_partition(key, partitions))

    def write_ours(self, records: Mapping[TopicPartition, str | None]) -> None:
        """Position records, encoded; None deletes one."""
        values = [
            (positions.encode_key(self.connector.source_alias, where), None if record is None else record.encode())
            for where, record in records.items()
        ]
        publish(self._cluster, self.topics.positions, values)


class StartReverse:
    """A step that sets positions of the flow from the target back to the source, in the format of Connect's own
    tools."""

    name = "positions"

    def __init__(self, flow: FlowConfig, source: Admin, starts: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """`starts` is called once, when the step begins."""
        self._ledger = _ReverseLedger(flow, source)
        self._starts = starts

    def prepare(self) -> Note:
        starts = self._starts()
        before = {where: position.offset for where, position in self._ledger.read().positions.items()}
        return {
            "positions": [
                {"topic": where.topic, "partition": where.partition, "before": before.get(where), "after": at}
                for where, at in sorted(starts.items())
                if at > before.get(where, 0)
            ]
        }

    def apply(self, note: Note) -> str:
        if not note["positions"]:
            return "the reverse flow does not need positions: names show origins, or it stands further already"
        self._ledger.write(_moved(note["positions"], "after"))
        return f"the reverse flow starts behind what came from here in {len(note['positions'])} partitions"

    def undo(self, note: Note) -> str:
        if note["positions"]:
            self._ledger.write(_moved(note["positions"], "before"))
        return f"{len(note['positions'])} positions of the reverse flow are as before"


class KeepReverse:
    """A step that lets the reverse flow go on at the ends of logs that are the same on both clusters: where offsets are
    kept, it has nothing to copy of what came from here."""

    name = "kept offsets"

    def __init__(self, flow: FlowConfig, source: Admin, look: Callable[[], Collection[KeptReturn]]) -> None:
        """`look` is called once, when the step begins."""
        self._ledger = _ReverseLedger(flow, source)
        self._look = look

    def prepare(self) -> Note:
        found = sorted(self._look(), key=lambda one: one.partition)
        view = self._ledger.read()
        generation = max((tenure.generation for tenure in view.tenures()), default=0) + 1
        run = uuid4().hex[:12]
        return {
            "positions": [_change(one, view, generation, run) for one in found if not one.parted],
            "parted": [f"{one.partition}: {one.parted}" for one in found if one.parted],
        }

    def apply(self, note: Note) -> str:
        moves, parted = note["positions"], note["parted"]
        if moves:
            self._ledger.write(_moved(moves, "after"))
            self._ledger.write_ours(_moved(moves, "record"))
        done = f"the reverse flow keeps offsets, and goes on at the end of {len(moves)} partitions"
        return f"{done}; it refuses {len(parted)}: {'; '.join(parted)}" if parted else done

    def undo(self, note: Note) -> str:
        if moves := note["positions"]:
            self._ledger.write(_moved(moves, "before"))
            self._ledger.write_ours(_moved(moves, "record_before"))
        return f"{len(moves)} positions of the reverse flow that keep offsets are as before"


def _change(one: KeptReturn, view: LedgerView, generation: int, run: str) -> dict[str, Any]:
    """The old primary's log is as long as the copy of it that the reverse flow would have made."""
    where, known = one.partition, view.positions.get(one.partition)
    extent = Extent(where.topic, one.home_id, one.start)
    record = PositionRecord(
        Position(one.start, topic_id=one.away_id), generation, 0, released=True, run=run, extent=extent, is_aligned=True
    )
    before = view.records.get(where)
    return {
        "topic": where.topic, "partition": where.partition,
        "before": None if known is None else known.offset, "after": one.start,
        "record_before": None if before is None else positions.encode_value(before).decode(),
        "record": positions.encode_value(record).decode(),
    }  # fmt: skip


def _moved(moves: Sequence[Mapping[str, Any]], which: str) -> dict[TopicPartition, Any]:
    return {TopicPartition(one["topic"], one["partition"]): one[which] for one in moves}
