"""What lies on a flow's status topic: records of the flow, its tasks, partitions, jobs and comparisons; pure.

Compacted JSON under the keys `["flow", source, process]`, `["task", source, task]`, `["partition", source, topic,
partition]`, `["job", source, name]`, `["verify", source]` and `["canary", source]`. Written by `target.tally` and
`target.reports` (tasks, partitions), `engine.reporter` (flow, jobs), `verify.continuous` and `sync.canary_job`; folded
by `status.board`. Times are ms since 1970; `at_ms` is when the record was written, by Kafka's timestamp. Fields that a
reader does not know are skipped, those that a writer did not know have their defaults.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from sparkmirror.model import TopicPartition
from sparkmirror.status.canary import CanaryState
from sparkmirror.status.histogram import Histogram

BEAT_SECONDS = 10.0
"""How often a flow and its tasks write although nothing has changed."""
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

    run: str
    state: FlowState
    reason: str = ""
    retry_at_ms: int | None = None
    version: str = ""
    host: str = ""
    pid: int = 0
    started_at_ms: int = 0
    digest: str = ""
    restarts: int = 0
    records: int = 0
    bytes: int = 0
    at_ms: int = 0

    @property
    def is_over(self) -> bool:
        return self.state in (FlowState.STOPPED, FlowState.FAILED)

    def state_at(self, now_ms: int) -> FlowState:
        """As it was written, or SILENT where a living process would have written since."""
        return self.state if self.is_over or now_ms - self.at_ms <= SILENCE_SECONDS_MAX * 1000 else FlowState.SILENT


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """What one attempt of a task has done in its epoch: counters begin anew with each (`status.board` adds them up).
    Spark tries a task that failed again within its epoch; each attempt has a `producer_epoch` of its own.

    `behind_since_ms` is the produce time that the partition which is furthest behind has reached; None: none is
    behind. `latency` is from produce time to acknowledged by the target, `transit` from fetched to acknowledged, of
    records, `recent_…` those of the last 30 to 60 s. Pauses: by the target's quotas, by the source's, by own limits.
    """

    run: str
    task: int
    epoch: int
    producer_epoch: int = -1
    generation: int = 0
    records: int = 0
    bytes: int = 0
    batches: int = 0
    lag_records: int = 0
    behind_since_ms: int | None = None
    partitions: int = 0
    retries: int = 0
    duplicates: int = 0
    gaps: int = 0
    lost_records: int = 0
    refused_gaps: int = 0
    throttled_ms: int = 0
    source_throttled_ms: int = 0
    limited_ms: int = 0
    lease_bytes: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    retry_at_ms: Mapping[str, int] = field(default_factory=dict)
    paused: tuple[str, ...] = ()
    faults: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    latency: Histogram = field(default_factory=Histogram)
    transit: Histogram = field(default_factory=Histogram)
    recent_latency: Histogram = field(default_factory=Histogram)
    recent_transit: Histogram = field(default_factory=Histogram)
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """One source partition. `offset` is the next one to mirror, None where the ledger's record of it cannot be read;
    `end` is the source's high watermark as last fetched.

    `records` and `bytes` count in the attempt of the task, rates are over the time since the record before. `age_ms` is
    from produce time to fetched, `latency_ms` from produce time to acknowledged.
    """

    topic: str
    partition: int
    run: str
    task: int
    epoch: int
    producer_epoch: int = -1
    state: PartitionState = PartitionState.RUNNING
    reason: str = ""
    retry_at_ms: int | None = None
    target_topic: str = ""
    offset: int | None = None
    end: int | None = None
    behind_since_ms: int | None = None
    records: int = 0
    bytes: int = 0
    records_per_second: float = 0.0
    bytes_per_second: float = 0.0
    age: Spread = NO_SPREAD
    latency: Spread = NO_SPREAD
    at_ms: int = 0

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def lag_records(self) -> int | None:
        return None if self.end is None or self.offset is None else max(self.end - self.offset, 0)

    def lag_seconds(self, now_ms: int) -> float:
        """How long ago the oldest record that is not mirrored was produced; at most, for it is that of the last one
        mirrored."""
        return 0.0 if self.behind_since_ms is None else max(now_ms - self.behind_since_ms, 0) / 1000


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A control-plane job of the driver: its last round, what that took, and when the next is due."""

    name: str
    run: str
    state: JobState = JobState.RUNNING
    reason: str = ""
    rounds: int = 0
    failures: int = 0
    cost_seconds: float = 0.0
    last_at_ms: int | None = None
    next_at_ms: int | None = None
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class VerifyRecord:
    """The last round of a continuous comparison, and what all of its rounds have found together.

    `verdict` is one of `verify.report`: equal, different, unproven. `first_difference` says where the last round that
    found one found its first, in words, and `different_at_ms` when: another sample may not see it again.
    """

    verdict: str
    records: int = 0
    differences: int = 0
    seconds: float = 0.0
    sample_percent: float = 100.0
    first_difference: str = ""
    different_at_ms: int | None = None
    rounds: int = 0
    rounds_different: int = 0
    records_in_all: int = 0
    at_ms: int = 0


