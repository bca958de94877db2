"""Reports a comparison as text, as JSON, and as one HTML page that loads nothing else; pure.

`verify.job` makes the report, `cli.verify` writes it. Every text on the page is escaped, because records may have any
bytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.verify.difference import Difference
from sparkmirror.verify.plan import UNPROVEN, Uncompared
from sparkmirror.views.identical import identical_offsets
from sparkmirror.views.table import Page, make_table

EQUAL: Final = "equal"
DIFFERENT: Final = "different"
UNKNOWN: Final = "unproven"


@dataclass(frozen=True, slots=True)
class Compared:
    """One partition. Counts are of records; `bytes` counts bytes of source batches, `identical_bytes` those of
    batches that are byte for byte equal. `problems` describe parts that could not be read."""

    source: TopicPartition
    target: TopicPartition
    counts: Mapping[str, int]
    difference: Difference | None = None
    uncompared: tuple[Uncompared, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def differences(self) -> int:
        """The number of records that differ, are missing, or are on the target only."""
        return sum(self.counts.get(name, 0) for name in ("different", "missing", "surplus"))

    @property
    def verdict(self) -> str:
        if self.differences:
            return DIFFERENT
        unproven = [one for one in self.uncompared if one.reason in UNPROVEN]
        return UNKNOWN if self.problems or (unproven and not self.counts.get("equal")) else EQUAL

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "target_topic": self.target.topic,
            "verdict": self.verdict,
            **self.counts,
            "first_difference": None if self.difference is None else self.difference.as_json(),
            "uncompared": [one.as_json() for one in self.uncompared],
            "problems": list(self.problems),
        }


@dataclass(frozen=True, slots=True)
class FlowReport:
    """One flow, of which `chosen` partitions were to be compared. `behind` counts source offsets that were not
    mirrored yet; `sample_percent` of the spans were compared. In `by_offset` partitions each record must stand at its
    own offset; `identical` counts those of which that is said elsewhere too, and those of which it is not known."""

    flow: FlowName
    partitions: tuple[Compared, ...]
    gaps: tuple[Gap, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    behind: int = 0
    seconds: float = 0.0
    sample_percent: float = 100.0
    at: str = ""
    chosen: int = 0
    by_offset: int = 0
    identical: tuple[int, int] = (0, 0)

    @property
    def verdict(self) -> str:
        """Different if any partition is; otherwise unproven if any partition is, or if all is still to be mirrored."""
        verdicts = {one.verdict for one in self.partitions}
        if DIFFERENT in verdicts:
            return DIFFERENT
        is_nothing = not verdicts and self.behind > 0
        return UNKNOWN if UNKNOWN in verdicts or self.skipped or is_nothing else EQUAL

    def total(self, name: str) -> int:
        return sum(one.counts.get(name, 0) for one in self.partitions)

    @property
    def differences(self) -> int:
        return sum(one.differences for one in self.partitions)

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        return _headline(self)

    @property
    def first_difference(self) -> str:
        """The place of the difference in the first partition that has one; empty where there is none."""
        found = [(one.source, one.difference) for one in self.partitions if one.difference is not None]
        if not found:
            return ""
        where, first = found[0]
        return f"{where} at upstream offset {first.upstream}, downstream offset {first.downstream} ({first.kind})"

    def as_json(self) -> dict[str, Any]:
        return {
            "flow": str(self.flow),
            "verdict": self.verdict,
            "at": self.at,
            "seconds": round(self.seconds, 3),
            "sample_percent": self.sample_percent,
            "records": self.total("equal") + self.differences,
            "differences": self.differences,
            "bytes": self.total("bytes"),
            "identical_bytes": self.total("identical_bytes"),
            "behind": self.behind,
            "by_offset": self.by_offset,
            "identical_offsets": self.identical[0],
            "identical_offsets_unknown": self.identical[1],
            "partitions": [one.as_json() for one in self.partitions],
            "gaps": [gap.as_json() for gap in self.gaps],
            "skipped": dict(self.skipped),
        }


def render_report(report: FlowReport) -> Page:
    """A sentence for the flow, a table of partitions that are not simply equal, and each first difference with both
    records."""
    page: Page = [_headline(report)]
    noted = [one for one in report.partitions if one.verdict != EQUAL]
    if noted:
        titles = ("partition", "on the target", "verdict", "equal", "different", "missing", "surplus")
        rows = [
            (one.source, one.target.topic, one.verdict,
             *(f"{one.counts.get(name, 0):,}" for name in ("equal", "different", "missing", "surplus")))
            for one in noted
        ]  # fmt: skip
        page.append(make_table(titles, rows, indent=2))
    page += [line for one in noted if one.difference is not None for line in _shown(one, one.difference)]
    page += [f"  {one.source}: {problem}" for one in report.partitions for problem in one.problems]
    return page + render_remarks(report)


def _headline(report: FlowReport) -> str:
    records = report.total("equal") + report.differences
    rate = f", {records / report.seconds:,.0f}/s" if report.seconds > 0 else ""
    share = 100 * report.total("identical_bytes") / max(report.total("bytes"), 1)
    sampled = "" if report.sample_percent >= 100 else f" in a sample of {report.sample_percent:g} %"
    twice = f"; {report.total('repeated'):,} records are there twice" if report.total("repeated") else ""
    kept = identical_offsets(*report.identical)
    at = f"; {kept}" if kept and report.verdict == EQUAL else ""
    words = {EQUAL: "equal", DIFFERENT: f"DIFFERENT, {report.differences:,} records", UNKNOWN: "not proven equal"}
    return (
        f"{report.flow}: {words[report.verdict]}{sampled}: {records:,} records of {len(report.partitions)} partitions "
        f"compared in {report.seconds:.1f} s{rate}; {share:.0f} % of the bytes in identical batches{twice}{at}"
    )


def render_remarks(report: FlowReport) -> list[str]:
    """Sentences about offsets that were not compared, and about allowed differences."""
    words = {
        "repeated": "records are on the target twice, as at-least-once may have them after a crash",
        "holes": "records were taken by log compaction on one side only",
        "clamped": "records have a timestamp lowered by timestamps.clamp",
        "lost": "records are known to be lost: see `sparkmirror gaps`",
    }
    lines = [f"  {report.total(name):,} {sentence}" for name, sentence in words.items() if report.total(name)]
    reasons: dict[str, int] = {}
    for one in (one for partition in report.partitions for one in partition.uncompared):
        reasons[one.reason] = reasons.get(one.reason, 0) + one.end - one.first
    lines += [f"  {offsets:,} source offsets were not compared: {reason}" for reason, offsets in reasons.items()]
    lines += [f"  {name} was not compared: {reason}" for name, reason in report.skipped.items()]
    if report.behind:
        lines.append(f"  {report.behind:,} source offsets are not mirrored yet")
    if report.gaps:
        lines.append(f"  {len(report.gaps)} gaps are in the ledger: see `sparkmirror gaps`")
    return lines


def _shown(one: Compared, first: Difference) -> list[str]:
    where = f"upstream offset {first.upstream}, downstream offset {first.downstream}"
    lines = [f"  {one.source}: the first difference ({first.kind}) is at {where}"]
    lines += [f"    {first.detail}"] if first.detail else []
    for side, record in (("source", first.source), ("target", first.target)):
        lines.append(f"    {side}: {render_record(record)}")
    return lines


def render_record(record: Mapping[str, Any] | None) -> str:
    """The record on one line."""
    if record is None:
        return "no such record"
    headers = ", ".join(f"{name}={_quoted(value)}" for name, value in record["headers"])
    more = record["headers_count"] - len(record["headers"])
    headers += f" and {more} more" if more else ""
    return (
        f"offset {record['offset']}, timestamp {record['timestamp_ms']}, key {_quoted(record['key'])}, "
        f"value {_quoted(record['value'])}, headers [{headers}]"
    )


def _quoted(text: str | None) -> str:
    return "null" if text is None else f'"{text}"'


DIFFERENT_STATUS: Final = 1
UNPROVEN_STATUS: Final = 4
"""The exit status of a comparison that could not be completed, also where a cluster did not answer; status 1 means a
difference."""
_STATUSES = {EQUAL: 0, UNKNOWN: UNPROVEN_STATUS, DIFFERENT: DIFFERENT_STATUS}


def exit_status(reports: Iterable[FlowReport]) -> int:
    """The status of the worst verdict: a difference counts more than an incomplete comparison."""
    return worst_status(_STATUSES[report.verdict] for report in reports)


def worst_status(statuses: Iterable[int]) -> int:
    """The worst status of several comparisons; 0 for none."""
    worst = 0
    for status in statuses:
        worst = DIFFERENT_STATUS if DIFFERENT_STATUS in (worst, status) else max(worst, status)
    return worst


_STYLE = """
:root { color-scheme: light dark; --line: #8885; --good: #1a7f37; --bad: #c62828; --open: #9a6700; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
pre { overflow-x: auto; padding: .6rem; border: 1px solid var(--line); white-space: pre-wrap; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
.equal { color: var(--good); } .different { color: var(--bad); font-weight: bold; } .unproven { color: var(--open); }
@media (prefers-color-scheme: dark) { :root { --good: #57c56f; --bad: #ff7b72; --open: #d6a93c; } }
"""
_COUNTS = ("equal", "different", "missing", "surplus", "repeated", "holes")


def render_html(reports: Sequence[FlowReport]) -> str:
    """The report as a complete HTML document."""
    body = "\n".join(_flow(report) for report in reports)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>sparkmirror verify</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _flow(report: FlowReport) -> str:
    verdict = escape(report.verdict)
    lines = [
        f"<h1>{escape(str(report.flow))}: <span class={verdict}>{verdict}</span></h1>",
        f"<p>{_facts(report)}</p>",
        *(f"<p>{escape(line.strip())}.</p>" for line in render_remarks(report)),
        *(_difference(one, one.difference) for one in report.partitions if one.difference is not None),
        *(f"<p>{escape(str(one.source))}: {escape(said)}</p>" for one in report.partitions for said in one.problems),
        _table(report.partitions),
    ]
    return "\n".join(lines)


def _facts(report: FlowReport) -> str:
    records = report.total("equal") + report.differences
    sampled = "" if report.sample_percent >= 100 else f" of a sample of {report.sample_percent:g} %"
    return escape(
        f"{records:,} records{sampled} compared in {report.seconds:.1f} s at {report.at}, "
        f"{report.differences:,} differences; {report.total('identical_bytes'):,} of {report.total('bytes'):,} bytes "
        "are in batches that the target has byte for byte."
    )


def _difference(one: Compared, first: Difference) -> str:
    where = f"upstream offset {first.upstream}, downstream offset {first.downstream}"
    detail = f"<p>{escape(first.detail)}</p>" if first.detail else ""
    return (
        f"<h2>{escape(str(one.source))}: {escape(first.kind)}</h2>\n"
        f"<p>The first difference is at {where}.</p>{detail}\n"
        f"<pre>source  {escape(render_record(first.source))}\ntarget  {escape(render_record(first.target))}</pre>"
    )


def _table(partitions: Iterable[Compared]) -> str:
    heads = "".join(f"<th>{name}</th>" for name in ("partition", "verdict", *_COUNTS))
    rows = "\n".join(
        f"<tr><td>{escape(str(one.source))}</td><td class={one.verdict}>{one.verdict}</td>"
        + "".join(f"<td>{one.counts.get(name, 0):,}</td>" for name in _COUNTS)
        + "</tr>"
        for one in partitions
    )
    return f"<div class=wide><table>\n<tr>{heads}</tr>\n{rows}\n</table></div>"
