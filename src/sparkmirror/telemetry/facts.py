"""What is known of a flow at one moment, as `telemetry.verdict` judges it; pure.

Gathered from the status topic by `gather`; what only the asking side knows (its own clock, whether the target answers,
the gap ledger) is given by the caller.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.telemetry.board import FlowStatus, StatusBoard
from sparkmirror.telemetry.records import CanaryState, FlowRecord, JobRecord, PartitionState, TaskRecord, VerifyRecord

RESTARTS_HELD_SECONDS: Final = 600.0
"""So long a restart is worth a look, also where the flow has gone on since."""


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """A source partition that is not mirrored now; `since_ms` is None where nobody has seen it begin. One that was
    paused or waited for before its task's attempt was answered first counts among those of which the task tells that
    it does not know the end: not `knows_end`."""

    partition: TopicPartition
    state: PartitionState
    reason: str = ""
    since_ms: int | None = None
    retry_at_ms: int | None = None
    knows_end: bool = True

    @property
    def hides_end(self) -> bool:
        """Whether its task does not ask where it ends, and its last word of that may be old."""
        return self.state in (PartitionState.WAITING, PartitionState.PAUSED) and self.knows_end


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One flow at `now_ms`, all times in ms since 1970. None is "not known", never nothing.

    `processes` and `tasks` are their last words. `gaps` are those that nobody has acknowledged. `target_problem` says
    why the target tells nothing now, `source_problem` why the source's ends are not known. `restarted_at_ms` are
    restarts of workers and of the query, the oldest first. `unknown_ends` are partitions of which nobody knows where
    they end, nor why: those that are held are not among them. While `is_starting` what is known is of an earlier run.
    `file` is the mirror's file, for commands.
    """

    flow: FlowName
    now_ms: int
    processes: tuple[FlowRecord, ...] = ()
    tasks: tuple[TaskRecord, ...] = ()
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
        """Partitions of which it is said why nobody knows where they end."""
        return tuple(one.partition for one in self.held if one.hides_end or not one.knows_end)

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
    """The facts that a flow's status topic has; `gaps` is the whole gap ledger."""
    status = board.status()
    held = list_held(board)
    unknown_ends = max(status.unknown_ends - sum(not one.knows_end for one in held), 0)
    hidden = any(one.hides_end or not one.knows_end for one in held)
    return Facts(
        flow=flow,
        now_ms=now_ms,
        processes=tuple(board.processes.values()),
        tasks=tuple(task for _, task in sorted(board.tasks.items())),
        jobs=tuple(job for _, job in sorted(board.jobs.items())),
        held=held,
        partitions=max(status.partitions, len(board.partitions)),
        unknown_ends=unknown_ends,
        lag_records=None if unknown_ends or hidden or not board.tasks else status.lag_records,
        behind_since_ms=status.behind_since_ms,
        gaps=tuple(gap for gap in gaps if not board.is_acknowledged(gap)),
        restarted_at_ms=tuple(board.trouble.restarts),
        verified=board.verified,
        canary=board.canary,
        target_problem=target_problem,
        is_starting=is_starting,
        file=file,
    )


def list_held(board: StatusBoard) -> tuple[HeldPartition, ...]:
    """Partitions that are FAILED, WAITING or PAUSED: by their own records, and those that were FAILED and have not
    moved since, or WAITING and not answered since, whatever run or attempt has taken them up.
    """
    found: dict[TopicPartition, HeldPartition] = {}
    trouble = board.trouble
    for where in trouble.failing.keys() | trouble.held_since.keys():
        record, failing = board.partitions.get(where), trouble.failing.get(where)
        if record is None:
            continue
        if failing is not None:
            found[where] = HeldPartition(
                where, PartitionState.FAILED, failing.reason, failing.since_ms, record.retry_at_ms
            )
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


def _named(status: FlowStatus) -> Iterator[HeldPartition]:
    """Those that tasks name, a hundred each: their own records may still be under way."""
    for name, reason in status.failed.items():
        yield HeldPartition(_partition(name), PartitionState.FAILED, reason, None, status.retry_at_ms.get(name))
    for name, reason in status.faults.items():
        yield HeldPartition(_partition(name), PartitionState.WAITING, reason)
    for name in status.paused:
        yield HeldPartition(_partition(name), PartitionState.PAUSED)


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number) if number.isdecimal() else 0)
