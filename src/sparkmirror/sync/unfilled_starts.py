"""Which remote topics have a partition whose start is not filled yet, where offsets are kept: of one that has begun,
the ledger has a position. Called by `sync.config_job`, which leaves the settings of such a topic as they are.
"""

from collections.abc import Mapping

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.ledger.positions import is_of_this_log
from sparkmirror.ledger.reader import read_ledger
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Topic, TopicPartition


def find_unfilled(flow: FlowConfig, target: Admin, remotes: Mapping[str, str]) -> frozenset[str]:
    """Of the remote topics, each with its source, those that keep offsets and have not begun. Raises ClusterError."""
    kept = {remote: name for remote, name in remotes.items() if flow.keeps_offsets(name)}
    if not kept:
        return frozenset()
    there, view = target.list_topics(kept), read_ledger(flow.target, target, flow.ledger_topics, flow.connector)
    return frozenset(remote for remote, topic in there.items() if not have_begun(view, kept[remote], topic))


def have_begun(view: LedgerView, source_topic: str, remote: Topic) -> bool:
    """Whether all its partitions have. A position in a topic that was deleted since tells nothing of the one that is
    there."""
    return all(_has_begun(view, TopicPartition(source_topic, number), remote) for number in range(remote.partitions))


def _has_begun(view: LedgerView, where: TopicPartition, remote: Topic) -> bool:
    record = view.records.get(where)
    if record is None or not record.is_aligned:
        return view.has_accepted(where, remote)
    return is_of_this_log(record, remote)
