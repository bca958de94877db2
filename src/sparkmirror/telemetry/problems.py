"""Finds the problems of a flow, with one function for each kind of problem; pure. Called by `telemetry.verdict`.

Partitions with the same state, cause and broker make one problem together.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sparkmirror.clock import show_age, show_moment
from sparkmirror.telemetry.facts import RESTARTS_HELD_SECONDS, Facts, HeldPartition
from sparkmirror.telemetry.records import (
    SILENCE_SECONDS_MAX,
    FlowRecord,
    FlowState,
    JobRecord,
    JobState,
    PartitionState,
)

QUIET_SECONDS: Final = 12.0
"""A process writes its record every 3 s. After this silence it is unknown whether the process still lives."""
STALLED_SECONDS: Final = 30.0
"""A task that has mirrored nothing for longer, although it has records to mirror, is a problem."""
WAITING_SECONDS: Final = 60.0
"""A source that does not serve a partition for longer makes the problem RED; a broker that restarts takes less."""
BEHIND_SECONDS: Final = 60.0
_TASK_QUIET_SECONDS: Final = 25.0
_TASK_SILENT_SECONDS: Final = 60.0
_STARTING_SECONDS: Final = 120.0
_CANARY_SECONDS: Final = 120.0
_ROUND_SECONDS_MAX: Final = 600.0
_ROUNDS_LONGER: Final = 10.0
"""A job whose round takes so many times as long as the last one, and longer than the seconds above, stands still."""
_GONE_SECONDS: Final = 600.0
"""A killed process, whose tasks other processes have taken over, counts as a problem for this time."""
COPIED: Final = "all that was there when the bounded run began is mirrored"
_NUMBER: Final = re.compile(r"(?<![Bb]roker )\b\d+\b")
_TRACEBACK: Final = "Traceback (most recent call last):"


class Level(StrEnum):
    """From best to worst. AMBER: the flow mirrors, but a person should look. UNKNOWN: too little is known to judge; the
    page shows it in grey. RED: the flow does not mirror what it should."""

    GREEN = "green"
    AMBER = "amber"
    UNKNOWN = "unknown"
    RED = "red"

    @property
    def rank(self) -> int:
        return list(Level).index(self)


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem. `cause` is a sentence without its full stop, `scope` names what it concerns, `count` says how many.

    `since_ms` is None where its beginning was not seen, `retry_at_ms` where the mirror does not try again by itself.
    `command` is a command that mends it or shows more, `page` the page of docs/ about it.
    """

    level: Level
    cause: str
    scope: str
    count: int = 1
    since_ms: int | None = None
    retry_at_ms: int | None = None
    command: str = ""
    page: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.scope}: {self.cause}" if self.scope else self.cause

    def as_json(self) -> dict[str, Any]:
        return {
            "level": self.level.value,
            "cause": self.cause,
            "scope": self.scope,
            "count": self.count,
            "since": None if self.since_ms is None else show_moment(self.since_ms),
            "next_try": None if self.retry_at_ms is None else show_moment(self.retry_at_ms),
            "command": self.command,
            "page": self.page,
        }


def plural(count: int, one: str, many: str = "") -> str:
    """`1 gap`, `2 gaps`, `1,200 processes`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def first_line(reason: str) -> str:
    """The line of `reason` that names the cause, without its full stop: a traceback's last line, else the first."""
    lines = [line.strip() for line in reason.replace("\\n", "\n").splitlines() if line.strip()]
    if not lines:
        return ""
    return (lines[-1] if _TRACEBACK in reason else lines[0]).rstrip(".")


def command(facts: Facts, verb: str, *options: str) -> str:
    """The command line that a person types."""
    return shlex.join(["sparkmirror", verb, facts.file, *options])


def find_problems(facts: Facts) -> list[Problem]:
    """All problems of the flow, the worst first."""
    found = [problem for finder in _FINDERS for problem in finder(facts)]
    return sorted(found, key=lambda one: -one.level.rank)


def living(facts: Facts) -> list[FlowRecord]:
    """Processes that have not ended, and have written their record within SILENCE_SECONDS_MAX."""
    limit = SILENCE_SECONDS_MAX
    return [one for one in facts.processes if not one.is_over and facts.seconds_since(one.at_ms) <= limit]


# Processes.


def _of_processes(facts: Facts) -> Iterator[Problem]:
    alive = living(facts)
    if not facts.processes:
        if facts.tasks and not facts.is_starting:
            look = command(facts, "status")
            yield Problem(Level.UNKNOWN, "no process has said how it stands", "", command=look, page=STATUS_PAGE)
    elif not alive:
        yield _ended(facts, max(facts.processes, key=lambda one: (not one.is_over, one.at_ms)))
    else:
        are_shared = any(one.state is FlowState.RUNNING and _is_heard(facts, one) for one in alive)
        yield from (problem for one in alive for problem in _of_process(facts, one, are_shared=are_shared))
        yield from _of_killed(facts)


