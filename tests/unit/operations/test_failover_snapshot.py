"""Who looks once, for a failover or a list, does without no group of a coordinator that is loading."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.flows import flow_of

from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.operations import failback, failover_snapshot, snapshots
from sparkmirror.operations.cluster_pair import ClusterPair

LOADING = 14


class Cluster:
    """Of one broker, which answers each question with its code."""

    def __init__(self, alias: str, code: int) -> None:
        self.alias, self._code = alias, code
        self.connection = self
        self.settings = SimpleNamespace(request_timeout_seconds=0.0)

    def brokers(self) -> dict[int, tuple[str, int]]:
        return {1: (self.alias.lower(), 9092)}

    def wait(self, _seconds: float) -> bool:
        return False

    def ask(self, *_: Any) -> Any:
        return SimpleNamespace(error_code=self._code, groups=())

    def await_earliest_offsets(self, _: Any) -> dict[Any, int]:
        return {}

    await_latest_offsets = await_earliest_offsets


def admin(alias: str, code: int = 0) -> Admin:
    return cast(Admin, Cluster(alias, code))


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No partition is mirrored."""
    state = SimpleNamespace(follow=set)
    monkeypatch.setattr(failover_snapshot, "OffsetState", lambda *_: nullcontext(state))
    for name in ("mirrored_partitions", "mirrored_offsets", "ledger_offsets"):
        monkeypatch.setattr(failback, name, lambda *_: {})


@pytest.mark.parametrize(("source", "target", "named"), [(LOADING, 0, "A"), (0, LOADING, "B")])
def test_neither_way_is_planned_without_the_groups_of_a_loading_coordinator(
    source: int, target: int, named: str
) -> None:
    refused = rf"Cluster {named}: broker 1 \({named.lower()}:9092\) does not list the groups that it coordinates"
    with pytest.raises(SparkMirrorError, match=refused):
        failover_snapshot.look(flow_of(), ClusterPair(admin("A", source), admin("B", target)))
    with pytest.raises(SparkMirrorError, match=refused):
        failback.look_back(flow_of(), admin("A", source), admin("B", target))


def test_the_target_alone_is_asked_likewise() -> None:
    with pytest.raises(SparkMirrorError, match="Cluster B: broker 1"):
        failover_snapshot.look(flow_of(), ClusterPair(None, admin("B", LOADING)))


@pytest.mark.parametrize(("source", "target", "named"), [(LOADING, 0, "A"), (0, LOADING, "B")])
def test_nor_are_groups_listed_without_them(
    source: int, target: int, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = ClusterPair(admin("A", source), admin("B", target))
    state = SimpleNamespace(follow=set, records={})
    monkeypatch.setattr(snapshots, "open_sides", lambda *_: nullcontext(pair))
    monkeypatch.setattr(snapshots, "OffsetState", lambda *_: nullcontext(state))
    monkeypatch.setattr(snapshots, "look_at_identical", lambda *_: {})
    with pytest.raises(SparkMirrorError, match=f"Cluster {named}: broker 1"):
        snapshots.look_at_groups(flow_of())
