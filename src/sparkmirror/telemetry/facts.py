"""The facts about a flow at one moment, which `telemetry.verdict` judges; pure.

`gather` takes them from the board of the status topic. The caller gives what the board does not hold: the time, the
gap ledger, and whether the target answers.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.telemetry.board import FlowStatus, StatusBoard
from sparkmirror.telemetry.filling import Filling
from sparkmirror.telemetry.records import (
    SILENCE_SECONDS_MAX,
    CanaryState,
    FlowRecord,
    FlowState,
    JobRecord,
    PartitionRecord,
    PartitionState,
    TaskRecord,
    VerifyRecord,
)

RESTARTS_HELD_SECONDS: Final = 600.0
"""A restart counts as a problem for this time, although the flow has continued since."""


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """A source partition that is not mirrored now. `since_ms` is None where the beginning was not seen.

    `knows_end` is False for a partition that is held since before the source answered the task's attempt for the first
    time: the task counts it among its `unknown_ends`.
    """

    partition: TopicPartition
    state: PartitionState
    reason: str = ""
    since_ms: int | None = None
    retry_at_ms: int | None = None
    knows_end: bool = True

    @property
    def hides_end(self) -> bool:
        """Whether the task does not fetch the partition, so that the high watermark it reported may be old."""
        return self.state in (PartitionState.WAITING, PartitionState.PAUSED) and self.knows_end


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One flow at `now_ms`; all times are in ms since 1970. None means "not known", never zero.

    `processes` and `tasks` are their last records; `silent` are tasks that have none, with the time at which another of
    their process was first heard. `gaps` are those that no operator has acknowledged.
    `target_problem` says why the target does not answer now, `source_problem` why the source's high watermarks are not
    known; both are empty otherwise. `restarted_at_ms` are the times at which workers or the query were started again,
    the oldest first. `unknown_ends` counts partitions whose high watermark is not known and that are not held, so that
    no state explains it. While `is_starting`, all other facts are of an earlier run. `file` is the mirror's file, for
    commands.
    """

    flow: FlowName
    now_ms: int
    processes: tuple[FlowRecord, ...] = ()
    tasks: tuple[TaskRecord, ...] = ()
    silent: Mapping[int, int] = field(default_factory=dict)
    jobs: tuple[JobRecord, ...] = ()
    held: tuple[HeldPartition, ...] = ()
    partitions: int = 0
    unknown_ends: int = 0
    lag_records: int | None = None
    behind_since_ms: int | None = None
    gaps: tuple[Gap, ...] = ()
    restarted_at_ms: tuple[int, ...] = ()
    verified: VerifyRecord | None = None
    canary: CanaryState | None = None
    target_problem: str = ""
    source_problem: str = ""
    is_starting: bool = False
    file: str = "FILE"

    @property
    def excused(self) -> tuple[TopicPartition, ...]:
        """Held partitions whose high watermark is not known; their state says why."""
        return tuple(one.partition for one in self.held if one.hides_end or not one.knows_end)

    @property
    def is_copied(self) -> bool:
        """Whether a bounded run has mirrored all that was there when it began. Its tasks have ended, and nobody looks
        for what came since."""
        return bool(self.processes) and all(one.is_copied for one in self.processes)

    def seconds_since(self, at_ms: int) -> float:
        return max(self.now_ms - at_ms, 0) / 1000


def gather(
    flow: FlowName,
    board: StatusBoard,
    now_ms: int,
    *,
    gaps: Iterable[Gap] = (),
    target_problem: str = "",
    is_starting: bool = False,
    file: str = "FILE",
) -> Facts:
    """The facts that a flow's board holds; `gaps` is the whole gap ledger."""
    status = board.status()
    held = list_held(board)
    unknown_ends = max(status.unknown_ends - sum(not one.knows_end for one in held), 0)
    hidden = any(one.hides_end or not one.knows_end or _hides_lag(one, board) for one in held)
    return Facts(
        flow=flow,
        now_ms=now_ms,
        processes=tuple(board.processes.values()),
        tasks=tuple(task for _, task in sorted(board.tasks.items())),
        silent=dict(board.silent),
        jobs=tuple(job for _, job in sorted(board.jobs.items())),
        held=held,
        partitions=max(status.partitions, len(board.partitions)),
        unknown_ends=unknown_ends,
        lag_records=None if unknown_ends or hidden or board.silent or not board.tasks else _lag(board, now_ms),
        behind_since_ms=status.behind_since_ms,
        gaps=tuple(gap for gap in gaps if not board.is_acknowledged(gap)),
        restarted_at_ms=tuple(board.trouble.restarts),
        verified=board.verified,
        canary=board.canary,
        target_problem=target_problem,
        is_starting=is_starting,
        file=file,
    )


