"""What names tell about hops and sources: the values of `MirrorClientTest` in connect-mirror-client 4.3."""

import pytest

from sparkmirror.client import NO_HOPS, hops_of, sources_of
from sparkmirror.policy.naming import DefaultReplicationPolicy, IdentityReplicationPolicy

POLICY = DefaultReplicationPolicy()


@pytest.mark.parametrize(
    ("topic", "source", "hops"),
    [
        ("topic", "source", NO_HOPS),
        ("source", "source", NO_HOPS),
        ("source.topic", "source", 1),
        ("source1.topic", "source1", 1),
        ("source3.source2.source1.topic", "source1", 3),
        ("source3.source2.source1.topic", "source2", 2),
        ("source3.source2.source1.topic", "source3", 1),
        ("source3.source2.source1.topic", "source4", NO_HOPS),
    ],
)
def test_hops_are_counted_by_the_name(topic: str, source: str, hops: int) -> None:
    assert hops_of(topic, source, POLICY) == hops


def test_a_name_that_leads_in_a_circle_has_no_way() -> None:
    identity = IdentityReplicationPolicy(source="A")
    assert hops_of("orders", "A", identity) == 1
    assert hops_of("orders", "B", identity) == NO_HOPS
    assert sources_of("orders", identity) == ["A"]


def test_all_clusters_on_the_way_are_upstream() -> None:
    assert sources_of("source3.source2.heartbeats", POLICY) == ["source3", "source2"]
    assert sources_of("heartbeats", POLICY) == []
    assert sources_of("B.heartbeats", IdentityReplicationPolicy()) == ["B"]
