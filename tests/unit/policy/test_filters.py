"""Which topics a flow takes: lists, internal topics, heartbeats and topics on their way home."""

import pickle

import pytest

from sparkmirror.errors import ConfigError
from sparkmirror.model import FlowName
from sparkmirror.policy.filters import LeftOut, NameFilter, TopicFilter, compile_names, is_left_out
from sparkmirror.policy.naming import DefaultReplicationPolicy, IdentityReplicationPolicy

A_TO_B = FlowName("A", "B")
DOCUMENTED_EXCLUDE = (r".*[\-\.]internal", r".*\.replica", "__.*")
DEFAULT_EXCLUDE = (r"mm2.*\.internal", r".*\.replica", "__.*")


@pytest.mark.parametrize(
    ("include", "exclude", "name", "accepted"),
    [
        ((".*",), (), "orders", True),
        (("orders",), (), "orders2", False),
        (("order",), (), "orders", False),
        (("orders", "pay.*"), (), "payments", True),
        ((".*",), ("pay.*",), "payments", False),
        (("payments",), ("payments",), "payments", False),
        ((), (), "orders", False),
        ((), ("orders",), "orders", False),
        (("(a", "b)c"), (), "ac", True),
        (("(?i)A", "B"), (), "b", True),
        ((".*",), DOCUMENTED_EXCLUDE, "x.replica", False),
        ((".*",), DOCUMENTED_EXCLUDE, "foo-internal", False),
        ((".*",), DOCUMENTED_EXCLUDE, "__user", False),
    ],
)
def test_lists_are_joined_and_match_whole_names(
    include: tuple[str, ...], exclude: tuple[str, ...], name: str, accepted: bool
) -> None:
    assert NameFilter(include, exclude).accepts(name) is accepted


@pytest.mark.parametrize(
    ("topic", "taken"),
    [
        ("orders", True),
        ("A.orders", True),
        ("B.orders", False),
        ("A.B.orders", False),
        ("B.A.orders", False),
        ("C.orders", True),
        ("foo.internal", True),
        ("mm2-offset-syncs.B.internal", False),
        ("A.checkpoints.internal", False),
        ("mm2foo.internal", False),
        ("__consumer_offsets", False),
        (".hidden", False),
        ("heartbeats", True),
        ("B.heartbeats", False),
    ],
)
def test_default_naming_takes_what_mirrormaker_takes(topic: str, taken: bool) -> None:
    assert TopicFilter().should_replicate(topic, DefaultReplicationPolicy(), A_TO_B) is taken


@pytest.mark.parametrize(
    ("topic", "taken"),
    [
        ("orders", True),
        ("B.orders", True),
        ("__x", False),
        ("A.heartbeats", True),
        ("B.heartbeats", False),
        ("A.B.heartbeats", False),
    ],
)
def test_identity_naming_sees_loops_of_heartbeats_only(topic: str, taken: bool) -> None:
    assert TopicFilter().should_replicate(topic, IdentityReplicationPolicy(source="A"), A_TO_B) is taken


@pytest.mark.parametrize(
    ("heartbeats", "topic", "taken"),
    [
        (True, "heartbeats", True),
        (True, "my.heartbeats", True),
        (True, "orders", False),
        (False, "heartbeats", False),
        (False, "my.heartbeats", False),
    ],
)
def test_heartbeats_pass_the_lists_unless_switched_off(heartbeats: bool, topic: str, taken: bool) -> None:
    topics = TopicFilter(include=("none",), exclude=(".*",), heartbeats=heartbeats)
    assert topics.should_replicate(topic, DefaultReplicationPolicy(), A_TO_B) is taken


def test_a_bad_expression_is_named() -> None:
    with pytest.raises(ConfigError, match=r"`pay\(` is not a Java regular expression"):
        compile_names(("orders", "pay("))


def test_a_filter_travels_to_a_worker() -> None:
    topics = TopicFilter(include=("orders",))
    assert pickle.loads(pickle.dumps(topics)).accepts("orders")


@pytest.mark.parametrize(
    ("topic", "left_out"),
    [
        ("orders.internal", True),
        ("orders-internal", True),
        ("orders.replica", True),
        ("orders", False),
        ("__consumer_offsets", False),
        ("mm2-offsets.B.internal", False),
        ("A.checkpoints.internal", False),
    ],
)
def test_topics_of_users_that_only_the_exclude_list_keeps_back_are_distinguished(topic: str, left_out: bool) -> None:
    topics = TopicFilter(exclude=DOCUMENTED_EXCLUDE)
    assert is_left_out(topic, topics, DefaultReplicationPolicy()) is left_out
    assert not is_left_out(topic, TopicFilter(("x",), DOCUMENTED_EXCLUDE), DefaultReplicationPolicy())


@pytest.mark.parametrize("separator", [".", "-", "_"])
@pytest.mark.parametrize(
    "topic",
    [
        "mm2-offsets.A.internal",
        "mm2-sparkmirror-positions.A.internal",
        "mm2-offset-syncs.C.internal",
        "mm2-offset-syncs-C-internal",
        "mm2-offset-syncs_C_internal",
        "C.checkpoints.internal",
        "C-checkpoints-internal",
        "C_checkpoints_internal",
    ],
)
def test_no_mirrors_internal_topics_are_copied_whatever_its_separator(separator: str, topic: str) -> None:
    """With the default of `topics.exclude`; a file's own list means what it says (`tests/parity/test_files.py`)."""
    policy = DefaultReplicationPolicy(separator)
    assert not TopicFilter(exclude=DEFAULT_EXCLUDE).should_replicate(topic, policy, A_TO_B)
    found = TopicFilter(exclude=DEFAULT_EXCLUDE).why_not(topic, policy, A_TO_B)
    assert found is not None and found[0] is LeftOut.INTERNAL


@pytest.mark.parametrize("topic", ["orders.internal", "orders-internal", "checkpoints.internal"])
def test_topics_that_only_the_older_default_left_out_are_mirrored(topic: str) -> None:
    policy = DefaultReplicationPolicy()
    assert TopicFilter(exclude=DEFAULT_EXCLUDE).should_replicate(topic, policy, A_TO_B)
    assert not TopicFilter(exclude=DOCUMENTED_EXCLUDE).should_replicate(topic, policy, A_TO_B)
