"""Refuses partitions of a flow that keeps offsets while the ledger notes an offset of the target that holds something
else than its source had there, and notes those that the planner finds. Called by `planning.offset_starts`.

Nothing can be taken away there, and the source may lose, by retention or compaction, what tells that it is wrong. What
a process that slept has noted may have been right: then both logs have the same at that offset.
"""

import time

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger import misplaced
from sparkmirror.ledger.misplaced import Misplaced
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Topic, TopicPartition
from sparkmirror.planning.log_alignment import LogFacts
from sparkmirror.planning.log_proof import LogProof, NotIdentical


def require_placed_all(
    view: LedgerView,
    proof: LogProof,
    where: TopicPartition,
    topic: Topic,
    record: PositionRecord | None,
    facts: LogFacts,
) -> None:
    """Raises NotIdentical, ClusterError. `topic` is the one on the target, `record` the position that counts."""
    for found, reason in sorted(view.misplaced.get(where, {}).items()):
        if not found.counts(record, topic, facts.ends):
            continue
        first, stop = max(facts.begins, facts.source_begins), min(facts.ends, facts.source_end)
        remote = TopicPartition(topic.name, where.partition)
        if not (first <= found.offset < stop and proof.is_same_at(where, remote, found.offset)):
            raise NotIdentical(f"offset {found.offset} was found to hold something else than the source had: {reason}")


def note_misplaced(
    flow: FlowConfig, view: LedgerView, where: TopicPartition, topic: Topic, offset: int, reason: str
) -> None:
    """Stores what was found in the target's `topic`, once. Raises ClusterError."""
    found = Misplaced(topic.topic_id, offset)
    if found not in view.misplaced.get(where, {}):
        key = misplaced.encode_key(flow.connector.source_alias, where, found)
        value = misplaced.encode_value(reason, time.time_ns() // 1_000_000)
        publish(flow.target, flow.ledger_topics.positions, [(key, value)])
