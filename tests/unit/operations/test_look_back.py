"""The look at both clusters before a way back: who does not answer, and what only one of them has."""

from collections.abc import Callable, Collection
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.flows import flow_of

from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.log_offsets import LogOffsets, OffsetsUnknown
from sparkmirror.ledger import connect, map_records
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.map_records import ChunkName, MapView, encode_chunk
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.ledger.positions import PositionRecord, encode_key, encode_value
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Position, Topic, TopicPartition
from sparkmirror.operations import cluster_pair, failback
from sparkmirror.operations.failback import WayBack, look_back
from sparkmirror.operations.kept_return import KeptReturn

KEEPS_NAMES = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
ORDERS, LATE = TopicPartition("orders", 0), TopicPartition("late", 0)
SILENT = "its leader, broker 2 (b2:9092), does not answer"
HERE, THERE = UUID(int=1), UUID(int=2)


class Cluster:
    """A cluster by the ends of its logs; those of silent leaders are unknown."""

    def __init__(self, alias: str, topic_id: UUID, ends: dict[TopicPartition, int]) -> None:
        self.alias, self.topic_id, self.ends = alias, topic_id, ends
        self.silent: frozenset[TopicPartition] = frozenset()

    def latest_offsets(self, partitions: Collection[TopicPartition]) -> LogOffsets:
        there = {where: end for where, end in self.ends.items() if where in partitions}
        known = {where: end for where, end in there.items() if where not in self.silent}
        return LogOffsets(self.alias, known, dict.fromkeys(there.keys() - known.keys(), SILENT))

    def await_newest_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self.latest_offsets(partitions).all()

    def await_earliest_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {where: 0 for where in self.ends if where in partitions}

    def list_topics(self, names: Collection[str]) -> dict[str, Topic]:
        there = {where.topic for where in self.ends} & set(names)
        return {name: Topic(name, self.topic_id, 1, 1) for name in there}


class Ledger:
    """The flow's ledger. A killed task has left a transaction open in it, and the last positions lie behind that."""

    is_torn = False

    def __init__(self) -> None:
        self.view = LedgerView(flow_of().connector)

    def read_to_end(self) -> None:
        self._take(90)

    def read_through(self, _: Admin) -> None:
        self._take(100)
        if self.is_torn:
            self.view.take_ours(encode_key("A", ORDERS), b"{torn")

    def _take(self, offset: int) -> None:
        self.view.take_connect(connect.encode_key(self.view._connector, ORDERS), connect.encode_value(offset))
        record = PositionRecord(Position(offset, topic_id=HERE), 1, 0, extent=Extent("orders", THERE, offset))
        self.view.take_ours(encode_key("A", ORDERS), encode_value(record))


def maps() -> MapView:
    """The first hundred records of `orders` lie where they did."""
    found = OffsetMap(0, THERE, HERE)
    found.append(0, 100, 0)
    view = MapView("A")
    view.take(map_records.encode_key("A", ORDERS, ChunkName(1, 1, 1)), encode_chunk(found.as_chunk()))
    return view


Look = Callable[[str], WayBack]


@pytest.fixture
def known() -> MapView:
    return maps()


@pytest.fixture
def clusters() -> tuple[Cluster, Cluster]:
    return Cluster("A", HERE, {ORDERS: 100}), Cluster("B", THERE, {ORDERS: 100, TopicPartition("A.orders", 0): 100})


@pytest.fixture
def look(clusters: tuple[Cluster, Cluster], known: MapView, monkeypatch: pytest.MonkeyPatch) -> Look:
    source, target = (cast(Admin, one) for one in clusters)
    groups = {"g": {ORDERS: Committed(40), TopicPartition("A.orders", 0): Committed(40)}}
    state: Any = SimpleNamespace(follow=set, maps=known, scattered=frozenset())
    for name, found in {
        "OffsetState": lambda *_: nullcontext(state),
        "list_all_groups": lambda _: {"g": SimpleNamespace(is_consumer=True, is_active=False)},
        "read_groups": lambda admin, _: groups if admin is target else {"g": {}},
        "mirrored_partitions": lambda *_, **__: sorted(clusters[0].ends),
        "look_at_kept": lambda *_: (),
    }.items():
        monkeypatch.setattr(failback, name, found)
    monkeypatch.setattr(cluster_pair, "LedgerReader", lambda *_: nullcontext(Ledger()))
    return lambda *lines: look_back(flow_of(*lines), source, target)


@pytest.mark.parametrize(
    ("kept", "returns_to"),
    [
        (KeptReturn(ORDERS, 100, HERE, THERE), 40),
        (KeptReturn(ORDERS, 100, HERE, THERE, "the logs part at offset 30", 30), 30),
        (KeptReturn(ORDERS, 100, HERE, THERE, "the logs part at offset 30", 30, home_begin=7, is_strange=True), 7),
        (KeptReturn(ORDERS, 100, HERE, THERE, "the logs could not be compared"), None),
    ],
)
def test_where_offsets_are_kept_each_partition_is_named_and_groups_return_no_further_than_the_logs_are_the_same(
    look: Look, monkeypatch: pytest.MonkeyPatch, kept: KeptReturn, returns_to: int | None
) -> None:
    monkeypatch.setattr(failback, "look_at_kept", lambda *_: iter([kept]))
    monkeypatch.setattr(failback, "mirrored_offsets", lambda *_: {ORDERS: 100})
    found = look(f"{KEEPS_NAMES}\npreserve.offsets.enabled = true")
    assert found.kept == (kept,)
    assert found.moves == ({} if returns_to is None else {"g": {ORDERS: Committed(returns_to)}})


def test_groups_return_and_the_reverse_flow_starts_behind_what_was_mirrored(look: Look) -> None:
    assert look("").moves == {"g": {ORDERS: Committed(40)}}
    found = look(KEEPS_NAMES)
    assert (found.moves, found.starts) == ({"g": {ORDERS: Committed(40)}}, {ORDERS: 100})


@pytest.mark.parametrize(("policy", "remote"), [("", "A.orders"), (KEEPS_NAMES, "orders")])
def test_no_group_is_left_behind_since_a_leader_is_silent(
    look: Look, clusters: tuple[Cluster, Cluster], policy: str, remote: str
) -> None:
    clusters[1].silent = frozenset({TopicPartition(remote, 0)})
    with pytest.raises(OffsetsUnknown, match=f"Cluster B does not tell the offsets of {remote}-0"):
        look(policy)


def test_a_topic_that_was_never_mirrored_holds_up_nothing(look: Look, clusters: tuple[Cluster, Cluster]) -> None:
    """It was made on A while the mirror stood still, and B has none of its name."""
    clusters[0].ends[LATE] = 7
    found = look(KEEPS_NAMES)
    assert found.starts == {ORDERS: 100}
    assert [one.partition for one in found.divergence] == [LATE]


@pytest.mark.parametrize("known", [MapView("A")])
def test_the_reverse_flow_starts_behind_positions_that_an_open_transaction_hides(look: Look) -> None:
    """Read as far as it is committed, the ledger would have records copied back that came from the old primary."""
    found = look(KEEPS_NAMES)
    assert (found.starts, found.divergence) == ({ORDERS: 100}, ())


def test_no_start_is_set_where_nobody_can_read_how_far_a_partition_was_mirrored(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map may end before what was written: a record of the ledger that cannot be read is not one that is absent."""
    monkeypatch.setattr(Ledger, "is_torn", True)
    with pytest.raises(SparkMirrorError, match="A->B, orders-0: its position is unknown"):
        look(KEEPS_NAMES)
    assert look("").starts == {}