def _ended(facts: Facts, last: FlowRecord) -> Problem:
    """The problem that no process runs the flow; its cause says how the last one ended."""
    start = command(facts, "run")
    if last.is_copied and last.state is not FlowState.FAILED:
        cause = f"{COPIED}; what came since is not known"
        return Problem(Level.UNKNOWN, cause, "", 1, last.at_ms, None, start, STATUS_PAGE)
    if last.state is FlowState.STOPPED:
        return Problem(Level.RED, "it was stopped", "the flow", 1, last.at_ms, None, start, STATUS_PAGE)
    if last.state is FlowState.FAILED:
        cause = f"it ended: {first_line(last.reason) or 'no reason is known'}"
        return Problem(Level.RED, cause, "the flow", 1, last.at_ms, None, start, STATUS_PAGE)
    cause = f"{_name(last)} was killed, or cannot reach {facts.flow.target}: its last word was {last.state.value}"
    return Problem(Level.RED, cause, "the flow", 1, last.at_ms, None, start, STATUS_PAGE)


def _is_heard(facts: Facts, one: FlowRecord) -> bool:
    return facts.seconds_since(one.at_ms) <= QUIET_SECONDS


def _of_process(facts: Facts, one: FlowRecord, *, are_shared: bool) -> Iterator[Problem]:
    """`are_shared`: another process runs the flow, so that it is mirrored while this one comes or goes."""
    look = command(facts, "status")
    if not _is_heard(facts, one):
        quiet = show_age(facts.seconds_since(one.at_ms))
        cause = f"nothing was heard of {_name(one)} for {quiet}; its last word was {one.state.value}"
        yield Problem(Level.UNKNOWN, cause, "", 1, one.at_ms, None, look, STATUS_PAGE)
    elif one.state is FlowState.RESTARTING:
        cause = f"the query failed and is started again: {first_line(one.reason) or 'no reason is known'}"
        yield Problem(Level.RED, cause, "the flow", 1, one.at_ms, one.retry_at_ms, look, STATUS_PAGE)
    elif one.state in (FlowState.STARTING, FlowState.STOPPING) and not one.is_copied:
        is_start = one.state is FlowState.STARTING
        since_ms = (one.started_at_ms or None) if is_start else one.at_ms
        cause, scope = f"it is {one.state.value.lower()}", _name(one) if are_shared else ""
        level = Level.AMBER if are_shared else Level.UNKNOWN
        yield Problem(level, cause, scope, 1, since_ms, None, look, _PROCESSES if are_shared else STATUS_PAGE)


def _of_killed(facts: Facts) -> Iterator[Problem]:
    """Processes that shared the flow and were killed, while others still run it."""
    for one in facts.processes:
        quiet = facts.seconds_since(one.at_ms)
        if not one.is_over and SILENCE_SECONDS_MAX < quiet <= _GONE_SECONDS:
            cause = f"{_name(one)} was killed, or cannot reach {facts.flow.target}; others have its tasks"
            yield Problem(Level.AMBER, cause, "1 process", 1, one.at_ms, None, command(facts, "status"), _PROCESSES)


def _name(one: FlowRecord) -> str:
    return f"process {one.pid} on {one.host}" if one.host else "the process"


# Tasks.


def _of_tasks(facts: Facts) -> Iterator[Problem]:
    """Problems of tasks, while a process lives; otherwise the end of the process is their cause. Those of a bounded run
    end when they have mirrored all, while other flows of it go on."""
    alive = living(facts)
    if not alive or facts.is_copied:
        return
    look = command(facts, "status", "--partitions")
    if not facts.tasks and any(one.state is FlowState.RUNNING for one in alive):
        began_ms = min((one.started_at_ms for one in alive if one.started_at_ms), default=None)
        yield Problem(Level.UNKNOWN, "no task has reported yet", "", 1, began_ms, None, look, STATUS_PAGE)
    for number, since_ms in facts.silent.items():
        quiet = facts.seconds_since(since_ms)
        level = Level.RED if quiet > _TASK_SILENT_SECONDS else Level.UNKNOWN
        cause = f"it has not reported yet; others of its process began to {show_age(quiet)} ago"
        yield Problem(level, cause, f"task {number}", 1, since_ms, None, look, STATUS_PAGE)
    for task in facts.tasks:
        quiet = facts.seconds_since(task.at_ms)
        scope = f"task {task.task}"
        if quiet > _TASK_QUIET_SECONDS:
            level = Level.RED if quiet > _TASK_SILENT_SECONDS else Level.UNKNOWN
            yield Problem(
                level, f"nothing was heard of it for {show_age(quiet)}", scope, 1, task.at_ms, None, look, STATUS_PAGE
            )
        elif task.stalled_since_ms is not None and facts.seconds_since(task.stalled_since_ms) >= STALLED_SECONDS:
            lasts = show_age(facts.seconds_since(task.stalled_since_ms))
            cause = f"nothing was mirrored for {lasts}, although {plural(task.lag_records, 'record')} can be read"
            yield Problem(Level.RED, cause, scope, 1, task.stalled_since_ms, None, look, STATUS_PAGE)
        elif task.problem:
            yield Problem(Level.AMBER, first_line(task.problem), scope, 1, task.at_ms, None, look, STATUS_PAGE)


