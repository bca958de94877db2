"""Compares samples again and again, and tells on each flow's status topic what was found. Called by `cli.verify`.

Another sample each round: what is wrong anywhere is found in time, at a bounded cost.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.publish import publish
from sparkmirror.stop_request import StopRequest
from sparkmirror.telemetry.bus import read_board
from sparkmirror.telemetry.records import VerifyRecord, encode_record
from sparkmirror.verify.job import Choice, verify_flow
from sparkmirror.verify.report import DIFFERENT, FlowReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPAN_OFFSETS: Final = 50_000
"""Smaller than for a whole comparison: a sample is to come from many places."""

log = logging.getLogger(__name__)


def watch_flows(
    spark: "SparkSession", config: MirrorConfig, choice: Choice, seconds: float, stop: StopRequest
) -> Iterator[FlowReport]:
    """A report of each flow every `seconds`, until asked to stop. A cluster that does not answer is reported and asked
    again."""
    choice = replace(choice, of_each=False, span_offsets=SPAN_OFFSETS)
    while not stop.is_set():
        began = time.monotonic()
        for flow in config.flows:
            try:
                report = verify_flow(spark, config, flow, choice, lambda *_: None)
                _tell(flow, report)
            except ClusterError as problem:
                log.warning("%s: not compared in this round: %s", flow.name, problem.args[0])
                continue
            yield report
            if stop.is_set():
                return
        stop.wait(max(seconds - (time.monotonic() - began), 0))


def _tell(flow: FlowConfig, report: FlowReport) -> None:
    record = fold_round(read_board(flow, "verify").verified, report, time.time_ns() // 1_000_000)
    topic = flow.ledger_topics.status
    publish(flow.target, topic, [encode_record(flow.name.source, record)])


def fold_round(before: VerifyRecord | None, report: FlowReport, now_ms: int) -> VerifyRecord:
    """One more round; pure."""
    before = before or VerifyRecord(report.verdict)
    records = report.total("equal") + report.differences
    is_different = report.verdict == DIFFERENT
    return VerifyRecord(
        verdict=report.verdict,
        records=records,
        differences=report.differences,
        seconds=round(report.seconds, 3),
        sample_percent=report.sample_percent,
        first_difference=report.first_difference if is_different else before.first_difference,
        different_at_ms=now_ms if is_different else before.different_at_ms,
        rounds=before.rounds + 1,
        rounds_different=before.rounds_different + is_different,
        records_in_all=before.records_in_all + records,
    )
