"""Chooses once where partitions that keep offsets begin: `latest` is another offset at each look, and what comes while
a start is filled, or until a position is stored, would be passed over. Called by `planning.offset_starts`."""

from collections.abc import Mapping
from uuid import UUID

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger.chosen_starts import ChosenStart, encode_start, start_key
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Topic, TopicPartition

_STAYS = "earliest"
"""No record comes before a log's begin: it is looked at each time."""


def keep_chosen(
    flow: FlowConfig,
    ledger: LedgerReader,
    target: Admin,
    found: Mapping[TopicPartition, int],
    source_ids: Mapping[TopicPartition, UUID],
    there: Mapping[str, Topic],
) -> dict[TopicPartition, int]:
    """Where each partition begins: as the ledger has it, else where it was `found` to begin now, which is stored before
    it counts. `there` are the topics on the target. Raises ClusterError, also where the ledger does not keep a choice.
    """
    now = {
        where: ChosenStart(
            offset, flow.first_offset(where.topic), source_ids[where], there[flow.remote_topic(where.topic)].topic_id
        )
        for where, offset in found.items()
        if flow.first_offset(where.topic) != _STAYS
    }
    if due := _due(ledger.view, now):
        alias = flow.connector.source_alias
        records = [(start_key(alias, where), encode_start(start)) for where, start in due.items()]
        publish(flow.target, flow.ledger_topics.positions, records)
        ledger.read_through(target)
    chosen = {where: ledger.view.starts.get(where) for where in now}
    kept = {where: start.offset for where, start in chosen.items() if start is not None and start.is_same(now[where])}
    if len(kept) < len(now):
        missing = min(now.keys() - kept.keys())
        raise ClusterError(f"{flow.name}: where {missing} begins was stored, and something else stands there now.")
    return {**found, **kept}


def _due(view: LedgerView, now: Mapping[TopicPartition, ChosenStart]) -> dict[TopicPartition, ChosenStart]:
    """The choices to store: new ones, and those that count, where compaction would leave another process's."""
    due: dict[TopicPartition, ChosenStart] = {}
    for where, start in now.items():
        known = view.starts.get(where)
        if known is None or not known.is_same(start):
            due[where] = start
        elif view.last_starts.get(where) != known:
            due[where] = known
    return due
