"""What the planner and the operator tell running tasks: JSON records of the command topic, read back strictly, for a
client that may write there may write anything. Pure.

Written by `planning.planner` and `runtime.run`, read by `pipeline.fetch.reader` (through its own fetch connection) and
by the planner. Each command carries the run it is meant for, so that a new run is not stopped by an old one's commands.
The member `kind` names the class of a command, in lower case.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Self

from msgspec import Meta, Struct

from sparkmirror.control.assignment import Assigned, StoredAssigned
from sparkmirror.errors import ConfigError
from sparkmirror.model import TopicPartition
from sparkmirror.policy.filters import EXPRESSION_LENGTH_MAX, check_expression, compile_names
from sparkmirror.policy.java_regex import SlowPattern
from sparkmirror.stored_json import Count, Name, Number, TopicName, decode_or_none, encode_ascii, encode_sorted

ORDERED_MAX = 500
"""So many partitions fit a record of the command topic."""
ALL_TOPICS = ""
"""The pattern that selects every topic; an expression cannot be empty."""
_Expression = Annotated[str, Meta(max_length=EXPRESSION_LENGTH_MAX)]


@dataclass(frozen=True, slots=True)
class Assign:
    """Task `task` of one `process` takes on `add` and lets go of `release`, from `generation` on.

    Tasks of other processes leave it alone: a planner that has slept may still count a task as its own that another
    process runs by now, beside the task to which it has given the partition.
    `topics` has the partitions of topics whose number has changed in the flow, 0 for those that are gone.
    `proof` shows that the planner of the task's epoch has given the order: see `control.admission`.
    """

    run: str
    generation: int
    task: int
    add: tuple[Assigned, ...] = ()
    release: tuple[TopicPartition, ...] = ()
    topics: Mapping[str, int] = field(default_factory=dict)
    process: str = ""
    proof: str = ""


class _Command(Struct, frozen=True, tag_field="kind", tag=str.lower):
    pass


class Stop(_Command, frozen=True):
    """All tasks of the run end their epoch, and none follows; only those of one `process` where it is named."""

    run: Name
    process: Name = ""


class Share(_Command, frozen=True, omit_defaults=True):
    """One process of the run takes `tasks` and no others, from its next epoch on, which begins at once.

    `number` grows with each share of the process; the greatest counts. It holds while `member` is in the group of
    processes: who was put out of it must not take anything. `at_once`: the process that ran what is added to it has
    ended, so that the tasks that run take it on, inside their epoch. `has_ended`: the process ends, and none of its
    tasks runs any more.
    """

    run: Name
    process: Name
    number: Count
    tasks: frozenset[Number]
    member: Name
    at_once: bool = False
    has_ended: bool = False


class Began(_Command, frozen=True):
    """The process keeps to the share of that number: what it ran before and does not run now has ended."""

    run: Name
    process: Name
    number: Count


class Slots(_Command, frozen=True):
    """The process runs at most so many `tasks` at once, from its next epoch on, which begins at once.

    Where there are fewer slots than flows, their epochs last `turn_seconds` and they take turns; 0 else.
    """

    run: Name
    process: Name
    tasks: Number
    turn_seconds: Annotated[int, Meta(ge=0, le=3600)] = 0


class Throttle(_Command, frozen=True, omit_defaults=True):
    """All tasks of the run keep to another rate for topics that match `pattern`, "" for the whole flow.

    `bytes_per_second` 0 is no limit, None is what the file says. It holds until the run ends; `since_ms` as of `Pause`.
    """

    run: Name
    pattern: _Expression
    bytes_per_second: Count | None
    since_ms: Count = 0


@dataclass(frozen=True, slots=True)
class Selection:
    """Partitions that an order is for: of topics whose whole name matches `pattern`, one number or all."""

    pattern: str = ALL_TOPICS
    partition: int | None = None

    def covers(self, where: TopicPartition) -> bool:
        if self.partition is not None and where.partition != self.partition:
            return False
        if self.pattern == ALL_TOPICS:
            return True
        compiled = compile_names([self.pattern])
        try:
            return compiled is not None and compiled.fullmatch(where.topic) is not None
        except SlowPattern:  # from any writer: it ends no task
            return False


class _Selecting(_Command, frozen=True, omit_defaults=True):
    run: Name
    at_ms: Count
    pattern: _Expression
    partition: Number | None

    @classmethod
    def of(cls, run: str, selection: Selection, at_ms: int) -> Self:
        return cls(run, at_ms, selection.pattern, selection.partition)

    @property
    def selection(self) -> Selection:
        return Selection(self.pattern, self.partition)


class Pause(_Selecting, frozen=True, omit_defaults=True):
    """The selected partitions are not read until a Resume covers them, or the run ends. `since_ms` is 0 where a person
    gives the order; in a record by which a planner keeps it in the topic, when the topic took it first."""

    since_ms: Count = 0


class Resume(_Selecting, frozen=True, omit_defaults=True):
    """The selected partitions are read again, whatever Pause held them. `since_ms`: as of `Pause`."""

    since_ms: Count = 0


class Retry(_Selecting, frozen=True):
    """The selected partitions that failed are tried again now, not when their pause is over."""


class Restart(_Command, frozen=True, omit_defaults=True):
    """All tasks of the run end their epoch, and the next begins at once: planned, fenced and read from the ledger; only
    those of one `process` where it is named."""

    run: Name
    at_ms: Count
    process: Name = ""


class _Assign(_Command, frozen=True, tag="assign"):
    """An `Assign` as it is stored."""

    run: Name
    generation: Count
    task: Number
    add: Annotated[tuple[StoredAssigned, ...], Meta(max_length=ORDERED_MAX)]
    release: Annotated[tuple[tuple[TopicName, Number], ...], Meta(max_length=ORDERED_MAX)]
    topics: Mapping[TopicName, Number]
    process: Name
    proof: Name = ""

    @classmethod
    def of(cls, order: Assign) -> Self:
        add = tuple(StoredAssigned.of(item) for item in order.add)
        release = tuple((where.topic, where.partition) for where in order.release)
        return cls(order.run, order.generation, order.task, add, release, order.topics, order.process, order.proof)

    def order(self) -> Assign:
        add = tuple(item.assigned() for item in self.add)
        release = tuple(TopicPartition(*one) for one in self.release)
        return Assign(self.run, self.generation, self.task, add, release, self.topics, self.process, self.proof)


_Stored = Stop | Share | Began | Slots | Throttle | Pause | Resume | Retry | Restart | _Assign
Command = Assign | Stop | Share | Began | Slots | Throttle | Pause | Resume | Retry | Restart


def encode_command(command: Command) -> bytes:
    return encode_sorted(_Assign.of(command) if isinstance(command, Assign) else command)


def decode_command(value: bytes | None) -> Command | None:
    """None for what is not a command of this version: newer kinds are left alone, and what is damaged.

    An expression is compiled here; one that cannot be is no order.
    """
    stored: _Stored | None = decode_or_none(value, _Stored)  # type: ignore[arg-type]
    if isinstance(stored, Throttle | Pause | Resume | Retry):
        try:
            check_expression(stored.pattern)
        except ConfigError:
            return None
    return stored.order() if isinstance(stored, _Assign) else stored


def command_key(command: Command) -> bytes:
    """The record key: the topic is compacted too, and no command may displace another of its run."""
    parts: list[str | int] = ["stop", command.run]
    if isinstance(command, Stop) and command.process:
        parts.append(command.process)
    elif isinstance(command, Assign):
        parts = ["assign", command.run, command.process, command.generation, command.task]
    elif isinstance(command, Share | Began | Slots):
        parts = [_kind(command), command.run, command.process]
    elif isinstance(command, Throttle):
        parts = ["throttle", command.run, command.pattern]
    elif isinstance(command, Restart):
        parts = ["restart", command.run, command.at_ms, *filter(None, [command.process])]
    elif isinstance(command, Pause | Resume | Retry):  # all stay: later epochs need them
        chosen = command.selection
        parts = [_kind(command), command.run, command.at_ms, chosen.pattern, str(chosen.partition)]
    return encode_ascii(parts)


def command_record(command: Command) -> tuple[bytes, bytes]:
    """Key and value as they are published."""
    return command_key(command), encode_command(command)


def in_parts(orders: Iterable[Assign]) -> list[Assign]:
    """Orders that fit a record each. A task's have a generation each: none displaces another."""
    parts = []
    for order in orders:
        size = max(len(order.add), len(order.release), 1)
        for number, start in enumerate(range(0, size, ORDERED_MAX)):
            end = start + ORDERED_MAX
            part = replace(order, add=order.add[start:end], release=order.release[start:end])
            parts.append(replace(part, generation=order.generation + number, topics={} if number else order.topics))
    return parts


def ends_epoch(command: Command, share: Share | None) -> bool:
    """Whether a command of its run ends the epoch of a process with that share, or of one that shares with nobody."""
    match command:
        case Restart() | Stop():
            return command.process in ("", share.process if share else "")
        case Share():
            return share is not None and command.process == share.process and command.number > share.number
        case Slots():
            return command.process == (share.process if share else "")
    return False


def is_written_again(command: Command) -> bool:
    """Whether it is an order of before, that a planner has written again."""
    return isinstance(command, Pause | Resume | Throttle) and command.since_ms > 0


def is_growth(share: Share, before: Share | None) -> bool:
    """Whether a process that works by the share `before` goes on with all that, and takes more at once.

    Not when one between them was missed: it may have taken some away.
    """
    if not share.at_once or before is None or not before.tasks < share.tasks or not before.tasks:
        return False
    follows = (before.process, before.member, before.number + 1)
    return (share.process, share.member, share.number) == follows


def _kind(command: Share | Began | Slots | Pause | Resume | Retry) -> str:
    return type(command).__name__.lower()
