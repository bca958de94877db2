"""What to do when records are lost, before they were mirrored or after: per flow, and for topics by name. Pure.

Read from the file by `config.types`, obeyed by `pipeline.produce.gate` and `pipeline.produce.log_check`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sparkmirror.policy.filters import compile_names

CONTINUE, PAUSE, FAIL = LOSS_ACTIONS = ("continue", "pause", "fail")

DONE = {CONTINUE: "went on", PAUSE: "partition paused", FAIL: "mirror ended"}
"""What the gap ledger says was done."""

ENDS_THE_MIRROR = "on.data.loss=fail ends the mirror"
"""Stands in the reason of a partition for which the whole run must end."""


@dataclass(frozen=True, slots=True)
class LossRule:
    """`action` for topics whose whole name matches `pattern`."""

    pattern: str
    action: str

    def applies_to(self, topic: str) -> bool:
        compiled = compile_names([self.pattern])
        return compiled is not None and compiled.fullmatch(topic) is not None


@dataclass(frozen=True, slots=True)
class LossPolicy:
    """The first rule that matches counts, `action` where none does."""

    action: str = CONTINUE
    rules: tuple[LossRule, ...] = ()

    def of(self, topic: str) -> str:
        return next((rule.action for rule in self.rules if rule.applies_to(topic)), self.action)


def what_next(action: str) -> str:
    """The end of a sentence about a partition that does not go on."""
    return ENDS_THE_MIRROR if action == FAIL else "set on.data.loss=continue and start again to go on"


def parse_rules(items: Iterable[str]) -> tuple[LossRule, ...]:
    """Rules from `PATTERN:ACTION`. Raises ValueError."""
    rules = []
    for item in items:
        pattern, _, action = (part.strip() for part in item.rpartition(":"))
        if not pattern or action not in LOSS_ACTIONS:
            raise ValueError(f"must list `PATTERN:ACTION`, as in `payments.*:fail, audit:pause`, not `{item}`")
        rules.append(LossRule(pattern, action))
    return tuple(rules)
