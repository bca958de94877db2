"""Compares flows: observes both clusters, plans spans, lets Spark compare them, and adds up the results.

Called by `cli.verify` and `cli.migrate`, which open the Spark session by `comparing_session`. `watch_flows` compares
another sample in each round and writes the results to each flow's status topic.
"""

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig
from sparkmirror.errors import ClusterError, SparkMirrorError
from sparkmirror.kafka.publish import publish
from sparkmirror.model import TopicPartition
from sparkmirror.operations.identical_offsets import Identical
from sparkmirror.runtime.running_flow import reason_of
from sparkmirror.spark.cluster import plan_cluster
from sparkmirror.spark.jvm import end_session
from sparkmirror.spark.session import FIXED_SETTINGS, launch_context, open_session
from sparkmirror.stop_request import StopRequest
from sparkmirror.stored_json import decode, encode
from sparkmirror.telemetry.bus import read_board
from sparkmirror.telemetry.records import VerifyRecord, encode_record
from sparkmirror.verify.data_source import COUNTS, KafkaComparison
from sparkmirror.verify.difference import Difference
from sparkmirror.verify.observe import Observed, observe
from sparkmirror.verify.plan import SPAN_OFFSETS, Standing, Uncompared, choose_sample, plan_spans
from sparkmirror.verify.report import DIFFERENT, EQUAL, Compared, FlowReport
from sparkmirror.verify.span import Span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_SAMPLE_SPAN_OFFSETS: Final = 50_000
"""The size of a span of a sample; smaller than in a whole comparison, so that a sample covers many places."""
Progress = Callable[[int, int], None]
"""Called with the number of finished spans, and of all."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The partitions of a flow to compare, and how many of their spans: at least one, or one `of_each` partition.
    `is_whole` says that all partitions are `wanted`."""

    wanted: Callable[[TopicPartition], bool]
    sample_percent: float = 100.0
    seed: int | None = None
    of_each: bool = True
    span_offsets: int = SPAN_OFFSETS
    is_whole: bool = False


def verify_flow(
    spark: "SparkSession", config: MirrorConfig, flow: FlowConfig, choice: Choice, progress: Progress
) -> FlowReport:
    """Compares one flow. Raises ConfigError, ClusterError, and SparkMirrorError when Spark's job fails."""
    began = time.monotonic()
    found = observe(flow, choice.wanted)
    plans = [(standing, *plan_spans(standing, choice.span_offsets)) for standing in found.standings]
    spans = [span for _, members, _ in plans for span in members]
    if choice.sample_percent < 100:
        chance = random.Random(choice.seed)
        spans = choose_sample(spans, choice.sample_percent, chance, of_each=choice.of_each)
    rows = compare_spans(spark, config.text, flow, spans, progress) if spans else []
    return _report(flow, found, plans, rows, choice, time.monotonic() - began)


def compare_spans(
    spark: "SparkSession", config_text: str, flow: FlowConfig, spans: Sequence[Span], progress: Progress
) -> list[Any]:
    """Rows of one partition each: its sums, and its first difference. Raises SparkMirrorError."""
    from pyspark.sql import functions as F

    spark.dataSource.register(KafkaComparison)
    compared = (
        spark.read.format("kafka-comparison")
        .option("config", config_text)
        .option("flow", str(flow.name))
        .option("spans", encode(spans).decode())
        .load()
    )
    folded = compared.groupBy("topic", "partition").agg(
        *(F.sum(name).alias(name) for name in COUNTS),
        F.min_by("difference", "upstream").alias("difference"),
        F.collect_set("problem").alias("problems"),
    )
    return _collect(spark, folded.collect, len(spans), progress)


def _collect(spark: "SparkSession", collect: Callable[[], list[Any]], spans: int, progress: Progress) -> list[Any]:
    """Runs Spark's job on a thread, and reports its progress."""
    rows: list[Any] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            rows.extend(collect())
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, name="sparkmirror-verify", daemon=True)
    thread.start()
    tracker = spark.sparkContext.statusTracker()
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        progress(_done(tracker, spans), spans)
    if problems:
        raise SparkMirrorError(f"Spark could not compare: {reason_of(str(problems[0]))}", "Run it again with --debug.")
    progress(spans, spans)
    return rows


def _done(tracker: Any, spans: int) -> int:
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None and stage.numTasks == spans)


