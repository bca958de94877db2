"""Names as Kafka's own policy classes give them: connect-mirror-client 4.3.0 computed every row of naming.txt."""

from pathlib import Path

import pytest

from sparkmirror.policy.naming import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy

ROWS = [
    line.split(" ")
    for line in Path(__file__).with_name("naming.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


def policy_of(kind: str, separator: str, internal: str, source: str) -> ReplicationPolicy:
    if kind == "default":
        return DefaultReplicationPolicy(separator, internal == "true")
    return IdentityReplicationPolicy(separator, internal == "true", None if source == "-" else source)


def text(cell: str) -> str | None:
    return {"-": None, '""': ""}.get(cell, cell)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "/".join(row[:5]))
def test_a_topic_reads_as_in_mirrormaker(row: list[str]) -> None:
    policy = policy_of(*row[:4])
    topic = text(row[4])
    assert topic is not None
    flags = (policy.is_internal_topic(topic), policy.is_heartbeats_topic(topic), policy.is_checkpoints_topic(topic))
    assert policy.format_remote_topic("S", topic) == text(row[5])
    assert policy.topic_source(topic) == text(row[6])
    assert policy.upstream_topic(topic) == text(row[7])
    assert policy.original_topic(topic) == text(row[8])
    assert [str(flag).lower() for flag in flags] == row[9:]


@pytest.mark.parametrize(
    ("policy", "syncs", "checkpoints"),
    [
        (DefaultReplicationPolicy(), "mm2-offset-syncs.B.internal", "A.checkpoints.internal"),
        (DefaultReplicationPolicy("_"), "mm2-offset-syncs_B_internal", "A_checkpoints_internal"),
        (DefaultReplicationPolicy("_", False), "mm2-offset-syncs.B.internal", "A.checkpoints.internal"),
        (DefaultReplicationPolicy(".", False), "mm2-offset-syncs.B.internal", "A.checkpoints.internal"),
        (DefaultReplicationPolicy("||"), "mm2-offset-syncs||B||internal", "A||checkpoints||internal"),
        (IdentityReplicationPolicy(source="A"), "mm2-offset-syncs.B.internal", "A.checkpoints.internal"),
        (IdentityReplicationPolicy("_"), "mm2-offset-syncs_B_internal", "A_checkpoints_internal"),
    ],
)
def test_internal_topics_follow_the_separator(policy: ReplicationPolicy, syncs: str, checkpoints: str) -> None:
    assert policy.offset_syncs_topic("B") == syncs
    assert policy.checkpoints_topic("A") == checkpoints
    assert policy.heartbeats_topic() == "heartbeats"
