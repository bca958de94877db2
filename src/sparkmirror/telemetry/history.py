"""The history record of a flow, at the key `["history", source]` of its status topic: what outlives a process; pure.

The process that leads the flow writes it: `telemetry.event_log` makes events and samples, `runtime.progress` the
record, and `runtime.reporter` stores it. Each reader of the status topic reads it. Its size is bounded.
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
    """A partition that has not moved since the target refused its record at `offset`, the next one to mirror."""

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
    """A partition that the source refused to serve, and for which it has not answered since."""

    topic: TopicName
    partition: Number
    since_ms: Moment
    reason: Text = ""

    @property
    def partition_of(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the flow. `times` counts equal events in a row, the last of them at `at_ms`."""

    at_ms: Moment
    kind: Name
    text: Text
    times: Count = 1


class Sample(NamedTuple):
    """Mean rate and greatest lag over the SAMPLE_SECONDS that begin at `at_ms`; None means "not known", never 0."""

    at_ms: Moment
    records_per_second: Count | None = None
    lag_records: Count | None = None


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """Events and samples of the last day, the oldest first; partitions that failed and have not moved; partitions for
    which the mirror waits for the source; times of restarts. There are no samples of times without a process."""

    events: tuple[Event, ...] = ()
    failing: tuple[Failing, ...] = ()
    restarts: tuple[Moment, ...] = ()
    samples: tuple[Sample, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    at_ms: Moment = 0
