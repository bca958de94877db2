"""The starts of a flow that keeps offsets: finds where the target's logs end, fills what lies before a source's log
(`planning.start_fills`), and refuses logs that are not the flow's copy. Called by `planning.starts`;
`planning.log_alignment` judges, and `planning.log_proof` reads what the ledger does not know.

All steps can be repeated: a process that dies leaves a log from which the next one goes on.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import Append, Assigned
from sparkmirror.errors import AuthorizationFailed, FencedError, SparkMirrorError, UnsupportedByBrokers
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.errors import RequestRefused
from sparkmirror.kafka.fencing import TransactionUnfinished, init_producer_ids
from sparkmirror.kafka.known_ids import known_ids
from sparkmirror.kafka.log_edges import delete_before
from sparkmirror.kafka.log_offsets import LogOffsets, OffsetsUnknown
from sparkmirror.kafka.offset_fillers import EndMoved
from sparkmirror.kafka.publish import publish
from sparkmirror.kafka.wire.batch_owners import parted_from
from sparkmirror.ledger.lineage import Extent, Lineage
from sparkmirror.ledger.positions import PositionRecord, encode_producer, is_of_this_log, producer_key
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.model import Position, Topic, TopicPartition, is_another_topic
from sparkmirror.planning.adoption import adopt
from sparkmirror.planning.chosen_starts import keep_chosen, known_start
from sparkmirror.planning.first_offsets import first_places
from sparkmirror.planning.kept_refusals import REBUILD, refuse, refuse_shared
from sparkmirror.planning.log_alignment import (
    Adopt,
    Fill,
    GoOn,
    LogFacts,
    Prove,
    Refuse,
    Verdict,
    judge,
    proved_to,
    why_cut,
    why_misfit,
    why_unknown,
)
from sparkmirror.planning.log_comparison import Common
from sparkmirror.planning.log_proof import Expected, Foreign, LogProof, NotIdentical
from sparkmirror.planning.misplaced_offsets import note_misplaced, require_placed_all
from sparkmirror.planning.shared_places import shared_place
from sparkmirror.planning.start_fills import NO_NOTES, FillNotes, StartFill, StartFills
from sparkmirror.planning.target_ends import TargetEnds, producer_memory_ms, read_ends
from sparkmirror.policy.fillers import SEQUENCES, Hole, all_ids, id_prefix
from sparkmirror.policy.producer_memory import DAY_MS

log = logging.getLogger(__name__)
_POLICY_VIOLATION: Final = 44
_ADOPT: Final = ", or name it in `preserve.offsets.adopt`, if what wrote it there kept its offsets and has ended"
_OTHERWISE: Final = "set `preserve.offsets.enabled = false`"
_GROWS: Final = "another process of the flow still appends to it on the target"
_UNREPLICATED: Final = "its replicas on the target lack what the leader has, and nobody can read that"
_UNTOLD: Final = "its leader on the {} does not say where its log {}"
_REMADE: Final = "its topic on the target was deleted meanwhile"
_LET_DELETE: Final = (
    "set it to `compact,delete` on the target, with `retention.ms = -1` and `retention.bytes = -1`, until it is filled"
)


class _Logs(NamedTuple):
    """What the leaders say of the target's partitions, and of the source's by their names there."""

    begins: Mapping[TopicPartition, int]
    target: TargetEnds
    source_begins: Mapping[TopicPartition, int]
    source_ends: Mapping[TopicPartition, int]
    first: Mapping[TopicPartition, Position]


class _Pair(NamedTuple):
    """One partition on both clusters; `known` is the source's lineage at the first offset that is mirrored."""

    where: TopicPartition
    remote: TopicPartition
    producer_id: int
    facts: LogFacts
    known: Lineage
    common: Common


