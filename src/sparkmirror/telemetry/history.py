"""What a flow remembers beyond the life of a process, a record on its status topic under `["history", source]`; pure.

Written by the process that leads the flow (`runtime.progress` makes it, `runtime.reporter` stores it), bounded; read by
any process that asks how it stands. `telemetry.event_log` finds the events, `telemetry.event_log` the samples.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from sparkmirror.model import TopicPartition
from sparkmirror.stored_json import Count, Moment, Name, Number, Offset, Text, TopicName

EVENTS_MAX: Final = 200
EVENTS_HOURS: Final = 24
FAILING_MAX: Final = 200
SAMPLE_SECONDS: Final = 300
SAMPLES_MAX: Final = EVENTS_HOURS * 3600 // SAMPLE_SECONDS
TEXT_MAX: Final = 300


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
class Waiting:
    """A partition that the source refused, and has not answered for since."""

    topic: TopicName
    partition: Number
    since_ms: Moment
    reason: Text = ""

    @property
    def partition_of(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the flow; `times` where it did so again and again, last at `at_ms`."""

    at_ms: Moment
    kind: Name
    text: Text
    times: Count = 1


class Sample(NamedTuple):
    """The mean rate and the greatest lag of SAMPLE_SECONDS that begin at `at_ms`; None is "not known", never 0."""

    at_ms: Moment
    records_per_second: Count | None = None
    lag_records: Count | None = None


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """The last events and the samples of the last day, the oldest first; partitions that stand where they failed, and
    those that the source is waited for; times of restarts. While no process ran there are no samples."""

    events: tuple[Event, ...] = ()
    failing: tuple[Failing, ...] = ()
    restarts: tuple[Moment, ...] = ()
    samples: tuple[Sample, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    at_ms: Moment = 0
