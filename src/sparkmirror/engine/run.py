"""Wiring: from a configuration to running queries, and back to a clean stop. Called by `cli.run`."""

import logging
import re
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sparkmirror.config.flows import FlowConfig, MirrorConfig
from sparkmirror.config.options import RunOptions
from sparkmirror.engine.jobs import FlowSync, Job, finish_offsets, offset_jobs
from sparkmirror.engine.jvm import END_SECONDS_MAX, Launch, end_session, jvm_expected
from sparkmirror.engine.page import open_page
from sparkmirror.engine.progress import FlowWatch, ProgressDisplay
from sparkmirror.engine.speech import speak_as_driver
from sparkmirror.engine.stop_request import StopRequest, stop_signals
from sparkmirror.errors import FencedError, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.groups import has_members, list_members
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import TopicPartition
from sparkmirror.policy.loss import ENDS_THE_MIRROR
from sparkmirror.source.commands import Stop, command_record
from sparkmirror.sync.flow import sync_flow
from sparkmirror.sync.source_group_job import SourceGroup
from sparkmirror.target.repartition import NO_TOPIC
from sparkmirror.web.health import Health

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log = logging.getLogger(__name__)

_TICK_SECONDS = 0.25
_STOP_SECONDS_MAX = 6.0
_RESTART_SECONDS = 1.0
_RESTART_SECONDS_MAX = 30.0
_RAISED = re.compile(r"[\w.]+(?:Error|Exception): ")


def run_mirror(config: MirrorConfig, options: RunOptions) -> int:
    """Run all flows until stopped (or, with `once`, until their ends); returns the exit status.

    Raises SparkMirrorError when the mirror cannot start.
    """
    speak_as_driver()
    with stop_signals() as stop, tempfile.TemporaryDirectory(prefix="sparkmirror-") as scratch:
        return MirrorRun(config, options, stop, Path(scratch)).run()


