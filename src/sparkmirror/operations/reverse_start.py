"""The steps of a failback that set where the reverse flow starts. Called by `cli.failback`; `operations.failback` finds
the places.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from uuid import uuid4

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.ledger import positions
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import TopicPartition
from sparkmirror.operations.kept_return import KeptReturn
from sparkmirror.operations.reverse_ledger import ReverseLedger, kept_record
from sparkmirror.operations.steps import Note


class StartReverse:
    """A step that sets positions of the flow from the target back to the source, in the format of Connect's own
    tools."""

    name = "positions"

    def __init__(self, flow: FlowConfig, source: Admin, starts: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """`starts` is called once, when the step begins."""
        self._ledger = ReverseLedger(flow, source)
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
        self._ledger.ensure()
        self._ledger.write(_moved(note["positions"], "after"))
        return f"the reverse flow starts behind what came from here in {len(note['positions'])} partitions"

    def undo(self, note: Note) -> str:
        if note["positions"]:
            self._ledger.ensure()  # who was to make the topics may have died before
            self._ledger.write(_moved(note["positions"], "before"))
        return f"{len(note['positions'])} positions of the reverse flow are as before"


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
            "positions": [_change(one, view, generation, run) for one in found if not one.parted],
            "parted": [f"{one.partition}: {one.parted}" for one in found if one.parted],
        }

    def apply(self, note: Note) -> str:
        moves, parted = note["positions"], note["parted"]
        if moves:
            self._ledger.ensure()
            self._ledger.write(_moved(moves, "after"))
            self._ledger.write_ours(_moved(moves, "record"))
        done = f"the reverse flow keeps offsets, and goes on at the end of {len(moves)} partitions"
        return f"{done}; it refuses {len(parted)}: {'; '.join(parted)}" if parted else done

    def undo(self, note: Note) -> str:
        if moves := note["positions"]:
            self._ledger.ensure()
            self._ledger.write(_moved(moves, "before"))
            self._ledger.write_ours(_moved(moves, "record_before"))
        return f"{len(moves)} positions of the reverse flow that keep offsets are as before"


def _change(one: KeptReturn, view: LedgerView, generation: int, run: str) -> dict[str, Any]:
    """The old primary's log is as long as the copy of it that the reverse flow would have made."""
    where, known = one.partition, view.positions.get(one.partition)
    record = kept_record(one, generation, run)
    before = view.records.get(where)
    return {
        "topic": where.topic, "partition": where.partition,
        "before": None if known is None else known.offset, "after": one.start,
        "record_before": None if before is None else positions.encode_value(before).decode(),
        "record": positions.encode_value(record).decode(),
    }  # fmt: skip


def _moved(moves: Sequence[Mapping[str, Any]], which: str) -> dict[TopicPartition, Any]:
    return {TopicPartition(one["topic"], one["partition"]): one[which] for one in moves}
