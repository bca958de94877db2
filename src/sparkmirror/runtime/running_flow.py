"""Keeps one flow's query running from its start to its end, and starts it again when it fails. Owned by
`runtime.run`."""

import logging
import re
import time
import uuid
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sparkmirror.config.fingerprint import fingerprint
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.commands import Slots, Stop, command_record
from sparkmirror.errors import FencedError, RunReplaced, SparkMirrorError
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger.positions import ALONE
from sparkmirror.runtime.query_watch import QueryWatch
from sparkmirror.runtime.reporter import FlowReporter
from sparkmirror.sharing.group import FencedBy, ProcessGroup
from sparkmirror.sync.offset_job import CheckpointLatency
from sparkmirror.telemetry.records import FlowState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from sparkmirror.spark.jdbc_tables import JdbcTables

_FENCED = (FencedError.__name__, RunReplaced.__name__)

log = logging.getLogger(__name__)

_RESTART_SECONDS = 1.0
_RESTART_SECONDS_MAX = 30.0
_HEALTHY_SECONDS = 60.0
"""A query that ran for so long was in order: its failure is the first of a new row."""
_RAISED = re.compile(r"[\w.]+(?:Error|Exception)(?:: |$)")


def count_failures(before: int, ran_seconds: float) -> int:
    """The number of failures in a row, with one more after `ran_seconds`."""
    return 1 if ran_seconds >= _HEALTHY_SECONDS else before + 1


def restart_pause_seconds(failures: int) -> float:
    """The pause after so many failures in a row: 1 s, 2 s, 4 s … 30 s."""
    return min(_RESTART_SECONDS * 2.0 ** min(failures - 1, 10), _RESTART_SECONDS_MAX)


