"""What the planner and the operator tell running tasks: JSON records of the command topic. Pure.

Written by `source.planner` and `engine.run`, read by `source.reader` (through its own fetch connection) and by the
planner. Each command carries the run it is meant for, so that a new run is not stopped by an old one's commands.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import UUID

from sparkmirror.ledger.extent import Extent
from sparkmirror.ledger.lineage import epochs_from_json
from sparkmirror.model import Position, TopicPartition
from sparkmirror.policy.filters import compile_names
from sparkmirror.source.plan import Assigned, TaskPlan

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
    """

    run: str
    generation: int
    task: int
    add: tuple[Assigned, ...] = ()
    release: tuple[TopicPartition, ...] = ()
    topics: Mapping[str, int] = field(default_factory=dict)
    process: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """All tasks of the run end their epoch, and none follows; only those of one `process` where it is named."""

    run: str
    process: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """One process of the run takes `tasks` and no others, from its next epoch on, which begins at once.

    `number` grows with each share of the process; the greatest counts. It holds while `member` is in the group of
    processes: who was put out of it must not take anything. `at_once`: whoever ran what is added to it has ended, so
    that the tasks that run take it on, inside their epoch.
    """

    run: str
    process: str
    number: int
    tasks: frozenset[int]
    member: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Began:
    """The process keeps to the share of that number: what it ran before and does not run now has ended."""

    run: str
    process: str
    number: int


@dataclass(frozen=True, slots=True)
class Slots:
    """The process runs at most so many `tasks` at once, from its next epoch on, which begins at once.

    Where there are fewer slots than flows, their epochs last `turn_seconds` and they take turns; 0 else.
    """

    run: str
    process: str
    tasks: int
    turn_seconds: int = 0


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
        return compiled is not None and compiled.fullmatch(where.topic) is not None


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

    run: str
    at_ms: int


Command = Assign | Stop | Share | Began | Slots | Throttle | Pause | Resume | Retry | Restart
_SELECTING: dict[str, type[Pause] | type[Resume] | type[Retry]] = {"pause": Pause, "resume": Resume, "retry": Retry}


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


def is_order_for(plan: TaskPlan, order: Assign) -> bool:
    """Whether the task has that still to obey: a plan that was renewed has orders of before in it."""
    return is_own_order(plan, order) and order.generation > plan.generation


def is_own_order(plan: TaskPlan, order: Assign) -> bool:
    """Whether the planner that made the plan gave the task that order, be it before the plan or after."""
    process = plan.share.process if plan.share is not None else ""
    return (order.run, order.process, order.task) == (plan.run, process, plan.task)


def _kind(command: Share | Began | Slots | Pause | Resume | Retry) -> str:
    return type(command).__name__.lower()


def decode_command(value: bytes | None) -> Command | None:
    """None for what is not a command of this version: newer kinds are left alone."""
    try:
        fields = json.loads(value or b"null")
        if fields["kind"] == "stop":
            return Stop(fields["run"], fields.get("process", ""))
        if fields["kind"] == "share":
            tasks = frozenset(int(task) for task in fields["tasks"])
            at_once = fields.get("at_once") is True
            return Share(fields["run"], fields["process"], int(fields["number"]), tasks, fields["member"], at_once)
        if fields["kind"] == "began":
            return Began(fields["run"], fields["process"], int(fields["number"]))
        if fields["kind"] == "slots":
            return Slots(fields["run"], fields["process"], int(fields["tasks"]), int(fields["turn_seconds"]))
        if fields["kind"] == "assign":
            return Assign(
                fields["run"],
                fields["generation"],
                fields["task"],
                tuple(assigned_from_json(item) for item in fields["add"]),
                tuple(TopicPartition(topic, partition) for topic, partition in fields["release"]),
                fields["topics"],
                fields["process"],
            )
        if fields["kind"] == "throttle":
            rate = fields["bytes_per_second"]
            return Throttle(fields["run"], fields["pattern"], None if rate is None else int(rate))
        if fields["kind"] == "restart":
            return Restart(fields["run"], int(fields["at_ms"]))
        if (kind := _SELECTING.get(fields["kind"])) is not None:
            number = fields["partition"]
            selection = Selection(fields["pattern"], None if number is None else int(number))
            return kind(fields["run"], selection, int(fields["at_ms"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return None


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


def assigned_from_json(fields: Mapping[str, Any]) -> Assigned:
    extent, found, before = fields["extent"], fields["found"], fields["restarted_from"]
    return Assigned(
        TopicPartition(fields["topic"], fields["partition"]),
        fields["offset"],
        epochs_from_json(fields["epochs"]),
        UUID(fields["id"]),
        fields["end"],
        None if before is None else Position(before[0], epochs_from_json(before[1]), UUID(before[2])),
        None if extent is None else Extent.from_json(extent),
        None if found is None else Extent.from_json(found),
        fields.get("unknown", ""),
    )
