"""Shows a running mirror: a line for each flow, updated on a terminal, and a log event for each change of state.

It reads the status topic on the target, as any other process could. When thousands of partitions change at once, it
logs some by name and the number of the others. Called by `runtime.run`.
"""

import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from sparkmirror.clock import show_moment
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.clients import open_admin
from sparkmirror.logs import handlers
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.telemetry.board import FlowStatus, StatusBoard
from sparkmirror.telemetry.bus import BusReader
from sparkmirror.telemetry.event_log import DayCurve, EventLog
from sparkmirror.telemetry.facts import Facts, gather
from sparkmirror.telemetry.follower import GapFollower
from sparkmirror.telemetry.history import HistoryRecord
from sparkmirror.telemetry.pace import Pace
from sparkmirror.telemetry.problems import Level, first_line
from sparkmirror.telemetry.records import FlowRecord, FlowState, PartitionRecord, PartitionState
from sparkmirror.telemetry.verdict import Verdict, judge
from sparkmirror.views.verdict_lines import headline

_PLAIN_SECONDS = 10.0
_BAR_WIDTH = 24
_JUDGE_SECONDS = 1.0
_GAPS_SECONDS = 3.0
_COLOURS = {Level.GREEN: "green", Level.AMBER: "yellow", Level.RED: "red", Level.UNKNOWN: "dim"}


class FlowWatch:
    """One flow's status while it runs: the rate over the last seconds, the finished share of a bounded copy, and the
    verdict.

    It follows the given run, not the latest one as `telemetry.follower` does: `runtime.run` begins another run at a
    restart.
    """

    def __init__(
        self, flow: FlowConfig, run: str, total: int | None, file: str = "FILE", unwritten: Callable[[], str] = str
    ) -> None:
        """`unwritten` returns why the flow's status cannot be written to the target; empty where it can. Raises
        ClusterError."""
        self.flow = flow
        self.total = total
        self._file = file
        self._unwritten = unwritten
        self._open = ExitStack()
        admin = self._open.enter_context(open_admin(flow.target, "progress"))
        self._bus = self._open.enter_context(BusReader(flow, run, "progress", admin))
        self._gaps = GapFollower(flow, admin, "progress")
        self._open.callback(self._gaps.close)
        self._gaps_at = self._judged_at = 0.0
        self._gaps_problem = ""
        self._event_log: EventLog | None = None
        self._day_curve = DayCurve()
        self._verdict: Verdict | None = None
        self.is_known = False
        """Whether the last verdict rests on what the run reports now: it has begun, and the target answers."""
        self._changes = StateChanges(flow.name)
        # What other processes have mirrored in this run is no rate of the first second.
        self._bus.read_to_end()
        self.status = self.board.status()
        self.pace = Pace()
        self.pace.measure(time.monotonic(), self.status.records, self.status.bytes)

    @property
    def board(self) -> StatusBoard:
        """The folded status records of the run."""
        return self._bus.board

    def follow(self, run: str) -> None:
        """Watch another run, where the flow has begun one."""
        if run != self.board.run:
            before, self._bus.board = self._bus.board, StatusBoard(self.flow.name.source, run)
            self._bus.board.inherit(before)
            self.status = FlowStatus()

    def poll(self) -> FlowStatus:
        if self._bus.poll():
            self._changes.tell(self.board)
            self.status = self.board.status()
        self.pace.measure(time.monotonic(), self.status.records, self.status.bytes)
        return self.status

    @property
    def verdict(self) -> Verdict:
        """The flow's verdict, computed once a second."""
        now = time.monotonic()
        if self._verdict is None or now - self._judged_at >= _JUDGE_SECONDS:
            self._judged_at = now
            self._read_gaps(now)
            problem = self._unwritten() or self._gaps_problem
            facts = gather(
                self.flow.name, self.board, time.time_ns() // 1_000_000, gaps=self._gaps.gaps.values(),
                target_problem=problem, file=self._file,
            )  # fmt: skip
            self._verdict = judge(facts)
            self._remember(facts, self._verdict)
        return self._verdict

    @property
    def history(self) -> HistoryRecord | None:
        """The flow's history; None until the history that an earlier process wrote has been read."""
        return None if self._event_log is None else self._event_log.record(self.board, self._day_curve.samples)

    def _remember(self, facts: Facts, verdict: Verdict) -> None:
        """Adds to the history. It first reads the history of an earlier process, which the new record would
        overwrite otherwise."""
        if self._event_log is None and not facts.target_problem:
            with suppress(SparkMirrorError):
                self._bus.read_to_end()
                self._event_log = EventLog()
                self._event_log.adopt(self.board.history)
                self._day_curve.adopt(self.board.history.samples)
        self.is_known = verdict.level is not Level.UNKNOWN and not facts.target_problem
        self._day_curve.look(facts.now_ms, self.status.records if self.is_known else None, verdict.lag_records)
        if self._event_log is not None:
            self._event_log.look(self.board, self._gaps.gaps.values(), facts.target_problem, facts.now_ms)

    def _read_gaps(self, now: float) -> None:
        if now - self._gaps_at >= _GAPS_SECONDS:
            self._gaps_at, self._gaps_problem = now, ""
            try:
                self._gaps.read()
            except SparkMirrorError as problem:
                self._gaps_problem = str(problem)

    def close(self) -> None:
        self._open.close()


