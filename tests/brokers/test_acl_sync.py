"""The ACL job between two real clusters with Kafka's StandardAuthorizer."""

from collections.abc import Iterator

import pytest
from tests.brokers.grants import await_acls, grant, revoke

from sparkmirror.config.flows import parse_config
from sparkmirror.config.properties import parse_properties
from sparkmirror.kafka.acls import create_acls, describe_acls
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import LITERAL, PREFIXED, AclBinding, NewTopic
from sparkmirror.kafka.clients import open_admin
from sparkmirror.model import Cluster
from sparkmirror.sync.acl_job import AclNotes, AclSync
from sparkmirror.sync.acls import AclRules, fence_of
from sparkmirror.sync.change import Plan, sync_once
from sparkmirror.sync.failover_run import Fence, Unfence
from sparkmirror.testing.kafka import KafkaCluster

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
NOTES = "mm2-sparkmirror-status.A.internal"
READ = AclBinding("orders", LITERAL, "User:alice", "*", "READ", "ALLOW")
RULES = AclRules(lambda name: name in ("orders", "ordinary"), lambda name: f"A.{name}")


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Cluster, Cluster]]:
    """Two clusters with an authorizer; everybody who comes in plain is an administrator."""
    with KafkaCluster(name="acl-a", config=AUTHORIZER) as a, KafkaCluster(name="acl-b", config=AUTHORIZER) as b:
        yield (
            Cluster("A", {"bootstrap.servers": a.bootstrap_servers}),
            Cluster("B", {"bootstrap.servers": b.bootstrap_servers}),
        )


@pytest.fixture(scope="module")
def source(both: tuple[Cluster, Cluster]) -> Iterator[Admin]:
    with open_admin(both[0], "test") as opened:
        assert set(opened.create_topics([NewTopic(name, 1, 1) for name in ("orders", "ordinary")]).values()) == {None}
        yield opened


@pytest.fixture(scope="module")
def target(both: tuple[Cluster, Cluster]) -> Iterator[Admin]:
    with open_admin(both[1], "test") as opened:
        assert opened.create_topics([NewTopic(NOTES, 1, 1, {"cleanup.policy": "compact"})]) == {NOTES: None}
        yield opened


def test_acls_follow_and_only_what_the_mirror_granted_is_revoked(
    both: tuple[Cluster, Cluster], source: Admin, target: Admin
) -> None:
    by_hand = READ._replace(topic="A.orders", principal="User:operator")
    prefixed = READ._replace(topic="ord", pattern=PREFIXED, principal="User:bob", operation="ALL")
    denied = READ._replace(principal="User:mallory", operation="WRITE", permission="DENY", host="10.0.0.9")
    grant(target, by_hand)
    grant(source, READ, prefixed, denied, READ._replace(operation="WRITE"), READ._replace(topic="secret"))

    def job(*, revoke: bool) -> AclSync:
        rules = AclRules(RULES.is_mirrored, RULES.remote_name, revoke)
        return AclSync(source, target, rules, AclNotes(both[1], NOTES, "A"))

    assert sync_once(job(revoke=False)).failures == ()
    copies = {
        READ._replace(topic="A.orders"),
        prefixed._replace(topic="A.ord", operation="READ"),
        denied._replace(topic="A.orders"),
    }
    await_acls(target, lambda there: there == copies | {by_hand})
    assert job(revoke=True).plan() == Plan(), "an applied plan leaves nothing to plan"

    revoke(source, READ)
    assert job(revoke=False).plan() == Plan()
    later = job(revoke=True)
    assert [change.sentence for change in later.plan().changes] == [
        "revoke the ACL ALLOW READ on topic A.orders for User:alice"
    ]
    assert sync_once(later).failures == ()
    await_acls(target, lambda there: there == copies - {READ._replace(topic="A.orders")} | {by_hand})
    assert job(revoke=True).plan() == Plan()


def test_a_fence_denies_writing_is_not_copied_and_is_lifted(
    both: tuple[Cluster, Cluster], source: Admin, target: Admin
) -> None:
    lines = [f"{one.alias}.bootstrap.servers = {one.bootstrap_servers}" for one in both]
    text = "\n".join(["clusters = A, B", "A->B.enabled = true", "topics = or.*", *lines])
    flow = parse_config(parse_properties(text.encode(), "fence.properties")).flows[0]
    source_acls, target_acls = describe_acls(source), describe_acls(target)
    by_hand = fence_of("ordinary")
    grant(source, by_hand)
    fence = Fence(flow, source)
    note = fence.prepare()
    for _ in range(2):  # a step that was interrupted is applied once more
        assert fence.apply(note) == "nobody but super users may write to 1 topics of A"
        assert describe_acls(source) == (source_acls or set()) | {by_hand, fence_of("orders")}
    sync_once(AclSync(source, target, RULES, AclNotes(both[1], NOTES, "A")))
    assert describe_acls(target) == target_acls, "on the target it would shut the mirror out"
    fence.undo(note)
    assert describe_acls(source) == (source_acls or set()) | {by_hand}, "what was there before stays"

    fence.apply(note)
    unfence = Unfence(flow, source)
    lifted = unfence.prepare()
    assert unfence.apply(lifted) == "2 topics of A were fenced and may be written to again"
    assert describe_acls(source) == source_acls
    unfence.undo(lifted)
    assert describe_acls(source) == (source_acls or set()) | {by_hand, fence_of("orders")}
    unfence.apply(lifted)


def test_clusters_without_an_authorizer_are_left_alone(source_cluster: KafkaCluster) -> None:
    with open_admin(Cluster("C", {"bootstrap.servers": source_cluster.bootstrap_servers}), "test") as admin:
        assert describe_acls(admin) is None
        assert AclSync(admin, admin, RULES, AclNotes(Cluster("C", {}), NOTES, "A")).plan() == Plan()
        (failure,) = create_acls(admin, [READ]).values()
        assert "creating the ACL ALLOW READ on topic orders for User:alice failed with SECURITY_DISABLED" in str(
            failure
        )
