"""What the status page costs with very many partitions, on both sides: `python -m bench.status_page`.

A mirror of so many partitions runs, a tenth of which get a record each second: first without its page, then with the
page and nobody who looks, then with a view open in Chromium. Prints Markdown. Needs playwright and Chromium, as the
tests do.
"""

import argparse
import http.client
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Producer
from playwright.sync_api import Browser, expect
from tests.programs import use
from tests.scenarios.browser import chromium, open_page

from bench.brokers import bench_cluster
from bench.contestants import CONTESTANTS, Job
from bench.crowd import PREFIX, Size, create_crowd
from bench.machine import describe_run, today
from bench.markdown import render_table
from bench.process_tree import read_tree
from bench.roles import command_of, look_at, spent_by_role
from bench.running import Mirror
from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.guard import Guard
from sparkmirror.testing.kafka import KafkaCluster

VIEWS: Final = ("overview", "topics", "partitions", "processes")
_PARTITIONS_A_TOPIC: Final = 10
_WAIT_SECONDS_MAX: Final = 400.0
_SETTLE_SECONDS: Final = 5.0
_CALM_SECONDS: Final = 30.0
"""Spark's idle workers, and topics that are being made, take their time after a start."""
_REPORTED_SECONDS: Final = 90.0
"""After a start the mirror reports each partition once, a hundred a second and task."""
_TICKS: Final = 20
_SERVED: Final = re.compile(r"status page is at http://\S+:(\d+)/")
_MARK: Final = "name => Math.round(performance.getEntriesByName(name)[0].startTime)"
_HAS_FIGURES: Final = "performance.getEntriesByName('first-data').length > 0"
_LOOK_SECONDS: Final = 0.02
_KIND: Final = re.compile(r"--type=(\S+)")


@dataclass(frozen=True, slots=True)
class Row:
    """What was done, and the cores that each process took; `paint_ms` are first paint, first figures, all rows."""

    what: str
    cores: Mapping[str, float]
    paint_ms: tuple[int, ...] = ()


class EvenRecords:
    """A record a second to each partition of the first `topics`, spread over the second, until the block ends."""

    def __init__(self, cluster: KafkaCluster, topics: int) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, "log_level": 0})
        self._where = [
            (f"{PREFIX}{topic:04}", number) for topic in range(topics) for number in range(_PARTITIONS_A_TOPIC)
        ]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="even-records", daemon=True)

    def _run(self) -> None:
        due, at = time.monotonic(), 0
        while not self._ended.wait(max(due - time.monotonic(), 0)):
            for topic, number in self._where[at % _TICKS :: _TICKS]:
                self._produce(topic, number)
            self._producer.poll(0)
            due, at = due + 1 / _TICKS, at + 1

    def _produce(self, topic: str, number: int) -> None:
        """A full queue, where a broker is slow, delays the records and does not end them."""
        while not self._ended.is_set():
            try:
                self._producer.produce(topic, bytes(100), partition=number)
                return
            except BufferError:
                self._producer.poll(0.1)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.flush(10)


class Watched:
    """A running mirror, with the page on `port` once that is served, and the `partitions` that it shows."""

    def __init__(self, mirror: Mirror, log_file: Path, seconds: float) -> None:
        self._mirror, self._log_file, self._seconds = mirror, log_file, seconds
        self.port = self.partitions = 0

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Raises SparkMirrorError with the log's end when it takes too long."""
        deadline = time.monotonic() + _WAIT_SECONDS_MAX
        while not is_so():
            self._mirror.check()
            if time.monotonic() > deadline:
                raise SparkMirrorError(f"Not in {_WAIT_SECONDS_MAX:.0f} s: {what}. {self._mirror.log_tail()}")
            time.sleep(1.0)

    def runs(self) -> bool:
        return "RUNNING" in self._log_file.read_text(errors="replace")

    def shows(self, partitions: int) -> bool:
        """Whether the page has so many partitions."""
        found = _SERVED.findall(self._log_file.read_text(errors="replace"))
        self.port = int(found[-1]) if found else 0
        rows = self._state()["rows"] if found else {}
        self.partitions = sum(len(told) for name, told in rows.items() if name.startswith("partitions/"))
        return self.partitions >= partitions

    def _state(self) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/api/state")
        told: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return told

    def measure(self, what: str, paint_ms: tuple[int, ...] = ()) -> Row:
        """Cores of the mirror's processes and of the browser's."""
        before, browsing, at = look_at(self._mirror.pid), _browser_seconds(), time.monotonic()
        time.sleep(self._seconds)
        self._mirror.check()
        took = time.monotonic() - at
        spent = spent_by_role(before, look_at(self._mirror.pid))
        for process, (kind, seconds) in _browser_seconds().items():
            spent[kind] = spent.get(kind, 0.0) + seconds - browsing.get(process, (kind, 0.0))[1]
        return Row(what, {role: seconds / took for role, seconds in spent.items()}, paint_ms)

    def look(self, browser: Browser, view: str) -> Row:
        """With one view open, and how soon it was painted. Raises SparkMirrorError for a page that complains."""
        complaints: list[str] = []
        page = open_page(browser, f"http://127.0.0.1:{self.port}/#{view}", "light", complaints)
        try:
            while not page.evaluate(_HAS_FIGURES):
                time.sleep(_LOOK_SECONDS)
            if view == "partitions":
                expect(page.locator(".chip", has_text="All")).to_contain_text(f"{self.partitions:,}")
            all_ms = page.evaluate("Math.round(performance.now())")
            paint, figures = (page.evaluate(_MARK, name) for name in ("first-contentful-paint", "first-data"))
            time.sleep(_SETTLE_SECONDS)
            row = self.measure(f"page, {view} open", (paint, figures, all_ms))
        finally:
            page.context.close()
        if complaints:
            raise SparkMirrorError(f"The page complains: {complaints}")
        return row


