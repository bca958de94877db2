"""A verdict in lines for a terminal: the headline, and below it each problem with since, next try and command; pure.

Printed by `cli.status`, `web.plain` and `cli.run`'s live table.
"""

from sparkmirror.clock import show_age, show_moment
from sparkmirror.shown import show_text
from sparkmirror.telemetry.problems import Problem
from sparkmirror.telemetry.verdict import Verdict


def headline(verdict: Verdict) -> str:
    """`RED A->B: 2 partitions: the target refuses them`."""
    return f"{verdict.level.name} {show_text(verdict.sentence)}"


def problem_lines(verdict: Verdict, now_ms: int) -> list[str]:
    """Each problem on a line of its own, with its command and page on lines below it."""
    return [line for problem in verdict.problems for line in _problem(problem, now_ms)]


def _problem(problem: Problem, now_ms: int) -> list[str]:
    parts = [show_text(problem.sentence)]
    if problem.since_ms is not None:
        parts.append(f"since {show_moment(problem.since_ms // 1000 * 1000)}")
    if problem.retry_at_ms is not None and problem.retry_at_ms > now_ms:
        parts.append(f"next try in {show_age((problem.retry_at_ms - now_ms) / 1000)}")
    lines = [f"  {problem.level.name} {', '.join(parts)}"]
    if problem.command:
        lines.append(f"    {problem.command}")
    if problem.page:
        lines.append(f"    see docs/{problem.page}")
    return lines
