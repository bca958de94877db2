"""What lies on a flow's status topic: records of the flow, its tasks, partitions, jobs and comparisons; pure.

Compacted JSON under the keys `["flow", source, process]`, `["task", source, task]`, `["partition", source, topic,
partition]`, `["job", source, name]`, `["verify", source]`, `["canary", source]`, `["history", source]` and
`["acknowledged", source, …the gap's place]`. Written by
`pipeline.produce.task_metrics` and `pipeline.produce.reports` (tasks, partitions), `runtime.reporter` (flow, jobs,
history), `verify.job`, `sync.canary_job` and `cli.gaps` (acknowledged); folded by `telemetry.board`. Times are
ms since 1970; `at_ms` is when the record was written, by Kafka's timestamp. Fields that a reader does not know are
skipped, those that a writer did not know have their defaults.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple, Self

from msgspec import Meta

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import TopicPartition
from sparkmirror.stored_json import (
    MOMENT_MS_MAX,
    Count,
    Moment,
    Name,
    Number,
    NumberOrNone,
    Offset,
    Text,
    TopicName,
    convert_or_none,
    decode_or_none,
    encode_ascii,
    encode_lossy,
)  # fmt: skip
from sparkmirror.telemetry.histogram import Histogram
from sparkmirror.telemetry.history import HistoryRecord

BEAT_SECONDS = 10.0
"""How often tasks write although nothing has changed."""
PROCESS_BEAT_SECONDS = 3.0
"""How often a process that runs a flow does: its silence is what tells that it was killed."""
SILENCE_SECONDS_MAX = 35.0
"""After so long without a beat nobody is there: the process was killed, or cut off from the target."""


class FlowState(StrEnum):
    """RESTARTING: the query failed and is started again at `retry_at_ms`. SILENT is never written: see `state_at`."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    SILENT = "SILENT"