def _of_restarts(facts: Facts) -> Iterator[Problem]:
    restarts = [at_ms for at_ms in facts.restarted_at_ms if facts.seconds_since(at_ms) <= RESTARTS_HELD_SECONDS]
    if restarts:
        cause = f"{plural(len(restarts), 'restart')} of workers or of the query in the last 10 min"
        look = command(facts, "status", "--partitions")
        yield Problem(Level.AMBER, cause, "", len(restarts), restarts[0], None, look, STATUS_PAGE)


# Partitions.


def _of_partitions(facts: Facts) -> Iterator[Problem]:
    groups: dict[tuple[PartitionState, str], list[HeldPartition]] = {}
    for one in facts.held:
        groups.setdefault((one.state, _cause(one)), []).append(one)
    for (state, _), held in groups.items():
        yield _held_problem(facts, state, held)


def _cause(one: HeldPartition) -> str:
    """The reason without topic, partition and numbers, so that partitions with one cause group together. A broker's id
    stays in it."""
    return _NUMBER.sub("#", first_line(one.reason).replace(str(one.partition), "").replace(one.partition.topic, ""))


def _held_problem(facts: Facts, state: PartitionState, held: Sequence[HeldPartition]) -> Problem:
    since_ms = min((one.since_ms for one in held if one.since_ms is not None), default=None)
    retry_at_ms = min((one.retry_at_ms for one in held if one.retry_at_ms is not None), default=None)
    scope = str(held[0].partition) if len(held) == 1 else plural(len(held), "partition")
    reason, choice = first_line(held[0].reason), _choose(held)
    if state is PartitionState.PAUSED:
        mend = command(facts, "resume", *choice)
        return Problem(Level.AMBER, "paused by order", scope, len(held), since_ms, None, mend, STATUS_PAGE)
    if state is PartitionState.FAILED:
        mend = command(facts, "retry", *choice)
        cause = reason or f"{facts.flow.target} refuses it"
        return Problem(Level.RED, cause, scope, len(held), since_ms, retry_at_ms, mend, STATUS_PAGE)
    lasts = 0.0 if since_ms is None else facts.seconds_since(since_ms)
    level = Level.RED if lasts > WAITING_SECONDS else Level.AMBER
    cause = f"{facts.flow.source} does not give it: {reason}" if reason else f"{facts.flow.source} does not give it"
    return Problem(level, cause, scope, len(held), since_ms, retry_at_ms, command(facts, "doctor"), STATUS_PAGE)


def _choose(held: Sequence[HeldPartition]) -> list[str]:
    """Command-line options that select these partitions; none where they are of several topics."""
    topics = {one.partition.topic for one in held}
    if len(topics) > 1:
        return []
    options = ["--topic", re.escape(next(iter(topics)))]
    return [*options, "--partition", str(held[0].partition.partition)] if len(held) == 1 else options


def _of_ends(facts: Facts) -> Iterator[Problem]:
    """The source's ends that are not known; without them the lag of the flow is not known."""
    look = command(facts, "status", "--partitions")
    if facts.source_problem:
        yield Problem(
            Level.AMBER, first_line(facts.source_problem), facts.flow.source, 1, None, None, look, STATUS_PAGE
        )
    unknown = facts.unknown_ends
    if unknown and living(facts):
        started_ms = min((one.started_at_ms for one in living(facts)), default=0)
        level = Level.AMBER if facts.seconds_since(started_ms) > _STARTING_SECONDS else Level.UNKNOWN
        cause = f"where they end on {facts.flow.source} is not known yet"
        yield Problem(level, cause, plural(unknown, "partition"), unknown, None, None, look, STATUS_PAGE)


def _of_lag(facts: Facts) -> Iterator[Problem]:
    if facts.behind_since_ms is None or not living(facts) or facts.is_copied:
        return
    seconds = facts.seconds_since(facts.behind_since_ms)
    if seconds > BEHIND_SECONDS:
        much = "" if not facts.lag_records else f", {plural(facts.lag_records, 'record')}"
        look = command(facts, "status", "--partitions")
        cause = f"up to {show_age(seconds)} behind{much}"
        yield Problem(Level.AMBER, cause, "", 1, facts.behind_since_ms, None, look, STATUS_PAGE)


