"""Chooses once where partitions that keep offsets begin: `latest` is another offset at each look, and what comes while
a start is filled, or until a position is stored, would be passed over. Called by `planning.offset_starts`."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import Assigned
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger.chosen_starts import ChosenStart, encode_start, start_key
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Position, Topic, TopicPartition

_STAYS = "earliest"
"""No record comes before a log's begin: it is looked at each time."""
_ANYWHERE: Final = 1 << 63


def keep_chosen(
    flow: FlowConfig,
    ledger: LedgerReader,
    target: Admin,
    found: Mapping[TopicPartition, Position],
    source_ids: Mapping[TopicPartition, UUID],
    there: Mapping[str, Topic],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Position]:
    """Where each partition begins: as the ledger has it, else where it was `found` to begin now, which is stored before
    it counts. `there` are the topics on the target, `ends` those of the source's logs: one that was cut before its
    start gets another. Raises ClusterError, also where the ledger does not keep a choice.
    """
    now = {
        where: ChosenStart(
            place.offset,
            flow.first_offset(where.topic),
            source_ids[where],
            there[flow.remote_topic(where.topic)].topic_id,
            place.leader_epoch,
        )
        for where, place in found.items()
        if flow.first_offset(where.topic) != _STAYS
    }
    if due := _due(ledger.view, now, ends):
        alias = flow.connector.source_alias
        records = [(start_key(alias, where), encode_start(start)) for where, start in due.items()]
        publish(flow.target, flow.ledger_topics.positions, records)
        ledger.read_through(target)
    chosen = {where: ledger.view.starts.get(where) for where in now}
    kept = {where: start.place for where, start in chosen.items() if start is not None and start.is_same(now[where])}
    if len(kept) < len(now):
        missing = min(now.keys() - kept.keys())
        raise ClusterError(f"{flow.name}: where {missing} begins was stored, and something else stands there now.")
    return {where: kept.get(where, Position(place.offset)) for where, place in found.items()}


def known_start(view: LedgerView, item: Assigned, topic_id: UUID) -> int:
    """Where the log of the target's topic was to begin by the setting, 0 where that is not known: it may have begun
    earlier."""
    found = view.starts.get(item.partition)
    return 0 if found is None or (found.source_id, found.topic_id) != (item.topic_id, topic_id) else found.offset


def _due(
    view: LedgerView, now: Mapping[TopicPartition, ChosenStart], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, ChosenStart]:
    """The choices to store: new ones, and those that count, where compaction would leave another process's."""
    due: dict[TopicPartition, ChosenStart] = {}
    for where, start in now.items():
        known = view.starts.get(where)
        if known is None or not known.is_same(start) or start.offset <= ends.get(where, _ANYWHERE) < known.offset:
            due[where] = start
        elif view.last_starts.get(where) != known:
            due[where] = known
    return due
