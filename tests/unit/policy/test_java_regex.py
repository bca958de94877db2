"""Expressions and the answers `java.util.regex` (JDK 17) gave to `Pattern.compile(e).matcher(name).matches()`."""

import pytest

from sparkmirror.control.commands import Selection
from sparkmirror.model import TopicPartition
from sparkmirror.policy.java_regex import JavaPatternError, SlowPattern, compile_java
from sparkmirror.policy.rates import RateLimit


@pytest.mark.parametrize(
    ("expression", "name", "matches"),
    [
        (r"orders", "orders", True),
        (r"orders", "orders2", False),
        (r"[a-c&&[b]]", "b", True),
        (r"[a-c&&[b]]", "a", False),
        (r"[\w&&[^\d]]+", "ab", True),
        (r"[[a-b]c]", "a", True),
        (r"[^a&&b]", "c", True),
        (r"[a||b]", "|", True),
        (r"[a~~b]", "~", True),
        (r"\Qa.b\E", "a.b", True),
        (r"\Qa.b\E", "axb", False),
        (r"\Qa.b", "a.b", True),
        (r"\p{Alpha}+", "abc", True),
        (r"\p{Alnum}+", "é", False),
        (r"\p{Punct}", "-", True),
        (r"\w+", "é", False),
        (r"\d", "٣", False),
        (r"a++b", "aab", True),
        (r"(?i)ABC", "abc", True),
        (r"(?<n>a)\k<n>", "aa", True),
        (r"a$", "a\n", False),
        (r"\x{41}", "A", True),
        (r"\0101", "A", True),
        (r"\u0041", "A", True),
        (r"(?x) a b", "ab", True),
        (r"\_\-", "_-", True),
        (r"a}", "a}", True),
        (r"a{2}", "aa", True),
        (r"[{]", "{", True),
    ],
)
def test_matches_as_java_does(expression: str, name: str, matches: bool) -> None:
    assert (compile_java(expression).fullmatch(name) is not None) is matches


@pytest.mark.parametrize("expression", ["(", "[", "*a", "a**", "{", "a{1", "a{,2}", "(?P<n>a)", "(a|b)(?R)?", r"\y"])
def test_refuses_what_java_refuses(expression: str) -> None:
    with pytest.raises(JavaPatternError):
        compile_java(expression)


@pytest.mark.parametrize("expression", ["(?u)a", "a(?iu)b", "(?V0)a", "(?L)a", r"\x{110000}"])
def test_what_the_package_refuses_in_other_ways_is_refused_alike(expression: str) -> None:
    with pytest.raises(JavaPatternError):
        compile_java(expression)


@pytest.mark.parametrize("expression", ["((a{1000}){1000}){1000}", "(?:(ab|c{9}){999,}){999}", "(?:(a{400}){400})*"])
def test_counts_that_multiply_are_refused_before_they_fill_the_memory(expression: str) -> None:
    with pytest.raises(JavaPatternError, match="repeats too often"):
        compile_java(expression)


def test_counts_that_only_stand_beside_each_other_are_taken() -> None:
    uuid = "[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}"
    assert compile_java("|".join([uuid] * 200)).fullmatch("01234567-89ab-cdef-0123-456789abcdef")
    assert compile_java("[a{]{3}").fullmatch("{a{")


SLOW, LONG_NAME = "(a|aa)+b", "a" * 200
"""Each `a` more makes it nearly twice as long: of 200 nobody sees the end."""


def test_a_match_that_would_take_for_ever_is_given_up() -> None:
    pattern = compile_java(SLOW)
    for _ in range(2):
        with pytest.raises(SlowPattern, match="takes more than"):
            pattern.fullmatch(LONG_NAME)
    with pytest.raises(SlowPattern):
        pattern.fullmatch("ab")  # it is not tried again: an order may name thousands of topics


def test_an_order_with_such_an_expression_selects_nothing_and_ends_nobody() -> None:
    assert not Selection(SLOW).covers(TopicPartition(LONG_NAME, 0))
    assert not RateLimit(SLOW, 1000).applies_to(LONG_NAME)