def _report(
    flow: FlowConfig,
    found: Observed,
    plans: Iterable[tuple[Standing, list[Span], list[Uncompared]]],
    rows: Iterable[Any],
    choice: Choice,
    seconds: float,
) -> FlowReport:
    by_partition = {TopicPartition(row["topic"], row["partition"]): row for row in rows}
    partitions = [
        _compared(standing, by_partition.get(standing.source), left_out)
        for standing, spans, left_out in plans
        if standing.source in by_partition or (left_out and not spans)
    ]
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return FlowReport(
        flow.name,
        tuple(partitions),
        found.gaps,
        found.skipped,
        found.behind,
        seconds,
        choice.sample_percent,
        at,
        found.chosen,
        sum(standing.keeps_offsets for standing in found.standings),
        _counted(found.standings, found.identical),
    )


def _counted(standings: Iterable[Standing], identical: Identical) -> tuple[int, int]:
    """Of what was compared, in how many partitions offsets are identical, and of how many that is not known."""
    said = [identical.of(standing.source) for standing in standings]
    return said.count(True), said.count(None)


def _compared(standing: Standing, row: Any, left_out: Sequence[Uncompared]) -> Compared:
    counts = {name: int(row[name] or 0) if row is not None else 0 for name in COUNTS}
    first = row["difference"] if row is not None else None
    difference = None if first is None else decode(first.encode(), Difference, "A difference")
    problems = tuple(row["problems"]) if row is not None else ()
    return Compared(standing.source, standing.target, counts, difference, tuple(left_out), problems)


@contextmanager
def comparing_session(scratch: Path, master: str | None = None, *, debug: bool = False) -> "Iterator[SparkSession]":
    """A Spark session that compares as many spans at a time as there are processors, or as the cluster has slots.
    Raises SparkMirrorError."""
    cluster = plan_cluster(master, {}, FIXED_SETTINGS, None) if master else None
    spark = open_session(
        launch_context(max(os.cpu_count() or 1, 2), scratch, cluster, debug=debug), discovers_sources=False
    )
    try:
        yield spark
    finally:
        end_session(spark)


def watch_flows(
    spark: "SparkSession", config: MirrorConfig, choice: Choice, seconds: float, stop: StopRequest
) -> Iterator[FlowReport | None]:
    """A report of each flow every `seconds` until it is asked to stop, None where it could not be compared: a cluster
    did not answer, which is asked again, or nothing is to be compared. What cannot be stored is reported all the
    same."""
    choice = replace(choice, of_each=False, span_offsets=_SAMPLE_SPAN_OFFSETS)
    while not stop.is_set():
        began = time.monotonic()
        for flow in config.flows:
            yield _round(spark, config, flow, choice)
            if stop.is_set():
                return
        stop.wait(max(seconds - (time.monotonic() - began), 0))


def _round(spark: "SparkSession", config: MirrorConfig, flow: FlowConfig, choice: Choice) -> FlowReport | None:
    try:
        report = verify_flow(spark, config, flow, choice, lambda *_: None)
    except ClusterError as problem:
        log.warning("%s: not compared in this round: %s", flow.name, problem.args[0])
        return None
    if not report.chosen:
        log.warning("%s: not compared in this round: no mirrored topic is to be compared.", flow.name)
        return None
    try:
        _tell(flow, report, covers_all=choice.is_whole and choice.sample_percent >= 100)
    except ClusterError as problem:
        log.warning("%s: what this round has found is not in the flow's status: %s", flow.name, problem.args[0])
    return report


def _tell(flow: FlowConfig, report: FlowReport, *, covers_all: bool) -> None:
    now_ms = time.time_ns() // 1_000_000
    record = fold_round(read_board(flow, "verify").verified, report, now_ms, covers_all=covers_all)
    topic = flow.ledger_topics.status
    publish(flow.target, topic, [encode_record(flow.name.source, record)])


def fold_round(
    before: VerifyRecord | None, report: FlowReport, now_ms: int, *, covers_all: bool = False
) -> VerifyRecord:
    """Adds one more round to the record; pure. Only a round that `covers_all` and finds no difference shows that an
    earlier difference is gone."""
    before = before or VerifyRecord(report.verdict)
    records = report.total("equal") + report.differences
    first_difference, different_at_ms = before.first_difference, before.different_at_ms
    if report.verdict == DIFFERENT:
        first_difference, different_at_ms = report.first_difference, now_ms
    elif report.verdict == EQUAL and covers_all:
        first_difference, different_at_ms = "", None
    return VerifyRecord(
        verdict=report.verdict,
        records=records,
        differences=report.differences,
        seconds=round(report.seconds, 3),
        sample_percent=report.sample_percent,
        first_difference=first_difference,
        different_at_ms=different_at_ms,
        rounds=before.rounds + 1,
        rounds_different=before.rounds_different + (report.verdict == DIFFERENT),
        records_in_all=before.records_in_all + records,
    )
