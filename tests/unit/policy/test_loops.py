"""No flow copies a topic back to the cluster it came from (invariant 8)."""

from itertools import product

import pytest

from sparkmirror.model import FlowName
from sparkmirror.policy.filters import NameFilter
from sparkmirror.policy.loops import Route, find_loops, literal_prefix, may_overlap
from sparkmirror.policy.naming import DefaultReplicationPolicy, IdentityReplicationPolicy


def route(name: str, *topics: str, kept: bool = True, exclude: tuple[str, ...] = ()) -> Route:
    source, _, target = name.partition("->")
    policy = IdentityReplicationPolicy(source=source) if kept else DefaultReplicationPolicy()
    return Route(FlowName(source, target), policy, NameFilter(topics or (".*",), exclude))


def loops(*routes: Route) -> list[str]:
    return [" ".join(map(str, loop)) for loop in find_loops(routes)]


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [
        ((".*",), (".*",), True),
        (("orders",), ("orders",), True),
        (("orders",), ("payments",), False),
        (("orders",), ("ord.*",), True),
        ((r"eu\..*",), (r"us\..*",), False),
        ((r"eu\..*",), (r"eu\.a.*",), True),
        ((r"eu-.*|us-.*",), ("as-.*", "us-.*"), True),
        ((r"eu-.*|us-.*",), ("as-.*",), False),
        (("eus?",), ("eu",), True),
        (("a*",), ("b*",), True),
        (("(?i)EU.*",), ("eu.*",), True),
        (("(eu", "us).*"), ("us1",), True),
        ((), (".*",), False),
    ],
)
def test_overlap_is_judged_on_the_safe_side(first: tuple[str, ...], second: tuple[str, ...], overlap: bool) -> None:
    assert may_overlap(NameFilter(first), NameFilter(second)) is overlap
    assert may_overlap(NameFilter(second), NameFilter(first)) is overlap


def test_filters_that_share_a_name_are_never_called_disjoint() -> None:
    expressions = (
        "a",
        "b",
        "a.*",
        "b.*",
        "ab?",
        "ab*b",
        "a|b",
        "aa|b.*",
        "[ab]",
        "(a|b)b",
        ".*",
        r"a\.b",
        "(?i)A",
        r"\Qa.\E.*",
    )
    letters = [*"ab.A", ""]
    names = {"".join(word) for word in product(letters, repeat=3)}
    filters = [NameFilter((one,), left_out) for one in expressions for left_out in ((), *((e,) for e in expressions))]
    accepted = {each: {name for name in names if each.accepts(name)} for each in filters}
    for first, second in product(filters, repeat=2):
        if accepted[first] & accepted[second]:
            assert may_overlap(first, second), (first, second)


@pytest.mark.parametrize(
    ("expression", "prefix", "whole"),
    [
        ("orders", "orders", True),
        (r"a\.b", "a.b", True),
        ("a.b", "a", False),
        ("ab*", "a", False),
        ("ab+", "ab", False),
        ("ab{0}", "a", False),
        (r"ab\d", "ab", False),
        (r"ab\*", "ab*", True),
        ("ab|c", "", False),
        ("", "", True),
    ],
)
def test_the_literal_prefix_of_an_expression(expression: str, prefix: str, whole: bool) -> None:
    assert literal_prefix(expression) == (prefix, whole)


def test_two_way_identity_naming_is_a_loop() -> None:
    assert loops(route("A->B"), route("B->A")) == ["A->B B->A"]


def test_two_way_default_naming_is_not() -> None:
    assert loops(route("A->B", kept=False), route("B->A", kept=False)) == []


def test_disjoint_topics_may_go_both_ways() -> None:
    assert loops(route("A->B", "eu-.*"), route("B->A", "us-.*")) == []


def test_an_exclude_that_names_the_other_side_keeps_them_apart() -> None:
    assert loops(route("A->B", exclude=("us-.*",)), route("B->A", "us-.*")) == []


def test_a_literal_topic_that_is_excluded_on_its_way_out_is_no_loop() -> None:
    assert loops(route("A->B", exclude=("us.*",)), route("B->A", "us1")) == []


def test_a_ring_of_three_is_a_loop() -> None:
    assert loops(route("A->B"), route("B->C"), route("C->A")) == ["A->B B->C C->A"]


def test_an_open_chain_of_flows_is_no_loop() -> None:
    assert loops(route("A->B"), route("B->C"), route("A->C")) == []


def test_identity_out_and_default_back_is_a_loop() -> None:
    assert loops(route("A->B"), route("B->A", kept=False)) == ["A->B B->A"]


def test_the_prefix_of_a_default_hop_counts() -> None:
    ring = (route("A->B", "orders"), route("B->C", "orders", kept=False))
    assert loops(*ring, route("C->A", "orders", kept=False)) == []
    assert loops(*ring, route("C->A", r"B\.orders", kept=False)) == ["A->B B->C C->A"]
