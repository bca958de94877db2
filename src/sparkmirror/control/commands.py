"""What the planner and the operator tell running tasks: JSON records of the command topic. Pure. Read back by
`control.command_decoding`.

Written by `planning.planner` and `runtime.run`, read by `pipeline.fetch.reader` (through its own fetch connection) and
by the planner. Each command carries the run it is meant for, so that a new run is not stopped by an old one's commands.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

from msgspec import Meta

from sparkmirror.control.assignment import Assigned
from sparkmirror.decoding import Count, Name, Number
from sparkmirror.model import Position, TopicPartition
from sparkmirror.policy.filters import compile_names
from sparkmirror.policy.java_regex import SlowPattern

ORDERED_MAX = 500
"""So many partitions fit a record of the command topic."""
ALL_TOPICS = ""
"""The pattern that selects every topic; an expression cannot be empty."""


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


@dataclass(frozen=True, slots=True)
class Stop:
    """All tasks of the run end their epoch, and none follows; only those of one `process` where it is named."""

    run: Name
    process: Name = ""


@dataclass(frozen=True, slots=True)
class Share:
    """One process of the run takes `tasks` and no others, from its next epoch on, which begins at once.

    `number` grows with each share of the process; the greatest counts. It holds while `member` is in the group of
    processes: who was put out of it must not take anything. `at_once`: the process that ran what is added to it has
    ended, so that the tasks that run take it on, inside their epoch.
    """

    run: Name
    process: Name
    number: Count
    tasks: frozenset[Number]
    member: Name
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Began:
    """The process keeps to the share of that number: what it ran before and does not run now has ended."""

    run: Name
    process: Name
    number: Count


@dataclass(frozen=True, slots=True)
class Slots:
    """The process runs at most so many `tasks` at once, from its next epoch on, which begins at once.

    Where there are fewer slots than flows, their epochs last `turn_seconds` and they take turns; 0 else.
    """

    run: Name
    process: Name
    tasks: Number
    turn_seconds: Annotated[int, Meta(ge=0, le=3600)] = 0


@dataclass(frozen=True, slots=True)
class Throttle:
    """All tasks of the run keep to another rate for topics that match `pattern`, "" for the whole flow.

    `bytes_per_second` 0 is no limit, None is what the file says. It holds until the run ends.
    """

    run: str
    pattern: str
    bytes_per_second: int | None


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


@dataclass(frozen=True, slots=True)
class Pause:
    """The selected partitions are not read until a Resume covers them, or the run ends."""

    run: str
    selection: Selection
    at_ms: int


@dataclass(frozen=True, slots=True)
class Resume:
    """The selected partitions are read again, whatever Pause held them."""

    run: str
    selection: Selection
    at_ms: int


@dataclass(frozen=True, slots=True)
class Retry:
    """The selected partitions that failed are tried again now, not when their pause is over."""

    run: str
    selection: Selection
    at_ms: int


@dataclass(frozen=True, slots=True)
class Restart:
    """All tasks of the run end their epoch, and the next begins at once: planned, fenced and read from the ledger."""

    run: Name
    at_ms: Count


Command = Assign | Stop | Share | Began | Slots | Throttle | Pause | Resume | Retry | Restart


def encode_command(command: Command) -> bytes:
    if isinstance(command, Stop):
        return json.dumps({"kind": "stop", "run": command.run, "process": command.process}).encode()
    if isinstance(command, Began):
        return json.dumps({"kind": "began", **asdict(command)}).encode()
    if isinstance(command, Share):
        fields = asdict(command) | {"tasks": sorted(command.tasks)}
        if not fields["at_once"]:
            del fields["at_once"]
        return json.dumps({"kind": "share", **fields}).encode()
    if isinstance(command, Slots):
        return json.dumps({"kind": "slots", **asdict(command)}).encode()
    if isinstance(command, Throttle):
        fields = {"pattern": command.pattern, "bytes_per_second": command.bytes_per_second}
        return json.dumps({"kind": "throttle", "run": command.run, **fields}).encode()
    if isinstance(command, Restart):
        return json.dumps({"kind": "restart", "run": command.run, "at_ms": command.at_ms}).encode()
    if isinstance(command, Pause | Resume | Retry):
        chosen = {"pattern": command.selection.pattern, "partition": command.selection.partition}
        return json.dumps({"kind": _kind(command), "run": command.run, "at_ms": command.at_ms, **chosen}).encode()
    return json.dumps(
        {
            "kind": "assign",
            "run": command.run,
            "generation": command.generation,
            "task": command.task,
            "add": [assigned_to_json(assigned) for assigned in command.add],
            "release": [[tp.topic, tp.partition] for tp in command.release],
            "topics": dict(command.topics),
            "process": command.process,
            "proof": command.proof,
        }
    ).encode()


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
        parts = ["restart", command.run, command.at_ms]
    elif isinstance(command, Pause | Resume | Retry):  # all stay: later epochs need them
        chosen = command.selection
        parts = [_kind(command), command.run, command.at_ms, chosen.pattern, str(chosen.partition)]
    return json.dumps(parts, separators=(",", ":")).encode()


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
        case Restart():
            return True
        case Stop():
            return command.process in ("", share.process if share else "")
        case Share():
            return share is not None and command.process == share.process and command.number > share.number
        case Slots():
            return command.process == (share.process if share else "")
    return False


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


def assigned_to_json(assigned: Assigned) -> dict[str, Any]:
    """The JSON form shared with plan rows."""
    return {
        "topic": assigned.partition.topic,
        "partition": assigned.partition.partition,
        "offset": assigned.offset,
        "epochs": assigned.epochs,
        "id": str(assigned.topic_id),
        "end": assigned.end,
        "restarted_from": None if assigned.restarted_from is None else _position_to_json(assigned.restarted_from),
        "extent": None if assigned.extent is None else assigned.extent.as_json(),
        "found": None if assigned.found is None else assigned.found.as_json(),
        "unknown": assigned.unknown,
    }


def _position_to_json(position: Position) -> list[Any]:
    return [position.offset, position.epochs, str(position.topic_id)]
