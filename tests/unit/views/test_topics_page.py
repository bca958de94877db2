"""What `sparkmirror topics` says: what is mirrored to what, and why the rest is not."""

import pytest

from sparkmirror.model import NO_TOPIC_ID, FlowName, Topic
from sparkmirror.policy.filters import LeftOut, TopicFilter
from sparkmirror.policy.naming import DefaultReplicationPolicy
from sparkmirror.views.table import page_lines
from sparkmirror.views.topics_page import TopicState, list_lines, list_orphans, render_topics

FLOW, NAMING = FlowName("A", "B"), DefaultReplicationPolicy()
WANTED = TopicFilter(("ord.*", "B.*", "mm2.*"), (".*-audit", ".*[.]tmp"))


def topic(name: str, partitions: int = 3) -> Topic:
    return Topic(name, NO_TOPIC_ID, partitions, 1)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("orders", None),
        ("bills", (LeftOut.NOT_INCLUDED, "`topics` does not include it")),
        ("orders-audit", (LeftOut.EXCLUDED, "`topics.exclude` has .*-audit")),
        ("mm2-offsets.B.internal", (LeftOut.INTERNAL, "internal to Kafka or to a mirror")),
        ("B.orders", (LeftOut.LOOP, "it came from B")),
        ("heartbeats", None),
    ],
)
def test_a_topic_that_is_not_mirrored_has_one_reason(name: str, why: tuple[LeftOut, str] | None) -> None:
    assert WANTED.why_not(name, NAMING, FLOW) == why
    assert WANTED.should_replicate(name, NAMING, FLOW) == (why is None)


def test_each_topic_has_its_remote_topic_and_how_far_that_is() -> None:
    source = {name: topic(name) for name in ("bills", "new", "orders", "small", "twin")}
    target = {"A.orders": topic("A.orders"), "A.small": topic("A.small", 1)}
    names = {"new": "A.new", "orders": "A.orders", "small": "A.small", "twin": "A.orders"}
    left_out = {"bills": (LeftOut.NOT_INCLUDED, "`topics` does not include it")}
    settings = {"orders": [], "small": ["retention.ms", "a", "b", "c", "d"]}
    lines = list_lines(source, target, left_out, names, settings)
    assert [(line.topic, line.state) for line in lines] == [
        ("bills", LeftOut.NOT_INCLUDED),
        ("new", TopicState.MISSING),
        ("orders", TopicState.MIRRORED),
        ("small", TopicState.SMALLER),
        ("twin", TopicState.TAKEN),
    ]
    page = page_lines(render_topics(FLOW, lines, whole=False))
    assert page[0] == "A->B: 1 NOT INCLUDED, 1 MISSING, 1 MIRRORED, 1 SMALLER, 1 TAKEN"
    assert page[3].split()[:5] == ["new", "A.new", "3", "/", "-"]
    assert "in step" in page[4] and "differ: retention.ms, a, b and 2 more" in page[5]
    assert lines[2].as_json()["settings_that_differ"] == [] and lines[1].as_json()["settings_that_differ"] is None


def test_internal_topics_are_counted_and_shown_when_asked_for() -> None:
    lines = list_lines({"__x": topic("__x")}, {}, {"__x": (LeftOut.INTERNAL, "internal to Kafka")}, {}, {})
    assert page_lines(render_topics(FLOW, lines, whole=False)) == ["A->B: 1 INTERNAL"]
    assert "__x" in page_lines(render_topics(FLOW, lines, whole=True))[2]


def test_a_remote_topic_without_its_source_is_reported() -> None:
    (line,) = list_orphans({"A.old": topic("A.old", 2)}, {"A.old": "old"})
    assert (line.state, line.source_partitions, line.target_partitions) == (TopicState.GONE, None, 2)
