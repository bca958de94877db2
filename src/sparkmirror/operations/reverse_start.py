"""The steps of a failback that set where the reverse flow starts. Called by `cli.failback`; `operations.failback` finds
the places.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from uuid import uuid4

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.ledger.positions import PositionRecord, encode_value
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import NO_TOPIC_ID, Position, TopicPartition, is_another_topic
from sparkmirror.operations.failback import WayBack
from sparkmirror.operations.kept_return import KeptReturn
from sparkmirror.operations.reverse_ledger import ReverseLedger, kept_record
from sparkmirror.operations.steps import Note


class StartReverse:
    """A step that sets positions of the flow from the target back to the source, in the format of Connect's own
    tools."""

    name = "positions"

    def __init__(self, flow: FlowConfig, source: Admin, look: Callable[[], WayBack]) -> None:
        """`look` is called once, when the step begins."""
        self._ledger = ReverseLedger(flow, source)
        self._look = look

    def prepare(self) -> Note:
        found = self._look()
        view = self._ledger.read()
        writer = self._ledger.next_generation(), uuid4().hex[:12]
        moves = (_start(where, at, found, view, *writer) for where, at in sorted(found.starts.items()))
        return {"positions": [move for move in moves if move is not None]}

    def apply(self, note: Note) -> str:
        if not note["positions"]:
            return "the reverse flow does not need positions: names show origins, or it stands further already"
        _write(self._ledger, note["positions"], "after", "record")
        return f"the reverse flow starts behind what came from here in {len(note['positions'])} partitions"

    def undo(self, note: Note) -> str:
        _write(self._ledger, note["positions"], "before", "record_before")
        return f"{len(note['positions'])} positions of the reverse flow are as before"


def _start(
    where: TopicPartition, at: int, found: WayBack, view: LedgerView, generation: int, run: str
) -> dict[str, Any] | None:
    """None where the reverse flow stands as far. A position in a topic that was made again since says nothing of the
    one that is there. Our record has the topic's id: one that is made again before the flow begins is another one."""
    known, record = view.positions.get(where), view.records.get(where)
    topic_id = found.away_ids.get(where.topic, NO_TOPIC_ID)
    is_former = known is not None and is_another_topic(known.topic_id, topic_id)
    if at <= (0 if known is None or is_former else known.offset):
        return None
    extent = None if record is None or is_former else record.extent
    stands_at = PositionRecord(Position(at, topic_id=topic_id), generation, 0, released=True, run=run, extent=extent)
    return _move(where, view, stands_at)


def _encoded(record: PositionRecord | None) -> str | None:
    return None if record is None else encode_value(record).decode()


class KeepReverse:
    """A step that lets the reverse flow go on at the ends of logs that are the same on both clusters: where offsets are
    kept, it has nothing to copy of what came from here."""

    name = "kept offsets"

    def __init__(self, flow: FlowConfig, source: Admin, look: Callable[[], Collection[KeptReturn]]) -> None:
        """`look` is called once, when the step begins."""
        self._ledger = ReverseLedger(flow, source)
        self._look = look

    def prepare(self) -> Note:
        found = sorted(self._look(), key=lambda one: one.partition)
        view = self._ledger.read()
        generation = self._ledger.next_generation()
        run = uuid4().hex[:12]
        return {
            "positions": [
                _move(one.partition, view, kept_record(one, generation, run)) for one in found if not one.parted
            ],
            "parted": [f"{one.partition}: {one.parted}" for one in found if one.parted],
        }

    def apply(self, note: Note) -> str:
        moves, parted = note["positions"], note["parted"]
        _write(self._ledger, moves, "after", "record")
        done = f"the reverse flow keeps offsets, and goes on at the end of {len(moves)} partitions"
        return f"{done}; it refuses {len(parted)}: {'; '.join(parted)}" if parted else done

    def undo(self, note: Note) -> str:
        _write(self._ledger, note["positions"], "before", "record_before")
        return f"{len(note['positions'])} positions of the reverse flow that keep offsets are as before"


def _move(where: TopicPartition, view: LedgerView, stands_at: PositionRecord) -> dict[str, Any]:
    """Both records of a position, as they are and as they are to be, for the journal."""
    known = view.positions.get(where)
    return {
        "topic": where.topic, "partition": where.partition,
        "before": None if known is None else known.offset, "after": stands_at.position.offset,
        "record_before": _encoded(view.records.get(where)), "record": _encoded(stands_at),
    }  # fmt: skip


def _write(ledger: ReverseLedger, moves: Sequence[Mapping[str, Any]], offset: str, record: str) -> None:
    if moves:
        ledger.ensure()  # who was to make the topics may have died before
        ledger.write(_moved(moves, offset))
        ledger.write_ours(_moved(moves, record))


def _moved(moves: Sequence[Mapping[str, Any]], which: str) -> dict[TopicPartition, Any]:
    return {TopicPartition(one["topic"], one["partition"]): one[which] for one in moves}
