"""Commands as they lie on the command topic, decoded strictly: a client that may write there may write anything. Pure.

Called by all readers of that topic; written by `control.commands`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from sparkmirror.control.assignment import Assigned
from sparkmirror.control.commands import (
    ORDERED_MAX,
    Assign,
    Began,
    Command,
    Pause,
    Restart,
    Resume,
    Retry,
    Selection,
    Share,
    Slots,
    Stop,
    Throttle,
)
from sparkmirror.decoding import Count, Name, Number, Offset, TopicName, decode_or_none
from sparkmirror.errors import ConfigError
from sparkmirror.ledger.lineage import Extent, StoredEpochs
from sparkmirror.model import Position, TopicPartition
from sparkmirror.policy.filters import EXPRESSION_LENGTH_MAX, check_expression

_Expression = Annotated[str, Meta(max_length=EXPRESSION_LENGTH_MAX)]
_SELECTING: dict[str, type[Pause] | type[Resume] | type[Retry]] = {"pause": Pause, "resume": Resume, "retry": Retry}


def decode_command(value: bytes | None) -> Command | None:
    """None for what is not a command of this version: newer kinds are left alone, and what is damaged.

    An expression is compiled here; one that cannot be is no order.
    """
    head = decode_or_none(value, _Kind)
    stored = None if head is None or head.kind not in _STORED else decode_or_none(value, _STORED[head.kind])
    if stored is None:
        return None
    try:
        return stored.command() if isinstance(stored, _Assign | _Selecting | _Throttle) else stored
    except ConfigError:
        return None


@dataclass(frozen=True, slots=True)
class _Kind:
    kind: Name


@dataclass(frozen=True, slots=True)
class StoredAssigned:
    """The JSON form of an `Assigned`, shared with plan rows."""

    topic: TopicName
    partition: Number
    offset: Offset
    epochs: StoredEpochs
    id: UUID
    end: Offset | None
    restarted_from: tuple[Offset, StoredEpochs, UUID] | None
    extent: Extent | None
    found: Extent | None
    unknown: Annotated[str, Meta(max_length=10_000)] = ""

    def assigned(self) -> Assigned:
        before = None if self.restarted_from is None else Position(*self.restarted_from)
        where, target = TopicPartition(self.topic, self.partition), (self.extent, self.found)
        return Assigned(where, self.offset, self.epochs, self.id, self.end, before, *target, unknown=self.unknown)


@dataclass(frozen=True, slots=True)
class _Assign:
    run: Name
    generation: Count
    task: Number
    add: Annotated[tuple[StoredAssigned, ...], Meta(max_length=ORDERED_MAX)]
    release: Annotated[tuple[tuple[TopicName, Number], ...], Meta(max_length=ORDERED_MAX)]
    topics: Mapping[TopicName, Number]
    process: Name
    proof: Name = ""

    def command(self) -> Assign:
        add = tuple(item.assigned() for item in self.add)
        release = tuple(TopicPartition(*one) for one in self.release)
        return Assign(self.run, self.generation, self.task, add, release, self.topics, self.process, self.proof)


@dataclass(frozen=True, slots=True)
class _Throttle:
    run: Name
    pattern: _Expression
    bytes_per_second: Count | None

    def command(self) -> Throttle:
        """Raises ConfigError."""
        check_expression(self.pattern)
        return Throttle(self.run, self.pattern, self.bytes_per_second)


@dataclass(frozen=True, slots=True)
class _Selecting:
    kind: Name
    run: Name
    at_ms: Count
    pattern: _Expression
    partition: Number | None

    def command(self) -> Pause | Resume | Retry:
        """Raises ConfigError."""
        check_expression(self.pattern)
        return _SELECTING[self.kind](self.run, Selection(self.pattern, self.partition), self.at_ms)


_STORED: dict[str, type[Stop | Share | Began | Slots | Restart | _Assign | _Throttle | _Selecting]] = {
    "stop": Stop, "share": Share, "began": Began, "slots": Slots, "restart": Restart, "assign": _Assign,
    "throttle": _Throttle, "pause": _Selecting, "resume": _Selecting, "retry": _Selecting,
}  # fmt: skip
