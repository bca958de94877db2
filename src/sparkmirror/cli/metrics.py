"""`sparkmirror metrics FILE`: the metrics of each flow, as its target's status topic has them."""

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_file_arguments, add_verb, check_pattern, read_file
from sparkmirror.cli.output import add_format, add_watch, show, show_again

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig
    from sparkmirror.telemetry.metrics import Metric
    from sparkmirror.telemetry.snapshot import FlowSnapshot
    from sparkmirror.views.table import Page

_DESCRIPTION = (
    "Print the metrics that a running mirror serves at /metrics, read from the target: no mirror needs to run or to "
    "listen. Those that only its process knows (checkpoint latencies) are missing. What each means is in "
    "docs/metrics.md."
)
_QUANTILES = (0.5, 0.99, 0.999)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = add_verb(verbs, "metrics", "the metrics of each flow", _DESCRIPTION, execute)
    add_file_arguments(parser)
    parser.add_argument("--name", metavar="REGEX", default="", help="only metrics whose whole name matches")
    add_watch(parser)
    add_format(parser, ("prometheus",))


def execute(args: argparse.Namespace) -> int:
    """Reads each flow's status topic and prints. Raises ConfigError, and ClusterError for a target that is away."""
    check_pattern(args.name)
    flows = read_file(args).flows
    return show_again(args, lambda: _print(args, flows))


def _print(args: argparse.Namespace, flows: "Sequence[FlowConfig]") -> None:
    sights = [_see(flow) for flow in flows]
    chosen = _chosen(args.name)
    if args.format == "prometheus":
        from sparkmirror.telemetry.exposition import expose

        print(expose(sights, chosen).decode(), end="", flush=True)
        return
    values = [value for metric in chosen for value in _values(metric, sights)]
    show(args, values, lambda: _page(values))


def _see(flow: "FlowConfig") -> "FlowSnapshot":
    from sparkmirror.operations.cluster_pair import ledger_gaps
    from sparkmirror.telemetry.bus import read_board
    from sparkmirror.telemetry.snapshot import FlowSnapshot

    board, gaps = read_board(flow, "metrics"), tuple(ledger_gaps(flow))
    return FlowSnapshot(flow.name, board, time.time_ns() // 1_000_000, flow.remote_topic, gaps=gaps)


def _chosen(pattern: str) -> "list[Metric]":
    from sparkmirror.policy.filters import compile_names
    from sparkmirror.telemetry.metrics import METRICS

    compiled = compile_names([pattern or ".*"])
    assert compiled is not None
    return [metric for metric in METRICS if compiled.fullmatch(metric.name)]


def _values(metric: "Metric", sights: "Sequence[FlowSnapshot]") -> Iterator[dict[str, Any]]:
    """Name, kind, labels and value of each sample; of a histogram how many there are, and quantiles in seconds."""
    from sparkmirror.telemetry.metrics import LABELS_OF_ALL, list_samples

    about = {"name": metric.name, "kind": metric.kind}
    if metric.histogram is None:
        names = (*LABELS_OF_ALL, *metric.labels)
        for labels, value in list_samples(metric, sights):
            known = None if math.isnan(value) else value
            yield {**about, "labels": dict(zip(names, labels, strict=True)), "value": known}
        return
    for snapshot in sights:
        found = metric.histogram(snapshot)
        quantiles = {str(share): _seconds(found.quantile_ms(share)) for share in _QUANTILES}
        flow = dict(zip(LABELS_OF_ALL, (snapshot.flow.source, snapshot.flow.target), strict=True))
        yield {**about, "labels": flow, "value": found.count, "quantiles": quantiles}


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000


def _page(values: Sequence[dict[str, Any]]) -> "Page":
    from sparkmirror.views.table import make_table

    if not values:
        return ["no metrics"]
    return [make_table(("metric", "labels", "value"), [_row(one) for one in values])]


def _row(one: dict[str, Any]) -> tuple[str, str, str]:
    labels = ", ".join(f"{name}={value}" for name, value in one["labels"].items())
    return one["name"], labels, _shown(one["value"]) + _quantiles(one.get("quantiles", {}))


def _quantiles(found: dict[str, float | None]) -> str:
    known = [f"p{float(share) * 100:g} {seconds:g} s" for share, seconds in found.items() if seconds is not None]
    return f" ({', '.join(known)})" if known else ""


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3f}".rstrip("0").rstrip(".")
