"""Accepts that logs part after a disaster, where offsets are kept: an old primary keeps what it alone has, and the flow
back to it goes on. Called by `cli.failback`.

An offset has one record, and no client can take it away. So what the other cluster has from the place on where the logs
part cannot come to the same offsets: it is appended behind the old primary's own records, or it is left out up to the
end of these, and only what follows has the same offsets.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.commands import Selection
from sparkmirror.kafka.admin import Admin
from sparkmirror.ledger.gaps import LEFT_OUT, Gap
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.positions import Accepted, PositionRecord, encode_value
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Position, TopicPartition
from sparkmirror.operations.cluster_pair import mirrored_partitions
from sparkmirror.operations.kept_return import KeptReturn, look_at_kept
from sparkmirror.operations.position_job import Author
from sparkmirror.operations.reverse_ledger import ReverseLedger, kept_record


@dataclass(frozen=True, slots=True)
class Parting:
    """One partition whose logs part. It `leaves_out` what the other cluster has up to the end of the old primary's log,
    or appends it. `refusal` says in a clause why it cannot be accepted, "" where it can; `is_done` that it was before.
    """

    found: KeptReturn
    leaves_out: bool
    refusal: str = ""
    is_done: bool = False

    @property
    def is_new(self) -> bool:
        return not (self.refusal or self.is_done)

    def sentence(self, home: str, away: str) -> str:
        """`home` is the old primary."""
        one = self.found
        if self.refusal:
            return f"{one.partition} cannot be accepted: {self.refusal}"
        if self.is_done:
            return f"{one.partition} is accepted already"
        assert one.parts_at is not None, "else it is refused"
        count = max((one.start if self.leaves_out else one.away_end) - one.parts_at, 0)
        if self.leaves_out:
            what = f"{away}'s {count} offsets up to {one.start - 1} are left out, and offsets are the same behind them"
        else:
            what = f"{away}'s {count} offsets are appended at offset {one.start}, and offsets are not kept from here on"
        return f"{one.partition}: {home} keeps what it has from offset {one.parts_at} on; {what}"

    def as_json(self) -> dict[str, Any]:
        told = {"leaves_out": self.leaves_out, "refusal": self.refusal, "is_done": self.is_done}
        return {**self.found.as_json(), **told}


def plan_partings(found: Iterable[KeptReturn], view: LedgerView, *, leaves_out: bool) -> tuple[Parting, ...]:
    """What is accepted of the partitions that part, by the reverse flow's ledger; pure."""
    return tuple(_plan(one, view, leaves_out=leaves_out) for one in found if one.parted)


def _plan(one: KeptReturn, view: LedgerView, *, leaves_out: bool) -> Parting:
    known, record = view.accepted.get(one.partition), view.records.get(one.partition)
    is_appended = known is not None and known.topic_id == one.home_id
    is_kept = record is not None and record.is_aligned and _is_of(record, one) and _is_beyond(record, one)
    if is_appended or is_kept:
        return Parting(one, leaves_out, is_done=True)
    if one.parts_at is None:
        return Parting(one, leaves_out, one.parted)
    if leaves_out and one.away_end < one.start:
        return Parting(
            one, leaves_out,
            f"its log ends at offset {one.start} on the old primary, and at {one.away_end} on the other cluster, which "
            "must reach as far before something can be left out",
        )  # fmt: skip
    return Parting(one, leaves_out)


def _is_of(record: PositionRecord, one: KeptReturn) -> bool:
    return record.extent is not None and record.extent.topic_id == one.home_id


def _is_beyond(record: PositionRecord, one: KeptReturn) -> bool:
    """Whether the logs part before the position, so that somebody has accepted that: else it is of an earlier way
    back."""
    return one.parts_at is None or record.position.offset > one.parts_at


class PartedLogs:
    """The partitions of a flow that was failed over whose offsets are kept. The admins are the caller's."""

    def __init__(self, flow: FlowConfig, source: Admin, target: Admin, chosen: Selection) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._chosen = chosen
        self._ledger = ReverseLedger(flow, source)

    def look(self, *, leaves_out: bool) -> tuple[Parting, ...]:
        """Raises ClusterError."""
        found = look_at_kept(self._flow, self._source, self._target, self._partitions())
        return plan_partings(found, self._ledger.read(), leaves_out=leaves_out)

    def _partitions(self) -> list[TopicPartition]:
        flow = self._flow
        return [
            where
            for where in mirrored_partitions(flow, self._source)
            if flow.keeps_offsets(where.topic) and flow.remote_topic(where.topic) == where.topic
            if self._chosen.covers(where)
        ]

    def accept(self, partings: Sequence[Parting], author: Author) -> None:
        """Writes to the reverse flow's ledger: what was accepted counts with its next epoch, and not before its
        position is there. Can be repeated. Raises ClusterError."""
        self._ledger.ensure()
        new = [one for one in partings if one.is_new]
        appended = {one.found.partition: one.found for one in new if not one.leaves_out}
        left_out = {one.found.partition: one.found for one in new if one.leaves_out}
        writer = self._ledger.next_generation(), uuid4().hex[:12]
        at_ms = time.time_ns() // 1_000_000
        self._ledger.write({where: one.parts_at for where, one in appended.items()})
        self._write_ours({where: _appended_record(one, *writer) for where, one in appended.items()})
        self._ledger.write_gaps(_gap(one, author, at_ms, writer[1]) for one in left_out.values())
        self._ledger.write({where: one.start for where, one in left_out.items()})
        self._write_ours({where: kept_record(one, *writer) for where, one in left_out.items()})
        self._ledger.write_accepted(
            {where: Accepted(_parts_at(one), one.home_id, at_ms, author.sentence) for where, one in appended.items()}
        )

    def _write_ours(self, records: Mapping[TopicPartition, PositionRecord]) -> None:
        self._ledger.write_ours({where: encode_value(record).decode() for where, record in records.items()})

    def accepted(self) -> list[TopicPartition]:
        """The partitions to which records are to be appended. Raises ClusterError."""
        return [where for where in sorted(self._ledger.read().accepted) if self._chosen.covers(where)]

    def revoke(self) -> list[TopicPartition]:
        """Those of `accepted`, which the reverse flow refuses again. What is left out stays so: its position is beyond
        that."""
        found = self.accepted()
        self._ledger.write_accepted(dict.fromkeys(found))
        return found


def _parts_at(one: KeptReturn) -> int:
    assert one.parts_at is not None, "else it is refused"
    return one.parts_at


def _appended_record(one: KeptReturn, generation: int, run: str) -> PositionRecord:
    """The reverse flow stands where the logs part, and its target's log ends with what the old primary alone has."""
    extent = Extent(one.partition.topic, one.home_id, one.start)
    stands_at = Position(_parts_at(one), topic_id=one.away_id)
    return PositionRecord(stands_at, generation, 0, released=True, run=run, extent=extent)


def _gap(one: KeptReturn, author: Author, at_ms: int, run: str) -> Gap:
    return Gap(one.partition, LEFT_OUT, _parts_at(one), one.start, author.sentence, at_ms, one.home_id, run)
