"""Finds logs on the target that a flow which keeps offsets has no position in, and that it has not written; compares
those that it is to adopt. Called by `operations.kept_starts` and `operations.cluster_checks`; `planning.offset_starts`
does it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import AuthorizationFailed, ClusterError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.log_edges import last_sequences
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.ledger.positions import is_of_this_log
from sparkmirror.ledger.reader import read_ledger
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Topic, TopicPartition
from sparkmirror.operations.cluster_pair import mirrored_partitions
from sparkmirror.planning.adoption import adopt
from sparkmirror.planning.log_alignment import Adopt, LogFacts, Refuse, Verdict, judge
from sparkmirror.planning.log_proof import LogProof, NotIdentical
from sparkmirror.views.findings import Finding, Level, name_some

_WHAT: Final = "adoption"
_COMPARED_MAX: Final = 20
_SETTING: Final = "preserve.offsets.adopt"


@dataclass(frozen=True, slots=True)
class ForeignLog:
    """A partition of which the target has records, and the ledger no position. `adopts` says that the flow is to."""

    partition: TopicPartition
    remote: TopicPartition
    facts: LogFacts

    @property
    def verdict(self) -> Verdict:
        return judge(self.facts)

    @property
    def sentence(self) -> str:
        """What the flow does with it."""
        log = f"{self.remote}, offsets {self.facts.begins} to {self.facts.ends - 1}"
        match self.verdict:
            case Adopt(samples):
                count = sum(one.stop - one.first for one in samples)
                how = "all of it is" if len(samples) == 1 else f"{count:,} of them, in {len(samples)} samples, are"
                return f"adopt {log}, if {how} the same on the source"
            case Refuse(reason):
                return f"{self.remote} cannot be adopted: {reason}"
        return f"adopt {log}"

    @property
    def warning(self) -> str:
        """Where it is not to be adopted."""
        count, topic = self.facts.ends - self.facts.begins, self.partition.topic
        return (
            f"{self.remote} has {count} offsets and no stored position: what this flow has not written is refused, and "
            f"adopted only where `{_SETTING}` names {topic}"
        )


def find_foreign(flow: FlowConfig, source: Admin, target: Admin) -> Iterator[ForeignLog]:
    """Partitions whose leaders do not answer are left out. Raises ClusterError."""
    kept = [where for where in mirrored_partitions(flow, source) if flow.keeps_offsets(where.topic)]
    there = {where: TopicPartition(flow.remote_topic(where.topic), where.partition) for where in kept}
    topics = target.list_topics({remote.topic for remote in there.values()})
    existing = {where: remote for where, remote in there.items() if _exists(topics, remote)}
    view = read_ledger(flow.target, target, flow.ledger_topics, flow.connector)
    fresh = {where: remote for where, remote in existing.items() if not _is_stored(view, where, topics[remote.topic])}
    begins, ends = target.earliest_offsets(fresh.values()).known, target.log_ends(fresh.values()).known
    filled = {where: one for where, one in fresh.items() if begins.get(one, 0) < ends.get(one, 0) and one in begins}
    source_begins, source_ends = source.earliest_offsets(filled).known, source.latest_offsets(filled).known
    last: Mapping[TopicPartition, int | None] = {}
    if view.offsets_producer is not None and filled:
        last = last_sequences(target, filled.values(), view.offsets_producer)
    for where, remote in sorted(filled.items()):
        if where not in source_begins or where not in source_ends:
            continue
        edges = begins[remote], ends[remote], last.get(remote), source_begins[where]
        facts = LogFacts(None, source_begins[where], source_ends[where], *edges, flow.adopts(where.topic))
        if not facts.is_all_ours:
            yield ForeignLog(where, remote, facts)


def _exists(topics: Mapping[str, Topic], remote: TopicPartition) -> bool:
    return remote.topic in topics and remote.partition < topics[remote.topic].partitions


def _is_stored(view: LedgerView, where: TopicPartition, topic: Topic) -> bool:
    record = view.records.get(where)
    return record is not None and is_of_this_log(record, topic)


def check_adoption(flow: FlowConfig, source: Admin, target: Admin) -> Iterator[Finding]:
    """A finding where the target has such logs. Raises ClusterError."""
    if not flow.preserves_offsets:
        return
    try:
        found = list(find_foreign(flow, source, target))
    except AuthorizationFailed as forbidden:
        yield Finding(Level.WARN, target.alias, _WHAT, f"who has written the logs is not known: {forbidden.args[0]}")
        return
    if refused := [one for one in found if not one.facts.adopts]:
        said = f"no position is stored in {len(refused)} logs that have records: {_named(refused)}"
        hint = f"what this flow has not written is refused: delete the topics, or name them in `{_SETTING}`"
        yield Finding(Level.WARN, target.alias, _WHAT, said, hint)
    if chosen := [one for one in found if one.facts.adopts]:
        looked = chosen[:: -(-len(chosen) // _COMPARED_MAX)]
        yield _judge(flow, source, target, looked, len(chosen))


def _judge(flow: FlowConfig, source: Admin, target: Admin, looked: Sequence[ForeignLog], count: int) -> Finding:
    problems = [problem for one in looked if (problem := _why_not(flow, source, target, one))]
    of_what = f"{len(looked)} of {count} logs that are to be adopted"
    if problems:
        said = f"{len(problems)} of {of_what} cannot be: {problems[0]}"
        return Finding(Level.FAIL, target.alias, _WHAT, said, "such a partition is FAILED: delete the topic there")
    return Finding(Level.OK, target.alias, _WHAT, f"{of_what} have the same as {source.alias}, by samples")


def _why_not(flow: FlowConfig, source: Admin, target: Admin, one: ForeignLog) -> str:
    match one.verdict:
        case Refuse(reason):
            return f"{one.remote}: {reason}"
        case Adopt(samples):
            is_committed = flow.consumer.isolation_level == "read_committed"
            proof = LogProof(source.connection.settings, target.connection.settings, is_committed, -1)
            try:
                adopt(target, proof, one.partition, one.remote, Lineage(), samples, one.facts)
            except (NotIdentical, ClusterError) as problem:
                return f"{one.remote}: {problem.args[0]}"
    return ""


def _named(found: Sequence[ForeignLog]) -> str:
    return name_some([str(one.remote) for one in found])
