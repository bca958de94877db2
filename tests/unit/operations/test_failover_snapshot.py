"""Who looks once, for a failover or a list, does without no group of a coordinator that is loading."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.flows import flow_of

from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.group_answers import Committed, GroupListing
from sparkmirror.kafka.log_offsets import LogOffsets, OffsetsUnknown
from sparkmirror.ledger.map_records import MapView
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.ledger.translate import Translated
from sparkmirror.model import TopicPartition
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

    await_newest_ends = await_earliest_offsets


def admin(alias: str, code: int = 0) -> Admin:
    return cast(Admin, Cluster(alias, code))


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No partition is mirrored."""
    state = SimpleNamespace(follow=set)
    monkeypatch.setattr(failover_snapshot, "OffsetState", lambda *_: nullcontext(state))
    for name in ("mirrored_partitions", "mirrored_offsets"):
        monkeypatch.setattr(failback, name, lambda *_, **__: {})
    monkeypatch.setattr(failback, "whole_ledger", lambda *_: SimpleNamespace(positions={}, problems={}))


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


ORDERS, REMOTE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
SILENT = "its leader, broker 2 (b2:9092), does not answer"


class SilentTarget:
    """A target of which one leader does not answer."""

    alias = "B"

    def latest_offsets(self, partitions: Any) -> LogOffsets:
        assert set(partitions) == {REMOTE}
        return LogOffsets(self.alias, {}, {REMOTE: SILENT})

    def await_latest_offsets(self, partitions: Any) -> dict[TopicPartition, int]:
        return self.latest_offsets(partitions).all()

    def list_topics(self, _: Any) -> dict[str, Any]:
        return {}


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Admin:
    """A group has read `orders`, and the leader of `A.orders` is away for a moment."""
    checkpoints = {("g", REMOTE): Checkpoint("g", REMOTE, 40, 40, "")}
    translator = SimpleNamespace(translate=lambda *_: Translated(REMOTE, 40, exact=True))
    state = SimpleNamespace(
        follow=set, checkpoints=checkpoints, maps=MapView("A"), translator=translator, records={}, places={}
    )
    for name, found in {
        "OffsetState": lambda *_: nullcontext(state),
        "list_all_groups": lambda _: {"g": GroupListing("g", "consumer", "Empty")},
        "read_groups": lambda admin, _: {"g": {ORDERS: Committed(40)}} if admin.alias == "A" else {"g": {}},
        "mirrored_partitions": lambda *_, **__: [ORDERS],
        "_homeward": lambda *_: {},
        "look_behind": lambda *_: ((), {}),
        "ledger_offsets": lambda _: {ORDERS: 40},
        "_heard_seconds": lambda _: 1.0,
    }.items():
        monkeypatch.setattr(failover_snapshot, name, found)
    return cast(Admin, SilentTarget())


@pytest.mark.parametrize("source", [admin("A"), None])
def test_no_group_is_left_out_of_the_moves_since_a_leader_of_the_target_is_silent(
    source: Admin | None, silent: Admin
) -> None:
    """It would go on by `auto.offset.reset`: with `latest` it would never read what lies between."""
    with pytest.raises(OffsetsUnknown, match=r"Cluster B does not tell the offsets of A\.orders-0 \(its leader"):
        failover_snapshot.look(flow_of(), ClusterPair(source, silent), differences=False, is_step=True)


@pytest.mark.parametrize("source", [admin("A"), None])
def test_who_only_looks_learns_of_it(source: Admin | None, silent: Admin) -> None:
    found = failover_snapshot.look(flow_of(), ClusterPair(source, silent), differences=False)
    assert found.moves(planned=source is not None) == {}
    assert found.differences == (
        f"B does not tell the ends of A.orders-0 ({SILENT}): where groups go on there is not known",
    )


@pytest.mark.parametrize(
    ("lines", "compared"),
    [
        ((), ("topics", "settings", "ACLs")),
        (("sync.topic.acls.enabled = false",), ("topics", "settings")),
        (("sync.topic.acls.enabled = false", "sync.topic.configs.enabled = false"), ("topics",)),
    ],
)
def test_what_the_flow_does_not_keep_in_step_counts_as_not_compared(
    lines: tuple[str, ...], compared: tuple[str, ...], silent: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failover_snapshot, "_differences", lambda _: ())
    pair = ClusterPair(admin("A"), silent)
    assert failover_snapshot.look(flow_of(*lines), pair).compared == compared
    assert failover_snapshot.look(flow_of(*lines), pair, differences=False).compared == ()
