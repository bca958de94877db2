"""What a flow that keeps offsets has to fill before its partitions go on and while it mirrors them, and what keeps them
from it. Called by `cli.plan`; `planning.offset_starts` and the writer do it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import AuthorizationFailed
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.ledger.positions import PositionRecord, is_of_this_log
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.model import Topic, TopicPartition
from sparkmirror.operations.adoption_checks import ForeignLog, find_foreign
from sparkmirror.operations.cluster_pair import mirrored_partitions, target_replicas
from sparkmirror.operations.hole_samples import NO_HOLES, HoleSamples, advise_filler, sample_holes
from sparkmirror.operations.writer_checks import check_writers
from sparkmirror.planning.first_offsets import first_offsets
from sparkmirror.planning.log_alignment import why_misfit
from sparkmirror.policy.fillers import FILLERS, Cost, Hole, hole_cost, start_cost, sum_costs
from sparkmirror.sync.configs import COMPACT, FOR_STARTS, POLICY
from sparkmirror.sync.flow import config_rules
from sparkmirror.views.findings import Finding, Level, name_some, show_cost

_SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Filling:
    """Offsets to fill in a partition of the target: before its beginning, or else those that the source has lost since
    it was mirrored."""

    partition: TopicPartition
    remote: TopicPartition
    offsets: Hole
    filler: str
    replicas: int
    is_start: bool

    @property
    def count(self) -> int:
        return self.offsets.stop - self.offsets.first

    @property
    def cost(self) -> Cost:
        return start_cost(self.count, self.replicas) if self.is_start else self.cost_with(self.filler)

    def cost_with(self, filler: str) -> Cost:
        """Of a hole."""
        return hole_cost(self.count, filler, self.replicas)

    @property
    def sentence(self) -> str:
        why = "before it begins" if self.is_start else "that its source has lost"
        return (
            f"fill {self.count:,} offsets of {self.remote}, {self.offsets.first} to {self.offsets.stop - 1}, "
            f"{why}: {show_cost(*self.cost)}"
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
    `adoptions` are the logs that the flow takes over, `holes` what is known of the offsets that are still to mirror.
    `writers` says who may write to the topics on the target, as `doctor` does."""

    partitions: int
    fillings: tuple[Filling, ...]
    warnings: tuple[str, ...] = ()
    unknown: int = 0
    adoptions: tuple[ForeignLog, ...] = ()
    holes: HoleSamples = NO_HOLES
    writers: tuple[Finding, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "partitions": self.partitions, "unknown": self.unknown,
            "fillings": [one.as_json() for one in self.fillings],
            **self.holes.as_json(), "writers": [one.said for one in self.writers],
            "adoptions": [one.partition._asdict() | {"sentence": one.sentence} for one in self.adoptions],
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """The dearest fillings come first, and the rest is counted."""
        dear = sorted(self.fillings, key=lambda one: (-one.cost.seconds, one.partition))
        yield from (one.sentence for one in dear[:_SHOWN_MAX])
        if rest := dear[_SHOWN_MAX:]:
            count = sum(one.count for one in rest)
            yield f"fill {count:,} offsets of {len(rest)} more partitions: {_show(rest)}"
        yield from self.holes.lines()
        yield from (one.sentence for one in self.adoptions[:_SHOWN_MAX])
        if more := len(self.adoptions[_SHOWN_MAX:]):
            yield f"adopt the logs of {more} more partitions"
        whole = f"keep the offsets of {self.partitions} partitions"
        if self.fillings:
            count = sum(one.count for one in self.fillings)
            whole += f"; {count:,} are to be filled in {len(self.fillings)}: {_show(dear)}"
        yield whole + (f"; of {self.unknown} it is not known now where they begin" if self.unknown else "")
        yield from (one.said for one in self.writers if one.level is Level.OK)


def _show(fillings: Iterable[Filling]) -> str:
    return show_cost(*sum_costs(one.cost for one in fillings))


class KeptLogs(NamedTuple):
    """One partition on both clusters. The target's log goes from `target_begins` to `reached`. Without a `stored`
    position the partition begins at `first`, None where that is not known, or is adopted; the source's log goes from
    `begins` to `end`, None where that was not answered."""

    partition: TopicPartition
    reached: int
    begins: int
    end: int | None
    first: int | None = None
    stored: int | None = None
    adopts: bool = False
    target_begins: int = 0

    @property
    def is_start(self) -> bool:
        return self.stored is None or not self.reached

    @property
    def is_adopted(self) -> bool:
        """A log that something else has written is gone on with at its end."""
        return self.adopts and self.stored is None and self.reached > 0

    @property
    def hides_start(self) -> bool:
        """Whether records before its beginning are to be deleted on the target; they may be filled already."""
        return self.is_start and not self.is_adopted and self.target_begins < (self.first or 0)


def plan_filling(flow: FlowConfig, logs: KeptLogs, replicas: int) -> Filling | None:
    """Before a partition begins, or, where it goes on at the log's end, what the source has lost beyond."""
    remote = TopicPartition(flow.remote_topic(logs.partition.topic), logs.partition.partition)
    hole = Hole(logs.reached, (logs.first if logs.is_start else logs.begins) or 0)
    if logs.is_adopted or hole.first >= hole.stop:
        return None
    return Filling(logs.partition, remote, hole, flow.offsets_filler, replicas, logs.is_start)


def plan_left(logs: KeptLogs) -> Hole | None:
    """The offsets that are to be mirrored then; None where it is not known up to which."""
    if logs.end is None:
        return None
    begins = logs.first if logs.is_start and not logs.is_adopted else None
    first = max(logs.reached, logs.begins, begins or 0)
    return Hole(first, max(first, logs.end))


def look_at_kept_starts(flow: FlowConfig) -> KeptStarts:
    """Raises ClusterError."""
    with open_admin(flow.source, "plan") as source, open_admin(flow.target, "plan") as target:
        kept = [where for where in mirrored_partitions(flow, source) if flow.keeps_offsets(where.topic)]
        topics = source.list_topics({where.topic for where in kept})
        remotes = target.list_topics({flow.remote_topic(name) for name in topics})
        misfits = dict(find_misfits(flow, topics, remotes))
        fitting = [where for where in kept if where.topic not in misfits]
        replicas = target_replicas(flow, target, topics)
        logs, unknown = _look_at_logs(flow, source, target, fitting, remotes)
        planned = (plan_filling(flow, one, replicas[one.partition.topic]) for one in logs)
        fillings = tuple(one for one in planned if one is not None)
        holes = sample_holes(flow, source, {one.partition: plan_left(one) for one in logs}, replicas)
        try:
            foreign = [one for one in find_foreign(flow, source, target) if one.partition.topic not in misfits]
            refused = [one.warning for one in foreign if not one.facts.adopts]
        except AuthorizationFailed as forbidden:
            foreign, refused = [], [f"who has written the logs of the target is not known: {forbidden.args[0]}"]
        warnings = (*misfits.values(), *_compacted(flow, source, target, logs, remotes), *refused)
        warnings += tuple(advise_filler(flow.offsets_filler, _seconds(fillings, holes)))
        adoptions = tuple(one for one in foreign if one.facts.adopts)
        writers = tuple(check_writers(flow, source, target))
        warnings += tuple(f"{one.said}; {one.hint}" for one in writers if one.level is not Level.OK)
        return KeptStarts(len(kept), fillings, warnings, unknown, adoptions, holes, writers)


def _seconds(fillings: Iterable[Filling], holes: HoleSamples) -> dict[str, float]:
    """What each filler would take for all holes; starts are none."""
    lost = [one for one in fillings if not one.is_start]
    return {
        filler: sum_costs([holes.cost_with(filler), *(one.cost_with(filler) for one in lost)]).seconds
        for filler in FILLERS
    }


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
) -> tuple[list[KeptLogs], int]:
    """Each partition, and of how many it is not known where they begin."""
    there = {where: TopicPartition(flow.remote_topic(where.topic), where.partition) for where in partitions}
    existing = [one for one in there.values() if one.topic in remotes and one.partition < remotes[one.topic].partitions]
    target_begins, reached = target.earliest_offsets(existing).known, target.log_ends(existing)
    is_committed = flow.consumer.isolation_level == "read_committed"
    begins = source.earliest_offsets(partitions).known
    ends = source.latest_offsets(partitions, read_committed=is_committed).known
    stored = {where: record.position.offset for where, record in _stored(flow, target, remotes).items()}
    fresh = [where for where in partitions if where not in stored or not reached.known.get(there[where])]
    first = first_offsets(flow, source, fresh, all_of_them=False)
    found = [
        KeptLogs(
            where, reached.known.get(remote, 0), begins[where], ends.get(where), first.get(where), stored.get(where),
            flow.adopts(where.topic), target_begins.get(remote, 0),
        )
        for where, remote in there.items()
        if remote not in reached.unknown and where in begins and (where in first or where not in fresh)
    ]  # fmt: skip
    return found, len(partitions) - len(found)


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
    flow: FlowConfig, source: Admin, target: Admin, logs: Collection[KeptLogs], remotes: Mapping[str, Topic]
) -> Iterator[str]:
    """Brokers refuse to delete records of a topic that is compacted alone. One that is made yet gets its source's
    setting, unless brokers make it."""
    wanted = {one.partition.topic: flow.remote_topic(one.partition.topic) for one in logs if one.hides_start}
    is_copied = flow.topic_creation != "broker" and config_rules(flow.sync).is_copied(POLICY)
    made = {name for name, remote in wanted.items() if remote not in remotes and is_copied}
    there = target.describe_configs([one for one in wanted.values() if one in remotes], [POLICY])
    here = source.describe_configs(made, [POLICY])
    policies = {
        remote: (here.get(name) if name in made else there.get(remote) or {}) for name, remote in wanted.items()
    }
    compacted = sorted(
        remote for remote, found in policies.items() if found and POLICY in found and found[POLICY].value == COMPACT
    )
    if compacted:
        yield advise_settings(target.alias, compacted, is_synced=flow.sync.configs_enabled)


def advise_settings(alias: str, topics: Sequence[str], *, is_synced: bool) -> str:
    """What a person does so that the starts of compacted topics can be filled."""
    settings = " ".join(f"{key}={value}" for key, value in FOR_STARTS.items())
    after = f"set `{COMPACT}` again once `plan` names no start any more"
    if is_synced:
        after = f"the mirror leaves these alone until all starts of a topic are filled, and then sets `{COMPACT}` again"
    return (
        f"the records that fill a start cannot be deleted where `{POLICY}` is `{COMPACT}`: set {settings} on {alias}, "
        f"so that they can, and nothing goes by age or size, for {name_some(topics)} (make a topic so that is not "
        f"there yet); {after}"
    )
