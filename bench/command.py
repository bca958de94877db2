"""The command line: what to measure, where the results go. Called by `bench.__main__`."""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.against import TURNS, Against, Comparison, extract, present, render_comparison
from bench.brokers import bench_cluster
from bench.caught_up import PARTITIONS, RATES, Course
from bench.contestants import CONTESTANTS
from bench.even_rate import SHAPES, Shape
from bench.machine import ROOT, describe_run, today
from bench.plan import CAUGHT_UP, COPIES, PARTS, Benchmark, Plan
from bench.results import EXACTLY_ONCE, SPARK, Results, render_results
from bench.workloads import WORKLOADS
from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.guard import Guard
from sparkmirror.testing.kafka import KafkaCluster

PAGE = ROOT / "docs" / "benchmarks.md"


def main(arguments: Sequence[str]) -> int:
    """Measure, print, append to the results page; returns the exit status."""
    args = build_parser().parse_args(arguments)
    try:
        report = _compare(args) if args.against else _measure(_plan(args))
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
    parser.add_argument(
        "--times", type=int, default=1, metavar="N", help="N times the records of each work (default: 1)"
    )
    parser.add_argument("--large", action="store_true", help="a backlog of 10 GB too; needs 20 GB of disk")
    rows = parser.add_argument_group("rows of the part caught-up")
    rows.add_argument("--rates", metavar="N,N", help=f"records/s, of {_listed(RATES)}, or others; default: these")
    rows.add_argument("--partitions", metavar="N,N", help=f"{_listed(PARTITIONS)}, or others; default: these. Of the "
                      "part shapes, only those over so many; default: all")  # fmt: skip
    rows.add_argument("--seconds", type=float, default=30.0, help="of each row (default: %(default)g)")
    rows.add_argument(
        "--warm", type=float, default=60.0, help="seconds at 5,000 records/s first (default: %(default)g)"
    )
    parser.add_argument("--against", metavar="COMMIT", help="compare SparkMirror at that commit with what is here, in "
                        "turns; parts: copies, caught-up (default: copies)")  # fmt: skip
    parser.add_argument(
        "--turns", type=int, default=TURNS, help="of each version, with --against (default: %(default)s)"
    )
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


def numbers(text: str | None, default: Sequence[int]) -> tuple[int, ...]:
    """The whole numbers in `text`, or the default. Exits as argparse does when one is none."""
    try:
        found = tuple(int(part) for part in text.split(",")) if text is not None else tuple(default)
    except ValueError:
        raise SystemExit(f"bench: {text} is no list of whole numbers.") from None
    if any(number < 0 for number in found):
        raise SystemExit(f"bench: {text} has a number below zero.")
    return found


def _listed(values: Sequence[int]) -> str:
    return ", ".join(str(value) for value in values)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _courses(args: argparse.Namespace) -> tuple[Course, ...]:
    rates, partitions = numbers(args.rates, RATES), numbers(args.partitions, PARTITIONS)
    return tuple(Course(number, rates, args.seconds, args.warm) for number in partitions)


def _shapes(args: argparse.Namespace) -> tuple[Shape, ...]:
    wanted = numbers(args.partitions, ())
    return tuple(shape for shape in SHAPES if not wanted or shape.partitions in wanted)


def _plan(args: argparse.Namespace) -> Plan:
    return Plan(
        chosen(args.workloads, WORKLOADS), chosen(args.contestants, CONTESTANTS), chosen(args.parts, PARTS),
        args.quick, args.large, _say, _courses(args), _shapes(args), args.times,
    )  # fmt: skip


def _measure(plan: Plan) -> str:
    head = _head(" (quick)" if plan.quick else "")
    with _stage() as stage:
        results: Results = Benchmark(plan, *stage).run()
    return head + render_results(results)


def _compare(args: argparse.Namespace) -> str:
    parts = chosen(args.parts or COPIES, (COPIES, CAUGHT_UP))
    (contestant,) = chosen(args.contestants or SPARK, (SPARK, EXACTLY_ONCE))
    works = [WORKLOADS[name] for name in chosen(args.workloads, WORKLOADS)] if COPIES in parts else []
    courses = _courses(args) if CAUGHT_UP in parts else ()
    comparison = Comparison(
        CONTESTANTS[contestant],
        tuple(work.quick() if args.quick else work.times(args.times) for work in works),
        tuple(course.quick() if args.quick else course for course in courses),
        args.turns,
        _say,
    )
    with tempfile.TemporaryDirectory(prefix="sparkmirror-against-") as directory:
        versions = (extract(args.against, Path(directory)), present())
        head = _head(f", {versions[0].name} against {versions[1].name}, {args.turns} turns")
        with _stage() as stage:
            turns = Against(comparison, versions, *stage).run()
    return head + render_comparison((versions[0].name, versions[1].name), turns)


def _head(title: str) -> str:
    lines = [f"## {today()}{title}", "", *describe_run(os.getloadavg()[0]), ""]
    return "\n".join(lines) + "\n"


@contextmanager
def _stage() -> Iterator[tuple[KafkaCluster, KafkaCluster, Path, Guard]]:
    """Source, target, a directory, and who cleans up."""
    directory = Path(tempfile.mkdtemp(prefix="sparkmirror-bench-"))
    with (
        Guard(directory) as guard,
        bench_cluster("source", tls=True) as source,
        bench_cluster("target", tls=True) as target,
    ):
        yield source, target, directory, guard