_Kind = TypeVar("_Kind", FlowRecord, TaskRecord, PartitionRecord, JobRecord, VerifyRecord, CanaryState)
StatusRecord = FlowRecord | TaskRecord | PartitionRecord | JobRecord | VerifyRecord | CanaryState


def encode_key(kind: str, source_alias: str, *name: str | int) -> bytes:
    return json.dumps([kind, source_alias, *name], separators=(",", ":")).encode()


def encode_value(told: Mapping[str, Any]) -> bytes:
    return json.dumps(told, separators=(",", ":")).encode()


def record_as_json(record: FlowRecord | JobRecord | VerifyRecord) -> dict[str, Any]:
    """Without `at_ms`, which is the Kafka record's own timestamp."""
    return {one.name: getattr(record, one.name) for one in fields(record) if one.name != "at_ms"}


def parse_record(key: bytes | None, value: bytes | None, source_alias: str, at_ms: int = 0) -> StatusRecord | None:
    """The record; None for a tombstone, for what another flow or something else has written, or a later version."""
    try:
        kind, alias, *name = json.loads(key or b"")
        told = json.loads(value or b"")
        if alias != source_alias:
            return None
        match kind, name:
            case "flow", [_]:
                return _make(FlowRecord, told | {"state": FlowState(told["state"])}, at_ms)
            case "task", [task]:
                return _make(TaskRecord, _task_fields(told) | {"task": task}, at_ms)
            case "partition", [topic, partition]:
                return _make(PartitionRecord, _partition_fields(told, topic, partition), at_ms)
            case "job", [job]:
                return _make(JobRecord, told | {"name": job, "state": JobState(told["state"])}, at_ms)
            case "verify", []:
                return _make(VerifyRecord, told, at_ms)
            case "canary", []:
                return _make(CanaryState, _with_histograms(told), at_ms)
    except (ValueError, TypeError, KeyError, IndexError):
        return None
    return None


def parse_subject(key: bytes | None, source_alias: str) -> TopicPartition | int | None:
    """Which source partition or task a record is about; None where it is about something else, or another flow."""
    try:
        match json.loads(key or b""):
            case ["partition", str(alias), str(topic), int(partition)] if alias == source_alias:
                return TopicPartition(topic, partition)
            case ["task", str(alias), int(task)] if alias == source_alias:
                return task
    except ValueError:
        return None
    return None


def _task_fields(told: dict[str, Any]) -> dict[str, Any]:
    return _with_histograms(told) | {"paused": tuple(told.get("paused", ()))}


def _with_histograms(told: dict[str, Any]) -> dict[str, Any]:
    known = ("latency", "transit", "recent_latency", "recent_transit")
    return told | {name: Histogram.from_json(told[name]) for name in known if name in told}


def _partition_fields(told: dict[str, Any], topic: str, partition: int) -> dict[str, Any]:
    spreads = {name: Spread(*told[name]) for name in ("age", "latency") if name in told}
    state = PartitionState(told.get("state", PartitionState.RUNNING))
    return told | spreads | {"topic": topic, "partition": partition, "state": state}


_FIELDS: dict[str, frozenset[str]] = {}


def _make(kind: type[_Kind], told: Mapping[str, Any], at_ms: int) -> _Kind:
    known = _FIELDS.get(kind.__name__)
    if known is None:
        known = _FIELDS[kind.__name__] = frozenset(one.name for one in fields(kind))
    return kind(**{name: value for name, value in told.items() if name in known} | {"at_ms": at_ms})
