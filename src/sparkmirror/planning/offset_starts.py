"""The starts of a flow that keeps offsets: finds where the target's logs end, fills what lies before a source's log,
and refuses logs in which somebody else has written. Called by `planning.starts`; `planning.log_alignment` judges.

All steps can be repeated: a process that dies leaves a log from which the next one goes on.
"""

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import Append, Assigned
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.errors import RequestRefused
from sparkmirror.kafka.fencing import init_producer_ids
from sparkmirror.kafka.log_edges import delete_before, last_sequences
from sparkmirror.kafka.log_offsets import LogOffsets
from sparkmirror.kafka.offset_fillers import EndMoved, fill_start
from sparkmirror.kafka.publish import publish
from sparkmirror.kafka.wire.batch_owners import read_owners
from sparkmirror.ledger.positions import encode_producer, producer_key
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.model import Topic, TopicPartition
from sparkmirror.planning.first_offsets import first_offsets
from sparkmirror.planning.log_alignment import Fill, GoOn, LogFacts, Prove, Refuse, Verdict, judge
from sparkmirror.policy.fillers import Hole

log = logging.getLogger(__name__)

_FILL_SECONDS: Final = 20.0
"""How long one look fills: partitions that are ready do not wait longer."""
_POLICY_VIOLATION: Final = 44
_REBUILD: Final = "delete the topic on the target, and the mirror makes it again from the beginning"


class _Logs(NamedTuple):
    """What the leaders say of the target's partitions, and of the source's by their names there."""

    begins: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    last_sequences: Mapping[TopicPartition, int | None]
    source_ends: Mapping[TopicPartition, int]
    first: Mapping[TopicPartition, int]


