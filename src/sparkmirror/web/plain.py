"""The page as plain text, `/status.txt`, for a terminal and for browsers without JavaScript. `runtime.page` serves it.

It is made from the page's state, so both show the same.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sparkmirror.shown import show_text
from sparkmirror.telemetry.problems import Level, Problem
from sparkmirror.telemetry.records import PartitionState, VerifyRecord
from sparkmirror.telemetry.verdict import Verdict
from sparkmirror.views.filling import count_fillings
from sparkmirror.views.identical import identical_offsets
from sparkmirror.views.table import make_table, page_lines
from sparkmirror.views.verdict_lines import headline, problem_lines
from sparkmirror.views.verified import verified_sentence
from sparkmirror.web.page_state import PageState

_SHOWN_MAX: Final = 100


def plain_page(page_state: PageState) -> tuple[bytes, str]:
    """Renders the text, as a document of `web.app`."""
    state = page_state.since(0)
    text = "\n".join(render_state(state, time.time_ns() // 1_000_000))
    return f"{text}\n".encode(), "text/plain; charset=utf-8"


def render_state(state: Mapping[str, Any], now_ms: int) -> list[str]:
    """A line for each flow, then its partitions that do not run; the last failures at the end."""
    flows = [part for name, part in state["parts"].items() if name.startswith("flow/")]
    lines = [
        line for flow in flows for line in _flow(flow, state["rows"].get(f"partitions/{flow['name']}", ()), now_ms)
    ]
    failures = state["parts"].get("failures", ())
    lines += ["", "The last warnings and errors:"] if failures else []
    lines += [f"  {one['level']} {show_text(one['text'])}" for one in failures[:_SHOWN_MAX]]
    return lines or ["The mirror is starting."]


def _flow(flow: Mapping[str, Any], rows: Sequence[Sequence[Any]], now_ms: int) -> list[str]:
    judged = flow["verdict"]
    problems = tuple(Problem(**_arguments(one)) for one in judged["problems"])
    verdict = Verdict(flow["name"], Level(judged["level"]), judged["sentence"], problems)
    rate, lag = (_known(flow[name]) for name in ("records_per_second", "lag_records"))
    lines = [headline(verdict), f"  {flow['state']}, {rate} records/s, lag {lag}", *problem_lines(verdict, now_ms)]
    if kept := identical_offsets(flow["identical"], flow["unclear"]):
        lines.append(f"  {kept}")
    if filling := count_fillings(flow["filling"]):
        lines.append(f"  {filling}")
    if flow["verify"] is not None:
        lines.append(f"  {verified_sentence(VerifyRecord(**flow['verify']), now_ms)}")
    halted = [row for row in rows if row[3] != PartitionState.RUNNING]
    if halted:
        shown = [(row[1], row[2], row[3], row[11]) for row in sorted(halted, key=lambda row: (row[1], row[2]))]
        lines += page_lines([make_table(("topic", "partition", "state", "reason"), shown[:_SHOWN_MAX], indent=2)])
    if (more := len(halted) - _SHOWN_MAX) > 0:
        lines.append(f"  and {more} more")
    return lines


def _arguments(problem: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in problem.items() if name != "sentence"} | {"level": Level(problem["level"])}


def _known(number: float | None) -> str:
    return "unknown" if number is None else f"{number:,.0f}"
