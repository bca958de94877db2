"""Compares how long a target knows producers with what flows that keep offsets rely on. Called by
`operations.cluster_checks`."""

from collections.abc import Iterator, Mapping
from typing import Final

from sparkmirror.clock import show_age
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.operations.needs import to_principal
from sparkmirror.planning.target_ends import read_memory_ms
from sparkmirror.policy.producer_memory import DAY_MS, MEMORY_KEY, young_ms
from sparkmirror.views.findings import Finding, Level

_WHAT: Final = "producers"
_RAISE: Final = f"raise {MEMORY_KEY} of the brokers to a day or more"


def check_memory(flow: FlowConfig, target: Admin) -> Iterator[Finding]:
    """A finding where the flow keeps offsets. Raises ClusterError."""
    if flow.preserves_offsets:
        yield judge_memory(target.alias, read_memory_ms(target))


def judge_memory(alias: str, told: Mapping[int, int | None]) -> Finding:
    """By what each broker tells, in ms."""
    known = [one for one in told.values() if one is not None]
    if not known:
        said = f"keeping offsets: the brokers do not tell their {MEMORY_KEY}; it is taken for the default, a day"
        hint = to_principal("grant DESCRIBE_CONFIGS on the cluster", alias, "if it is less, partitions may be FAILED")
        return Finding(Level.WARN, alias, _WHAT, said, hint)
    least = min(known)
    age_ms = young_ms(least)
    which = "records" if age_ms is None else f"records older than {show_age(age_ms / 1000)}"
    said = (
        f"keeping offsets: a log knows a producer for {show_age(least / 1000)} behind its last record's time: "
        f"behind {which} one batch at a time is under way"
    )
    if least >= DAY_MS:
        return Finding(Level.OK, alias, _WHAT, said)
    return Finding(Level.WARN, alias, _WHAT, said, _RAISE)
