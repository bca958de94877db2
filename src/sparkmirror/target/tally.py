"""What a task has done since it started, for its status record. Filled by `target.sender` and `target.intake`."""

from collections.abc import Iterable, Mapping
from typing import Any

from sparkmirror.model import TopicPartition
from sparkmirror.target.outbox import Outbox
from sparkmirror.target.plan_row import PlanRow

_NAMED_MAX = 100


class Tally:
    """Counters of one task and epoch. `lag_records` is by the high watermarks of the last fetches.

    `throttled_ms` and `source_throttled_ms` are pauses that brokers asked for by quota; `limited_ms` is how long the
    flow's own rate limits held partitions back.
    """

    def __init__(self, plan: PlanRow) -> None:
        self._plan = plan
        self.records = 0
        self.bytes = 0
        self.retries = 0
        self.duplicates = 0
        self.gaps = 0
        self.lost_records = 0
        self.refused_gaps = 0
        self.throttled_ms = 0
        self.source_throttled_ms = 0
        self.limited_ms = 0
        self.failed: dict[TopicPartition, str] = {}
        self.retry_at_ms: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.faults: dict[TopicPartition, str] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}

    def sent(self, records: int, size: int) -> None:
        self.records += records
        self.bytes += size

    def status(self, outboxes: Iterable[Outbox], problem: str) -> dict[str, Any]:
        """The JSON record of the status topic. It carries no time, so that an idle task writes none."""
        lag = sum(max(self.high_watermarks.get(box.source, 0) - box.acknowledged, 0) for box in outboxes)
        return {
            "run": self._plan.run,
            "task": self._plan.task,
            "epoch": self._plan.epoch,
            "records": self.records,
            "bytes": self.bytes,
            "lag_records": lag,
            "partitions": len(self.high_watermarks),
            "retries": self.retries,
            "duplicates": self.duplicates,
            "gaps": self.gaps,
            "lost_records": self.lost_records,
            "refused_gaps": self.refused_gaps,
            "throttled_ms": self.throttled_ms,
            "source_throttled_ms": self.source_throttled_ms,
            "limited_ms": self.limited_ms,
            "failed": _named(self.failed),
            "retry_at_ms": _named({tp: self.retry_at_ms[tp] for tp in self.failed if tp in self.retry_at_ms}),
            "paused": [str(partition) for partition in sorted(self.paused)[:_NAMED_MAX]],
            "faults": _named(self.faults),
            "problem": problem,
        }


def _named(told: Mapping[TopicPartition, str] | Mapping[TopicPartition, int]) -> dict[str, str | int]:
    return {str(partition): told[partition] for partition in sorted(told)[:_NAMED_MAX]}
