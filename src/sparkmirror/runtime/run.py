"""Starts the flows of a configuration as queries, and stops them cleanly. Called by `runtime.start`."""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sparkmirror.clock import to_the_second
from sparkmirror.config.fingerprint import changed_ms, fingerprint
from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig
from sparkmirror.errors import ClusterError, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.fencing import rouse_coordinator
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.pipeline.produce.repartition import WAITS
from sparkmirror.policy.loss import ENDS_THE_MIRROR
from sparkmirror.runtime.at_rest import refuse_beside_mirrormaker
from sparkmirror.runtime.executors import Executors
from sparkmirror.runtime.jmx import serving_beans
from sparkmirror.runtime.jobs import finish_offsets
from sparkmirror.runtime.jobs_alone import checkpoint_jobs
from sparkmirror.runtime.leader_jobs import LeaderJobs
from sparkmirror.runtime.options import RunOptions
from sparkmirror.runtime.otlp import exporting_metrics
from sparkmirror.runtime.page import Page
from sparkmirror.runtime.progress import FlowWatch, ProgressDisplay
from sparkmirror.runtime.query_events import QueryEvents
from sparkmirror.runtime.reporter import reporting
from sparkmirror.runtime.running_flow import RunningFlow
from sparkmirror.sharing.flow_share import FlowShare
from sparkmirror.sharing.group import ProcessGroup
from sparkmirror.spark.jvm import END_SECONDS_MAX, Launch, end_session, jvm_expected
from sparkmirror.stop_request import StopRequest
from sparkmirror.sync.fencing_job import refuse_exactly_once
from sparkmirror.sync.flow import begin_flow, sync_flow
from sparkmirror.sync.source_group import SourceGroup
from sparkmirror.telemetry.records import FlowState
from sparkmirror.web.health import Health

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_TICK_SECONDS = 1.0
_WATCHED_TICK_SECONDS = 0.25
"""The interval of the loop while a person or a program waits: for a bounded run to end, or at a terminal."""
_STOP_SECONDS_MAX = 6.0
_JOIN_SECONDS_MAX = 40.0
_AT_ONCE = 8

T = TypeVar("T")
Answer = TypeVar("Answer")


def side_by_side(ask: Callable[[T], Answer], every: Sequence[T]) -> list[Answer]:
    """The answers for all of them, some at once: what waits for one cluster does not hold up the others. Raises what
    the first of them in order raises."""
    if len(every) == 1:
        return [ask(every[0])]
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="sparkmirror-prepare") as pool:
        return list(pool.map(ask, every))


