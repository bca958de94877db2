"""The counts, rates and latencies of the demo's topics on both sides, as a live table or plain lines."""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from sparkmirror.model import TopicPartition
from sparkmirror.testing.demo_events import TopicSpec

if TYPE_CHECKING:
    from sparkmirror.testing.demo_client import Client, Reader, Received

REMOTE_PREFIX = "A."
SENT_AT = "sent-at-ns"
_POLL_SECONDS = 0.05


@dataclass(slots=True)
class TopicLine:
    """One topic side by side. Rates are records a second, latencies milliseconds; `verdict` is the comparison's."""

    spec: TopicSpec
    source_records: int = 0
    target_records: int = 0
    rate: float = 0.0
    rate_max: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    verdict: str = ""

    @property
    def remote_name(self) -> str:
        return REMOTE_PREFIX + self.spec.name

    @property
    def lag_records(self) -> int:
        return max(self.source_records - self.target_records, 0)

    def latency_ms(self, percentile: int) -> float | None:
        """The latency; None until there are ten live records to judge by."""
        if len(self.latencies_ms) < 10:
            return None
        return quantiles(self.latencies_ms, n=100, method="inclusive")[percentile - 1]


class Board:
    """The topics' lines, updated from the end offsets of both clusters."""

    def __init__(self, source: "Client", target: "Client", specs: Sequence[TopicSpec]) -> None:
        self._source = source
        self._target = target
        self.lines = [TopicLine(spec) for spec in specs]
        self.target_ends: Mapping[TopicPartition, int] = {}
        self._looked_at = time.monotonic()

    def look(self) -> None:
        # The target first: a record that arrives in between must not look like one too many.
        self.target_ends = self._target.ends([line.remote_name for line in self.lines])
        target = _by_topic(self.target_ends)
        source = _by_topic(self._source.ends([line.spec.name for line in self.lines]))
        seconds, self._looked_at = time.monotonic() - self._looked_at, time.monotonic()
        for line in self.lines:
            arrived = target.get(line.remote_name, 0)
            line.rate = max(arrived - line.target_records, 0) / max(seconds, 0.001)
            line.rate_max = max(line.rate_max, line.rate)
            line.source_records, line.target_records = source.get(line.spec.name, 0), arrived

    @property
    def source_records(self) -> int:
        return sum(line.source_records for line in self.lines)

    @property
    def target_records(self) -> int:
        return sum(line.target_records for line in self.lines)

    @property
    def lag_records(self) -> int:
        return sum(line.lag_records for line in self.lines)


def _by_topic(ends: Mapping[TopicPartition, int]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for partition, end in ends.items():
        counts[partition.topic] += end
    return counts


class Arrivals:
    """A consumer of the target, on a thread of its own, that measures how long after its sending each live record
    arrives.

    The time is from a producer at A to a consumer at B, so it includes the brokers and clients of both clusters.
    Records that were sent before the topic's first live record was seen do not count: they waited for the consumer, or
    for the mirror to find the topic.
    """

    def __init__(self, reader: "Reader", lines: Sequence[TopicLine]) -> None:
        self._reader = reader
        self._latencies_ms = {line.remote_name: line.latencies_ms for line in lines}
        self._since_ns: dict[str, int] = {}
        self._known: set[TopicPartition] = set()
        self._to_add: dict[TopicPartition, int] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="arrivals", daemon=True)

    def start(self, ends: Mapping[TopicPartition, int]) -> None:
        """Starts to count at these end offsets."""
        self.add(ends)
        self._thread.start()

    def add(self, starts: Mapping[TopicPartition, int]) -> None:
        """Reads these partitions too, from these offsets; partitions that it already reads go on unchanged."""
        with self._lock:
            self._to_add |= {one: start for one, start in starts.items() if one not in self._known}
            self._known |= starts.keys()

    def stop(self) -> None:
        """Stops. Raises the error of the thread, if there was one."""
        self._stopping.set()
        self._thread.join()
        if self._problem is not None:
            raise self._problem

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._add_new()
                for record in self._reader.poll(_POLL_SECONDS):
                    self._note(record, time.time_ns())
        except Exception as problem:
            self._problem = problem
        finally:
            self._reader.close()

    def _add_new(self) -> None:
        with self._lock:
            starts, self._to_add = self._to_add, {}
        if starts:
            self._reader.add(starts)

    def _note(self, record: "Received", now_ns: int) -> None:
        sent_at = dict(record.headers).get(SENT_AT)
        if sent_at is None:
            return
        topic = record.at.topic
        if int(sent_at) >= self._since_ns.setdefault(topic, now_ns):
            self._latencies_ms[topic].append((now_ns - int(sent_at)) / 1e6)


