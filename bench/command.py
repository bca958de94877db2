"""The command line: what to measure, where the results go. Called by `bench.__main__`."""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.brokers import bench_cluster
from bench.contestants import CONTESTANTS
from bench.machine import ROOT, describe_run, today
from bench.plan import PARTS, Benchmark, Plan
from bench.results import Results, render_results
from bench.workloads import WORKLOADS
from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.guard import Guard

PAGE = ROOT / "docs" / "benchmarks.md"


def main(arguments: Sequence[str]) -> int:
    """Measure, print, append to the results page; returns the exit status."""
    args = build_parser().parse_args(arguments)
    plan = Plan(
        chosen(args.workloads, WORKLOADS), chosen(args.contestants, CONTESTANTS), chosen(args.parts, PARTS),
        args.quick, args.large, lambda line: print(line, file=sys.stderr, flush=True),
    )  # fmt: skip
    try:
        report = _measure(plan)
    except SparkMirrorError as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return problem.exit_status
    except KeyboardInterrupt:
        print("bench: stopped; nothing was appended", file=sys.stderr)
        return 130
    print(report)
    if not args.quick:
        with args.page.open("a") as page:
            page.write(f"\n{report}")
    return 0


def build_parser() -> argparse.ArgumentParser:
    """All options; lists are separated by commas."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--workloads", metavar="a,b", help=f"of {', '.join(WORKLOADS)}; default: all")
    parser.add_argument("--contestants", metavar="NAMES", help=f"of {', '.join(CONTESTANTS)}; default: all")
    parser.add_argument("--parts", metavar="NAMES", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, nothing is appended")
    parser.add_argument("--large", action="store_true", help="a backlog of 10 GB too; needs 20 GB of disk")
    parser.add_argument("--page", type=Path, default=PAGE, help="where results are appended (default: %(default)s)")
    return parser


def chosen(text: str | None, names: Iterable[str]) -> tuple[str, ...]:
    """The names in `text`, or all. Exits as argparse does when one is unknown."""
    known = tuple(names)
    if text is None:
        return known
    wanted = tuple(name.strip() for name in text.split(",") if name.strip())
    if unknown := [name for name in wanted if name not in known]:
        raise SystemExit(f"bench: {', '.join(unknown)} is not known; there are {', '.join(known)}.")
    return wanted


def _measure(plan: Plan) -> str:
    load_before = os.getloadavg()[0]
    head = [f"## {today()}{' (quick)' if plan.quick else ''}", "", *describe_run(load_before), ""]
    directory = Path(tempfile.mkdtemp(prefix="sparkmirror-bench-"))
    with (
        Guard(directory) as guard,
        bench_cluster("source", tls=True) as source,
        bench_cluster("target", tls=True) as target,
    ):
        results: Results = Benchmark(plan, source, target, directory, guard).run()
    return "\n".join(head) + "\n" + render_results(results)