# The rest.


def _of_jobs(facts: Facts) -> Iterator[Problem]:
    if not living(facts):
        return
    for job in facts.jobs:
        name, _, pair = job.name.partition(" of ")
        what = _JOBS.get(name, f"the job {name} fails") + (f" ({pair})" if pair else "")
        since_ms, next_ms = job.failing_since_ms or job.last_at_ms, job.next_at_ms
        if _is_overdue(facts, job):
            cause = f"nothing was heard of the job {job.name} for {show_age(facts.seconds_since(job.at_ms))}"
            since_ms, next_ms = job.at_ms, None
        elif job.state is JobState.FAILED:
            cause = f"{what}: {first_line(job.reason) or 'no reason is known'}"
        else:
            continue
        mend = command(facts, "doctor")
        yield Problem(Level.AMBER, cause, "", 1, since_ms, next_ms, mend, _PAGES.get(name, STATUS_PAGE))


def _is_overdue(facts: Facts, job: JobRecord) -> bool:
    """Whether the job's next round should have ended long ago. The job reports each round, by the target's clock; its
    own times give only how long it pauses."""
    pause = max((job.next_at_ms or 0) - (job.last_at_ms or 0), 0) / 1000 if job.last_at_ms else 0.0
    limit = pause + max(_ROUND_SECONDS_MAX, _ROUNDS_LONGER * job.cost_seconds)
    return facts.seconds_since(job.at_ms) > limit


def _of_gaps(facts: Facts) -> Iterator[Problem]:
    if facts.gaps:
        lost = sum(gap.lost_records for gap in facts.gaps)
        cause = f"{plural(len(facts.gaps), 'gap')} that nobody has acknowledged, {plural(lost, 'offset')} gone"
        since_ms = min(gap.at_ms for gap in facts.gaps)
        mend = command(facts, "gaps", "--acknowledge")
        yield Problem(Level.AMBER, cause, "", len(facts.gaps), since_ms, None, mend, "lost-records.md")


def _of_comparison(facts: Facts) -> Iterator[Problem]:
    """A difference that one round has found is not disproved by the next, which compares another sample."""
    found = facts.verified
    if found is None or (found.verdict != "different" and found.different_at_ms is None):
        return
    where = f", first in {first_line(found.first_difference)}" if found.first_difference else ""
    cause = f"{facts.flow.source} and {facts.flow.target} were found to differ{where}"
    since_ms = found.different_at_ms or found.at_ms
    if found.verdict == "different":
        yield Problem(Level.RED, cause, "", 1, since_ms, None, command(facts, "verify"), "verify.md")
    else:
        cause += "; samples since then do not have it, and not all was compared"
        mend = command(facts, "verify", "--continuous", "--sample", "100")
        yield Problem(Level.AMBER, cause, "", 1, since_ms, None, mend, _CONTINUOUS)


def _of_canary(facts: Facts) -> Iterator[Problem]:
    """By a canary that looks for its probes: what one left that is switched off, or fails, says nothing of now."""
    looks = any(job.name == "canary" and job.state is JobState.RUNNING for job in facts.jobs)
    if facts.canary is None or not looks or not living(facts):
        return
    waits = facts.canary.waiting_seconds(facts.now_ms)
    if waits > _CANARY_SECONDS:
        cause = f"a probe record is under way for {show_age(waits)}"
        yield Problem(
            Level.RED,
            cause,
            "",
            1,
            facts.canary.oldest_sent_ms,
            None,
            command(facts, "status", "--partitions"),
            "metrics.md",
        )


STATUS_PAGE: Final = "operating.md#how-it-stands"
_PROCESSES: Final = "processes.md"
_CONTINUOUS: Final = "verify.md#continuous-comparison"
_JOBS: Final = {
    "offsets": "groups and checkpoints are not synced",
    "topics": "topics, settings and ACLs are not kept in step",
    "heartbeats": "no heartbeats are written",
    "canary": "no probe records are written",
    "group": "the group that shows the progress is not kept",
    "permissions": "what the mirror may do is not known",
    "fencing": "nothing keeps a second instance from writing",
}
_PAGES: Final = {"offsets": "offsets.md", "heartbeats": "offsets.md", "permissions": "permissions.md"}
_FINDERS: Final = (
    _of_processes, _of_partitions, _of_tasks, _of_comparison, _of_canary, _of_jobs, _of_restarts, _of_gaps, _of_ends,
    _of_lag,
)  # fmt: skip
