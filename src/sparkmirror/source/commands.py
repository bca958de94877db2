"""What the planner and the operator tell running tasks: JSON records of the command topic. Pure.

Written by `source.planner` and `engine.run`, read by `source.reader` (through its own fetch connection) and by the
planner. Each command carries the run it is meant for, so that a new run is not stopped by an old one's commands.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sparkmirror.model import TopicPartition
from sparkmirror.source.plan import Assigned


@dataclass(frozen=True, slots=True)
class Assign:
    """Task `task` takes on `add` and lets go of `release`, from `generation` on.

    `topics` has the partitions of topics whose number has changed in the flow, 0 for those that are gone.
    """

    run: str
    generation: int
    task: int
    add: tuple[Assigned, ...] = ()
    release: tuple[TopicPartition, ...] = ()
    topics: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stop:
    """All tasks of the run end their epoch, and none follows."""

    run: str


@dataclass(frozen=True, slots=True)
class Throttle:
    """All tasks of the run keep to another rate for topics that match `pattern`, "" for the whole flow.

    `bytes_per_second` 0 is no limit, None is what the file says. It holds until the run ends.
    """

    run: str
    pattern: str
    bytes_per_second: int | None


Command = Assign | Stop | Throttle


def encode_command(command: Command) -> bytes:
    if isinstance(command, Stop):
        return json.dumps({"kind": "stop", "run": command.run}).encode()
    if isinstance(command, Throttle):
        fields = {"pattern": command.pattern, "bytes_per_second": command.bytes_per_second}
        return json.dumps({"kind": "throttle", "run": command.run, **fields}).encode()
    return json.dumps(
        {
            "kind": "assign",
            "run": command.run,
            "generation": command.generation,
            "task": command.task,
            "add": [assigned_to_json(assigned) for assigned in command.add],
            "release": [[tp.topic, tp.partition] for tp in command.release],
            "topics": dict(command.topics),
        }
    ).encode()


def command_key(command: Command) -> bytes:
    """The record key: the topic is compacted too, and no command may displace another of its run."""
    parts: list[str | int] = ["stop", command.run]
    if isinstance(command, Assign):
        parts = ["assign", command.run, command.generation, command.task]
    elif isinstance(command, Throttle):
        parts = ["throttle", command.run, command.pattern]
    return json.dumps(parts, separators=(",", ":")).encode()


def command_record(command: Command) -> tuple[bytes, bytes]:
    """Key and value as they are published."""
    return command_key(command), encode_command(command)


def decode_command(value: bytes | None) -> Command | None:
    """None for what is not a command of this version: newer kinds are left alone."""
    try:
        fields = json.loads(value or b"null")
        if fields["kind"] == "stop":
            return Stop(fields["run"])
        if fields["kind"] == "assign":
            return Assign(
                fields["run"],
                fields["generation"],
                fields["task"],
                tuple(assigned_from_json(item) for item in fields["add"]),
                tuple(TopicPartition(topic, partition) for topic, partition in fields["release"]),
                fields["topics"],
            )
        if fields["kind"] == "throttle":
            rate = fields["bytes_per_second"]
            return Throttle(fields["run"], fields["pattern"], None if rate is None else int(rate))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return None


def assigned_to_json(assigned: Assigned) -> dict[str, Any]:
    """The JSON form shared with plan rows."""
    return {
        "topic": assigned.partition.topic,
        "partition": assigned.partition.partition,
        "offset": assigned.offset,
        "epoch": assigned.leader_epoch,
        "id": str(assigned.topic_id),
        "end": assigned.end,
        "restarted_from": assigned.restarted_from,
    }


def assigned_from_json(fields: Mapping[str, Any]) -> Assigned:
    return Assigned(
        TopicPartition(fields["topic"], fields["partition"]),
        fields["offset"],
        fields["epoch"],
        UUID(fields["id"]),
        fields["end"],
        fields["restarted_from"],
    )
