"""Reads a flow's positions on its source, and plans new ones by `operations.offset_reset`. Called by `cli.positions`
and `operations.position_job`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import EARLIEST, LATEST
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.standalone_file import read_positions
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Connector, Position, Topic, TopicPartition
from sparkmirror.operations.cluster_pair import mirrored_partitions
from sparkmirror.operations.offset_reset import Move, plan_reset
from sparkmirror.planning.first_offsets import first_offsets
from sparkmirror.policy.filters import name_matcher

_SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Standing:
    """One partition: its position (None: none is stored), and the source's log (None: not known). `problem` says why
    a stored position cannot be read; `is_halved` is as in `Stored`."""

    partition: TopicPartition
    position: int | None
    begin: int | None
    end: int | None
    problem: str = ""
    is_halved: bool = False

    @property
    def note(self) -> str:
        """A sentence about an unusual state; empty for a usual one."""
        if self.problem:
            return self.problem
        if self.begin is None or self.end is None:
            return "the source has no such log now, or does not tell"
        if self.position is None:
            return "begins by auto.offset.reset"
        if self.is_halved:
            return "Connect's topic has no record of it: set it, and MirrorMaker finds it too"
        if self.position < self.begin:
            return f"{self.begin - self.position} offsets are gone from the source"
        return "behind the end of the source's log" if self.position > self.end else ""

    def as_json(self) -> dict[str, Any]:
        behind = None if self.position is None or self.end is None else max(self.end - self.position, 0)
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "position": self.position,
            "begin": self.begin,
            "end": self.end,
            "behind": behind,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of partitions: of topics whose whole name matches the expression, or of all without one; of this
    partition number, or of all."""

    topics: str = ""
    number: int | None = None

    def select(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The chosen partitions, sorted. Raises ConfigError for a bad expression, and SlowPattern."""
        is_chosen = name_matcher(self.topics)
        return sorted(one for one in partitions if self.number in (None, one.partition) and is_chosen(one.topic))


@dataclass(frozen=True, slots=True)
class Stored:
    """The flow's records in the ledger."""

    positions: Mapping[TopicPartition, Position]
    problems: Mapping[TopicPartition, str]
    parted: frozenset[TopicPartition] = frozenset()
    """Those of which a person has accepted that their logs part: their offsets are not kept."""
    halved: frozenset[TopicPartition] = frozenset()
    """Those of which Connect's topic, which MirrorMaker reads, has no record."""

    @classmethod
    def read(cls, flow: FlowConfig, target: Admin, view: LedgerView) -> "Stored":
        """Raises ClusterError."""
        names = {flow.remote_topic(where.topic) for where in view.accepted}
        there = target.list_topics(names) if names else {}
        parted = (one for one in view.accepted if view.has_accepted(one, there.get(flow.remote_topic(one.topic))))
        return cls(view.positions, view.problems, frozenset(parted), frozenset(view.without_connect))


Places = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Ground:
    """The facts from which a goal computes offsets: the flow, its source, its stored positions, and the chosen
    partitions."""

    flow: FlowConfig
    source: Admin
    stored: Stored
    chosen: Sequence[TopicPartition]


Goal = Callable[[Ground], Places]
"""Computes the new offsets of the chosen partitions. Raises SparkMirrorError."""


@dataclass(frozen=True, slots=True)
class PositionPlan:
    """The moves, the topics as they were before their offsets were read, and warnings for the operator."""

    moves: tuple[Move, ...]
    topics: Mapping[str, Topic]
    stored: Stored
    begins: Mapping[TopicPartition, int]
    warnings: tuple[str, ...] = ()


def read_stored(flow: FlowConfig, target: Admin) -> Stored:
    """The ledger's records now; empty where the flow has never run. Raises ClusterError."""
    topics = flow.ledger_topics
    if not target.list_topics([topics.offsets, topics.positions]):
        return Stored({}, {})
    with LedgerReader(flow.target, topics, flow.connector, is_ours_needed=False) as ledger:
        ledger.read_to_end()
        return Stored.read(flow, target, ledger.view)


def list_standings(flow: FlowConfig, source: Admin, target: Admin, choice: Choice) -> list[Standing]:
    """All chosen partitions that are mirrored or have a position. Raises ClusterError."""
    stored = read_stored(flow, target)
    known = {*stored.positions, *stored.problems, *mirrored_partitions(flow, source)}
    chosen = choice.select(known)
    begins, ends = source.earliest_offsets(chosen).known, source.latest_offsets(chosen).known
    return [
        Standing(
            where, _offset(stored, where), begins.get(where), ends.get(where), stored.problems.get(where, ""),
            where in stored.halved,
        )
        for where in chosen
    ]  # fmt: skip


def _offset(stored: Stored, where: TopicPartition) -> int | None:
    return stored.positions[where].offset if where in stored.positions else None


def plan_positions(flow: FlowConfig, source: Admin, stored: Stored, choice: Choice, goal: Goal) -> PositionPlan:
    """Plans the moves of the chosen partitions. Raises SparkMirrorError where there are none, and ClusterError. It
    reads topics before their offsets, so that a topic that is made again in between is never mistaken for the former
    one."""
    mirrored = mirrored_partitions(flow, source)
    topics = source.list_topics({where.topic for where in mirrored})
    chosen = choice.select(mirrored)
    if choice.topics and not chosen:
        raise SparkMirrorError(
            f"{flow.name}: no partition of a topic that matches `{choice.topics}` is mirrored.",
            "See `sparkmirror topics`: source names count.",
        )
    wanted = goal(Ground(flow, source, stored, chosen))
    if not wanted:
        raise SparkMirrorError(f"{flow.name}: no partition is to be moved.", "See `sparkmirror positions show FILE`.")
    refuse_kept(flow, stored, wanted)
    begins, ends = source.await_earliest_offsets(wanted), source.await_latest_offsets(wanted)
    stands = {where: Committed(position.offset) for where, position in stored.positions.items()}
    plan = plan_reset(stands, wanted, begins, ends)
    return PositionPlan(plan.moves, topics, stored, begins, plan.warnings)


def refuse_kept(flow: FlowConfig, stored: Stored, wanted: Iterable[TopicPartition]) -> None:
    """Raises SparkMirrorError where offsets are kept: the end of the target's log is the position, and the ledger's
    record vouches for what lies before. Another one would tell the next start that nothing was mirrored yet."""
    kept = sorted(one for one in wanted if flow.keeps_offsets(one.topic) and one not in stored.parted)
    if not kept:
        return
    more = f" and {len(kept) - _SHOWN_MAX} more" if len(kept) > _SHOWN_MAX else ""
    names = ", ".join(map(str, kept[:_SHOWN_MAX]))
    raise SparkMirrorError(
        f"{flow.name}: offsets are kept in {names}{more}, so each goes on at the end of its log on the target, "
        "whatever position is set: nothing was changed.",
        "To mirror a topic again, stop the flow, delete the topic on the target, and start the flow: it begins by "
        "`preserve.offsets.start`, or where it stood if that is earlier. To leave out records where logs part, see "
        "`sparkmirror failback accept`. Choose other topics by `--topic`.",
    )


# Goals.


def to_earliest(ground: Ground) -> Places:
    """The beginning of the source's logs."""
    return ground.source.list_offsets(dict.fromkeys(ground.chosen, EARLIEST)).all()


def to_latest(ground: Ground) -> Places:
    """The ends of the source's logs."""
    return ground.source.list_offsets(dict.fromkeys(ground.chosen, LATEST)).all()


def to_time(at_ms: int) -> Goal:
    """The first record at or after that moment (ms since 1970); the end where there is none."""
    return lambda ground: ground.source.offsets_at(ground.chosen, at_ms).all()


def shifted_by(offsets: int) -> Goal:
    """Moves each partition by this number of offsets, backwards where it is negative, from its position, or from
    where it would begin."""

    def goal(ground: Ground) -> Places:
        for where in ground.chosen:
            if where in ground.stored.problems:
                hint = "`positions set FILE` gives it another one."
                raise SparkMirrorError(f"{where}: {ground.stored.problems[where]}", hint)
        positions = ground.stored.positions
        fresh = [where for where in ground.chosen if where not in positions]
        starts = dict(first_offsets(ground.flow, ground.source, fresh, all_of_them=True))
        starts |= {where: position.offset for where, position in positions.items()}
        return {where: max(starts[where] + offsets, 0) for where in ground.chosen if where in starts}

    return goal


def to_places(places: Places) -> Goal:
    """Exactly these offsets."""

    def goal(ground: Ground) -> Places:
        if missing := sorted(set(places) - set(ground.chosen)):
            named = ", ".join(map(str, missing))
            raise SparkMirrorError(f"These partitions are not mirrored: {named}.", "See `positions show FILE`.")
        return places

    return goal


def from_file(path: str, connector: Connector) -> Goal:
    """Moves each partition to its offset in the file of a standalone worker of Connect. Raises ConfigError for a file
    that cannot be read."""
    found = read_positions(path, connector)

    def goal(ground: Ground) -> Places:
        wanted = {where: found[where] for where in ground.chosen if where in found}
        ends = ground.source.await_latest_offsets(wanted)
        if beyond := sorted(where for where, offset in wanted.items() if offset > ends.get(where, offset)):
            raise SparkMirrorError(
                f"{path} has positions behind the end of the source's logs: {', '.join(map(str, beyond))}.",
                "These topics were made again since: take over the others, by --topic; these begin by themselves.",
            )
        return wanted

    return goal
