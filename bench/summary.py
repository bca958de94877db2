"""Tables and plots of README.md and docs/benchmarks.md, of the runs there that it names: `python -m bench.summary`.

A test compares: what README.md shows was measured, and stands in full on that page.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from bench.machine import ROOT
from bench.results import REPLICATED, TLS
from bench.workloads import WORKLOADS

PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
PACKAGE = ROOT / "docs" / "site" / "package.md"
PLOT = ROOT / "docs" / "pictures" / "benchmark.svg"
CAUGHT_UP_PLOT = PLOT.with_name("benchmark-caught-up.svg")
COPIES_RUN, CAUGHT_UP_RUN = "2026-12-01 08:06 UTC", "2026-11-30 18:31 UTC"
_BEGIN, _END = "<!-- benchmark -->", "<!-- end of benchmark -->"
_OURS, _TUNED, _DEFAULTS = "SparkMirror", "MirrorMaker 2, tuned", "MirrorMaker 2, defaults"
_PLAIN = [WORKLOADS[name].title for name in "abcde"]
_COPIES = {title: title for title in _PLAIN} | {
    f"{_PLAIN[0]}, {TLS}": "the first over TLS",
    f"{_PLAIN[0]}, {REPLICATED}": "the first to three replicas",
}
"""Works by the title of their table, without their number of records and what stands in parentheses, and what the table
here calls them."""
_PARTITIONS = "8"
"""Of the rows of mirrors that have caught up."""


@dataclass(frozen=True, slots=True)
class Row:
    """One work: rate and CPU seconds of both; ratios are ours to theirs."""

    work: str
    our_rate: float
    their_rate: float
    our_cpu: float
    their_cpu: float

    @property
    def rate_ratio(self) -> float:
        return self.our_rate / self.their_rate

    @property
    def cpu_ratio(self) -> float:
        return self.our_cpu / self.their_cpu


def copies(page: str) -> list[Row]:
    """SparkMirror beside MirrorMaker 2 tuned, work by work, of the run of copies."""
    found = []
    for title, cells in _tables(_run(page, COPIES_RUN)):
        work = _COPIES.get(title)
        if work and _OURS in cells and _TUNED in cells:
            ours, theirs = cells[_OURS], cells[_TUNED]
            found.append(Row(work, _number(ours[0]), _number(theirs[0]), _number(ours[2]), _number(theirs[2])))
    return found


def caught_up(page: str) -> list[tuple[str, str, str]]:
    """What a mirror that has caught up takes: records/s, then CPU and latency of ours and theirs."""
    rows = [line.split(" | ") for line in _run(page, CAUGHT_UP_RUN).splitlines() if line.startswith("| ")]
    by_rate: dict[str, dict[str, str]] = {}
    for name, partitions, rate, cpu, *latencies in ([cell.strip("| ") for cell in row] for row in rows):
        if partitions == _PARTITIONS and name in (_OURS, _DEFAULTS):
            times = f"; {latencies[0]} / {latencies[1]} ms" if latencies[0] else ""
            by_rate.setdefault(rate, {})[name] = f"{cpu} %{times}"
    return [(rate, cells[_OURS], cells[_DEFAULTS]) for rate, cells in by_rate.items()]


def render(page: str) -> str:
    """The two tables, as Markdown."""
    lines = ["| a backlog | records/s | MirrorMaker 2, tuned | rate | CPU for the same |", "|---|---:|---:|---:|---:|"]
    lines += [
        f"| {row.work} | {row.our_rate:,.0f} | {row.their_rate:,.0f} | {row.rate_ratio:.2g} × | {row.cpu_ratio:.2g} × |"
        for row in copies(page)
    ]
    head = f"| caught up, {_PARTITIONS} partitions | % of a core; p50 / p99 | MirrorMaker 2, defaults |"
    lines += ["", head, "|---|---:|---:|"]
    lines += [f"| {rate} records/s | {ours} | {theirs} |" for rate, ours, theirs in caught_up(page)]
    return "\n".join(lines)


def draw(rows: Sequence[Row]) -> str:
    """Rate and CPU of each work as bars, MirrorMaker 2 tuned being 1."""
    legend = ("records/s: more is better", "CPU for the same: less is better")
    bars = [(row.work, row.rate_ratio, row.cpu_ratio) for row in rows]
    return _bars("Rate and CPU of SparkMirror", _TUNED, legend, bars)


def draw_caught_up(rows: Sequence[tuple[str, str, str]]) -> str:
    """CPU and median latency of a mirror that has caught up, by records a second, MirrorMaker 2 by default being 1."""
    legend = ("CPU: less is better", "median latency: less is better")
    bars = []
    for rate, ours, theirs in rows:
        cpu, *latency = (one / other for one, other in zip(_figures(ours), _figures(theirs), strict=True))
        bars.append((f"{rate} records/s", cpu, latency[0] if latency else None))
    return _bars("CPU and latency of SparkMirror, caught up", _DEFAULTS, legend, bars)


def _figures(cell: str) -> list[float]:
    """CPU in percent, and the median in ms where there is one: `52.3 %; 6.3 / 12.3 ms`."""
    return [float(number) for number in re.findall(r"[0-9.]+(?= %| /)", cell)]


def _bars(title: str, one: str, legend: tuple[str, str], rows: Sequence[tuple[str, float, float | None]]) -> str:
    """Two ratios of each row as bars; SVG, bars up to 4 × and a number beside each. `one` is what counts as 1."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {70 + 46 * len(rows)}" font-family="sans-serif" '
        'font-size="13" role="img">',
        f"<title>{title}, {one} being 1</title>",
        "<style>text{fill:#24292f}.r{fill:#0969da}.c{fill:#bf8700}.one{stroke:#24292f}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.r{fill:#58a6ff}.c{fill:#d6a93c}.one{stroke:#e6edf3}}</style>",
        f'<rect class="r" x="300" y="12" width="12" height="12"/><text x="318" y="23">{legend[0]}</text>',
        '<rect class="c" x="500" y="12" width="12" height="12"/>',
        f'<text x="518" y="23">{legend[1]}</text>',
    ]
    for at, (label, *ratios) in enumerate(rows):
        top = 44 + 46 * at
        lines.append(f'<text x="290" y="{top + 19}" text-anchor="end">{escape(label)}</text>')
        for name, ratio, y in zip("rc", ratios, (top, top + 15), strict=True):
            if ratio is None:
                continue
            width = min(ratio, 4) * 100
            lines.append(f'<rect class="{name}" x="300" y="{y}" width="{width:.0f}" height="12"/>')
            lines.append(f'<text x="{306 + width:.0f}" y="{y + 11}" font-size="11">{ratio:.2g} ×</text>')
    bottom = 44 + 46 * len(rows)
    lines.append(f'<line class="one" x1="400" y1="36" x2="400" y2="{bottom}" stroke-dasharray="3 3"/>')
    lines.append(f'<text x="400" y="{bottom + 16}" text-anchor="middle">{one} = 1</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def with_summary(document: str, page: str) -> str:
    """The document with the tables between its two marks. Raises ValueError without them."""
    before, rest = document.split(_BEGIN)
    _, after = rest.split(_END)
    return f"{before}{_BEGIN}\n\n{render(page)}\n\n{_END}{after}"


def _run(page: str, heading: str) -> str:
    _, _, rest = page.partition(f"\n## {heading}\n")
    return rest.partition("\n## ")[0]


def _tables(run: str) -> Iterator[tuple[str, dict[str, list[str]]]]:
    for part in re.split(r"\n(?=\*\*\w+\*\*: )", run):
        title = re.match(r"\*\*\w+\*\*: [0-9,]+ × (?P<work>.*?) \(", part)
        table = part.partition("\n\n")[2].partition("\n\n")[0]
        rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
        if title:
            yield title["work"], {cells[0]: [cell.strip() for cell in cells[1:]] for cells in rows}


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def main() -> None:
    """Writes both, the plots, and the README's copy for registries of packages."""
    page = PAGE.read_text()
    for document in (README, PAGE):
        document.write_text(with_summary(document.read_text(), page))
    PLOT.write_text(draw(copies(page)))
    CAUGHT_UP_PLOT.write_text(draw_caught_up(caught_up(page)))
    written = subprocess.run([sys.executable, PACKAGE.with_suffix(".py")], check=True, capture_output=True, text=True)
    PACKAGE.write_text(written.stdout)


if __name__ == "__main__":
    main()
