"""Both clusters of a flow, of which the source may be gone: its mirrored partitions, and how far each is mirrored.

Called by `cli.failover`, `cli.failback`, `cli.gaps`, `cli.offsets`, `cli.status` and `cli.verify`.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.ledger.gaps import Gap, list_gaps
from sparkmirror.ledger.reader import LedgerReader, NoLedger
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import TopicPartition, is_another_topic
from sparkmirror.operations.identical_offsets import NONE_IDENTICAL, Identical, in_former_logs, look_at_identical
from sparkmirror.sync.topics import BROKER_DEFAULT, possible_replication_factor
from sparkmirror.telemetry.board import StatusBoard

_READ_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class ClusterPair:
    """Connections to both clusters; `source` is None if the source does not answer, or is not asked."""

    source: Admin | None
    target: Admin


@contextmanager
def open_sides(flow: FlowConfig, purpose: str, *, asks_source: bool = True) -> Iterator[ClusterPair]:
    """Opens both. Raises ClusterError if the target does not answer; waits 10 s for the source and goes on without
    it. A source that is given up is not asked: what is left of it may refuse, or answer for one broker alone."""
    with open_admin(flow.target, purpose) as target:
        if not asks_source:
            yield ClusterPair(None, target)
            return
        try:
            source = open_admin(flow.source, purpose)
        except ClusterUnreachable:
            yield ClusterPair(None, target)
            return
        with source:
            yield ClusterPair(source, target)


def mirrored_partitions(flow: FlowConfig, source: Admin, *, by_any: bool = False) -> list[TopicPartition]:
    """The source's partitions that the flow's filters choose, without heartbeats topics, which never end; `by_any` of
    several brokers for who goes on from all of them. Raises ClusterError."""
    found = source.list_known_topics() if by_any else source.list_topics()
    return [
        TopicPartition(name, number)
        for name, topic in sorted(found.items())
        if not topic.internal and flow.should_replicate(name) and not flow.policy.is_heartbeats_topic(name)
        for number in range(topic.partitions)
    ]


def target_replicas(flow: FlowConfig, target: Admin, topics: Collection[str]) -> dict[str, int]:
    """The replication factor of the remote topic of each of these source topics, or that with which it will be made,
    BROKER_DEFAULT where the brokers choose it. Raises ClusterError."""
    there = target.list_topics({flow.remote_topic(name) for name in topics})
    made = BROKER_DEFAULT
    if flow.topic_creation != "broker":
        made = possible_replication_factor(flow.replication_factor, len(target.brokers()))
    found = {name: there.get(flow.remote_topic(name)) for name in topics}
    return {name: made if remote is None else remote.replication_factor for name, remote in found.items()}


def ledger_gaps(flow: FlowConfig) -> list[Gap]:
    """The gaps of the ledger, of either cluster, in the order in which they were found. Raises ClusterError."""
    topic = flow.ledger_topics.gaps
    with open_admin(flow.target, "gaps") as admin:
        if topic not in admin.list_topics([topic]):
            return []
    with open_tail(flow.target, "gaps", [TopicPartition(topic, 0)]) as tail:
        records = [(record.key, record.value) for record in tail.read_to_end(_READ_SECONDS_MAX)]
    return list_gaps(flow.name.source, records)


def ledger_offsets(flow: FlowConfig) -> dict[TopicPartition, int]:
    """The stored positions: the next offset to mirror. Raises ClusterError, also where the flow has never run."""
    return {where: position.offset for where, position in _read_ledger(flow).positions.items()}


def known_partitions(flow: FlowConfig) -> Collection[TopicPartition]:
    """Those of which the ledger has a position, also of topics that are gone; none where the flow has never run. Raises
    ClusterError."""
    try:
        return ledger_offsets(flow).keys()
    except NoLedger:
        return ()


class KeptOffsets(NamedTuple):
    """The partitions whose offsets are `identical`, and those of which a person has accepted that the logs part, with
    the offset."""

    identical: Identical = NONE_IDENTICAL
    parted: Mapping[TopicPartition, int] = MappingProxyType({})


def kept_offsets(flow: FlowConfig, target: Admin, board: StatusBoard | None = None) -> KeptOffsets:
    """None where the flow keeps no offsets. Raises ClusterError."""
    if not flow.preserves_offsets:
        return KeptOffsets()
    view = _read_ledger(flow)
    aligned = {where for where, record in view.records.items() if record.is_aligned}
    kept = {where for where in view.records if flow.keeps_offsets(where.topic)}
    parted = {where: one.parted_at for where, one in view.accepted.items() if where in kept - aligned}
    return KeptOffsets(look_at_identical(flow, target, view.records, board), parted)


def whole_ledger(flow: FlowConfig, target: Admin) -> LedgerView:
    """All that the ledger says, also behind transactions that are open there: their end is waited for. For callers to
    whom a position that is older than the last one would be wrong. Raises ClusterError."""
    with LedgerReader(flow.target, flow.ledger_topics, flow.connector) as ledger:
        ledger.read_through(target)
        return ledger.view


def mirrored_offsets(flow: FlowConfig, source: Admin, view: LedgerView | None = None) -> dict[TopicPartition, int]:
    """As `ledger_offsets`, to be compared with the source's logs: without positions in the log of a topic that was made
    again since, of whose records nothing is mirrored; where offsets are kept, also of one on the target. By a `view`
    that the caller has read, or as the ledger is now. Raises ClusterError."""
    view = _read_ledger(flow) if view is None else view
    there = source.list_topics({where.topic for where in view.positions})
    gone = _kept_in_former_logs(flow, view)
    return {
        where: position.offset
        for where, position in view.positions.items()
        if where not in gone
        and (where.topic not in there or not is_another_topic(position.topic_id, there[where.topic].topic_id))
    }


def _kept_in_former_logs(flow: FlowConfig, view: LedgerView) -> frozenset[TopicPartition]:
    """A topic of the target that was deleted is mirrored again from its beginning, once a task has met it."""
    if not flow.preserves_offsets:
        return frozenset()
    with open_admin(flow.target, "ledger") as target:
        topics = target.list_topics({flow.remote_topic(where.topic) for where in view.records})
    return in_former_logs(flow, view.records, topics)


def _read_ledger(flow: FlowConfig) -> LedgerView:
    with LedgerReader(flow.target, flow.ledger_topics, flow.connector) as ledger:
        ledger.read_to_end()
        return ledger.view