class RunningFlow:
    """One flow's query, started again when it fails."""

    def __init__(
        self,
        flow: FlowConfig,
        config_text: str,
        scratch: Path,
        *,
        once: bool,
        process_group: ProcessGroup | None = None,
    ) -> None:
        """`process_group` says which tasks of the flow this process may run; without it the process runs all."""
        self.flow = flow
        group_run = process_group.assignment(flow.name).run if process_group is not None else ""
        self.run = group_run or f"{ALONE}{uuid.uuid4().hex[:12]}"
        self.reporter = FlowReporter(flow, self.run, fingerprint(config_text, flow.name))
        self.checkpoints = CheckpointLatency()
        self.process = ""
        self._slots: tuple[int, int] | None = None
        self._process_group = process_group
        self._started_at = 0.0
        self._fenced_at = 0.0
        self._is_replaced = False
        self._config_text = config_text
        self._scratch = scratch
        self._once = once
        self._failures = 0
        self._restart_at = 0.0
        self._tables: JdbcTables | None = None
        self._watch: QueryWatch | None = None

    def start(self, spark: "SparkSession") -> None:
        """A fresh checkpoint each time: with an old one, Spark would replay the old plan.

        Raises SparkMirrorError when Spark cannot start the query, for example on a full disk, or when a table of a
        database cannot be read.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        from sparkmirror.spark.session import activate

        activate(spark)
        self._started_at = time.monotonic()
        if self._process_group is not None:
            self.run = self._process_group.assignment(self.flow.name).run
        if self._process_group is not None and not self._process_group.is_alone:
            self.process = uuid.uuid4().hex[:12]
            self._process_group.begin_query(self.flow.name, self.run, self.process)
        if self._slots is not None:
            self._publish(Slots(self.run, self.process, *self._slots))
        self.reporter.belong(self.run)
        # Not by the run: flows that begin together may share its name. A URI: a cluster's own files are elsewhere.
        checkpoint = (self._scratch / uuid.uuid4().hex[:12]).as_uri()
        writer = self._records(spark, checkpoint) if self.flow.transforms.steps else self._runs(spark, checkpoint)
        try:
            query = (writer.trigger(availableNow=True) if self._once else writer).start()
        except (Py4JJavaError, PySparkException) as problem:
            reason = reason_of(str(problem))
            hint = f"Spark's own files are in {self._scratch.parent}; TMPDIR chooses another place."
            raise SparkMirrorError(f"{self.flow.name}: Spark did not start the query: {reason}", hint) from None
        self._watch = QueryWatch(query)
        self.reporter.tell(FlowState.RUNNING)

    def _runs(self, spark: "SparkSession", checkpoint: str) -> "DataStreamWriter":
        from sparkmirror.spark.flow_plan import read_runs, route, write_runs

        runs = read_runs(spark, self._config_text, self.flow, self.run, self.process)
        return write_runs(route(runs, self.flow), self._config_text, self.flow, self.run, checkpoint, self.process)

    def _records(self, spark: "SparkSession", checkpoint: str) -> "DataStreamWriter":
        from sparkmirror.spark.jdbc_tables import JdbcTables
        from sparkmirror.spark.record_plan import query_records

        if self._tables is None:
            self._tables = JdbcTables(self.flow, self._scratch / f"tables-{uuid.uuid4().hex[:12]}")
        flow = self._tables.ready(spark)
        return query_records(spark, self._config_text, flow, self.run, checkpoint, self.process)

    @property
    def query(self) -> "StreamingQuery | None":
        """None before it starts, and between a failure and the next start."""
        return None if self._watch is None else self._watch.query

    @property
    def tasks(self) -> Collection[int]:
        """The flow's tasks that this process may run."""
        return (
            range(self.flow.tasks_max)
            if self._process_group is None
            else self._process_group.assignment(self.flow.name).tasks
        )

    @property
    def is_led(self) -> bool:
        """Whether this process leads the flow and so runs its jobs."""
        return self._process_group is None or 0 in self._process_group.assignment(self.flow.name).tasks

    def poll(self, spark: "SparkSession") -> bool:
        """Restart a failed query after a pause; True once the flow is over. Raises FencedError when taken over."""
        if self._tables is not None:
            self._tables.poll()
        if self._fenced_at:
            return self._judge_fencing()
        if self._is_of_another_run:
            self._end_query()
            self._watch = None
            self._restart_at = 0.0
        if self._watch is None:
            if time.monotonic() >= self._restart_at:
                self._start_again(spark)
            return False
        if not self._watch.is_due or self._watch.query.isActive:
            return False
        problem = self._watch.query.exception()
        if problem is None:
            return True
        reason = reason_of(str(problem))
        if any(name in str(problem) for name in _FENCED):
            self._fenced_at, self._is_replaced = time.monotonic(), RunReplaced.__name__ in str(problem)
            return self._judge_fencing()
        self._watch = None
        self._back_off(reason)
        return False

    @property
    def _is_of_another_run(self) -> bool:
        """Whether the group has begun a run without this process, while the process slept or could not be reached."""
        run = self._process_group.assignment(self.flow.name).run if self._process_group is not None else ""
        return bool(run) and run != self.run

    def _judge_fencing(self) -> bool:
        """Fenced by processes that share the flow, after they took this one for dead: it joins them again. Where the
        group had gone back to a run that a later one of theirs replaced, it begins another.

        Anybody else has taken the flow over.
        """
        group, by = self._process_group, FencedBy.OTHERS
        if group is not None and self._is_replaced and not group.is_alone:
            by = FencedBy.GROUP if group.replace_run(self.flow.name, self.run) else FencedBy.UNKNOWN
        elif group is not None:
            by = group.fenced_by(self.flow.name, self._started_at, self._fenced_at)
        if by is FencedBy.GROUP:
            self._fenced_at = 0.0
            self._watch = None
            self._restart_at = time.monotonic() + _RESTART_SECONDS
        elif by is FencedBy.OTHERS:
            raise FencedError(f"{self.flow.name}: another instance has taken over this flow.", "Run it only once.")
        return False

    def _start_again(self, spark: "SparkSession") -> None:
        try:
            self.start(spark)
        except SparkMirrorError as problem:
            self._back_off(str(problem.args[0]))

    def _back_off(self, reason: str) -> None:
        self._failures = count_failures(self._failures, time.monotonic() - self._started_at)
        pause = restart_pause_seconds(self._failures)
        event = {"event": "flow-restarting", "figures": {"retry_seconds": pause}}
        log.warning("%s: the query failed and starts again in %.0f s: %s", self.flow.name, pause, reason, extra=event)
        self._restart_at = time.monotonic() + pause
        self.reporter.tell(FlowState.RESTARTING, reason, round((time.time() + pause) * 1000))

    def fit(self, tasks: int, turn_seconds: int) -> None:
        """Run at most so many tasks at once, in epochs of that length if it is not 0: from now on, with a new epoch.

        Raises SparkMirrorError where the order does not get through.
        """
        self._slots = (tasks, turn_seconds)
        if self.query is not None:
            self._publish(Slots(self.run, self.process, tasks, turn_seconds))

    def _publish(self, command: Slots | Stop) -> None:
        topics = self.flow.ledger_topics
        publish(self.flow.target, topics.commands, [command_record(command)], seconds_max=3.0)

    def ask_to_stop(self) -> None:
        try:
            self._publish(Stop(self.run, self.process))
        except SparkMirrorError as problem:
            log.warning("%s: the stop could not be announced, the epoch is cut off: %s", self.flow.name, problem)

    @property
    def is_quiet(self) -> bool:
        """Whether no epoch is under way."""
        query = self.query
        with suppress(Exception):  # of a JVM that is gone
            return query is None or not query.isActive or "Waiting" in str(query.status.get("message"))
        return True

    def end(self) -> None:
        """Ends the query for good, and the reading of tables."""
        if self._tables is not None:
            self._tables.end()
        self._end_query()

    def _end_query(self) -> None:
        if self._watch is not None:
            with suppress(Exception):
                self._watch.query.stop()


def reason_of(text: str) -> str:
    """The sentence in a Spark exception: the last line of the Python traceback it carries."""
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    if own := [line for line in lines if line.startswith("sparkmirror.errors.")]:
        return own[-1].partition(": ")[2]
    raised = [line for line in lines if _RAISED.match(line)]
    return raised[-1] if raised else (lines[0] if lines else "unknown")
