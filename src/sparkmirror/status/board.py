"""What the tasks of a flow report on the status topic, folded; pure. Fed by `engine.progress` and the CLI."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_SUMMED = (
    "records", "bytes", "gaps", "lost_records", "retries", "throttled_ms", "source_throttled_ms", "limited_ms"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """Sums over the tasks of one run. `failed` and `faults` give a reason for each partition that does not move.

    `retry_at_ms` says when a failed one is tried again (ms since the epoch); those held for good are not in it.
    `paused` are the partitions that the operator holds.

    Pauses in ms: `throttled_ms` by the target's quotas, `source_throttled_ms` by the source's, `limited_ms` by the
    flow's own rate limits.
    """

    records: int = 0
    bytes: int = 0
    lag_records: int = 0
    partitions: int = 0
    gaps: int = 0
    lost_records: int = 0
    retries: int = 0
    throttled_ms: int = 0
    source_throttled_ms: int = 0
    limited_ms: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    retry_at_ms: Mapping[str, int] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    paused: tuple[str, ...] = ()
    problem: str = ""


class StatusBoard:
    """Keeps the last report of each task. Its counters start anew with each epoch: finished epochs are added up."""

    def __init__(self, source_alias: str, run: str) -> None:
        self._source_alias = source_alias
        self._run = run
        self._current: dict[int, dict[str, Any]] = {}
        self._finished: dict[str, int] = {}

    def take(self, key: bytes | None, value: bytes | None) -> bool:
        """Fold in one record of the status topic; False when it is not about this run."""
        try:
            kind, alias, task = json.loads(key or b"")
            report = json.loads(value or b"")
            if kind != "task" or alias != self._source_alias or report["run"] != self._run:
                return False
        except (ValueError, TypeError, KeyError):
            return False
        before = self._current.get(task)
        if before is not None and before["epoch"] != report["epoch"]:
            for name in _SUMMED:
                self._finished[name] = self._finished.get(name, 0) + before[name]
        self._current[task] = report
        return True

    def status(self) -> FlowStatus:
        reports = self._current.values()

        def total(name: str) -> int:
            return self._finished.get(name, 0) + sum(int(report[name]) for report in reports)

        return FlowStatus(
            records=total("records"),
            bytes=total("bytes"),
            lag_records=sum(report["lag_records"] for report in reports),
            partitions=sum(report["partitions"] for report in reports),
            gaps=total("gaps"),
            lost_records=total("lost_records"),
            retries=total("retries"),
            throttled_ms=total("throttled_ms"),
            source_throttled_ms=total("source_throttled_ms"),
            limited_ms=total("limited_ms"),
            failed=_merged(reports, "failed"),
            retry_at_ms=_merged(reports, "retry_at_ms"),
            faults=_merged(reports, "faults"),
            paused=tuple(sorted(name for report in reports for name in report.get("paused", ()))),
            problem=next((report["problem"] for report in reports if report["problem"]), ""),
        )


def _merged(reports: Iterable[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """A column of all tasks; a task of an older version may not have it."""
    return {partition: told for report in reports for partition, told in report.get(name, {}).items()}


def latest_run(records: Iterable[tuple[bytes | None, bytes | None]], source_alias: str) -> str | None:
    """Which run has reported last, by the (key, value) records of the status topic; None when none has."""
    latest: str | None = None
    for key, value in records:
        try:
            kind, alias, _ = json.loads(key or b"")
            if kind == "task" and alias == source_alias:
                latest = str(json.loads(value or b"")["run"])
        except (ValueError, TypeError, KeyError):
            continue
    return latest