class PartitionState(StrEnum):
    """FAILED: the target refuses it, it is tried again. WAITING: the source does not give it. PAUSED: by order."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    WAITING = "WAITING"
    FAILED = "FAILED"


class JobState(StrEnum):
    """FAILED: the last round failed, for `reason`; the next one is due at `next_at_ms`."""

    RUNNING = "RUNNING"
    FAILED = "FAILED"


class Spread(NamedTuple):
    """Milliseconds: of the last batch, and the least, greatest and mean of the last 30 to 60 s (None: no record)."""

    last_ms: float = 0.0
    min_ms: float | None = None
    max_ms: float | None = None
    avg_ms: float | None = None


NO_SPREAD = Spread()


@dataclass(frozen=True, slots=True)
class FlowRecord:
    """One process that runs a flow. `digest` names the configuration, so that processes whose files differ are seen."""

    run: Name
    state: FlowState
    reason: Text = ""
    retry_at_ms: Moment | None = None
    version: Name = ""
    host: Name = ""
    pid: Number = 0
    started_at_ms: Moment = 0
    digest: Name = ""
    restarts: Count = 0
    records: Count = 0
    bytes: Count = 0
    at_ms: Moment = 0

    @property
    def process(self) -> str:
        return f"{self.host}:{self.pid}"

    @property
    def is_over(self) -> bool:
        return self.state in (FlowState.STOPPED, FlowState.FAILED)

    def state_at(self, now_ms: int) -> FlowState:
        """As it was written, or SILENT where a living process would have written since."""
        return self.state if self.is_over or now_ms - self.at_ms <= SILENCE_SECONDS_MAX * 1000 else FlowState.SILENT


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """What one attempt of a task has done in its epoch: counters begin again with each (`telemetry.board` adds them
    up). Spark tries a task that failed again within its epoch; each attempt has a `producer_epoch` of its own.

    `behind_since_ms` is the produce time that the partition which is furthest behind has reached; None: none is
    behind. `latency` is from produce time to acknowledged by the target, `transit` from fetched to acknowledged, of
    records, `recent_…` those of the last 30 to 60 s. Pauses: by the target's quotas, by the source's, by own limits.
    `stalled_since_ms`: since then it has mirrored nothing, although it may read and has something to; None: it has not
    stopped. `unknown_ends` are partitions of which the source has not said where they end. `beat` counts BEAT_SECONDS,
    so that the record of a task that does nothing changes too.
    """

    run: Name
    task: Number
    epoch: Number
    producer_epoch: NumberOrNone = -1
    beat: Count = 0
    records: Count = 0
    bytes: Count = 0
    batches: Count = 0
    lag_records: Count = 0
    behind_since_ms: Moment | None = None
    stalled_since_ms: Moment | None = None
    records_per_second: float = 0.0
    unknown_ends: Count = 0
    partitions: Number = 0
    retries: Count = 0
    duplicates: Count = 0
    gaps: Count = 0
    lost_records: Count = 0
    refused_gaps: Count = 0
    throttled_ms: Count = 0
    source_throttled_ms: Count = 0
    limited_ms: Count = 0
    lease_bytes: Count = 0
    failed: Mapping[Name, Text] = field(default_factory=dict)
    retry_at_ms: Mapping[Name, Moment] = field(default_factory=dict)
    paused: tuple[Name, ...] = ()
    faults: Mapping[Name, Text] = field(default_factory=dict)
    problem: Text = ""
    latency: Histogram = field(default_factory=Histogram)
    transit: Histogram = field(default_factory=Histogram)
    recent_latency: Histogram = field(default_factory=Histogram)
    recent_transit: Histogram = field(default_factory=Histogram)
    generation: Count = 0
    at_ms: Moment = 0


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """One source partition. `offset` is the next one to mirror, None where the ledger's record of it cannot be read;
    `end` is the source's high watermark as last fetched.

    `records` and `bytes` count in the attempt of the task, rates are over the time since the record before. `age_ms` is
    from produce time to fetched, `latency_ms` from produce time to acknowledged.
    """

    topic: TopicName
    partition: Number
    run: Name
    task: Number
    epoch: Number
    producer_epoch: NumberOrNone = -1
    state: PartitionState = PartitionState.RUNNING
    reason: Text = ""
    retry_at_ms: Moment | None = None
    target_topic: Name = ""
    offset: Count | None = None
    end: int | None = None
    behind_since_ms: Moment | None = None
    records: Count = 0
    bytes: Count = 0
    records_per_second: float = 0.0
    bytes_per_second: float = 0.0
    age: Spread = NO_SPREAD
    latency: Spread = NO_SPREAD
    at_ms: Moment = 0

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def lag_records(self) -> int | None:
        """None where it is not known: while a partition is paused, nobody asks where it ends."""
        if self.end is None or self.offset is None or self.state is PartitionState.PAUSED:
            return None
        return max(self.end - self.offset, 0)

    def lag_seconds(self, now_ms: int) -> float:
        """How long ago the oldest record that is not mirrored was produced; at most, for it is that of the last one
        mirrored."""
        return 0.0 if self.behind_since_ms is None else max(now_ms - self.behind_since_ms, 0) / 1000


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A control-plane job of the driver: its last round, what that took, and when the next is due; since when its
    rounds fail."""

    name: Name
    run: Name
    state: JobState = JobState.RUNNING
    reason: Text = ""
    rounds: Count = 0
    failures: Count = 0
    cost_seconds: float = 0.0
    last_at_ms: Moment | None = None
    next_at_ms: Moment | None = None
    failing_since_ms: Moment | None = None
    at_ms: Moment = 0


@dataclass(frozen=True, slots=True)
class VerifyRecord:
    """The last round of a continuous comparison, and what all of its rounds have found together.

    `verdict` is one of `verify.report`: equal, different, unproven. `first_difference` says where the last round that
    found one found its first, in words, and `different_at_ms` when: another sample may not see it again.
    """

    verdict: Name
    records: Count = 0
    differences: Count = 0
    seconds: float = 0.0
    sample_percent: float = 100.0
    first_difference: Text = ""
    different_at_ms: Moment | None = None
    rounds: Count = 0
    rounds_different: Count = 0
    records_in_all: Count = 0
    at_ms: Moment = 0


@dataclass(frozen=True, slots=True)
class CanaryState:
    """Probes of one run. Latency is by the clock of the process that sends and reads them, skews are in seconds: how
    far a cluster's clock is ahead of it. `oldest_sent_ms` is of the oldest probe that has not arrived.
    """

    run: Name
    sent: Count = 0
    arrived: Count = 0
    lost: Count = 0
    oldest_sent_ms: Moment | None = None
    latency: Histogram = field(default_factory=Histogram)
    source_skew_seconds: float | None = None
    target_skew_seconds: float | None = None
    at_ms: Moment = 0

    def waiting_seconds(self, now_ms: int) -> float:
        return 0.0 if self.oldest_sent_ms is None else max(now_ms - self.oldest_sent_ms, 0) / 1000