class ProgressDisplay:
    """Shows all flows; `tick` is called a few times a second from the run's loop."""

    def __init__(self, watches: Sequence[FlowWatch]) -> None:
        self._watches = watches
        self._console = Console(stderr=True)
        is_alive = sys.stderr.isatty() and not handlers.logs_json()
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if is_alive else None
        self._spoken_at = time.monotonic()
        self._spoken = ""
        if self._live is not None:
            self._live.start()

    @property
    def is_alive(self) -> bool:
        """Whether the output is a terminal."""
        return self._live is not None

    def tick(self) -> None:
        handlers.write_due_repeats()
        statuses = [(watch, watch.poll()) for watch in self._watches]
        if self._live is not None:
            self._live.update(_table(statuses), refresh=True)
        elif time.monotonic() - self._spoken_at >= _PLAIN_SECONDS:
            self._speak(statuses)

    def _speak(self, statuses: Sequence[tuple[FlowWatch, FlowStatus]]) -> None:
        self._spoken_at = time.monotonic()
        text = "\n".join(describe(watch, status) for watch, status in statuses)
        if text != self._spoken:
            self._spoken = text
            for watch, status in statuses:
                _say(watch, status)

    def close(self) -> None:
        """Leaves the last lines on the terminal."""
        if self._live is not None:
            self._live.stop()
        for watch in self._watches:
            _say(watch, watch.poll())
            watch.close()
        handlers.write_all_repeats()


def _say(watch: FlowWatch, status: FlowStatus) -> None:
    figures = {
        "records": status.records,
        "bytes": status.bytes,
        "records_per_second": round(watch.pace.records_per_second, 1),
        "lag": watch.verdict.lag_records,
        "partitions": status.partitions,
        "failed": len(status.failed),
        "waiting": len(status.faults),
        "paused": len(status.paused),
    }
    handlers.log_progress(describe(watch, status), watch.flow.name, figures)


def describe(watch: FlowWatch, status: FlowStatus) -> str:
    """One line for one flow."""
    parts = [
        f"{watch.flow.name}: {status.records:,} records ({_size(status.bytes)})",
        f"{watch.pace.records_per_second:,.0f}/s",
        f"lag {_lag(watch)}",
        f"{status.partitions} partitions",
    ]
    if watch.total:
        parts.append(_done(watch, status, watch.total))
    parts += _pauses(status)
    return "; ".join([", ".join(parts), *_trouble(watch)])


def _trouble(watch: FlowWatch) -> list[str]:
    """The verdict's sentences, unless all is well."""
    return [] if watch.verdict.level is Level.GREEN else [headline(watch.verdict)]


def _done(watch: FlowWatch, status: FlowStatus, total: int) -> str:
    """The share of a bounded copy that is done, and about how long the rest takes at the rate of the last seconds."""
    left, rate = max(total - status.records, 0), watch.pace.records_per_second
    estimate = f", about {left / rate:,.0f} s left" if left and rate >= 1 else ""
    return f"{min(status.records / total, 1.0):.0%} done{estimate}"


def _pauses(status: FlowStatus) -> list[str]:
    """The quotas and limits that slowed the flow, in seconds since it started."""
    causes = (
        ("held back by quotas of the source", status.source_throttled_ms),
        ("held back by quotas of the target", status.throttled_ms),
        ("held back by its rate limits", status.limited_ms),
    )
    return [f"{cause} for {ms / 1000:.1f} s" for cause, ms in causes if ms]


