"""What a flow remembers beyond the life of a process, a record on its status topic under `["history", source]`; pure.

Written by the process that leads the flow (`runtime.history_keeper`), bounded; read by whoever asks how it stands.
"""

from dataclasses import dataclass
from typing import Final

from sparkmirror.decoding import Count, Moment, Name, Number, Offset, Text, TopicName
from sparkmirror.model import TopicPartition

EVENTS_MAX: Final = 200
FAILING_MAX: Final = 200
REASON_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class Failing:
    """A partition that the target refused at `offset`, the next one to mirror, and that has not moved since."""

    topic: TopicName
    partition: Number
    since_ms: Moment
    offset: Offset | None = None
    reason: Text = ""

    @property
    def partition_of(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the flow; `times` where it did so again and again."""

    at_ms: Moment
    kind: Name
    text: Text
    times: Count = 1


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """The last events, the oldest first; partitions that stand where they failed; times of restarts."""

    events: tuple[Event, ...] = ()
    failing: tuple[Failing, ...] = ()
    restarts: tuple[Moment, ...] = ()
    at_ms: Moment = 0