class OffsetStarts:
    """One look. `is_patient` waits for all partitions: else those that are not ready are left out."""

    def __init__(
        self, flow: FlowConfig, source: Admin, target: Admin, ledger: LedgerReader, *, is_patient: bool
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._ledger = ledger
        self._is_patient = is_patient
        self._fills_until = time.monotonic() + _FILL_SECONDS

    def settle(self, items: Collection[Assigned], topics: Mapping[str, Topic]) -> list[Assigned]:
        """The partitions that can be mirrored, from the target's log ends on, and those that cannot, with the reason
        (`unknown`). Raises ClusterError."""
        held = [item for item in items if item.unknown]
        misfits = self._misfits([item for item in items if not item.unknown], topics)
        fitting = [item for item in items if not item.unknown and item.partition not in misfits]
        refused = [_hold(item, misfits[item.partition]) for item in items if misfits.get(item.partition)]
        if not fitting:
            return [*held, *refused]
        producer_id = self._producer_id()
        logs = self._read_logs(fitting, producer_id)
        begun = [self._begin(item, logs, producer_id) for item in fitting]
        return [*held, *refused, *(item for item in begun if item is not None)]

    def _misfits(self, items: Collection[Assigned], topics: Mapping[str, Topic]) -> dict[TopicPartition, str]:
        """Partitions that have no counterpart on the target, with the reason; "" where it may still be made."""
        there = self._target.list_topics({self._flow.remote_topic(item.partition.topic) for item in items})
        found: dict[TopicPartition, str] = {}
        for item in items:
            where, remote = item.partition, there.get(self._flow.remote_topic(item.partition.topic))
            known = topics.get(where.topic)
            here, count = 0 if known is None else known.partitions, 0 if remote is None else remote.partitions
            is_fixed = remote is not None and self._flow.topic_creation == "broker"
            if (known is not None and count > here) or (is_fixed and count < here):
                found[where] = f"it has {here} partitions on the source and {count} on the target"
            elif where.partition >= count:
                found[where] = ""
        if self._is_patient and any(not reason for reason in found.values()):
            missing = ", ".join(str(where) for where, reason in found.items() if not reason)
            raise SparkMirrorError(f"{self._flow.name}: the target has no partition for {missing} yet.")
        return found

    def _producer_id(self) -> int:
        """The flow's producer id: the stored one, or a new one, stored before anything is written with it."""
        known = self._ledger.view.offsets_producer
        if known is not None:
            return known
        fresh = init_producer_ids(self._target, [None])[None].producer_id
        record = (producer_key(self._flow.connector.source_alias), encode_producer(fresh))
        publish(self._flow.target, self._flow.ledger_topics.positions, [record])
        self._ledger.read_through(self._target)
        return fresh if self._ledger.view.offsets_producer is None else self._ledger.view.offsets_producer

    def _remote(self, where: TopicPartition) -> TopicPartition:
        return TopicPartition(self._flow.remote_topic(where.topic), where.partition)

    def _read_logs(self, items: Collection[Assigned], producer_id: int) -> _Logs:
        """The sequence numbers are those of the log's ends: both are read again until no batch came between."""
        here = [item.partition for item in items]
        remotes = [self._remote(where) for where in here]
        ends = self._known(self._target.log_ends(remotes))
        while True:
            last = last_sequences(self._target, ends, producer_id)
            before, ends = ends, self._known(self._target.log_ends(ends))
            if ends == before:
                break
        begins = self._known(self._target.earliest_offsets(remotes))
        source_ends = self._known(self._source.latest_offsets(here))
        is_new = [
            item.partition for item in items if not ends.get(self._remote(item.partition)) or not self._stored(item)
        ]
        first = first_offsets(self._flow, self._source, is_new, all_of_them=self._is_patient)
        return _Logs(begins, ends, last, source_ends, first)

    def _known(self, offsets: LogOffsets) -> dict[TopicPartition, int]:
        return offsets.all() if self._is_patient else dict(offsets.known)

    def _stored(self, item: Assigned) -> int | None:
        """Up to this offset the target has the partition as the source has it, by our own record: a crash, a person or
        another mirror may have left another one of Connect's."""
        record = self._ledger.view.records.get(item.partition)
        return record.position.offset if record is not None and record.is_aligned else None

    def _begin(self, item: Assigned, logs: _Logs, producer_id: int) -> Assigned | None:
        """None where the partition is not ready."""
        where, remote = item.partition, self._remote(item.partition)
        stored = self._stored(item)
        if remote not in logs.ends or remote not in logs.begins or where not in logs.source_ends:
            return None
        ends = logs.ends[remote]
        first = logs.first.get(where) if stored is None or not ends else stored
        if first is None:
            return None
        if item.restarted_from is not None and ends:
            return _hold(item, "the source's topic was made again, and the target has the records of the former one")
        last = logs.last_sequences.get(remote)
        facts = LogFacts(stored, first, logs.source_ends[where], logs.begins[remote], ends, last)
        try:
            reached = self._carry_out(judge(facts), remote, producer_id, ends)
        except _Refused as refused:
            return _hold(item, str(refused))
        if reached is None:
            return None
        sequence = facts.next_sequence if reached == ends else reached % (1 << 31)
        is_exact = stored == item.offset == reached and item.restarted_from is None
        start = item if is_exact else replace(item, offset=reached, epochs=(), restarted_from=None)
        return replace(start, append=Append(producer_id, sequence), extent=None, found=None)

    def _carry_out(self, verdict: Verdict, remote: TopicPartition, producer_id: int, ends: int) -> int | None:
        """Where the partition goes on, None where it is not ready yet."""
        match verdict:
            case Refuse(reason):
                raise _Refused(reason)
            case Fill(hole):
                return self._fill(hole, remote, producer_id)
            case Prove(offsets, then):
                self._prove(offsets, remote, producer_id)
                return self._hide(then.hides, remote, ends)
            case GoOn(hides):
                return self._hide(hides, remote, ends)

    def _fill(self, hole: Hole, remote: TopicPartition, producer_id: int) -> int | None:
        seconds = float("inf") if self._is_patient else self._fills_until - time.monotonic()
        if seconds <= 0:
            return None
        log.info(
            "%s: %s begins at offset %d: empty records take up the %d offsets before.",
            self._flow.name, remote, hole.stop, hole.stop - hole.first, extra={"event": "fill"},
        )  # fmt: skip
        try:
            reached = fill_start(self._flow.target, producer_id, remote, hole, seconds)
        except EndMoved as moved:
            raise _Refused(str(moved)) from moved
        return None if reached < hole.stop else self._hide(hole.stop, remote, reached)

    def _hide(self, offset: int | None, remote: TopicPartition, reached: int) -> int | None:
        """Delete the empty records; the log begins behind them before anything is mirrored."""
        if offset is None:
            return reached
        try:
            delete_before(self._target, {remote: offset})
        except RequestRefused as refused:
            if refused.code != _POLICY_VIOLATION:
                raise
            why = "empty records before its beginning cannot be deleted where `cleanup.policy = compact`"
            raise _Refused(f"{why}: set it to `compact,delete` until the partition is mirrored") from refused
        begins = self._known(self._target.earliest_offsets([remote])).get(remote)
        return reached if begins == offset else None

    def _prove(self, offsets: Hole, remote: TopicPartition, producer_id: int) -> None:
        for batch in read_owners(self._target.connection.settings, remote, *offsets):
            if not batch.is_filler and batch.producer_id != producer_id:
                raise _Refused(f"somebody else has written records to the target from offset {batch.first} on")


class _Refused(Exception):
    """The partition cannot be mirrored; a clause."""


def _hold(item: Assigned, reason: str) -> Assigned:
    return replace(item, unknown=f"offsets cannot be kept: {reason}; {_REBUILD}", restarted_from=None, epochs=())
