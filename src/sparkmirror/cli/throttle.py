"""`sparkmirror throttle FILE FLOW [PATTERN] RATE`: changes how fast a running mirror may read."""

import argparse
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_input_arguments, add_verb, read_file
from sparkmirror.cli.order import check_pattern, latest_report, publish_order
from sparkmirror.cli.output import add_format, show
from sparkmirror.errors import ConfigError, SparkMirrorError

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig

DESCRIPTION = (
    "Change how many bytes a second a running flow may read, in all or for the topics that match PATTERN together. "
    "It holds until the mirror is started anew; write rate.limit.… into the file to keep it."
)
_EPILOG = "RATE: 500000, 500kB, 10MB (units of 1,000), `none` for no limit, `file` for what the file says again."


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = add_verb(verbs, "throttle", "change how fast a running mirror may read", DESCRIPTION, execute)
    parser.epilog = _EPILOG
    add_input_arguments(parser)
    parser.add_argument("one_flow", metavar="FLOW", help="one of its flows, as in 'A->B'")
    parser.add_argument("pattern", metavar="PATTERN", nargs="?", default="", help="a regular expression for topics")
    parser.add_argument("rate", metavar="RATE", help="bytes a second, `none` or `file`")
    add_format(parser)


def execute(args: argparse.Namespace) -> int:
    """Publishes the order to the flow's run. Raises ConfigError, ClusterError, and SparkMirrorError without a run."""
    rate = _read_rate(args.rate)
    check_pattern(args.pattern)
    args.flow = [args.one_flow]
    order(read_file(args).flows[0], args.pattern, rate)
    what = f"topics that match {args.pattern}" if args.pattern else "all topics"
    said = {None: "what the file says", 0: "no limit"}.get(rate, f"{rate:,} bytes a second" if rate else "")
    ordered = {"flow": args.one_flow, "pattern": args.pattern, "bytes_per_second": rate, "file_counts": rate is None}
    show(args, ordered, lambda: [f"{args.one_flow}: {what}: {said}"])
    return 0


def order(flow: "FlowConfig", pattern: str, bytes_per_second: int | None) -> None:
    """Tell the tasks of the flow's latest run; 0 is no limit, None what the file says."""
    from sparkmirror.control.commands import Throttle

    report = latest_report(flow)
    if report is None:
        raise SparkMirrorError(
            f"{flow.name}: no run of this flow has reported on {flow.target.alias}.",
            "Start the mirror first, or write the limit into its file: rate.limit.bytes.per.second.",
        )
    publish_order(flow, Throttle(report.run, pattern, bytes_per_second))


def _read_rate(text: str) -> int | None:
    from sparkmirror.policy.rates import parse_rate

    if text in ("none", "file"):
        return 0 if text == "none" else None
    try:
        return parse_rate(text)
    except ValueError as problem:
        raise ConfigError(f"RATE: {problem}", "`none` takes the limit away, `file` goes back to the file's.") from None
