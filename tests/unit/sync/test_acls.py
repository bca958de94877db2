"""Which ACLs reach the target, case by case."""

from dataclasses import replace

import pytest

from sparkmirror.kafka.answers import LITERAL, PREFIXED, AclBinding
from sparkmirror.model import FlowName
from sparkmirror.policy.filters import TopicFilter
from sparkmirror.policy.naming import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from sparkmirror.sync.acls import AclRules, AclSnapshot, AddAcl, RevokeAcl, plan_acls
from sparkmirror.sync.change import Plan

MIRRORED = frozenset({"orders", "orders-eu", "payments"})
READ = AclBinding("orders", LITERAL, "User:alice", "*", "READ", "ALLOW")


def rules(policy: ReplicationPolicy | None = None) -> AclRules:
    naming = policy or DefaultReplicationPolicy()
    topics = TopicFilter(("orders.*", "payments", "heartbeats"))
    return AclRules(
        is_mirrored=lambda name: topics.should_replicate(name, naming, FlowName("A", "B")),
        remote_name=lambda name: naming.format_remote_topic("A", name),
    )


def seen(*source: AclBinding, target: frozenset[AclBinding] | None = frozenset()) -> AclSnapshot:
    return AclSnapshot(frozenset(source), target, MIRRORED)


def added(*source: AclBinding, policy: ReplicationPolicy | None = None) -> list[AclBinding]:
    plan = plan_acls(seen(*source), rules(policy))
    assert plan.warnings == ()
    return [change.binding for change in plan.changes if isinstance(change, AddAcl)]


@pytest.mark.parametrize(
    ("permission", "operation", "copied_as"),
    [
        ("ALLOW", "READ", "READ"),
        ("ALLOW", "DESCRIBE", "DESCRIBE"),
        ("ALLOW", "WRITE", None),
        ("ALLOW", "ALL", "READ"),
        ("DENY", "WRITE", "WRITE"),
        ("DENY", "ALL", "ALL"),
        ("DENY", "READ", "READ"),
    ],
)
def test_operations(permission: str, operation: str, copied_as: str | None) -> None:
    binding = READ._replace(permission=permission, operation=operation)
    wanted = [] if copied_as is None else [binding._replace(topic="A.orders", operation=copied_as)]
    assert added(binding) == wanted


def test_topics_that_are_not_mirrored_keep_their_acls_to_themselves() -> None:
    assert added(READ._replace(topic="secret"), READ._replace(topic="secret", pattern=PREFIXED)) == []


def test_principal_and_host_are_kept() -> None:
    binding = READ._replace(principal="User:CN=bob,O=x", host="10.1.2.3")
    assert added(binding) == [binding._replace(topic="A.orders")]


def test_a_prefix_covers_the_remote_topics_of_what_it_covered() -> None:
    prefixed = READ._replace(topic="ord", pattern=PREFIXED)
    assert added(prefixed) == [prefixed._replace(topic="A.ord")]
    assert added(prefixed, policy=IdentityReplicationPolicy()) == [prefixed]


def test_every_topic_becomes_every_topic_of_that_source() -> None:
    everything = READ._replace(topic="*")
    assert added(everything) == [everything._replace(topic="A.", pattern=PREFIXED)]
    assert added(everything, policy=IdentityReplicationPolicy()) == [everything]


def test_a_naming_that_is_no_prefix_gets_a_binding_for_each_topic() -> None:
    class Suffix(DefaultReplicationPolicy):
        def format_remote_topic(self, source: str, topic: str) -> str:
            return f"{topic}@{source}"

    prefixed = READ._replace(topic="ord", pattern=PREFIXED)
    assert added(prefixed, policy=Suffix()) == [READ._replace(topic="orders-eu@A"), READ._replace(topic="orders@A")]


def test_what_is_there_already_is_not_created_again() -> None:
    there = READ._replace(topic="A.orders")
    assert plan_acls(seen(READ, target=frozenset({there})), rules()) == Plan()


def test_only_what_the_mirror_created_is_revoked_and_only_when_asked() -> None:
    created, granted_by_hand = (READ._replace(topic="A.orders", principal=f"User:{name}") for name in ("eve", "ann"))
    snapshot = replace(seen(target=frozenset({created, granted_by_hand})), created=frozenset({created}))
    assert plan_acls(snapshot, rules()) == Plan()
    assert plan_acls(snapshot, replace(rules(), revoke=True)) == Plan((RevokeAcl(created),))


def test_what_was_revoked_already_and_what_is_wanted_again_is_not_revoked() -> None:
    gone, back = READ._replace(topic="A.orders", principal="User:eve"), READ._replace(topic="A.orders")
    snapshot = replace(seen(READ, target=frozenset({back})), created=frozenset({gone, back}))
    assert plan_acls(snapshot, replace(rules(), revoke=True)) == Plan()


def test_clusters_without_an_authorizer() -> None:
    assert plan_acls(AclSnapshot(None, frozenset(), MIRRORED), rules()) == Plan()
    (warning,) = plan_acls(seen(READ, target=None), rules()).warnings
    assert "no authorizer" in warning
    assert plan_acls(seen(target=None), rules()) == Plan()


def test_changes_read_as_sentences() -> None:
    assert AddAcl(READ).sentence == "add the ACL ALLOW READ on topic orders for User:alice"
    prefixed = READ._replace(pattern=PREFIXED, host="10.0.0.1")
    assert RevokeAcl(prefixed).sentence == (
        "revoke the ACL ALLOW READ on topics beginning with orders for User:alice from 10.0.0.1"
    )