def _browser_seconds() -> dict[tuple[int, int], tuple[str, float]]:
    """Of Chromium's processes below this one: what each is there for, and the CPU seconds it has used."""
    found = {}
    for process in read_tree(os.getpid()):
        command = command_of(process.pid)
        if "chrom" in command.partition(" ")[0]:
            kind = _KIND.search(command)
            found[process.pid, process.started] = (
                f"Chromium {kind[1] if kind else 'browser'}",
                process.own_cpu_seconds,
            )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000, help="in topics of ten (default: 10000)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement (default: 60)")
    parser.add_argument(
        "--views", default=",".join(VIEWS), help=f"opened one after another (default: {','.join(VIEWS)})"
    )
    parser.add_argument("--no-baseline", action="store_true", help="leave out the mirror without its page")
    args = parser.parse_args()
    use()
    rows = run(
        args.partitions // _PARTITIONS_A_TOPIC, args.seconds, args.views.split(","), with_baseline=not args.no_baseline
    )
    print(f"\n{today()}\n\n" + "\n".join(describe_run(os.getloadavg()[0])) + "\n\n" + render(rows))
    return 0


def run(topics: int, seconds: float, views: list[str], *, with_baseline: bool) -> list[Row]:
    """All rows. Raises SparkMirrorError."""
    size, partitions = Size(topics, _PARTITIONS_A_TOPIC), topics * _PARTITIONS_A_TOPIC
    directory = Path(tempfile.mkdtemp(prefix="sparkmirror-bench-page-"))
    with (
        Guard(directory) as guard,
        bench_cluster("source") as source,
        bench_cluster("target") as target,
        chromium() as browser,
    ):
        create_crowd(source, size)
        with EvenRecords(source, max(topics // 10, 1)):
            job = Job(source, target, "s", f"{PREFIX}.*", settings=(("status.listen", "localhost:0"),))
            rows = _with_page(_Start(job, directory, guard, seconds), browser, views, partitions)
            if with_baseline:
                rows.append(_without_page(_Start(replace(job, settings=()), directory, guard, seconds)))
    return rows


@dataclass(frozen=True, slots=True)
class _Start:
    """What one start of the mirror needs."""

    job: Job
    directory: Path
    guard: Guard
    seconds: float

    @contextmanager
    def running(self) -> Iterator[Watched]:
        command = CONTESTANTS["spark"].prepare(self.job, self.directory)
        log_file = self.directory / f"{len(self.job.settings)}.log"
        with Mirror(command, log_file, self.guard) as mirror:
            yield Watched(mirror, log_file, self.seconds)


def _with_page(start: _Start, browser: Browser, views: list[str], partitions: int) -> list[Row]:
    with start.running() as watched:
        watched.wait_until(lambda: watched.shows(partitions), f"the page shows {partitions} partitions")
        _say("the page shows all partitions")
        time.sleep(_CALM_SECONDS)
        rows = [_said(watched.measure("page, nobody looks"))]
        return rows + [_said(watched.look(browser, view)) for view in views]


def _without_page(start: _Start) -> Row:
    with start.running() as watched:
        watched.wait_until(watched.runs, "the mirror runs")
        time.sleep(_REPORTED_SECONDS)
        return _said(watched.measure("no page"))


def _said(row: Row) -> Row:
    _say(f"{row.what}: {', '.join(f'{role} {100 * cores:.1f} %' for role, cores in row.cores.items())} {row.paint_ms}")
    return row


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def render(rows: list[Row]) -> str:
    roles = list(dict.fromkeys(role for row in rows for role in row.cores))
    lines = [
        [row.what, *(f"{100 * row.cores.get(role, 0):.1f}" for role in roles), " / ".join(map(str, row.paint_ms))]
        for row in rows
    ]
    return render_table(["percent of a core", *roles, "first paint / figures / all, ms"], lines)


if __name__ == "__main__":
    sys.exit(main())
