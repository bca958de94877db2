"""Decides where a partition begins, and whether the target still has the records that the ledger counts as mirrored.

Called by `planning.planner` before it assigns partitions. `ledger.lineage` judges the target's log, and
`pipeline.produce.log_check` acts on it.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.wire.lookup import ClusterView, likely_id, look_up, with_servers_from
from sparkmirror.ledger.lineage import Extent, judge
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import (
    ANOTHER_ID_SECONDS,
    NO_EPOCH,
    NO_TOPIC_ID,
    Position,
    Topic,
    TopicPartition,
    is_another_topic,
)
from sparkmirror.planning.first_offsets import first_offsets
from sparkmirror.planning.offset_starts import OffsetStarts
from sparkmirror.planning.start_fills import NO_NOTES, FillNotes


def assign_starts(
    flow: FlowConfig,
    clusters: tuple[Admin, Admin, LedgerReader],
    partitions: Collection[TopicPartition],
    topics: Mapping[str, Topic],
    positions: Mapping[TopicPartition, Position],
    ends: Mapping[TopicPartition, int] | None,
    notes: FillNotes = NO_NOTES,
    clock: Clock = SYSTEM_CLOCK,
) -> list[Assigned]:
    """Each partition with its start: the ledger's position, which may be unknown, else by `auto.offset.reset`.

    `clusters` are source, target and ledger; `ends` are those of a bounded run. How far starts are filled is noted.
    Raises ClusterError.
    """
    source, _, ledger = clusters
    unknown = ledger.view.problems
    fresh = [tp for tp in partitions if tp not in positions and tp not in unknown]
    topics = confirm_ids(source, topics, {tp: positions[tp] for tp in partitions if tp in positions}, clock)
    starts = first_offsets(flow, source, fresh, all_of_them=ends is not None)
    known = {**{tp: Position(offset) for tp, offset in starts.items()}, **positions}
    items = [
        start_at(tp, known[tp], topics[tp.topic].topic_id, None if ends is None else ends.get(tp))
        for tp in partitions
        if tp in known
    ]
    items += [hold_unknown(tp, unknown[tp], topics[tp.topic].topic_id) for tp in partitions if tp in unknown]
    return settle_starts(flow, clusters, topics, items, all_of_them=ends is not None, notes=notes, clock=clock)


def settle_starts(
    flow: FlowConfig,
    clusters: tuple[Admin, Admin, LedgerReader],
    topics: Mapping[str, Topic],
    items: list[Assigned],
    *,
    all_of_them: bool,
    notes: FillNotes = NO_NOTES,
    clock: Clock = SYSTEM_CLOCK,
) -> list[Assigned]:
    """The starts as the target's logs have them: where offsets are kept, a log's end is its partition's start.

    Then those whose start is not known yet are left out; with `all_of_them` they are waited for. Raises ClusterError.
    """
    accepted = _accepted(flow, clusters[1], clusters[2].view, items)
    kept = [item for item in items if flow.keeps_offsets(item.partition.topic) and item.partition not in accepted]
    others = [item for item in items if not flow.keeps_offsets(item.partition.topic) or item.partition in accepted]
    begun = look_at_target(clusters[1], others, clusters[2].view.records, flow.remote_topic, clock)
    if kept:
        begun += OffsetStarts(flow, *clusters, is_patient=all_of_them, notes=notes).settle(kept, topics)
    return begun


def _accepted(
    flow: FlowConfig, target: Admin, view: LedgerView, items: Iterable[Assigned]
) -> frozenset[TopicPartition]:
    """The partitions whose offsets are not kept, though those of their topics are: a person has accepted that their
    logs part. Raises ClusterError."""
    named = [item.partition for item in items if item.partition in view.accepted]
    there = target.list_topics({flow.remote_topic(where.topic) for where in named}) if named else {}
    return frozenset(where for where in named if view.has_accepted(where, there.get(flow.remote_topic(where.topic))))


def confirm_ids(
    source: Admin,
    topics: Mapping[str, Topic],
    positions: Mapping[TopicPartition, Position],
    clock: Clock = SYSTEM_CLOCK,
) -> Mapping[str, Topic]:
    """The topics; of those that look made again since their positions were stored, the id counts that most servers
    show `ANOTHER_ID_SECONDS` later, and a position's where as many show that: one of them may be cut off from the
    others. Raises ClusterError, ProtocolError."""
    others = {
        tp.topic
        for tp, position in positions.items()
        if tp.topic in topics and is_another_topic(position.topic_id, topics[tp.topic].topic_id)
    }
    if not others:
        return topics
    clock.sleep(ANOTHER_ID_SECONDS)
    again, views = {**topics, **source.list_topics(others)}, _views(source, others)
    for name in others:
        ours = {position.topic_id for tp, position in positions.items() if tp.topic == name}
        if (found := likely_id(views, name, ours)) != NO_TOPIC_ID:
            again[name] = replace(again[name], topic_id=found)
    return again


def _views(admin: Admin, names: Collection[str]) -> list[ClusterView]:
    """What each server says of these topics, asked in its turn. Raises ClusterError, ProtocolError."""
    settings, known = admin.connection.settings, sorted(admin.brokers().values())
    turns = len(with_servers_from(settings, 0, known).bootstrap_servers)
    return [look_up(with_servers_from(settings, turn, known), names) for turn in range(turns)]


def start_at(partition: TopicPartition, position: Position, topic_id: UUID, end: int | None) -> Assigned:
    """The start at a stored position; it notes if the topic was deleted and created again since."""
    if is_another_topic(position.topic_id, topic_id):
        return Assigned(partition, 0, topic_id=topic_id, end=end, restarted_from=position)
    return Assigned(partition, position.offset, position.epochs, topic_id, end)


def hold_unknown(partition: TopicPartition, problem: str, topic_id: UUID) -> Assigned:
    """No start: `problem` says why the position is unknown. A start by `auto.offset.reset` would repeat or skip
    records."""
    return Assigned(partition, 0, topic_id=topic_id, unknown=problem)


def start_again(item: Assigned, topic: Topic | None, position: Position | None, unknown: str | None) -> Assigned:
    """The start for a task that is tried again: the ledger's position now, which may have become `unknown`.

    `topic` was read after the ledger, since the position may lie in a newer log than the plan knew. A missing topic
    proves nothing: the log counts as the position's until a broker names another.
    """
    if unknown is not None:
        return hold_unknown(item.partition, unknown, item.topic_id)
    if position is None:
        return item
    if topic is not None:
        return start_at(item.partition, position, topic.topic_id, item.end)
    topic_id = item.topic_id if position.topic_id == NO_TOPIC_ID else position.topic_id
    return start_at(item.partition, position, topic_id, item.end)


def look_at_target(
    target: Admin,
    items: Iterable[Assigned],
    records: Mapping[TopicPartition, PositionRecord],
    remote_topic: Callable[[str], str],
    clock: Clock = SYSTEM_CLOCK,
) -> list[Assigned]:
    """The partitions with what the ledger has of the target's log, and with `found` if that is shorter.

    A partition that is mirrored to another topic now has nothing of it, nor has one whose position was altered since,
    as by an operator: a flow that starts again on purpose has lost nothing. A partition without a leader is not judged,
    nor one of which a server says something else.
    """
    items = [_with_end(records.get(item.partition), item, remote_topic) for item in items]
    logs = _look(target, [place for item in items if (place := _place(item)) is not None])
    lost = {item.partition: place for item in items if (place := _lost(item, logs)) is not None}
    doubted = _doubted(target, set(lost.values()), logs, clock) if lost else set()
    sure = {where: logs.found[place] for where, place in lost.items() if place not in doubted}
    return [replace(item, found=sure[item.partition]) if item.partition in sure else item for item in items]


def _place(item: Assigned) -> TopicPartition | None:
    return None if item.extent is None else TopicPartition(item.extent.topic, item.partition.partition)


def _lost(item: Assigned, logs: "_Logs") -> TopicPartition | None:
    """Its place on the target, if the log there does not reach as far as it must."""
    place = _place(item)
    if item.extent is None or place is None or place not in logs.found:
        return None
    return None if judge(item.extent, logs.found[place]) is None else place


def _with_end(record: PositionRecord | None, item: Assigned, remote_topic: Callable[[str], str]) -> Assigned:
    if record is None or item.unknown or record.position.offset != item.stands_at.offset:
        return replace(item, extent=None, committed_end=None)
    if record.extent is not None and record.extent.topic != remote_topic(item.partition.topic):
        return replace(item, extent=None, committed_end=None)
    return replace(item, extent=record.extent, committed_end=record.committed_end)


class _Logs(NamedTuple):
    """What logs of the target there are and where they end. `gone` are those whose topics the metadata lack; `epochs`
    are the leader epochs of those who gave the ends."""

    found: Mapping[TopicPartition, Extent]
    gone: frozenset[TopicPartition] = frozenset()
    epochs: Mapping[TopicPartition, int] = MappingProxyType({})


def _look(target: Admin, wanted: Iterable[TopicPartition]) -> _Logs:
    partitions = list(wanted)
    if not partitions:
        return _Logs({})
    topics = target.list_topics({where.topic for where in partitions})
    ends = target.latest_offsets([where for where in partitions if where.topic in topics])
    gone = {where: Extent(where.topic, NO_TOPIC_ID, 0) for where in partitions if where.topic not in topics}
    there = {where: Extent(where.topic, topics[where.topic].topic_id, end) for where, end in ends.known.items()}
    return _Logs(gone | there, frozenset(gone), ends.epochs)


def _doubted(target: Admin, lost: Collection[TopicPartition], logs: _Logs, clock: Clock) -> set[TopicPartition]:
    """Those of which a server says something else, `ANOTHER_ID_SECONDS` later: that their topic is there, has another
    id, or a leader of a later epoch. A server that has just woken up, or is cut off from the others, tells what it
    knew. Raises ClusterError, ProtocolError."""
    clock.sleep(ANOTHER_ID_SECONDS)
    views = _views(target, {where.topic for where in lost})
    return {
        where for view in views for where in lost if where.topic in view.topic_ids and _contradicts(view, where, logs)
    }


def _contradicts(view: ClusterView, where: TopicPartition, logs: _Logs) -> bool:
    is_other = is_another_topic(logs.found[where].topic_id, view.topic_ids[where.topic])
    return where in logs.gone or is_other or view.epochs.get(where, NO_EPOCH) > logs.epochs.get(where, sys.maxsize)