class RunningFlow:
    """One flow's query, started anew when it fails."""

    def __init__(self, flow: FlowConfig, config_text: str, scratch: Path, *, once: bool) -> None:
        self.flow = flow
        self.run = uuid.uuid4().hex[:12]
        self._config_text = config_text
        self._scratch = scratch
        self._once = once
        self._starts = 0
        self._restart_at = 0.0
        self.query: StreamingQuery | None = None

    def start(self, spark: "SparkSession") -> None:
        """A fresh checkpoint each time: with an old one, Spark would replay the old plan.

        Raises SparkMirrorError when Spark cannot start the query, for example on a full disk.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        from sparkmirror.engine.spark import activate

        activate(spark)
        self._starts += 1
        checkpoint = str(self._scratch / f"{self.run}-{self._starts}")
        writer = self._records(spark, checkpoint) if self.flow.transforms.steps else self._runs(spark, checkpoint)
        try:
            self.query = (writer.trigger(availableNow=True) if self._once else writer).start()
        except (Py4JJavaError, PySparkException) as problem:
            reason = _reason(str(problem))
            hint = f"Spark's own files are in {self._scratch.parent}; TMPDIR chooses another place."
            raise SparkMirrorError(f"{self.flow.name}: Spark did not start the query: {reason}", hint) from None

    def _runs(self, spark: "SparkSession", checkpoint: str) -> "DataStreamWriter":
        from sparkmirror.engine.flow import read_runs, route, write_runs

        runs = read_runs(spark, self._config_text, self.flow, self.run)
        return write_runs(route(runs, self.flow), self._config_text, self.flow, self.run, checkpoint)

    def _records(self, spark: "SparkSession", checkpoint: str) -> "DataStreamWriter":
        from sparkmirror.engine.records_flow import read_records, transform, write_records

        rows = read_records(spark, self._config_text, self.flow, self.run)
        return write_records(transform(rows, self.flow), self._config_text, self.flow, self.run, checkpoint)

    def tend(self, spark: "SparkSession") -> bool:
        """Restart a failed query after a pause; True once the flow is over. Raises FencedError when taken over."""
        if self.query is None:
            if time.monotonic() >= self._restart_at:
                self._start_again(spark)
            return False
        if self.query.isActive:
            return False
        problem = self.query.exception()
        if problem is None:
            return True
        reason = _reason(str(problem))
        if "FencedError" in str(problem):
            raise FencedError(f"{self.flow.name}: another instance has taken over this flow.", "Run it only once.")
        self.query = None
        self._rest(reason)
        return False

    def _start_again(self, spark: "SparkSession") -> None:
        try:
            self.start(spark)
        except SparkMirrorError as problem:
            self._rest(str(problem.args[0]))

    def _rest(self, reason: str) -> None:
        pause = min(_RESTART_SECONDS * 2 ** min(self._starts - 1, 10), _RESTART_SECONDS_MAX)
        log.warning("%s: the query failed and starts again in %.0f s: %s", self.flow.name, pause, reason)
        self._restart_at = time.monotonic() + pause

    def ask_to_stop(self) -> None:
        topics = ledger_topics(self.flow.name.source, self.flow.offset_storage_topic)
        try:
            publish(self.flow.target, topics.commands, [command_record(Stop(self.run))], seconds_max=3.0)
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
        if self.query is not None:
            with suppress(Exception):
                self.query.stop()


class MirrorRun:
    """All flows of a file in one process and one Spark session."""

    def __init__(self, config: MirrorConfig, options: RunOptions, stop: StopRequest, scratch: Path) -> None:
        self._config = config
        self._options = options
        self._stop = stop
        self._scratch = scratch
        self._flows = [RunningFlow(flow, config.text, scratch, once=options.once) for flow in config.flows]
        self._health = Health()
        self._syncs: list[FlowSync] = []
        self._ends: dict[str, dict[TopicPartition, int]] = {}
        self._groups = {flow.name: SourceGroup(flow) for flow in config.flows if flow.progress_group}

    def run(self) -> int:
        from sparkmirror.engine.spark import open_session

        with ExitStack() as cleanup:
            cleanup.enter_context(open_page(self._config, self._health))
            launch = Launch(self._launch)
            totals = [self._prepare(running.flow) for running in self._flows]
            context = launch.wait(self._stop)
            if context is None:
                return 0
            spark = open_session(context)
            cleanup.callback(end_session, spark)
            sessions = self._sessions(spark)
            for running, session in zip(self._flows, sessions, strict=True):
                running.start(session)
            watches = [
                FlowWatch(running.flow, running.run, total) for running, total in zip(self._flows, totals, strict=True)
            ]
            display = ProgressDisplay(watches)
            cleanup.callback(display.close)
            jobs = [] if self._options.once else self._start_jobs()
            try:
                self._loop(sessions, display, watches)
            finally:
                for job in jobs:
                    job.stop()
                self._end_flows()
                for group in self._groups.values():
                    group.end()
                finish_offsets(self._config.flows, 10.0 if self._options.once else 1.0)
        return self._verdict()

    def _prepare(self, flow: FlowConfig) -> int | None:
        """Topics and ledger of one flow; the number of records that a bounded run will copy."""
        topics = ledger_topics(flow.name.source, flow.offset_storage_topic)
        with open_admin(flow.target, "ledger") as target:
            _refuse_beside_mirrormaker(flow, target)
            for sentence in ensure_ledger_topics(
                target,
                topics,
                replication_factor=flow.offset_storage_replication_factor,
                offsets_partitions=flow.offset_storage_partitions,
            ):
                log.warning("%s: %s", flow.name, sentence)
            if group := self._groups.get(flow.name):
                group.begin(target)
        for one in (rounds := sync_flow(flow)):
            for sentence in (*one.plan.warnings, *one.failures):
                log.warning("%s: %s", flow.name, sentence)
        self._syncs.append(FlowSync(flow, rounds))
        if not self._options.once:
            return None
        with open_admin(flow.source, "ends") as source, LedgerReader(flow.target, topics, flow.connector) as ledger:
            return self._measure(flow, source, ledger)

    def _measure(self, flow: FlowConfig, source: Admin, ledger: LedgerReader) -> int:
        partitions = [
            TopicPartition(name, number)
            for name, topic in source.list_topics().items()
            if not topic.internal and flow.should_replicate(name)
            for number in range(topic.partitions)
        ]
        ends = self._ends[str(flow.name)] = source.latest_offsets(partitions)
        starts = source.earliest_offsets(partitions)
        starts.update({tp: position.offset for tp, position in ledger.read_to_end().items() if tp in ends})
        return sum(max(end - starts[tp], 0) for tp, end in ends.items())

    def _launch(self) -> "SparkContext":
        from sparkmirror.engine.spark import launch_context

        tasks = sum(running.flow.tasks_max for running in self._flows)
        return launch_context(tasks, self._scratch, self._options.master, debug=self._options.debug)

    def _start_jobs(self) -> list[Job]:
        jobs = [
            Job(str(running.flow.name), sync.seconds_max, sync)
            for running, sync in zip(self._flows, self._syncs, strict=True)
            if sync.seconds_max is not None
        ]
        jobs += [
            Job(f"{running.flow.name} group", running.flow.progress_group_commit_interval_ms / 1000, group)
            for running in self._flows
            if (group := self._groups.get(running.flow.name))
        ]
        jobs += offset_jobs(self._config)
        for job in jobs:
            job.start()
        return jobs

    def _sessions(self, spark: "SparkSession") -> list["SparkSession"]:
        """For each flow its session: those with transforms share one of their own."""
        from sparkmirror.engine.spark import open_record_session

        with_steps = [bool(running.flow.transforms.steps) for running in self._flows]
        records = open_record_session(spark) if any(with_steps) else spark
        return [records if has_steps else spark for has_steps in with_steps]

    def _loop(self, sessions: Sequence["SparkSession"], display: ProgressDisplay, watches: Sequence[FlowWatch]) -> None:
        while not self._stop.wait(_TICK_SECONDS):
            display.tick()
            _fail_on_refused_record(watches)
            with jvm_expected():
                over = [running.tend(session) for running, session in zip(self._flows, sessions, strict=True)]
            self._health.beat(tuple(str(running.flow.name) for running in self._flows if running.query is None))
            if all(over):
                return

    def _end_flows(self) -> None:
        """Let every epoch end by itself, so that all that is under way is acknowledged and in the ledger."""
        active = [running for running in self._flows if not running.is_quiet]
        askers = [threading.Thread(target=running.ask_to_stop, daemon=True) for running in active]
        for asker in askers:
            asker.start()
        give_up_at = time.monotonic() + _STOP_SECONDS_MAX
        while time.monotonic() < give_up_at and not all(running.is_quiet for running in active):
            time.sleep(0.05)
        enders = [threading.Thread(target=running.end, daemon=True) for running in self._flows]
        for ender in enders:
            ender.start()
        give_up_at = time.monotonic() + END_SECONDS_MAX
        for ender in enders:
            ender.join(max(give_up_at - time.monotonic(), 0.0))

    def _verdict(self) -> int:
        """Whether a bounded run reached all its ends; names the partitions that did not."""
        if not self._options.once or self._stop.is_set():
            return 0
        behind: list[str] = []
        for running in self._flows:
            flow = running.flow
            topics = ledger_topics(flow.name.source, flow.offset_storage_topic)
            with LedgerReader(flow.target, topics, flow.connector) as ledger:
                positions = ledger.read_to_end()
            for tp, end in sorted(self._ends[str(flow.name)].items()):
                offset = positions[tp].offset if tp in positions else 0
                if end > offset:
                    behind.append(f"{flow.name} {tp}: stands at offset {offset} of {end}")
        if behind:
            raise SparkMirrorError("Not everything was copied:\n  " + "\n  ".join(behind), "Run it again to go on.")
        return 0


def _refuse_beside_mirrormaker(flow: FlowConfig, target: Admin) -> None:
    """MirrorMaker 2 keeps its flow's workers in a Connect group on the target, `<source>-mm2` by default."""
    group = flow.connector.group
    if has_members(target, group):
        members = ", ".join(list_members(target, group)) or "they do not say where"
        raise SparkMirrorError(
            f"{flow.name}: a MirrorMaker 2 mirrors this flow now: group {group} on {flow.target.alias} has members "
            f"({members}).",
            "Stop it first; SparkMirror then goes on from its positions. A killed one counts for 10 s more.",
        )


