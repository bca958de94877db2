"""Who runs which tasks: whatever processes come, go and disagree, all tasks end up run once, evenly, and stay put."""

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from sparkmirror.sharing.assignment import (
    Claim,
    MemberAssignment,
    MemberMetadata,
    decode_assignments,
    decode_metadata,
    encode_assignments,
    encode_metadata,
    plan_fencing,
    plan_shares,
)

FLOWS = ("A->B", "C->B", "D->B")
members = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5, unique=True)
counts = st.fixed_dictionaries({flow: st.integers(1, 9) for flow in FLOWS})


def card(tasks: dict[str, int], held: dict[str, frozenset[int]] | None = None, **more: object) -> MemberMetadata:
    held = held or {}
    claims = tuple(
        Claim(flow, count, str(more.get("file", "f")), int(str(more.get("at", 0))), held.get(flow, frozenset()), "r")
        for flow, count in tasks.items()
    )
    return MemberMetadata("host", 1, "mirror.properties", claims)


def settle(cards: dict[str, MemberMetadata]) -> tuple[dict[str, MemberMetadata], int]:
    """Rounds until nothing changes, as processes let go of what they lost and say so. No task is ever run twice."""
    for rounds in range(1, 10):
        grants = plan_shares(cards, "new")
        after = {}
        for member, one in cards.items():
            granted = {grant.flow: grant.tasks for grant in grants[member]}
            for claim in one.claims:
                others = [s.held for m, c in cards.items() if m != member for s in c.claims if s.flow == claim.flow]
                fresh = granted[claim.flow] - claim.held
                assert not any(fresh & held for held in others), "granted while somebody else runs it"
            claims = (Claim(s.flow, s.tasks, s.fingerprint, s.changed_ms, granted[s.flow], s.run) for s in one.claims)
            after[member] = MemberMetadata(one.host, one.pid, one.file, tuple(claims))
        if after == cards:
            return cards, rounds
        cards = after
    raise AssertionError("it never settles")


def held_by(cards: dict[str, MemberMetadata], flow: str) -> dict[str, frozenset[int]]:
    return {member: s.held for member, one in cards.items() for s in one.claims if s.flow == flow}


@given(members, counts)
def test_all_tasks_are_run_once_and_evenly_over_flows_too(names: list[str], tasks: dict[str, int]) -> None:
    cards, rounds = settle({name: card(tasks) for name in names})
    assert rounds <= 2
    for flow, count in tasks.items():
        shares = held_by(cards, flow)
        assert sorted(task for some in shares.values() for task in some) == list(range(count))
        assert max(map(len, shares.values())) - min(map(len, shares.values())) <= 1
    loads = [sum(len(claim.held) for claim in one.claims) for one in cards.values()]
    assert max(loads) - min(loads) <= 1


@given(members, members, counts)
@example(["e", "f", "a", "b"], ["b", "c", "d", "e"], {"A->B": 1, "C->B": 9, "D->B": 2})
def test_who_comes_and_goes_moves_no_more_than_it_must(
    before: list[str], now: list[str], tasks: dict[str, int]
) -> None:
    first, _ = settle({name: card(tasks) for name in before})
    stayed = {name: first.get(name, card(tasks)) for name in now}
    second, _ = settle(stayed)
    for flow, count in tasks.items():
        assert sorted(task for some in held_by(second, flow).values() for task in some) == list(range(count))
        for name, had in held_by(stayed, flow).items():
            has = held_by(second, flow)[name]
            assert has <= had or had <= has, "nobody gives one task up to get another"


def test_the_file_that_was_changed_last_is_obeyed_once_the_others_have_let_go() -> None:
    old = card({"A->B": 2}, {"A->B": frozenset({0, 1})}, file="old", at=1)
    new = card({"A->B": 4}, file="new", at=2)
    grants = plan_shares({"a": old, "b": new}, "x")
    assert grants["a"] == (MemberAssignment("A->B", "r", frozenset(), "process 1 on host", False),)
    assert grants["b"] == (MemberAssignment("A->B", "r", frozenset(), "process 1 on host", True),), (
        "not before the other let go"
    )
    cards, _ = settle({"a": old, "b": new})
    assert held_by(cards, "A->B") == {"a": frozenset(), "b": frozenset(range(4))}


