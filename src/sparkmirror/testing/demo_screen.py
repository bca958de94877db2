"""What a person sees of the demo: a live table on a terminal, plain lines elsewhere. Called by `demo`."""

import time
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from sparkmirror.testing.demo_board import Board, TopicLine

_PLAIN_SECONDS = 2.0
_PLAIN_COLUMNS = 100
_RIGHT = ("parts", "source", "target", "lag", "records/s", "fastest", "p50 ms", "p99 ms")


class Screen:
    """Sentences above, the table below. A context manager."""

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
        """A sentence that stays, with the seconds since the start."""
        seconds = time.monotonic() - self._started_at
        self._console.print(f"[dim]{seconds:5.1f} s[/dim]  {escape(sentence)}", soft_wrap=True)

    def quote(self, text: str) -> None:
        """Lines of a file."""
        for line in text.splitlines():
            self._console.print(f"           [cyan]{escape(line)}[/cyan]", soft_wrap=True)

    def show(self, board: Board) -> None:
        """The state of things: drawn anew on a terminal, a line every two seconds elsewhere."""
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False, transient=True)
                self._live.start()
            self._live.update(render_table(board.lines), refresh=True)
        elif time.monotonic() - self._spoken_at >= _PLAIN_SECONDS:
            self._spoken_at = time.monotonic()
            self.say(describe(board))

    def hide(self) -> None:
        """Take the live table away."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def conclude(self, board: Board) -> None:
        """The table as it stays."""
        self.hide()
        self._console.print()
        self._console.print(render_table(board.lines, final=True))
        self._console.print()


def describe(board: Board) -> str:
    """One line for all topics."""
    rate = sum(line.rate for line in board.lines)
    return f"A {board.source_records:,}, B {board.target_records:,}, lag {board.lag_records:,}, {rate:,.0f} records/s"


def render_table(lines: Sequence[TopicLine], *, final: bool = False) -> Table:
    """Source and target side by side; the `final` one has verdicts instead of the rates of the moment."""
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
