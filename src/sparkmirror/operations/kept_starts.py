"""What a flow that keeps offsets has to fill before its partitions go on, and what keeps them from it. Called by
`cli.plan`; `planning.offset_starts` does it.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import AuthorizationFailed
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.model import Topic, TopicPartition
from sparkmirror.operations.adoption_checks import ForeignLog, find_foreign
from sparkmirror.operations.cluster_pair import mirrored_partitions, target_replicas
from sparkmirror.planning.first_offsets import first_offsets
from sparkmirror.planning.log_alignment import is_of_this_log, why_misfit
from sparkmirror.policy.fillers import Cost, Hole, hole_cost, start_cost
from sparkmirror.views.findings import name_some, show_bytes

_POLICY: Final = "cleanup.policy"
_SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Filling:
    """Offsets to fill in a partition of the target: before its beginning, or else those that the source has lost since
    it was mirrored."""

    partition: TopicPartition
    remote: TopicPartition
    offsets: Hole
    cost: Cost
    is_start: bool

    @property
    def count(self) -> int:
        return self.offsets.stop - self.offsets.first

    @property
    def sentence(self) -> str:
        why = "before it begins" if self.is_start else "that its source has lost"
        return (
            f"fill {self.count:,} offsets of {self.remote}, {self.offsets.first} to {self.offsets.stop - 1}, "
            f"{why}: {_show_cost(self.cost)}"
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.partition.topic, "partition": self.partition.partition, "remote_topic": self.remote.topic,
            "first": self.offsets.first, "stop": self.offsets.stop, "is_start": self.is_start,
            "seconds": round(self.cost.seconds, 3), "bytes": self.cost.size_bytes,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeptStarts:
    """`partitions` is the number of those whose offsets are kept, of which the `unknown` were not answered for;
    `adoptions` are the logs that the flow takes over."""

    partitions: int
    fillings: tuple[Filling, ...]
    warnings: tuple[str, ...] = ()
    unknown: int = 0
    adoptions: tuple[ForeignLog, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "partitions": self.partitions, "unknown": self.unknown,
            "fillings": [one.as_json() for one in self.fillings],
            "adoptions": [one.partition._asdict() | {"sentence": one.sentence} for one in self.adoptions],
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """The dearest fillings come first, and the rest is counted."""
        dear = sorted(self.fillings, key=lambda one: (-one.cost.seconds, one.partition))
        yield from (one.sentence for one in dear[:_SHOWN_MAX])
        if rest := dear[_SHOWN_MAX:]:
            count = sum(one.count for one in rest)
            yield f"fill {count:,} offsets of {len(rest)} more partitions: {_show_cost(_sum(rest))}"
        yield from (one.sentence for one in self.adoptions[:_SHOWN_MAX])
        if more := len(self.adoptions[_SHOWN_MAX:]):
            yield f"adopt the logs of {more} more partitions"
        whole = f"keep the offsets of {self.partitions} partitions"
        if self.fillings:
            count = sum(one.count for one in self.fillings)
            whole += f"; {count:,} are to be filled in {len(self.fillings)}: {_show_cost(_sum(dear))}"
        yield whole + (f"; of {self.unknown} it is not known now where they begin" if self.unknown else "")


def _sum(fillings: Collection[Filling]) -> Cost:
    return Cost(sum(one.cost.seconds for one in fillings), sum(one.cost.size_bytes for one in fillings))


def _show_cost(cost: Cost) -> str:
    seconds = f"about {cost.seconds:,.0f} s" if cost.seconds >= 1 else "less than 1 s"
    return f"{seconds}, {show_bytes(cost.size_bytes)} for each replica"


def plan_filling(
    flow: FlowConfig,
    where: TopicPartition,
    first: int | None,
    reached: int,
    source_begins: int,
    stored: int | None,
    replicas: int,
) -> Filling | None:
    """`reached` is where the target's log ends. Without a `stored` position the partition begins at `first`, None where
    that is not known; with one it goes on at the log's end, and what the source has lost beyond is filled."""
    remote = TopicPartition(flow.remote_topic(where.topic), where.partition)
    is_start = stored is None or not reached
    hole = Hole(reached, (first if is_start else source_begins) or 0)
    if hole.first >= hole.stop:
        return None
    count = hole.stop - hole.first
    cost = start_cost(count, replicas) if is_start else hole_cost(count, flow.offsets_filler, replicas)
    return Filling(where, remote, hole, cost, is_start)


