"""A group of our own protocol on a real broker: who joins, who leads, and who is told that it is out."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.membership import Membership, MembershipLost, list_peers
from sparkmirror.model import Cluster
from sparkmirror.testing.kafka import KafkaCluster

SESSION_MS = 30_000
"""Nobody is put out for a slow machine's sake."""
SECONDS_MAX = 60.0


@pytest.fixture
def member(target_cluster: KafkaCluster, unique: Callable[[str], str]) -> Iterator[Callable[[], Membership]]:
    """`member()` is one more of a group that no other test has."""
    group = unique("crew")
    cluster = Cluster("backup", {"bootstrap.servers": target_cluster.bootstrap_servers})
    with ExitStack() as opened:
        yield lambda: Membership(opened.enter_context(open_admin(cluster, "share")), group, SESSION_MS)


def upper(cards: Mapping[str, bytes]) -> dict[str, bytes]:
    """The plan: everybody gets its own card in capitals, with how many there are."""
    return {name: card.upper() + str(len(cards)).encode() for name, card in cards.items()}


def until_due(one: Membership) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while one.heartbeat():
        assert time.monotonic() < deadline, "it is not told that somebody has come or gone"
        time.sleep(0.05)


def test_each_member_gets_what_the_leader_plans_and_learns_when_a_member_joins_or_leaves(
    member: Callable[[], Membership],
) -> None:
    first, second = member(), member()
    assert first.join(b"one", upper) == b"ONE1"
    assert first.heartbeat()
    got: list[bytes] = []
    joining = threading.Thread(target=lambda: got.append(second.join(b"two", upper)))
    joining.start()
    until_due(first)
    assert first.join(b"uno", upper) == b"UNO2"
    joining.join(SECONDS_MAX)
    assert got == [b"TWO2"]
    assert sorted((peer.metadata, peer.assignment) for peer in first.peers()) == [(b"two", b"TWO2"), (b"uno", b"UNO2")]
    second.leave()
    until_due(first)
    assert first.join(b"one", upper) == b"ONE1"
    first.leave()
    assert first.peers() == []


def test_a_member_that_was_removed_learns_of_it_and_may_join_again(member: Callable[[], Membership]) -> None:
    first, other = member(), member()
    first.join(b"one", upper)
    (peer,) = other.peers()
    assert peer.client_id.endswith("-share")
    other.leave(peer.member_id)
    with pytest.raises(MembershipLost, match="gone on without this process"):
        first.heartbeat()
    assert first.member_id == ""
    assert first.join(b"one", upper) == b"ONE1"
    first.leave()


def test_a_group_that_nobody_has_joined_has_no_members(
    target_cluster: KafkaCluster, unique: Callable[[str], str]
) -> None:
    cluster = Cluster("backup", {"bootstrap.servers": target_cluster.bootstrap_servers})
    with open_admin(cluster, "status") as admin:
        assert list_peers(admin, unique("nobody")) == []
