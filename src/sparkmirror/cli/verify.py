"""`sparkmirror verify FILE`: whether the target holds what the source holds, record for record."""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_file_arguments, add_topic_pattern, add_verb, check_pattern, read_file
from sparkmirror.cli.output import add_format, answer, say, show
from sparkmirror.cli.seconds import check_seconds
from sparkmirror.errors import ConfigError, SparkMirrorError

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import MirrorConfig
    from sparkmirror.verify.job import Choice, Progress
    from sparkmirror.verify.report import FlowReport

_DESCRIPTION = (
    "Compare what both clusters hold of each mirrored partition: key, value, headers and timestamp of every record, in "
    "order, through the offset map. A running mirror need not stop. Exit status 0 when all is equal, 1 when "
    "something differs, 4 when nothing differs and a partition could not be compared; the first difference of each "
    "partition is shown with both records."
)
_TELL_SECONDS = 5.0
_CONTINUOUS_SECONDS = 60.0
_CONTINUOUS_PERCENT = 5.0


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    about = "whether the target holds what the source holds"
    parser = add_verb(verbs, "verify", about, _DESCRIPTION, execute, is_question=False)
    add_file_arguments(parser)
    add_topic_pattern(parser)
    parser.add_argument(
        "--sample", metavar="PERCENT", type=float,
        help="compare so much of each partition, by chance (default: all; 5 with --continuous)",
    )  # fmt: skip
    parser.add_argument(
        "--continuous", metavar="SECONDS", type=float, nargs="?", const=_CONTINUOUS_SECONDS,
        help="a sample again and again, every so many seconds (60), until stopped; reported on the status topic",
    )  # fmt: skip
    parser.add_argument("--seed", metavar="N", type=int, help="the same sample again")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write the report as a page too")
    parser.add_argument("--master", metavar="URL", help="a Spark master (default: this machine)")
    add_format(parser)


def execute(args: argparse.Namespace) -> int:
    """Compares, prints and gives the exit status. Raises ConfigError, ClusterError, SparkMirrorError."""
    from sparkmirror.control.commands import Selection
    from sparkmirror.verify.job import Choice
    from sparkmirror.verify.report import UNPROVEN_STATUS, exit_status

    args.failure_status = UNPROVEN_STATUS
    check_pattern(args.topic)
    sample = (100.0 if args.continuous is None else _CONTINUOUS_PERCENT) if args.sample is None else args.sample
    check_sample(sample)
    _check(args)
    config = read_file(args)
    choice = Choice(Selection(args.topic).covers, sample, args.seed, is_whole=not args.topic)
    if args.continuous is None:
        _require_clusters(config)
    with tempfile.TemporaryDirectory(prefix="sparkmirror-") as scratch:
        if args.continuous is not None:
            return _watch(config, choice, Path(scratch), args)
        reports = _verify(config, choice, Path(scratch), args)
    if not any(report.chosen for report in reports):
        raise SparkMirrorError("No mirrored topic is to be compared.", "See `sparkmirror topics`; is --topic right?")
    _publish(reports, args)
    return exit_status(reports)


def _require_clusters(config: "MirrorConfig") -> None:
    """Raises ClusterUnreachable before Spark is started, which takes several seconds."""
    from sparkmirror.kafka.patience import impatient
    from sparkmirror.kafka.reach import find_unreachable

    with impatient():
        for problem in find_unreachable(config.sides):
            raise problem


def check_sample(percent: float) -> None:
    """Raises ConfigError for what cannot be a share."""
    if not 0 < percent <= 100:
        raise ConfigError(f"`--sample {percent:g}`: a percentage is more than 0 and at most 100")


def _check(args: argparse.Namespace) -> None:
    """Before hours of work, not after."""
    if args.continuous is not None:
        check_seconds("--continuous", args.continuous, is_above=True)
    if args.continuous is not None and args.html is not None:
        raise ConfigError("`--continuous` and `--html` exclude each other: a page is of one comparison")
    if args.html is not None and not args.html.absolute().parent.is_dir():
        raise ConfigError(f"`--html {args.html}`: there is no directory {args.html.absolute().parent}")


def _verify(config: "MirrorConfig", choice: "Choice", scratch: Path, args: argparse.Namespace) -> "list[FlowReport]":
    from sparkmirror.logs.handlers import log_to_stderr
    from sparkmirror.verify.job import comparing_session, verify_flow

    log_to_stderr()
    with comparing_session(scratch, args.master, debug=args.debug) as spark:
        return [verify_flow(spark, config, flow, choice, tell_progress(str(flow.name))) for flow in config.flows]


def _watch(config: "MirrorConfig", choice: "Choice", scratch: Path, args: argparse.Namespace) -> int:
    from sparkmirror.logs.handlers import log_to_stderr
    from sparkmirror.stop_request import stop_signals
    from sparkmirror.verify.job import comparing_session, watch_flows
    from sparkmirror.verify.report import worst_status

    log_to_stderr()
    with stop_signals() as stop, comparing_session(scratch, args.master, debug=args.debug) as spark:
        rounds = watch_flows(spark, config, choice, args.continuous, stop)
        return worst_status(_tell_round(report, args) for report in rounds)


def _tell_round(report: "FlowReport | None", args: argparse.Namespace) -> int:
    """A line for each round; the exit status that it means."""
    from sparkmirror.verify.report import EQUAL, UNPROVEN_STATUS, exit_status

    if report is None:
        return UNPROVEN_STATUS
    if args.format == "json":
        print(json.dumps(report.as_json()), flush=True)
    elif report.verdict == EQUAL:
        answer(report.headline)
    else:
        _publish([report], args)
    return exit_status([report])


def _publish(reports: "list[FlowReport]", args: argparse.Namespace) -> None:
    if args.html is not None:
        from sparkmirror.verify.report import render_html

        _write(args.html, render_html(reports))
    from sparkmirror.verify.report import render_report

    show(args, [one.as_json() for one in reports], lambda: [part for one in reports for part in render_report(one)])


def _write(file: Path, page: str) -> None:
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as problem:
        raise SparkMirrorError(f"{file} could not be written: {problem.strerror}.", "Choose another --html.") from None


def tell_progress(flow: str) -> "Progress":
    """Prints the progress now and then, with an estimate of the time left."""
    began = told_at = time.monotonic()

    def tell(done: int, spans: int) -> None:
        nonlocal told_at
        now = time.monotonic()
        if now - told_at < _TELL_SECONDS:
            return
        told_at = now
        left = f", about {(now - began) * (spans - done) / done:.0f} s left" if done else ""
        say(f"{flow}: {done} of {spans} ranges compared{left}")

    return tell
