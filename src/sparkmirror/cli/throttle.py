"""`sparkmirror throttle FILE FLOW [PATTERN] RATE`: changes how fast a running mirror may read."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.order import check_pattern, latest_report, publish_order
from sparkmirror.errors import ConfigError, SparkMirrorError

if TYPE_CHECKING:
    from sparkmirror.config.flows import FlowConfig

DESCRIPTION = (
    "Change how many bytes a second a running flow may read, in all or for the topics that match PATTERN together. "
    "It holds until the mirror is started anew; write rate.limit.… into the file to keep it."
)
_EPILOG = "RATE: 500000, 500kB, 10MB (units of 1,000), `none` for no limit, `file` for what the file says again."


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = verbs.add_parser(
        "throttle", help="change how fast a running mirror may read", description=DESCRIPTION, epilog=_EPILOG
    )
    parser.add_argument("file", metavar="FILE", help="the properties file that the mirror runs with")
    parser.add_argument("flow", metavar="FLOW", help="one of its flows, as in 'A->B'")
    parser.add_argument("pattern", metavar="PATTERN", nargs="?", default="", help="a regular expression for topics")
    parser.add_argument("rate", metavar="RATE", help="bytes a second, `none` or `file`")
    parser.add_argument("--debug", action="store_true", help="show stack traces")
    parser.set_defaults(command=execute, takes_rest=False)


def execute(args: argparse.Namespace) -> int:
    """Publishes the order to the flow's run. Raises ConfigError, ClusterError, and SparkMirrorError without a run."""
    from sparkmirror.config.flows import load_config

    rate = _read_rate(args.rate)
    check_pattern(args.pattern)
    config = load_config(args.file, flows=[args.flow])
    order(config.flows[0], args.pattern, rate)
    what = f"topics that match {args.pattern}" if args.pattern else "all topics"
    said = {None: "what the file says", 0: "no limit"}.get(rate, f"{rate:,} bytes a second" if rate else "")
    print(f"{args.flow}: {what}: {said}", file=sys.stderr)
    return 0


def order(flow: "FlowConfig", pattern: str, bytes_per_second: int | None) -> None:
    """Tell the tasks of the flow's latest run; 0 is no limit, None what the file says."""
    from sparkmirror.source.commands import Throttle

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