def _fail_on_refused_record(watches: Sequence[FlowWatch]) -> None:
    """Where `on.send.failure=fail`: what the target refuses for good ends the mirror, in MirrorMaker 1's way.

    And where a partition's reason says that `on.data.loss` does.
    """
    for watch in watches:
        for where, reason in watch.board.status().failed.items():
            if ENDS_THE_MIRROR in reason:
                hint = "See `sparkmirror gaps`; with on.data.loss=continue it goes on behind the gap."
                raise SparkMirrorError(f"{watch.flow.name} {where}: {reason}", hint)
        failed = watch.board.status().failed if watch.flow.on_send_failure == "fail" else {}
        for where, reason in failed.items():
            if reason.startswith(NO_TOPIC):
                continue
            raise SparkMirrorError(
                f"{watch.flow.name} {where}: {reason}",
                "Mend the cause and start again: nothing is lost. With on.send.failure=retry (--abort.on.send.failure "
                "false) only this partition waits.",
            )


def _reason(text: str) -> str:
    """The sentence in a Spark exception: the last line of the Python traceback it carries."""
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    if own := [line for line in lines if line.startswith("sparkmirror.errors.")]:
        return own[-1].partition(": ")[2]
    raised = [line for line in lines if _RAISED.match(line)]
    return raised[-1] if raised else (lines[0] if lines else "unknown")
