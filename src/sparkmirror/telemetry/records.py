"""The records of a flow's status topic: of the flow, its tasks, partitions, jobs and comparisons; pure.

The topic is compacted. Values are JSON; keys are the JSON lists `["flow", source, process]`, `["task", source, task]`,
`["partition", source, topic, partition]`, `["job", source, name]`, `["verify", source]`, `["canary", source]`,
`["history", source]` and `["acknowledged", source, …the gap's place]`. These modules write them:
`pipeline.produce.task_metrics` and `pipeline.produce.reports` (tasks, partitions), `planning.status_records`
(partitions whose start is being filled), `runtime.reporter` (flow, jobs, history), `verify.job`, `sync.canary_job` and
`cli.gaps` (acknowledged). `telemetry.board` folds them. Times are in ms since 1970; `at_ms` is the timestamp of the
Kafka record. A reader skips fields that it does not know, and gives their
defaults to fields that the writer left out.
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
from sparkmirror.telemetry.filling import Filling
from sparkmirror.telemetry.histogram import Histogram
from sparkmirror.telemetry.history import HistoryRecord

BEAT_SECONDS = 10.0
"""A task writes its record after this time although nothing has changed."""
PROCESS_BEAT_SECONDS = 3.0
"""A process that runs a flow writes its record this often; readers conclude from its silence that it was killed."""
SILENCE_SECONDS_MAX = 35.0
"""A process that has written nothing for longer was killed, or cannot reach the target."""
NO_TASK = -1


class FlowState(StrEnum):
    """RESTARTING: the query failed and starts again at `retry_at_ms`. SILENT is never written: see `state_at`."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    SILENT = "SILENT"


class PartitionState(StrEnum):
    """FAILED: the target refuses its records, and the task tries again. WAITING: the source does not serve it.
    PAUSED: an operator has paused it."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    WAITING = "WAITING"
    FAILED = "FAILED"


class JobState(StrEnum):
    """FAILED: the job's last round failed, for `reason`; its next round is due at `next_at_ms`."""

    RUNNING = "RUNNING"
    FAILED = "FAILED"


class Spread(NamedTuple):
    """Times in ms: that of the last batch; least, greatest and mean of the last 30 to 60 s (None: no record came)."""

    last_ms: float = 0.0
    min_ms: float | None = None
    max_ms: float | None = None
    avg_ms: float | None = None


NO_SPREAD = Spread()


