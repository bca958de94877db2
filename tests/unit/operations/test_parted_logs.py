"""Logs that part after a disaster are accepted as they are, where offsets are kept."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest
from tests.flows import flow_of
from tests.unit.operations.test_kept_return import AWAY, HOME, ORDERS, Published

from sparkmirror.control.commands import Selection
from sparkmirror.kafka.admin import Admin
from sparkmirror.ledger.gaps import list_gaps
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Position, Topic
from sparkmirror.operations import parted_logs, reverse_ledger
from sparkmirror.operations.kept_return import KeptReturn
from sparkmirror.operations.parted_logs import PartedLogs, Parting
from sparkmirror.operations.position_job import Author

SHORT = KeptReturn(ORDERS, 130, HOME, AWAY, "the logs part at offset 100", 100, 157)
LONG = KeptReturn(ORDERS, 170, HOME, AWAY, "the logs part at offset 157", 157, 157)
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"

Look = Callable[[KeptReturn], PartedLogs]


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Published:
    return Published(monkeypatch)


@pytest.fixture
def logs(published: Published, monkeypatch: pytest.MonkeyPatch) -> Look:
    """By what the clusters have."""
    monkeypatch.setattr(parted_logs, "mirrored_partitions", lambda *_: [ORDERS])
    admin = SimpleNamespace(list_known_topics=lambda names: dict.fromkeys(names, SimpleNamespace(partitions=1)))

    def make(found: KeptReturn) -> PartedLogs:
        monkeypatch.setattr(parted_logs, "look_at_kept", lambda *_: [found])
        flow = flow_of("preserve.offsets.enabled = true", IDENTITY)
        return PartedLogs(flow, cast(Admin, admin), cast(Admin, admin), Selection())

    return make


def told(partings: tuple[Parting, ...]) -> str:
    (one,) = partings
    return one.sentence("A", "B")


def test_what_the_other_cluster_has_is_appended_behind_what_the_old_primary_alone_has(
    logs: Look, published: Published
) -> None:
    found = logs(SHORT).look(leaves_out=False)
    assert told(found) == (
        "orders-0: A keeps what it has from offset 100 on; B's 57 offsets are appended at offset 130, and offsets are "
        "not kept from here on"
    )
    logs(SHORT).accept(found, Author("the fire"))
    view = published.view
    assert view.positions == {ORDERS: Position(100, topic_id=AWAY)}
    record = view.records[ORDERS]
    assert (record.extent, record.is_aligned) == (Extent("orders", HOME, 130), False)
    assert view.accepted[ORDERS].parted_at == 100 and "the fire" in view.accepted[ORDERS].by
    assert view.has_accepted(ORDERS, Topic("orders", HOME, 1, 1))
    assert not view.has_accepted(ORDERS, Topic("orders", UUID(int=9), 1, 1)), "it was made again since"

    before = {topic: dict(records) for topic, records in published.values.items()}
    again = logs(SHORT).look(leaves_out=True)
    assert told(again) == "orders-0 is accepted already"
    logs(SHORT).accept(again, Author())
    assert published.values == before, "what was appended since is not appended twice"

    assert logs(SHORT).revoke() == [ORDERS]
    assert published.view.accepted == {}


def test_a_position_counts_only_once_it_is_there_and_acceptance_comes_last(
    logs: Look, published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed before that: the partition is refused as before, and the next try does all of it."""
    with monkeypatch.context() as patched:
        patched.setattr(reverse_ledger.ReverseLedger, "write_accepted", lambda *_: (_ for _ in ()).throw(SystemExit))
        with pytest.raises(SystemExit):
            logs(SHORT).accept(logs(SHORT).look(leaves_out=False), Author())
    assert published.view.positions and not published.view.accepted
    logs(SHORT).accept(logs(SHORT).look(leaves_out=False), Author())
    assert published.view.accepted[ORDERS].parted_at == 100


def test_what_the_other_cluster_has_is_left_out_and_noted_and_offsets_are_kept_behind_it(
    logs: Look, published: Published
) -> None:
    found = logs(SHORT).look(leaves_out=True)
    assert told(found) == (
        "orders-0: A keeps what it has from offset 100 on; B's 30 offsets up to 129 are left out, and offsets are the "
        "same behind them"
    )
    logs(SHORT).accept(found, Author())
    record = published.view.records[ORDERS]
    assert (record.position, record.extent, record.is_aligned) == (
        Position(130, topic_id=AWAY), Extent("orders", HOME, 130), True,
    )  # fmt: skip
    assert published.view.accepted == {}
    (gap,) = list_gaps("B", list(published.values[ledger_topics("B").gaps].items()))
    assert (gap.partition, gap.cause, gap.expected, gap.resumed, gap.lost_records) == (ORDERS, "left out", 100, 130, 30)
    assert gap.topic_id == HOME, "another topic there has them"
    assert told(logs(SHORT).look(leaves_out=False)) == "orders-0 is accepted already"


def test_nothing_can_be_left_out_before_the_other_cluster_has_reached_as_far(logs: Look, published: Published) -> None:
    found = logs(LONG).look(leaves_out=True)
    assert "cannot be accepted: its log ends at offset 170 on the old primary, and at 157 on the other" in told(found)
    logs(LONG).accept(found, Author())
    assert not published.view.records
    assert "B's 0 offsets are appended at offset 170" in told(logs(LONG).look(leaves_out=False))


def test_logs_that_could_not_be_compared_are_not_accepted(logs: Look) -> None:
    unknown = KeptReturn(ORDERS, 130, HOME, AWAY, "the logs could not be compared from offset 7 on: silence")
    assert told(logs(unknown).look(leaves_out=False)).endswith("cannot be accepted: " + unknown.parted)


def test_logs_that_do_not_part_need_nothing(logs: Look) -> None:
    assert logs(KeptReturn(ORDERS, 130, HOME, AWAY)).look(leaves_out=False) == ()


def test_that_logs_were_the_same_on_an_earlier_way_back_accepts_nothing_of_the_next(
    logs: Look, published: Published
) -> None:
    published.returns(KeptReturn(ORDERS, 90, HOME, AWAY))
    assert "A keeps what it has from offset 100 on" in told(logs(SHORT).look(leaves_out=False))
    logs(SHORT).accept(logs(SHORT).look(leaves_out=True), Author())
    assert published.view.records[ORDERS].position.offset == 130
    assert told(logs(SHORT).look(leaves_out=True)) == "orders-0 is accepted already"