class MirrorRun:
    """All flows of a file in one process and one Spark session."""

    def __init__(
        self, config: MirrorConfig, options: RunOptions, stop: StopRequest, scratch: Path, launch: Launch
    ) -> None:
        """`launch` is the JVM of Spark, which is being started."""
        self._config = config
        self._launch = launch
        self._options = options
        self._stop = stop
        self._scratch = scratch
        self._process_groups: dict[str, ProcessGroup] = {}
        self._flows: list[RunningFlow] = []
        self._health = Health()
        self._ends: dict[str, dict[TopicPartition, int]] = {}
        self._examined: set[FlowName] = set()
        self._groups = {flow.name: SourceGroup(flow) for flow in config.flows if flow.progress_group}
        self._leader_jobs = LeaderJobs(config, self._groups)
        self._executors: Executors | None = None

    def run(self) -> int:
        from sparkmirror.spark.session import open_flow_sessions, open_session

        with ExitStack() as cleanup:
            page = cleanup.enter_context(Page(self._config, self._health))
            side_by_side(self._prepare_target, self._config.flows)
            if not self._options.once:
                self._join_others(cleanup)
            self._flows = [self._running_flow(flow) for flow in self._config.flows]
            cleanup.enter_context(reporting([running.reporter for running in self._flows]))
            totals = side_by_side(self._prepare, self._flows)
            self._leader_jobs.begin(self._flows)
            self._start_checkpoints(cleanup)
            context = self._launch.wait(self._stop)
            if context is None:
                return 0
            spark = open_session(context, discovers_sources=any(flow.transforms.steps for flow in self._config.flows))
            cleanup.callback(end_session, spark)
            if self._options.cluster is not None:
                self._executors = Executors(context, self._options.cluster.master, self._flows)
                if not self._executors.wait(self._stop):
                    return 0
            sessions = open_flow_sessions(spark, self._config.flows)
            for running, session in zip(self._flows, sessions, strict=True):
                running.start(session)
            watches = [
                FlowWatch(running.flow, running.run, total, self._config.file, running.reporter.why_unwritten)
                for running, total in zip(self._flows, totals, strict=True)
            ]
            page.watch(self._flows)
            cleanup.enter_context(serving_beans(context, self._flows, os.environ))
            cleanup.enter_context(exporting_metrics(self._flows, os.environ))
            display = ProgressDisplay(watches)
            cleanup.callback(display.close)
            try:
                self._loop(sessions, display, watches, QueryEvents(context, self._flows, watches))
            finally:
                self._health.stopping()
                self._leader_jobs.end()
                self._end_flows()
                self._finish_led()
        return self._verdict()

    def _start_checkpoints(self, cleanup: ExitStack) -> None:
        """Starts the jobs of pairs whose topics another program mirrors; a bounded run has none."""
        for job in checkpoint_jobs(self._config.checkpoints) if not self._options.once else ():
            job.start()
            cleanup.callback(job.stop)

    def _join_others(self, cleanup: ExitStack) -> None:
        """Joins the group of processes on each target. Raises SparkMirrorError."""
        by_target: dict[str, list[FlowShare]] = {}
        changed_at_ms = changed_ms(*(self._config.lines.files or (self._config.file,)))
        for flow in self._config.flows:
            part = FlowShare(flow, fingerprint(self._config.text, flow.name), changed_at_ms)
            by_target.setdefault(flow.target.alias, []).append(part)
        for alias, parts in by_target.items():
            process_group = self._process_groups[alias] = ProcessGroup(parts, self._config.file)
            cleanup.callback(process_group.leave)
            process_group.start()
        for process_group in self._process_groups.values():
            process_group.wait_until_joined(_JOIN_SECONDS_MAX)

    def _running_flow(self, flow: FlowConfig) -> RunningFlow:
        process_group = self._process_groups.get(flow.target.alias)
        return RunningFlow(flow, self._config.text, self._scratch, once=self._options.once, process_group=process_group)

    def _finish_led(self) -> None:
        """Runs at the end of a flow the work that only its leading process may do."""
        led = self._config.flows if self._options.once else self._leader_jobs.led(self._config.flows)
        for flow in led:
            if group := self._groups.get(flow.name):
                group.end()
        finish_offsets(led, 10.0 if self._options.once else 1.0)

    def _prepare_target(self, flow: FlowConfig) -> None:
        """Creates the ledger's topics on a target."""
        topics = flow.ledger_topics
        with open_admin(flow.target, "ledger") as target:
            refuse_beside_mirrormaker(
                flow,
                target,
                "Stop it first; SparkMirror then goes on from its positions. A killed one counts for 10 s more.",
            )
            for sentence in ensure_ledger_topics(target, topics):
                log.warning("%s: %s", flow.name, sentence)
            if why := rouse_coordinator(target, flow.connector):
                refuse_exactly_once(flow, why)
                self._leader_jobs.note_unfenced(flow)

    def _prepare(self, running: RunningFlow) -> int | None:
        """Creates the topics of one flow; returns the number of records that a bounded run will copy."""
        flow = running.flow
        if running.is_led:
            self._prepare_led(flow)
        if not self._options.once:
            return None
        topics = flow.ledger_topics
        with open_admin(flow.source, "ends") as source, LedgerReader(flow.target, topics, flow.connector) as ledger:
            return self._measure(flow, source, ledger)

    def _prepare_led(self, flow: FlowConfig) -> None:
        if group := self._groups.get(flow.name):
            with open_admin(flow.target, "group") as target:
                group.begin(target)
        if self._options.once:
            rounds = sync_flow(flow)
        else:
            first, are_more = begin_flow(flow)
            rounds = [first]
            self._leader_jobs.note(flow, first, are_more=are_more)
        for one in rounds:
            for sentence in (*one.plan.warnings, *one.failures):
                log.warning("%s: %s", flow.name, sentence)

    def _measure(self, flow: FlowConfig, source: Admin, ledger: LedgerReader) -> int:
        partitions = [
            TopicPartition(name, number)
            for name, topic in source.list_topics().items()
            if not topic.internal and flow.should_replicate(name)
            for number in range(topic.partitions)
        ]
        ends = self._ends[str(flow.name)] = source.await_newest_ends(partitions)
        starts = source.await_earliest_offsets(partitions)
        starts.update({tp: position.offset for tp, position in ledger.read_to_end().items() if tp in ends})
        return sum(max(end - starts.get(tp, end), 0) for tp, end in ends.items())

    def _loop(
        self,
        sessions: Sequence["SparkSession"],
        display: ProgressDisplay,
        watches: Sequence[FlowWatch],
        events: QueryEvents,
    ) -> None:
        is_watched = self._options.once or display.is_alive
        while not self._stop.wait(to_the_second(_WATCHED_TICK_SECONDS if is_watched else _TICK_SECONDS)):
            display.tick()
            if not self._options.once:
                self._leader_jobs.poll(self._flows)
            _fail_on_refused_record(watches)
            if self._executors is not None:
                self._executors.poll()
            with jvm_expected():
                over = [running.poll(session) for running, session in zip(self._flows, sessions, strict=True)]
                events.tick()
            self._tell_copied([running for running, is_over in zip(self._flows, over, strict=True) if is_over])
            for watch, running in zip(watches, self._flows, strict=True):
                watch.follow(running.run)
                running.reporter.count(watch.status.records, watch.status.bytes, watch.board.outdated)
                if running.is_led and (history := watch.history) is not None:
                    running.reporter.tell_history(history)
            verdicts = [watch.verdict for watch in watches]
            self._health.beat(tuple(verdict.sentence for verdict in verdicts if not verdict.is_ready))
            if all(over):
                return

    def _end_flows(self) -> None:
        """Lets every epoch end by itself, so that the target acknowledges all records under way and the ledger has
        their positions."""
        for running in self._flows:
            running.reporter.tell(FlowState.STOPPING)
        active = [running for running in self._flows if not running.is_quiet]
        askers = [threading.Thread(target=running.ask_to_stop, daemon=True) for running in active]
        for asker in askers:
            asker.start()
        give_up_at = time.monotonic() + _STOP_SECONDS_MAX
        while time.monotonic() < give_up_at and not all(running.is_quiet for running in active):
            time.sleep(0.05)
        cut_off = [running for running in active if not running.is_quiet]
        for running in cut_off:
            log.warning("%s: its tasks did not end in %.0f s and are cut off.", running.flow.name, _STOP_SECONDS_MAX)
        have_ended = not cut_off
        for process_group in self._process_groups.values():  # before Spark has ended: others may go on at once
            process_group.leave(have_ended=have_ended)
        enders = [threading.Thread(target=running.end, daemon=True) for running in self._flows]
        for ender in enders:
            ender.start()
        give_up_at = time.monotonic() + END_SECONDS_MAX
        for ender in enders:
            ender.join(max(give_up_at - time.monotonic(), 0.0))

    def _tell_copied(self, ended: Sequence[RunningFlow]) -> None:
        """Of a bounded run some flows end before others: their tasks report no more."""
        for running in ended if self._options.once else ():
            if running.flow.name not in self._examined:
                self._examined.add(running.flow.name)
                with suppress(ClusterError):  # the end of the run looks again
                    if not self._behind(running.flow):
                        running.reporter.tell_copied()

    def _verdict(self) -> int:
        """0 if a bounded run reached all its ends. Raises SparkMirrorError naming the partitions that did not."""
        if not self._options.once or self._stop.is_set():
            return 0
        if behind := [one for running in self._flows for one in self._behind(running.flow)]:
            raise SparkMirrorError("Not everything was copied:\n  " + "\n  ".join(behind), "Run it again to go on.")
        return 0

    def _behind(self, flow: FlowConfig) -> list[str]:
        """The partitions that have not reached the ends of the bounded run."""
        with LedgerReader(flow.target, flow.ledger_topics, flow.connector) as ledger:
            positions, unknown = ledger.read_to_end(), ledger.view.problems
        behind: list[str] = []
        for tp, end in sorted(self._ends[str(flow.name)].items()):
            offset = positions[tp].offset if tp in positions else 0
            if tp in unknown:
                behind.append(f"{flow.name} {tp}: {unknown[tp]}")
            elif end > offset:
                behind.append(f"{flow.name} {tp}: stands at offset {offset} of {end}")
        return behind


def _fail_on_refused_record(watches: Sequence[FlowWatch]) -> None:
    """Ends the mirror, with `on.send.failure=fail`, when the target refuses a record for good, as MirrorMaker 1 does;
    and when a partition's reason says that `on.data.loss` does."""
    for watch in watches:
        refusals = watch.board.refusals()
        for where, reason in refusals.items():
            if ENDS_THE_MIRROR in reason:
                hint = "See `sparkmirror gaps`; with on.data.loss=continue it goes on behind the gap."
                raise SparkMirrorError(f"{watch.flow.name} {where}: {reason}", hint)
        failed = refusals if watch.flow.on_send_failure == "fail" else {}
        for where, reason in failed.items():
            if reason.startswith(WAITS):
                continue
            raise SparkMirrorError(
                f"{watch.flow.name} {where}: {reason}",
                "Mend the cause and start again: nothing is lost. With on.send.failure=retry (--abort.on.send.failure "
                "false) only this partition waits.",
            )
