"""Shared by all sync jobs: a plan of changes that can be shown before it is applied. Pure.

A job observes both clusters, plans, and applies; `sync_once` is one such round. A running mirror repeats it;
`sparkmirror plan` and `--dry-run` print the same plan and apply nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol


class Change(Protocol):
    """One change to the target: a frozen dataclass whose fields are plain values, for JSON."""

    @property
    def sentence(self) -> str:
        """The change as a sentence."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes, in a fixed order, and sentences about what cannot be done as configured."""

    changes: tuple[Change, ...] = ()
    warnings: tuple[str, ...] = ()


class Sync(Protocol):
    """One job of one flow. Idempotent: an applied plan leaves nothing to plan."""

    description: str

    def plan(self) -> Plan:
        """Observes both clusters. Raises ClusterError if one does not answer, never for a single topic."""

    def apply(self, plan: Plan) -> Sequence[str]:
        """Carries the plan out; a sentence for each change that failed, all others are done. Raises ClusterError."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a job: what was planned and which sentences came back."""

    plan: Plan
    failures: tuple[str, ...] = ()


def sync_once(sync: Sync) -> Round:
    """Observe, plan, apply. Raises ClusterError if a cluster does not answer."""
    plan = sync.plan()
    return Round(plan, tuple(sync.apply(plan)) if plan.changes else ())


def describe_change(change: Any) -> dict[str, Any]:
    """A change for JSON: its fields, and its kind as in `create-topic`."""
    kind = re.sub(r"(?<!^)(?=[A-Z])", "-", type(change).__name__).lower()
    return {"change": kind, **asdict(change)}
