"""Which processes run a flow, by what their group on the target says of them."""

from sparkmirror.kafka.membership import Peer
from sparkmirror.sharing.assignment import Claim, MemberAssignment, MemberMetadata, encode_assignments, encode_metadata
from sparkmirror.sharing.processes import find_shares


def peer(pid: int, *grants: MemberAssignment) -> Peer:
    card = MemberMetadata("east-1", pid, "m.properties", (Claim("A->B", 4, "f", 1), Claim("C->B", 1, "f", 1)))
    return Peer(f"member-{pid}", "id", "10.0.0.7", encode_metadata(card), encode_assignments(grants))


def test_each_process_is_listed_with_its_tasks_in_their_order() -> None:
    peers = [peer(8, MemberAssignment("A->B", "r", frozenset({1, 3})), MemberAssignment("C->B", "r", frozenset({0})))]
    peers += [peer(7, MemberAssignment("A->B", "r", frozenset({0, 2}))), peer(9, MemberAssignment("A->B", "r"))]
    assert [one.sentence for one in find_shares("A->B", peers)] == [
        "process 7 on east-1 (10.0.0.7): tasks 0, 2 of 4, by m.properties",
        "process 8 on east-1 (10.0.0.7): tasks 1, 3 of 4, by m.properties",
        "process 9 on east-1 (10.0.0.7): tasks none of 4, by m.properties",
    ]
    assert [one.tasks for one in find_shares("C->B", peers)] == [(0,)]


def test_files_that_disagree_are_named_on_both_sides() -> None:
    peers = [
        peer(7, MemberAssignment("A->B", "r", frozenset({0}), "process 8 on east-1", True)),
        peer(8, MemberAssignment("A->B", "r", frozenset(), "process 7 on east-1", False)),
    ]
    first, second = (one.sentence for one in find_shares("A->B", peers))
    assert first.endswith(
        "the file of process 8 on east-1 says something else of the flow: its own was changed later and is obeyed"
    )
    assert second.endswith(
        "the file of process 7 on east-1 says something else of the flow: that was changed later and is obeyed"
    )


def test_while_tasks_are_shared_again_no_process_is_known() -> None:
    assert find_shares("A->B", [Peer("m", "id", "h", b"", b"")]) == ()