def look_at_kept_starts(flow: FlowConfig) -> KeptStarts:
    """Raises ClusterError."""
    with open_admin(flow.source, "plan") as source, open_admin(flow.target, "plan") as target:
        kept = [where for where in mirrored_partitions(flow, source) if flow.keeps_offsets(where.topic)]
        topics = source.list_topics({where.topic for where in kept})
        remotes = target.list_topics({flow.remote_topic(name) for name in topics})
        misfits = dict(find_misfits(flow, topics, remotes))
        fitting = [where for where in kept if where.topic not in misfits]
        fillings, unknown = _look_at_logs(flow, source, target, fitting, remotes)
        try:
            foreign = [one for one in find_foreign(flow, source, target) if one.partition.topic not in misfits]
            refused = [one.warning for one in foreign if not one.facts.adopts]
        except AuthorizationFailed as forbidden:
            foreign, refused = [], [f"who has written the logs of the target is not known: {forbidden.args[0]}"]
        warnings = (*misfits.values(), *_compacted(flow, source, target, fillings, remotes), *refused)
        adoptions = tuple(one for one in foreign if one.facts.adopts)
        return KeptStarts(len(kept), tuple(fillings), warnings, unknown, adoptions)


def find_misfits(
    flow: FlowConfig, topics: Mapping[str, Topic], remotes: Mapping[str, Topic]
) -> Iterator[tuple[str, str]]:
    """The source's topics that cannot keep their offsets, with a sentence."""
    for name, topic in sorted(topics.items()):
        remote = flow.remote_topic(name)
        if why := why_misfit(topic, remotes.get(remote), grows=flow.topic_creation == "mirror"):
            yield name, f"{remote} cannot keep the offsets of {name}: {why}"


def _look_at_logs(
    flow: FlowConfig,
    source: Admin,
    target: Admin,
    partitions: list[TopicPartition],
    remotes: Mapping[str, Topic],
) -> tuple[list[Filling], int]:
    """What is to be filled, and of how many partitions that is not known."""
    there = {where: TopicPartition(flow.remote_topic(where.topic), where.partition) for where in partitions}
    existing = [one for one in there.values() if one.topic in remotes and one.partition < remotes[one.topic].partitions]
    ends = target.log_ends(existing)
    begins = source.earliest_offsets(partitions).known
    stored = {where: record.position.offset for where, record in _stored(flow, target, remotes).items()}
    fresh = [where for where in partitions if where not in stored or not ends.known.get(there[where])]
    first = first_offsets(flow, source, fresh, all_of_them=False)
    replicas = target_replicas(flow, target, {where.topic for where in partitions})
    fillings, unknown = [], 0
    for where in partitions:
        if there[where] in ends.unknown or where not in begins or (where in fresh and where not in first):
            unknown += 1
            continue
        reached = ends.known.get(there[where], 0)
        if reached and where not in stored and flow.adopts(where.topic):
            continue
        edges = first.get(where), reached, begins[where], stored.get(where)
        found = plan_filling(flow, where, *edges, replicas[where.topic])
        if found is not None:
            fillings.append(found)
    return fillings, unknown


def _stored(flow: FlowConfig, target: Admin, remotes: Mapping[str, Topic]) -> dict[TopicPartition, PositionRecord]:
    """Positions that count in the logs that the target has now; none where the flow has never run."""
    if not target.list_topics([flow.ledger_topics.positions]):
        return {}
    with LedgerReader(flow.target, flow.ledger_topics, flow.connector) as ledger:
        ledger.read_to_end()
        return {
            where: record
            for where, record in ledger.view.records.items()
            if is_of_this_log(record, remotes.get(flow.remote_topic(where.topic)))
        }


def _compacted(
    flow: FlowConfig, source: Admin, target: Admin, fillings: Collection[Filling], remotes: Mapping[str, Topic]
) -> Iterator[str]:
    """Brokers refuse to delete records of a topic that is compacted alone. One that is made yet gets its source's
    setting, where settings are copied."""
    wanted = {one.partition.topic: one.remote.topic for one in fillings if one.is_start}
    made = {name for name, remote in wanted.items() if remote not in remotes and flow.sync.configs_enabled}
    there = target.describe_configs([one for one in wanted.values() if one in remotes], [_POLICY])
    here = source.describe_configs(made, [_POLICY])
    policies = {
        remote: (here.get(name) if name in made else there.get(remote) or {}) for name, remote in wanted.items()
    }
    compacted = sorted(
        remote for remote, found in policies.items() if found and _POLICY in found and found[_POLICY].value == "compact"
    )
    if compacted:
        yield (
            f"`{_POLICY}` is `compact`, and the records that fill a start cannot be deleted there: set it to "
            f"`compact,delete` until they are mirrored: {name_some(compacted)}"
        )
