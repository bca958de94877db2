"""Chooses once where partitions that keep offsets begin: `latest` is another offset at each look, and what comes while
a start is filled, or until a position is stored, would be passed over. Called by `planning.offset_starts`."""

from collections.abc import Mapping
from uuid import UUID

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger.chosen_starts import ChosenStart, encode_start, start_key
from sparkmirror.ledger.reader import LedgerReader
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
    it counts. `there` are the topics on the target. Raises ClusterError."""
    now = {
        where: ChosenStart(
            offset, flow.first_offset(where.topic), source_ids[where], there[flow.remote_topic(where.topic)].topic_id
        )
        for where, offset in found.items()
        if flow.first_offset(where.topic) != _STAYS
    }
    new = {where: start for where, start in now.items() if not _is_known(ledger, where, start)}
    if new:
        alias = flow.connector.source_alias
        records = [(start_key(alias, where), encode_start(start)) for where, start in new.items()]
        publish(flow.target, flow.ledger_topics.positions, records)
        ledger.read_through(target)
    known = ledger.view.starts
    return {**found, **{where: known[where].offset for where, start in now.items() if _is_known(ledger, where, start)}}


def _is_known(ledger: LedgerReader, where: TopicPartition, start: ChosenStart) -> bool:
    known = ledger.view.starts.get(where)
    return known is not None and known.is_same(start)