@dataclass(frozen=True, slots=True)
class FlowRecord:
    """One process that runs a flow. `digest` is a hash of its configuration: it differs where processes have different
    files. `run` names the run of the flow, which processes that share it have in common; `records` and `bytes` are what
    the flow has mirrored in that run. `is_copied` says that a bounded run has mirrored all that was there when it
    began: the flow's tasks have ended then."""

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
    is_copied: bool = False
    at_ms: Moment = 0

    @property
    def process(self) -> str:
        return f"{self.host}:{self.pid}"

    @property
    def is_over(self) -> bool:
        return self.state in (FlowState.STOPPED, FlowState.FAILED)

    def state_at(self, now_ms: int) -> FlowState:
        """The state that the process wrote, or SILENT where a living process would have written since."""
        return self.state if self.is_over or now_ms - self.at_ms <= SILENCE_SECONDS_MAX * 1000 else FlowState.SILENT


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """What one attempt of a task has done in its epoch. Counters start at 0 in each attempt; `telemetry.board` adds the
    attempts up. When a task fails, Spark starts another attempt within the epoch; each attempt has a `producer_epoch`
    of its own.

    `behind_since_ms` is the produce time up to which the partition that is furthest behind is mirrored; None where no
    partition is behind. `latency` counts records by the time from produce time to the target's acknowledgement,
    `transit` by the time from fetch to acknowledgement; `recent_…` hold those of the last 30 to 60 s. `throttled_ms`,
    `source_throttled_ms` and `limited_ms` are pauses for the target's quotas, the source's quotas and the flow's own
    rate limits. `cpu_seconds` is what its two processes have used, looked at with each `beat`; `held_by` says which of
    these pauses held it back between its last two beats, as `telemetry.brakes` names them; `sizing` says why the flow
    has so many tasks, and `siblings` which ones its process runs in the epoch. `stalled_since_ms` says since when the
    task has mirrored nothing although there is something that it may read; None where it is not stalled. `unknown_ends`
    counts partitions whose high watermark the source has not given yet. `beat` counts BEAT_SECONDS, so that the record
    of an idle task changes too.
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
    cpu_seconds: float = 0.0
    sizing: Text = ""
    siblings: tuple[Number, ...] = ()
    held_by: tuple[Name, ...] = ()
    latency: Histogram = field(default_factory=Histogram)
    transit: Histogram = field(default_factory=Histogram)
    recent_latency: Histogram = field(default_factory=Histogram)
    recent_transit: Histogram = field(default_factory=Histogram)
    generation: Count = 0
    at_ms: Moment = 0

    @property
    def known_lag(self) -> int | None:
        """`lag_records`; None where the ends of some of its partitions are not known, or may be old."""
        return None if self.unknown_ends or self.paused or self.faults else self.lag_records


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """One source partition. `offset` is the next offset to mirror, None where the ledger's record of it cannot be read;
    `end` is the source's high watermark in the last fetch response, None before the first. With `keeps_offsets` the
    target has its records at their own offsets. `filling` says how far offsets without a record are filled, while that
    goes on; with that of a start the partition has no task yet (NO_TASK), and begins at `offset`.

    `records` and `bytes` count from the beginning of the task's attempt; rates are averages since the previous record
    of the partition. `age` is the time from produce time to fetch, `latency` from produce time to acknowledgement.
    """

    topic: TopicName
    partition: Number
    run: Name
    task: NumberOrNone
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
    keeps_offsets: bool = False
    filling: Filling | None = None
    at_ms: Moment = 0

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def lag_records(self) -> int | None:
        """None where it is not known; a paused or waiting partition is not fetched, so its last `end` may be old."""
        if self.end is None or self.offset is None or self.state in (PartitionState.PAUSED, PartitionState.WAITING):
            return None
        return max(self.end - self.offset, 0)

    def lag_seconds(self, now_ms: int) -> float:
        """An upper bound of the age of the oldest record that is not mirrored: the age of the last mirrored one."""
        return 0.0 if self.behind_since_ms is None else max(now_ms - self.behind_since_ms, 0) / 1000


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job of the process that leads the flow. `cost_seconds` is how long the last round took, `last_at_ms` when it
    ended, `next_at_ms` when the next is due, `failing_since_ms` since when all rounds have failed."""

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
    """The last round of a continuous comparison, and sums over all its rounds.

    `verdict` is one of `verify.report`: equal, different, unproven. `first_difference` describes the first difference
    of the last round that found one, and `different_at_ms` is the time of that round. A later round compares another
    sample and may not contain that difference, so both stay until a round has compared all and found it equal.
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
    """The probes of one run. One process sends them and reads them, so its clock alone measures `latency`. A skew is
    how many seconds a cluster's clock is ahead of that clock. `oldest_sent_ms` is the time at which the oldest probe
    that has not arrived was sent, None where all have arrived.
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
    """An operator (`by`) has acknowledged the gap of this key (`ledger.gaps`), which was found at `found_at_ms`."""

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
"""For each kind of record its class, and the fields that stand in its key after the source."""
_KIND_OF: Final = {record: kind for kind, (record, _) in _KINDS.items()}
_NOT_IN_VALUE: Final = {PartitionRecord: _KINDS["partition"][1], AcknowledgedRecord: _KINDS["acknowledged"][1]}
"""Fields that stand in the key and not in the value."""


def encode_key(kind: str, source_alias: str, *name: str | int) -> bytes:
    return encode_ascii([kind, source_alias, *name])


def encode_record(source_alias: str, record: StatusRecord) -> tuple[bytes, bytes]:
    """Key and value. `at_ms` is in neither: it is the timestamp of the Kafka record."""
    kind = type(record)
    left_out = ("at_ms", *_NOT_IN_VALUE.get(kind, ()))
    value = {one.name: getattr(record, one.name) for one in fields(record) if one.name not in left_out}
    return key_of(source_alias, record), encode_lossy(value)


def key_of(source_alias: str, record: StatusRecord) -> bytes:
    kind = _KIND_OF[type(record)]
    return encode_key(kind, source_alias, *(getattr(record, name) for name in _KINDS[kind][1]))


def key_prefixes(source_alias: str) -> tuple[bytes, ...]:
    """Prefixes that the keys of this flow's records have, and the keys of other records of the topic do not have."""
    return tuple(encode_key(kind, source_alias)[:-1] for kind in _KINDS)


def parse_record(key: bytes | None, value: bytes | None, source_alias: str, at_ms: int = 0) -> StatusRecord | None:
    """The record; None for a tombstone, a record of another flow, or a record in a form that this version does not
    know."""
    kind, name = _split_key(key, source_alias)
    stored = None if kind not in _KINDS else decode_or_none(value, dict[str, Any])
    if stored is None:
        return None
    record, names = _KINDS[kind]
    if len(name) != len(names):
        return None
    stored |= zip(names, name, strict=True)
    return convert_or_none(stored | {"at_ms": min(max(at_ms, 0), MOMENT_MS_MAX)}, record)


def parse_subject(key: bytes | None, source_alias: str) -> TopicPartition | int | None:
    """The source partition or the task that a key names; None where it names something else, or is of another flow."""
    match _split_key(key, source_alias):
        case "partition", [str(topic), int(partition)]:
            return TopicPartition(topic, partition)
        case "task", [int(task)]:
            return task
    return None


def _split_key(key: bytes | None, source_alias: str) -> tuple[str, list[str | int]]:
    """The kind of a record, and the parts of its key after the source; "" and [] for a key of another flow."""
    found = decode_or_none(key, _Key)
    return ("", []) if found is None or found[1] != source_alias else (str(found[0]), found[2:])