def _lag(board: StatusBoard, now_ms: int) -> int | None:
    """That of the tasks' partitions, and of those whose start is being filled; None where one is not known, or was
    reported lately by the run before alone."""
    lags = [board.partitions[where].lag_records for where in board.begins()]
    known = [lag for lag in lags if lag is not None]
    is_whole = len(known) == len(lags) and not any(
        _awaits_report(board.partitions[at], board, now_ms) for at in board.filling
    )
    return board.status().lag_records + sum(known) if is_whole else None


def _hides_lag(one: HeldPartition, board: StatusBoard) -> bool:
    """Whether the partition failed before the source answered, or where it stands cannot be read: its task counts it
    neither in its lag nor in its `unknown_ends`."""
    record = board.partitions.get(one.partition)
    return one.state is PartitionState.FAILED and (record is None or record.lag_records is None)


def _awaits_report(record: PartitionRecord, board: StatusBoard, now_ms: int) -> bool:
    is_start = record.filling is not None and record.filling.is_start
    return is_start and record.run != board.run and not _is_late(record, now_ms)


def _is_late(record: PartitionRecord, now_ms: int) -> bool:
    return now_ms - record.at_ms > SILENCE_SECONDS_MAX * 1000


def list_fillings(board: StatusBoard, now_ms: int) -> dict[TopicPartition, Filling]:
    """The partitions in which offsets without a record are being filled, and how far. That is unknown where another run
    has begun since, or no process lives that could fill them, or nothing was reported lately."""
    is_alive = any(not one.is_over and one.state_at(now_ms) is not FlowState.SILENT for one in board.processes.values())
    found: dict[TopicPartition, Filling] = {}
    for where in sorted(board.filling):
        record = board.partitions[where]
        assert record.filling is not None, "the board lists none without"
        is_late = _is_late(record, now_ms)
        if is_late and record.run != board.run and is_alive:
            continue  # the run that goes on has not reported it: its topic may be gone
        is_fresh = record.run == board.run and not is_late
        found[where] = record.filling if is_alive and is_fresh else record.filling.unknown()
    return found


def list_held(board: StatusBoard) -> tuple[HeldPartition, ...]:
    """Partitions that are FAILED, WAITING or PAUSED by their own records, in order.

    A partition that a later run or attempt has taken over stays in the list until it has moved (FAILED) or the source
    has answered for it (WAITING).
    """
    found: dict[TopicPartition, HeldPartition] = {}
    trouble = board.trouble
    for where in trouble.failing.keys() | trouble.held_since.keys():
        record, failing = board.partitions.get(where), trouble.failing.get(where)
        if record is None:
            continue
        if failing is not None:
            found[where] = HeldPartition(
                where, PartitionState.FAILED, failing.reason, failing.since_ms, record.retry_at_ms,
                record.end is not None or record.state is PartitionState.FAILED,
            )  # fmt: skip
        elif where in trouble.waiting:
            found[where] = HeldPartition(
                where, PartitionState.WAITING, trouble.waiting[where], trouble.held_since[where], record.retry_at_ms,
                record.state is PartitionState.WAITING,
            )  # fmt: skip
        elif record.run == board.run:
            found[where] = HeldPartition(
                where, record.state, record.reason, trouble.held_since[where], record.retry_at_ms,
                record.end is not None,
            )  # fmt: skip
    for one in _named(board.status()):
        found.setdefault(one.partition, one)
    return tuple(found[where] for where in sorted(found))


def failed_partitions(board: StatusBoard) -> frozenset[TopicPartition]:
    """Those that are FAILED, or have not moved since."""
    return frozenset(one.partition for one in list_held(board) if one.state is PartitionState.FAILED)


def _named(status: FlowStatus) -> Iterator[HeldPartition]:
    """Partitions that the tasks' records name (each names up to a hundred); their own records may arrive later."""
    for name, reason in status.failed.items():
        yield HeldPartition(_partition(name), PartitionState.FAILED, reason, None, status.retry_at_ms.get(name))
    for name, reason in status.faults.items():
        yield HeldPartition(_partition(name), PartitionState.WAITING, reason)
    for name in status.paused:
        yield HeldPartition(_partition(name), PartitionState.PAUSED)


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number) if number.isdecimal() else 0)
