"""Rows as a table of plain text, for the verbs that print one; pure."""

from collections.abc import Iterable, Sequence


def render_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines with columns as wide as their widest cell, two blanks apart."""
    lines = [tuple(titles), *(tuple(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