def test_what_nobody_runs_is_fenced_before_somebody_gets_it() -> None:
    lonely = {"a": card({"A->B": 2}, {"A->B": frozenset({0})}), "b": card({"A->B": 2})}
    fencing = plan_fencing(lonely, plan_shares(lonely, "x"))
    assert [(claim.flow, held) for claim, held in fencing.items()] == [("A->B", frozenset({0}))]
    settled, _ = settle(lonely)
    assert plan_fencing(settled, plan_shares(settled, "x")) == {}, "nothing changes hands"
    alone = {"a": lonely["a"]}
    assert plan_fencing(alone, plan_shares(alone, "x")) == {}, "who gets all tasks fences them itself"


def test_a_run_is_that_of_the_working_processes_and_survives_the_process_that_began_it() -> None:
    asleep = MemberMetadata("h", 1, "f", (Claim("A->B", 1, "f", 0, frozenset(), "run-1"),))
    awake = MemberMetadata("h", 2, "f", (Claim("A->B", 1, "f", 0, frozenset({0}), "run-2"),))
    newcomer = MemberMetadata("h", 3, "f", (Claim("A->B", 1, "f", 0),))
    runs = {grant.run for some in plan_shares({"a": asleep, "b": awake, "c": newcomer}, "x").values() for grant in some}
    assert runs == {"run-2"}
    assert plan_shares({"c": newcomer}, "x")["c"][0].run == "x"


def test_a_run_that_one_process_has_found_replaced_is_begun_by_none() -> None:
    def knows(run: str, *replaced: str) -> MemberMetadata:
        return MemberMetadata("host", 1, "f", (Claim("A->B", 1, "f", 0, run=run, replaced=frozenset(replaced)),))

    def run_of(*cards: MemberMetadata) -> str:
        (run,) = {grant.run for (grant,) in plan_shares(dict(zip("abc", cards, strict=False)), "new").values()}
        return run

    assert run_of(knows("older"), knows("older"), knows("z later")) == "older", "nobody knows better yet"
    assert run_of(knows("older"), knows("older", "older"), knows("z later")) == "z later"
    assert run_of(knows("older"), knows("older", "older")) == "new"


def test_cards_and_grants_travel_as_json_and_odd_bytes_count_as_nothing() -> None:
    one = card({"A->B": 3}, {"A->B": frozenset({2, 1})})
    assert decode_metadata(encode_metadata(one)) == one
    assert decode_metadata(encode_metadata(one).replace(b'"pid"', b'"later":1,"pid"')) == one, "of a later version"
    grants = (MemberAssignment("A->B", "r", frozenset({1, 0}), "process 3 on h", False),)
    assert decode_assignments(encode_assignments(grants)) == grants
    for odd in (b"", b"null", b"[1]", b'{"a":1}', b"\xff", b'{"host":"h","pid":"x","file":"","stakes":[]}'):
        assert decode_metadata(odd) is None
        assert decode_assignments(odd) == ()


def test_a_file_may_have_a_name_that_is_no_utf_8() -> None:
    one = card({"A->B": 3})
    named = replace(one, file=b"/etc/mirror-\xe4.properties".decode(errors="surrogateescape"))
    assert decode_metadata(encode_metadata(named)) == replace(one, file="/etc/mirror-?.properties")


def test_tasks_stay_where_they_run_until_a_newcomer_can_run_them() -> None:
    def newcomer(*, is_ready: bool, fingerprint: str = "f", at: int = 0) -> MemberMetadata:
        return MemberMetadata("h", 2, "f", (Claim("A->B", 2, fingerprint, at, frozenset(), "r", is_ready=is_ready),))

    busy = card({"A->B": 2}, {"A->B": frozenset({0, 1})})
    kept = plan_shares({"a": busy, "b": newcomer(is_ready=False)}, "x")
    assert (kept["a"][0].tasks, kept["b"][0].tasks) == ({0, 1}, frozenset())
    shared = plan_shares({"a": busy, "b": newcomer(is_ready=True)}, "x")
    assert shared["a"][0].tasks == {0}
    changed = plan_shares({"a": busy, "b": newcomer(is_ready=False, fingerprint="new", at=9)}, "x")
    assert changed["a"][0] == MemberAssignment("A->B", "r", frozenset({0, 1})), (
        "its file is not obeyed before it can run the flow"
    )
    alone = plan_shares({"b": newcomer(is_ready=False)}, "x")
    assert alone["b"][0].tasks == {0, 1}, "nobody else could"