_PLAIN_SECONDS = 2.0
_PLAIN_COLUMNS = 100
_RIGHT = ("parts", "source", "target", "lag", "records/s", "fastest", "p50 ms", "p99 ms")


class Screen:
    """A screen with sentences above and the table below. A context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        if not self._console.is_terminal:
            self._console.width = _PLAIN_COLUMNS
        self._live: Live | None = None
        self._started_at = self._spoken_at = time.monotonic()

    def __enter__(self) -> "Screen":
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()

    def say(self, sentence: str) -> None:
        """Shows a sentence that stays, with the seconds since the start."""
        seconds = time.monotonic() - self._started_at
        self._console.print(f"[dim]{seconds:5.1f} s[/dim]  {escape(sentence)}", soft_wrap=True)

    def quote(self, text: str) -> None:
        """Shows lines of a file."""
        for line in text.splitlines():
            self._console.print(f"           [cyan]{escape(line)}[/cyan]", soft_wrap=True)

    def show(self, board: Board) -> None:
        """Shows the table: on a terminal it is drawn again, elsewhere a line is printed every two seconds."""
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False, transient=True)
                self._live.start()
            self._live.update(render_table(board.lines), refresh=True)
        elif time.monotonic() - self._spoken_at >= _PLAIN_SECONDS:
            self._spoken_at = time.monotonic()
            self.say(describe(board))

    def hide(self) -> None:
        """Removes the live table."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def conclude(self, board: Board) -> None:
        """Shows the final table, which stays."""
        self.hide()
        self._console.print()
        self._console.print(render_table(board.lines, final=True))
        self._console.print()


def describe(board: Board) -> str:
    """One line for all topics."""
    rate = sum(line.rate for line in board.lines)
    return f"A {board.source_records:,}, B {board.target_records:,}, lag {board.lag_records:,}, {rate:,.0f} records/s"


def render_table(lines: Sequence[TopicLine], *, final: bool = False) -> Table:
    """A table of source and target; the `final` one has verdicts instead of the present rates."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    last = "verdict" if final else "records/s"
    for title in ("topic", "codec", "parts", "source", "target", "lag", "fastest", "p50 ms", "p99 ms", last):
        table.add_column(title, justify="right" if title in _RIGHT else "left", no_wrap=True)
    for line in lines:
        end = f"[green]{line.verdict}[/green]" if final else f"{line.rate:,.0f}"
        table.add_row(*_cells(line), end)
    return table


def _cells(line: TopicLine) -> tuple[str, ...]:
    lag = f"{line.lag_records:,}"
    return (
        line.spec.name,
        line.spec.compression,
        str(line.spec.partitions),
        f"{line.source_records:,}",
        f"{line.target_records:,}",
        lag if line.lag_records == 0 else f"[yellow]{lag}[/yellow]",
        f"{line.rate_max:,.0f}/s",
        _milliseconds(line.latency_ms(50)),
        _milliseconds(line.latency_ms(99)),
    )


def _milliseconds(latency: float | None) -> str:
    return "–" if latency is None else f"{latency:.1f}"
