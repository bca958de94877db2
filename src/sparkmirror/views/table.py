"""Tables and pages for terminals and pipes, laid out by rich; pure. The other modules of this package build them,
`cli.output` prints them.

A page is a list of parts: sentences, which are printed as they are, and tables.
"""

import io
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sparkmirror.shown import show_lines, show_text

Part = str | Table | Padding
Page = list[Part]
_STYLES = {"FAILED": "bold red", "FAIL": "bold red", "WARN": "yellow", "WAITING": "yellow", "PAUSED": "yellow"}
_STYLES |= {"RUNNING": "green", "OK": "green"}
_WIDTH_MAX = 100_000


def make_table(titles: Sequence[str], rows: Iterable[Sequence[object]], indent: int = 0) -> Table | Padding:
    """A table whose columns are as wide as their widest cell, two blanks apart. A narrow terminal folds cells; none is
    cut off.

    rich's markup in a cell is not interpreted. A cell that names a state has the state's colour.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(Text(title), overflow="fold")
    for row in rows:
        table.add_row(*(_cell(str(cell)) for cell in row))
    return Padding(table, (0, 0, 0, indent), expand=False) if indent else table


def _cell(text: str) -> Text:
    return Text(show_text(text), style=_STYLES.get(text, ""))


def show_page(page: Iterable[Part], console: Console) -> None:
    """Prints a page to a terminal: with colours, and cells folded to its width."""
    for part in page:
        shown = show_lines(part) if isinstance(part, str) else part
        console.print(shown, markup=False, highlight=False, emoji=False, soft_wrap=isinstance(part, str))


def page_lines(page: Iterable[Part]) -> list[str]:
    """A page as plain lines that are never folded, for a pipe, a file or a test."""
    target = io.StringIO()
    show_page(page, Console(file=target, width=_WIDTH_MAX, color_system=None, force_terminal=False))
    return [line.rstrip() for line in target.getvalue().splitlines()]