def _table(statuses: Sequence[tuple[FlowWatch, FlowStatus]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("flow", "records", "rate", "throughput", "lag", "partitions", ""):
        table.add_column(title, justify="left" if title in ("flow", "") else "right")
    for watch, status in statuses:
        table.add_row(
            str(watch.flow.name),
            f"{status.records:,}",
            f"{watch.pace.records_per_second:,.0f}/s",
            f"{_size(int(watch.pace.bytes_per_second))}/s",
            _lag(watch),
            str(status.partitions),
            _remark(watch, status),
        )
    return table


def _remark(watch: FlowWatch, status: FlowStatus) -> str:
    verdict = watch.verdict
    if verdict.level is not Level.GREEN and not (watch.total and verdict.level is Level.UNKNOWN):
        return f"[{_COLOURS[verdict.level]}]{escape(headline(verdict))}[/]"
    if watch.total:
        done = min(status.records / watch.total, 1.0)
        return f"[green]{'━' * int(done * _BAR_WIDTH)}[/green]{'╌' * (_BAR_WIDTH - int(done * _BAR_WIDTH))} {done:.0%}"
    return ", ".join(_pauses(status))


def _lag(watch: FlowWatch) -> str:
    lag = watch.verdict.lag_records
    return "unknown" if lag is None else f"{lag:,}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


log = logging.getLogger(__name__)

_NAMED_MAX = 10
_FLOW_STATES = (FlowState.RUNNING, FlowState.STOPPED)
"""`runtime` logs the other states with more detail."""
_LEVELS = {PartitionState.FAILED: logging.WARNING, PartitionState.WAITING: logging.WARNING}
_WORDS = {
    PartitionState.RUNNING: "RUNNING again",
    PartitionState.PAUSED: "PAUSED by order",
    PartitionState.WAITING: "WAITING for the source",
    PartitionState.FAILED: "FAILED",
}


class StateChanges:
    """Logs changes of state of a flow and its partitions; remembers what was logged last."""

    def __init__(self, flow: FlowName) -> None:
        self._flow = flow
        self._own = f"{socket.gethostname()}:{os.getpid()}"
        self._said: dict[TopicPartition, tuple[PartitionState, str]] = {}
        self._flow_said: dict[str, FlowState] = {}

    def tell(self, board: StatusBoard) -> None:
        """Logs the changes since the last call. A partition that is tried again counts as running only when it has
        moved, or the source has answered."""
        self._tell_processes(board.processes)
        troubled = board.trouble.failing.keys() | board.trouble.waiting.keys()
        news = board.take_news().items()
        self._tell_partitions(
            {at: record for at, record in news if at not in troubled or record.state is not PartitionState.RUNNING}
        )

    def _tell_processes(self, processes: Mapping[str, FlowRecord]) -> None:
        """Logs changed states; with the process, where that is another one that shares the flow."""
        self._flow_said = {process: state for process, state in self._flow_said.items() if process in processes}
        for process, record in sorted(processes.items()):
            state = record.state
            if self._flow_said.get(process) is state:
                continue
            self._flow_said[process] = state
            if state in _FLOW_STATES:
                where = "" if process == self._own else f" in {process}"
                log.info("%s: %s%s.", self._flow, state.value, where, extra={"event": f"flow-{state.lower()}"})

    def _tell_partitions(self, partitions: Mapping[TopicPartition, PartitionRecord]) -> None:
        """Logs changed states; a partition's first state only if it does not run."""
        counts: dict[PartitionState, int] = {}
        for where, record in partitions.items():
            now = (record.state, record.reason)
            if self._said.get(where, (PartitionState.RUNNING, "")) == now:
                continue
            self._said[where] = now
            counts[record.state] = counts.get(record.state, 0) + 1
            if counts[record.state] <= _NAMED_MAX:
                self._say(where, record)
        for state, count in counts.items():
            if count > _NAMED_MAX:
                log.log(
                    _LEVELS.get(state, logging.INFO), "%s: %d more partitions: %s.", self._flow, count - _NAMED_MAX,
                    _WORDS[state], extra={"event": f"partitions-{state.lower()}"},
                )  # fmt: skip

    def _say(self, where: TopicPartition, record: PartitionRecord) -> None:
        why = f": {first_line(record.reason)}" if record.reason else ""
        again = None if record.retry_at_ms is None else show_moment(record.retry_at_ms // 1000 * 1000)
        event = {"event": f"partition-{record.state.lower()}", "figures": {"retry_at": again} if again else {}}
        level = _LEVELS.get(record.state, logging.INFO)
        log.log(level, "%s %s: %s%s.", self._flow, where, _WORDS[record.state], why, extra=event)