class OffsetStarts:
    """One look. `is_patient` waits for all partitions: else those that are not ready are left out. `notes`
    say which of them are being filled, and how far."""

    def __init__(
        self,
        flow: FlowConfig,
        source: Admin,
        target: Admin,
        ledger: LedgerReader,
        *,
        is_patient: bool,
        notes: FillNotes = NO_NOTES,
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._ledger = ledger
        self._is_patient = is_patient
        self._fills = StartFills(flow, notes, is_patient=is_patient)
        self._there: Mapping[str, Topic] = {}
        self._known_ids: set[str] | None = None
        self._filler_ids: dict[str, int] = {}
        self._memory_ms = DAY_MS

    def settle(self, items: Collection[Assigned], topics: Mapping[str, Topic]) -> list[Assigned]:
        """The partitions that can be mirrored, from the target's log ends on, and those that cannot, with the reason
        (`unknown`). Raises ClusterError."""
        items = refuse_shared(items, topics, self._flow.remote_topic)
        held = [item for item in items if item.unknown]
        misfits = self._misfits([item for item in items if not item.unknown], topics)
        fitting = [item for item in items if not item.unknown and item.partition not in misfits]
        refused = [refuse(item, misfits[item.partition]) for item in items if misfits.get(item.partition)]
        if not fitting:
            return [*held, *refused]
        self._memory_ms = producer_memory_ms(self._target)
        try:
            begun = self._begin_all(fitting, self._producer_id())
        except UnsupportedByBrokers as lack:
            return [*held, *refused, *(refuse(item, str(lack.args[0]).rstrip("."), _OTHERWISE) for item in fitting)]
        self._fills.tell_waiting()
        return [*held, *refused, *begun]

    def _begin_all(self, items: list[Assigned], producer_id: int) -> list[Assigned]:
        """One partition whose leader refuses, or does not answer, does not keep the others from their work."""
        try:
            self._end_transactions(items)
            logs = self._read_logs(items, producer_id)
            remade = self._remade(items)
        except (RequestRefused, AuthorizationFailed, OffsetsUnknown, TransactionUnfinished) as problem:
            if len(items) == 1:
                return self._put_off(items[0], problem)
            half = len(items) // 2
            return self._begin_all(items[:half], producer_id) + self._begin_all(items[half:], producer_id)
        late = [begun for item in remade for begun in self._put_off(item, SparkMirrorError(_REMADE))]
        return late + [begun for item in items if item not in remade for begun in self._begin(item, logs, producer_id)]

    def _remade(self, items: Collection[Assigned]) -> list[Assigned]:
        """Those whose topic on the target is gone since it was looked up, or another one: what was read may be of
        either."""
        names = {self._remote(item.partition).topic for item in items}
        there = self._target.list_topics(names)
        same = [
            name for name, topic in there.items() if not is_another_topic(self._there[name].topic_id, topic.topic_id)
        ]
        return [item for item in items if self._remote(item.partition).topic not in same]

    def _put_off(self, item: Assigned, problem: SparkMirrorError) -> list[Assigned]:
        """Another look may find it ready; a run that is to end has none."""
        if self._is_patient:
            return [replace(item, unknown=f"its start was not found: {problem}", restarted_from=None, epochs=())]
        log.warning("%s: %s does not begin yet: %s", self._flow.name, item.partition, problem, extra={"event": "start"})
        return []

    def _end_transactions(self, items: Collection[Assigned]) -> None:
        """Take over the fillers of a process that died, or sleeps: a marker that comes later stands anywhere."""
        prefix = id_prefix(self._flow.connector.group)
        if self._known_ids is None:
            self._known_ids = known_ids(self._target, prefix)
        named = [one for item in items for one in all_ids(f"{prefix}{self._remote(item.partition)}")]
        taken = init_producer_ids(self._target, [one for one in named if one in self._known_ids])
        self._filler_ids |= {name: identity.producer_id for name, identity in taken.items() if name is not None}

    def _has_new_fillers(self, item: Assigned) -> bool:
        """Whether another process fills the partition under ids that it made since they were listed."""
        prefix, known = id_prefix(self._flow.connector.group), self._known_ids or set()
        return bool((known_ids(self._target, prefix) - known) & {*all_ids(f"{prefix}{self._remote(item.partition)}")})

    def _misfits(self, items: Collection[Assigned], topics: Mapping[str, Topic]) -> dict[TopicPartition, str]:
        """Partitions that have no counterpart on the target, with the reason; "" where it may still be made."""
        there = self._there = self._target.list_topics(
            {self._flow.remote_topic(item.partition.topic) for item in items}
        )
        found: dict[TopicPartition, str] = {}
        for item in items:
            where, remote = item.partition, there.get(self._flow.remote_topic(item.partition.topic))
            grows = self._flow.topic_creation == "mirror"
            if reason := why_misfit(topics.get(where.topic), remote, grows=grows):
                found[where] = reason
            elif remote is None or where.partition >= remote.partitions:
                found[where] = ""
        if self._is_patient and any(not reason for reason in found.values()):
            missing = ", ".join(str(where) for where, reason in found.items() if not reason)
            raise SparkMirrorError(f"{self._flow.name}: the target has no partition for {missing} yet.")
        return found

    def _producer_id(self) -> int:
        """The flow's producer id: the stored one, or a new one, stored before anything is written with it."""
        if self._ledger.view.offsets_producer is None:
            self._store_producer(init_producer_ids(self._target, [None])[None].producer_id)
        view = self._ledger.view
        found = view.offsets_producer
        if found is None:
            raise SparkMirrorError(f"{self._flow.name}: the positions topic does not keep the flow's producer id.")
        if view.last_offsets_producer != found:  # another process began at the same time, and came second
            self._store_producer(found)
        return found

    def _store_producer(self, producer_id: int) -> None:
        record = (producer_key(self._flow.connector.source_alias), encode_producer(producer_id))
        publish(self._flow.target, self._flow.ledger_topics.positions, [record])
        self._ledger.read_through(self._target)

    def _remote(self, where: TopicPartition) -> TopicPartition:
        return TopicPartition(self._flow.remote_topic(where.topic), where.partition)

    def _read_logs(self, items: Collection[Assigned], producer_id: int) -> _Logs:
        here = [item.partition for item in items]
        remotes = [self._remote(where) for where in here]
        there = read_ends(self._target, remotes, producer_id, self._known)
        begins = self._known(self._target.earliest_offsets(remotes))
        source_begins = self._known(self._source.earliest_offsets(here))
        source_ends = self._known(self._source.newest_ends(here))
        ends = there.ends
        is_new = [item.partition for item in items if self._begins_anew(item, ends.get(self._remote(item.partition)))]
        found = first_places(self._flow, self._source, is_new, all_of_them=self._is_patient)
        source_ids = {item.partition: item.topic_id for item in items}
        first = keep_chosen(self._flow, self._ledger, self._target, found, source_ids, self._there, source_ends)
        return _Logs(begins, there, source_begins, source_ends, first)

    def _known(self, offsets: LogOffsets) -> dict[TopicPartition, int]:
        return offsets.all() if self._is_patient else dict(offsets.known)

    def _stored(self, item: Assigned) -> PositionRecord | None:
        """Up to its position the target has the partition as the source has it, by our own record: a crash, a person
        or another mirror may have left another one of Connect's. None where it is of a topic that was deleted."""
        record = self._ledger.view.records.get(item.partition)
        topic = self._there.get(self._flow.remote_topic(item.partition.topic))
        return record if record is not None and is_of_this_log(record, topic) else None

    def _begins_anew(self, item: Assigned, ends: int | None) -> bool:
        """Whether nothing was mirrored of the source's log yet: a stored position is one of a log that was deleted."""
        record = self._stored(item)
        return record is None or (not ends and self._is_of_former_source(item, record))

    def _begin(self, item: Assigned, logs: _Logs, producer_id: int) -> list[Assigned]:
        """Nothing where the partition is not ready."""
        try:
            begun = self._find_start(item, logs, producer_id)
        except NotIdentical as found:
            if self._has_new_fillers(item):
                return self._put_off(item, SparkMirrorError(_GROWS))
            may_adopt = isinstance(found, Foreign) and self._stored(item) is None
            begun = refuse(item, str(found.args[0]), found.hint or REBUILD + (_ADOPT if may_adopt else ""))
            if found.offset is not None:
                self._note(item.partition, found.offset, str(found.args[0]))
        except (FencedError, UnsupportedByBrokers):
            raise
        except SparkMirrorError as problem:
            return self._put_off(item, problem)
        return [] if begun is None else [begun]

    def _note(self, where: TopicPartition, offset: int, reason: str) -> None:
        there = self._there[self._remote(where).topic]
        note_misplaced(self._flow, self._ledger.view, where, there, offset, reason)

    def _find_start(self, item: Assigned, logs: _Logs, producer_id: int) -> Assigned | None:
        """Raises NotIdentical, ClusterError."""
        where, remote = item.partition, self._remote(item.partition)
        if remote in logs.target.growing:
            raise SparkMirrorError(_GROWS)
        if not (remote in logs.target.ends and remote in logs.begins):
            raise SparkMirrorError(_UNTOLD.format("target", "begins and ends"))
        if not (where in logs.source_ends and where in logs.source_begins):
            raise SparkMirrorError(_UNTOLD.format("source", "begins and ends"))
        ends, record = logs.target.ends[remote], self._stored(item)
        if ends and self._is_of_former_source(item, record):
            raise NotIdentical("the source's topic was made again, and the target has the records of the former one")
        if self._begins_anew(item, ends):
            record = None
        place = self._first(item, logs) if record is None else record.position
        if place is None:
            raise SparkMirrorError(_UNTOLD.format("source", "is to begin"))
        stored = None if record is None else place.offset
        edges = logs.begins[remote], ends, logs.target.last_sequences.get(remote), logs.source_begins[where]
        sequence = None if record is None else record.sequence
        chosen = known_start(self._ledger.view, item, self._there[remote.topic].topic_id) if record is not None else 0
        what = self._flow.adopts(where.topic), sequence, chosen
        facts = LogFacts(stored, place.offset, logs.source_ends[where], *edges, *what)
        pair = _Pair(where, remote, producer_id, facts, Lineage.of(place), Common())
        require_placed_all(self._ledger.view, self._proof(pair), where, self._there[remote.topic], record, facts)
        verdict = judge(facts)
        if isinstance(verdict, Prove | Adopt) and remote in logs.target.unreplicated and not self._is_patient:
            raise SparkMirrorError(_UNREPLICATED)
        reached = self._carry_out(verdict, pair)
        if reached is None:
            return None
        is_filled = reached.offset > ends
        sequence = reached.offset % SEQUENCES if is_filled else facts.sequence_after(pair.common.next_sequence)
        start = replace(item, offset=reached.offset, epochs=reached.epochs, restarted_from=None)
        extent = self._adopted(remote, ends) if isinstance(verdict, Adopt) else None
        append = Append(producer_id, sequence, remote.topic, self._there[remote.topic].topic_id, self._memory_ms)
        return replace(start, append=append, extent=extent, found=None)

    def _first(self, item: Assigned, logs: _Logs) -> Position | None:
        """Where a log begins that has nothing mirrored. One in the place of a log that was deleted begins no later than
        that one had come: what the source has from there on was never there, nor from where it was cut since."""
        where, former = item.partition, self._ledger.view.records.get(item.partition)
        chosen = logs.first.get(where)
        if chosen is None or former is None or not former.is_aligned or self._is_of_former_source(item, former):
            return chosen
        if chosen.offset < former.position.offset:
            return chosen
        source = Hole(logs.source_begins[where], logs.source_ends[where])
        return shared_place(former.position, source, partial(parted_from, self._source.connection.settings, where))

    def _adopted(self, remote: TopicPartition, ends: int) -> Extent:
        """By it a task knows that the position is to be stored, though nothing of its own moves it."""
        log.info("%s: %s is taken over at offset %d.", self._flow.name, remote, ends, extra={"event": "adopt"})
        return Extent(remote.topic, self._there[remote.topic].topic_id, ends)

    def _is_of_former_source(self, item: Assigned, record: PositionRecord | None) -> bool:
        """Whether the target's log was copied from a topic that was deleted since. A target that was deleted too has
        nothing of it: what is above its beginning is compared."""
        if record is not None:
            return is_another_topic(record.position.topic_id, item.topic_id)
        return item.restarted_from is not None and item.partition not in self._ledger.view.records

    def _carry_out(self, verdict: Verdict, pair: _Pair) -> Position | None:
        """Where the partition goes on, None where it is not ready yet."""
        match verdict:
            case Refuse(reason, is_foreign):
                raise Foreign(reason) if is_foreign else NotIdentical(reason)
            case Fill(hole, otherwise):
                if otherwise is None or self._proof(pair).has_filled(
                    pair.remote, pair.facts.begins, pair.facts.ends - 1
                ):
                    return self._fill(hole, pair)
                return self._carry_out(otherwise, pair)
            case Prove(offsets, then):
                lineage = self._prove(offsets, pair)
                return self._hide(then, pair, lineage.at(proved_to(pair.facts, pair.common.next_offset)))
            case Adopt(samples, then):
                known, proof = Lineage(pair.known.topic_id), self._proof(pair)
                lineage = adopt(self._target, proof, pair.where, pair.remote, known, samples, pair.facts)
                return self._hide(then, pair, lineage.at(pair.facts.ends))
            case GoOn():
                is_exact = pair.facts.first == pair.facts.ends
                lineage = pair.known if is_exact else Lineage(pair.known.topic_id)
                return self._hide(verdict, pair, lineage.at(pair.facts.ends))

    def _proof(self, pair: _Pair) -> LogProof:
        is_committed = self._flow.consumer.isolation_level == "read_committed"
        source, target = self._source.connection.settings, self._target.connection.settings
        names = all_ids(f"{id_prefix(self._flow.connector.group)}{pair.remote}")
        fillers = frozenset(self._filler_ids[name] for name in names if name in self._filler_ids)
        return LogProof(source, target, is_committed, pair.producer_id, fillers)

    def _prove(self, offsets: Hole, pair: _Pair) -> Lineage:
        """The source is read from the stored position on: what follows tells which epochs its log has now. The target
        is from a batch before: by its sequence numbers those that follow tell whether they were appended twice."""
        begins = max(offsets.first if pair.facts.stored is None else pair.facts.stored, pair.facts.source_begins)
        known = pair.known if begins == pair.facts.stored else Lineage(pair.known.topic_id)
        read = Hole(min(begins, offsets.stop), offsets.stop)
        known_to = offsets.first if pair.facts.stored is None else pair.facts.stored
        common, there = pair.common, Expected(known_to, pair.facts.stored_sequence, pair.facts.begins)
        lineage = self._proof(pair).prove(pair.where, pair.remote, known, read, there, pair.facts.source_end, common)
        if reason := why_unknown(pair.facts, common.count) or why_cut(pair.facts, common.next_sequence):
            raise NotIdentical(reason)
        return lineage

    def _fill(self, hole: Hole, pair: _Pair) -> Position | None:
        edges = pair.facts.begins, hole.first, hole.stop, pair.facts.source_end
        try:
            is_filled = self._fills.fill(StartFill(pair.where, pair.remote, *edges), pair.producer_id)
        except EndMoved as moved:
            raise NotIdentical(str(moved)) from moved
        if not is_filled:
            return None
        if not self._proof(pair).has_just_filled(pair.remote, pair.facts.begins, hole.first, hole.stop - 1):
            raise SparkMirrorError(_GROWS)
        return self._delete(pair, hole.stop, pair.known.at(hole.stop))

    def _hide(self, then: GoOn, pair: _Pair, reached: Position) -> Position | None:
        """Delete the empty records: the log begins behind them before anything is mirrored. Records stay."""
        for offset in (then.hides, then.or_hides):
            if offset is not None and self._proof(pair).has_filled(pair.remote, pair.facts.begins, offset - 1):
                return self._delete(pair, offset, reached)
        return reached

    def _delete(self, pair: _Pair, offset: int, reached: Position) -> Position | None:
        try:
            delete_before(self._target, {pair.remote: offset})
        except RequestRefused as refused:
            if refused.code != _POLICY_VIOLATION:
                raise
            why = "empty records before its beginning cannot be deleted where `cleanup.policy = compact`"
            raise NotIdentical(why, _LET_DELETE) from refused
        begins = self._known(self._target.earliest_offsets([pair.remote])).get(pair.remote)
        return reached if begins == offset else None
