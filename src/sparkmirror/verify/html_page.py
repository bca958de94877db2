"""The report of a comparison as one page, with everything in it and nothing to fetch. Pure. Written by `cli.verify`.

Every text is escaped: records hold what their writers liked.
"""

from collections.abc import Iterable, Sequence
from html import escape

from sparkmirror.verify.difference import Difference
from sparkmirror.verify.report import Compared, FlowReport, render_record, render_remarks

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
    """A whole document."""
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
