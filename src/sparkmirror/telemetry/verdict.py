"""Judges a flow: one level and one sentence; pure.

The status page, `sparkmirror status`, the live table of `run`, `/readyz` and the metrics all show the verdict of
`judge`, and none judges by itself. Facts that are missing make a flow UNKNOWN, never GREEN.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sparkmirror.clock import show_moment
from sparkmirror.telemetry.facts import Facts
from sparkmirror.telemetry.problems import (
    COPIED,
    STATUS_PAGE,
    Level,
    Problem,
    command,
    find_problems,
    first_line,
    plural,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one flow. `sentence` begins with the flow's name; `problems` are all problems, the worst first.

    `lag_records` is None where the lag is not known.
    """

    flow: str
    level: Level
    sentence: str
    problems: tuple[Problem, ...] = ()
    lag_records: int | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the flow mirrors: GREEN or AMBER."""
        return self.level in (Level.GREEN, Level.AMBER)

    @property
    def since_ms(self) -> int | None:
        return self.problems[0].since_ms if self.problems else None

    def as_json(self) -> dict[str, Any]:
        return {
            "level": self.level.value,
            "sentence": self.sentence,
            "since": None if self.since_ms is None else show_moment(self.since_ms),
            "problems": [problem.as_json() for problem in self.problems],
        }


def judge(facts: Facts) -> Verdict:
    """The verdict on one flow."""
    if facts.target_problem:
        return _judge(facts, [_of_target(facts)])
    if facts.is_starting:
        return _judge(
            facts, [Problem(Level.UNKNOWN, "it is starting", "", command=command(facts, "status"), page=STATUS_PAGE)]
        )
    if not facts.processes and not facts.tasks:
        start = command(facts, "run")
        return _judge(facts, [Problem(Level.UNKNOWN, "no run has reported", "", command=start, page=STATUS_PAGE)])
    return _judge(facts, find_problems(facts))


def _of_target(facts: Facts) -> Problem:
    """The problem that the target does not answer. It stands alone, because all other facts are old then."""
    target = facts.flow.target
    since_ms = max((one.at_ms for one in facts.processes), default=None)
    cause = f"does not answer: {first_line(facts.target_problem)}"
    return Problem(Level.RED, cause, f"cluster {target}", 1, since_ms, None, command(facts, "doctor"), STATUS_PAGE)


def _judge(facts: Facts, problems: list[Problem]) -> Verdict:
    level = max((problem.level for problem in problems), key=lambda one: one.rank, default=Level.GREEN)
    name = str(facts.flow)
    if not problems:
        sentence = f"{name}: {COPIED}" if facts.is_copied else f"{name} is mirroring"
        return Verdict(name, level, sentence, (), facts.lag_records)
    more = f"; and {plural(len(problems) - 1, 'more problem')}" if len(problems) > 1 else ""
    begin = f"{name} is mirroring, but " if level is Level.AMBER else f"{name}: "
    lag = None if facts.target_problem or facts.is_starting or level is Level.UNKNOWN else facts.lag_records
    return Verdict(name, level, f"{begin}{problems[0].sentence}{more}", tuple(problems), lag)


def sum_up(verdicts: Iterable[Verdict]) -> tuple[Level, str]:
    """The worst level of several flows, and one sentence about all."""
    found = list(verdicts)
    if not found:
        return Level.UNKNOWN, "The mirror is starting"
    level = max((one.level for one in found), key=lambda one: one.rank)
    if level is Level.GREEN:
        return level, found[0].sentence if len(found) == 1 else f"All {len(found)} flows are mirroring"
    worst = [one for one in found if one.level is level]
    more = len([one for one in found if one.level is not Level.GREEN]) - 1
    also = f"; and {plural(more, 'more flow')} to look at" if more > 0 else ""
    return level, f"{worst[0].sentence}{also}"