@dataclass(frozen=True, slots=True)
class AcknowledgedRecord:
    """Somebody has seen the gap of this key (`ledger.gaps`), as it was found at `found_at_ms`."""

    topic: TopicName
    partition: Number
    expected: Offset
    resumed: Offset
    topic_id: Name
    found_at_ms: Moment = 0
    by: Name = ""
    at_ms: Moment = 0

    @classmethod
    def of(cls, gap: Gap, by: str) -> Self:
        where = gap.partition
        return cls(where.topic, where.partition, gap.expected, gap.resumed, str(gap.topic_id), gap.at_ms, by)


StatusRecord = (
    FlowRecord | TaskRecord | PartitionRecord | JobRecord | VerifyRecord | CanaryState | HistoryRecord
    | AcknowledgedRecord
)  # fmt: skip
_Key = Annotated[list[Name | Offset], Meta(min_length=2, max_length=7)]
_KINDS: Final[Mapping[str, tuple[type[StatusRecord], tuple[str, ...]]]] = {
    "flow": (FlowRecord, ("process",)),
    "task": (TaskRecord, ("task",)),
    "partition": (PartitionRecord, ("topic", "partition")),
    "job": (JobRecord, ("name",)),
    "verify": (VerifyRecord, ()),
    "canary": (CanaryState, ()),
    "history": (HistoryRecord, ()),
    "acknowledged": (AcknowledgedRecord, ("topic", "partition", "expected", "resumed", "topic_id")),
}
"""What each kind of record is, and which of its fields its key has behind the source."""
_KIND_OF: Final = {record: kind for kind, (record, _) in _KINDS.items()}
_NOT_IN_VALUE: Final = {PartitionRecord: _KINDS["partition"][1], AcknowledgedRecord: _KINDS["acknowledged"][1]}
"""Fields that the key alone has."""


def encode_key(kind: str, source_alias: str, *name: str | int) -> bytes:
    return encode_ascii([kind, source_alias, *name])


def encode_record(source_alias: str, record: StatusRecord) -> tuple[bytes, bytes]:
    """Key and value. The time at which it was written, `at_ms`, is the Kafka record's own timestamp."""
    kind = type(record)
    left_out = ("at_ms", *_NOT_IN_VALUE.get(kind, ()))
    value = {one.name: getattr(record, one.name) for one in fields(record) if one.name not in left_out}
    return key_of(source_alias, record), encode_lossy(value)


def key_of(source_alias: str, record: StatusRecord) -> bytes:
    kind = _KIND_OF[type(record)]
    return encode_key(kind, source_alias, *(getattr(record, name) for name in _KINDS[kind][1]))


def key_prefixes(source_alias: str) -> tuple[bytes, ...]:
    """What the keys of a flow's records begin with, which other records of the topic do not begin with."""
    return tuple(encode_key(kind, source_alias)[:-1] for kind in _KINDS)


def parse_record(key: bytes | None, value: bytes | None, source_alias: str, at_ms: int = 0) -> StatusRecord | None:
    """The record; None for a tombstone, for what another flow or something else has written, or a later version."""
    kind, name = _split_key(key, source_alias)
    told = None if kind not in _KINDS else decode_or_none(value, dict[str, Any])
    if told is None:
        return None
    record, names = _KINDS[kind]
    if len(name) != len(names):
        return None
    told |= zip(names, name, strict=True)
    return convert_or_none(told | {"at_ms": min(max(at_ms, 0), MOMENT_MS_MAX)}, record)


def parse_subject(key: bytes | None, source_alias: str) -> TopicPartition | int | None:
    """Which source partition or task a record is about; None where it is about something else, or another flow."""
    match _split_key(key, source_alias):
        case "partition", [str(topic), int(partition)]:
            return TopicPartition(topic, partition)
        case "task", [int(task)]:
            return task
    return None


def _split_key(key: bytes | None, source_alias: str) -> tuple[str, list[str | int]]:
    """The kind of a record, and what its key says behind the source; "" for a key that is not of this flow."""
    found = decode_or_none(key, _Key)
    return ("", []) if found is None or found[1] != source_alias else (str(found[0]), found[2:])
