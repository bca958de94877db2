"""Which ACLs reach the target, case by case."""

from dataclasses import replace

import pytest

from sparkmirror.kafka.answers import LITERAL, PREFIXED, AclBinding
from sparkmirror.model import FlowName
from sparkmirror.policy.filters import TopicFilter
from sparkmirror.policy.naming import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    added_prefix,
)
from sparkmirror.sync.acls import (
    ALL_BUT_WRITE,
    AclRules,
    AclSnapshot,
    AddAcl,
    ForgetAcl,
    RevokeAcl,
    fence_of,
    overlap,
    plan_acls,
)
from sparkmirror.sync.change import Plan

MIRRORED = frozenset({"orders", "orders-eu", "payments"})
READ = AclBinding("orders", LITERAL, "User:alice", "*", "READ", "ALLOW")


def rules(policy: ReplicationPolicy | None = None) -> AclRules:
    naming = policy or DefaultReplicationPolicy()
    topics = TopicFilter(("orders.*", "payments", "heartbeats"))
    return AclRules(
        is_mirrored=lambda name: topics.should_replicate(name, naming, FlowName("A", "B")),
        remote_name=lambda name: naming.format_remote_topic("A", name),
        source_name=naming.upstream_topic,
        prefix=added_prefix(naming, "A"),
        own_topics=frozenset({"A.checkpoints.internal"}),
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
        ("ALLOW", "DESCRIBE_CONFIGS", "DESCRIBE_CONFIGS"),
        ("ALLOW", "DELETE", None),
        ("ALLOW", "ALTER", None),
        ("ALLOW", "ALTER_CONFIGS", None),
        ("DENY", "WRITE", "WRITE"),
        ("DENY", "ALL", "ALL"),
        ("DENY", "READ", "READ"),
    ],
)
def test_an_acl_is_copied_by_its_permission_and_operation(
    permission: str, operation: str, copied_as: str | None
) -> None:
    binding = READ._replace(permission=permission, operation=operation)
    wanted = [] if copied_as is None else [binding._replace(topic="A.orders", operation=copied_as)]
    assert added(binding) == wanted


def test_topics_that_are_not_mirrored_keep_their_acls_to_themselves() -> None:
    assert added(READ._replace(topic="secret"), READ._replace(topic="secret", pattern=PREFIXED)) == []


def test_principal_and_host_are_kept() -> None:
    binding = READ._replace(principal="User:CN=bob,O=x", host="10.1.2.3")
    assert added(binding) == [binding._replace(topic="A.orders")]


def test_mirror_maker_s_operations_come_back_for_single_topics_when_asked() -> None:
    operations = ("ALL", "ALTER", "ALTER_CONFIGS", "DELETE", "DESCRIBE", "WRITE")
    bindings = [READ._replace(operation=operation) for operation in operations]
    bindings += [one._replace(topic="ord", pattern=PREFIXED) for one in bindings]
    bindings += [READ._replace(topic="*", operation="DELETE")]
    plan = plan_acls(seen(*bindings), replace(rules(), operations=ALL_BUT_WRITE))
    found = [change.binding for change in plan.changes if isinstance(change, AddAcl)]
    assert {(one.topic, one.operation) for one in found} == {
        *(("A.orders", operation) for operation in ("READ", "ALTER", "ALTER_CONFIGS", "DELETE", "DESCRIBE")),
        ("A.ord", "READ"),
        ("A.ord", "DESCRIBE"),
    }


def test_a_prefix_covers_the_remote_topics_of_what_it_covered() -> None:
    prefixed = READ._replace(topic="ord", pattern=PREFIXED)
    assert added(prefixed) == [prefixed._replace(topic="A.ord")]
    each = [READ, READ._replace(topic="orders-eu")]
    assert added(prefixed, policy=IdentityReplicationPolicy()) == each


def test_a_prefix_that_covers_topics_of_others_becomes_a_binding_for_each_topic() -> None:
    each = [AddAcl(READ._replace(topic=f"A.{name}")) for name in ("orders", "orders-eu")]
    snapshot = replace(seen(READ._replace(topic="ord", pattern=PREFIXED)), target_topics=frozenset({"A.ordinary"}))
    assert plan_acls(snapshot, rules()).changes == tuple(each)
    own = seen(READ._replace(topic="check", pattern=PREFIXED))
    mirrored = replace(own, mirrored=frozenset({"checkpoints"}))
    assert plan_acls(mirrored, rules()).changes == (AddAcl(READ._replace(topic="A.checkpoints")),)


def test_every_topic_becomes_each_topic_of_that_source() -> None:
    everything = READ._replace(topic="*")
    each = [READ._replace(topic=f"A.{name}") for name in ("orders", "orders-eu", "payments")]
    assert added(everything) == each
    assert [one.topic for one in added(everything, policy=IdentityReplicationPolicy())] == sorted(MIRRORED)


def test_denials_come_first_and_by_name_where_there_is_no_topic_yet() -> None:
    denials = [
        READ._replace(topic="pay", pattern=PREFIXED, permission="DENY"),
        READ._replace(topic="orders-late", permission="DENY"),
        READ._replace(topic="*", principal="User:mallory", permission="DENY"),
    ]
    assert added(READ, *denials) == [
        denials[2]._replace(topic="A.", pattern=PREFIXED),
        READ._replace(topic="A.orders-late", permission="DENY"),
        denials[0]._replace(topic="A.pay"),
        READ._replace(topic="A.orders"),
    ]
    kept = added(READ._replace(topic="orders-late"), *denials[:2], policy=IdentityReplicationPolicy())
    assert kept == [
        READ._replace(topic="orders-late", permission="DENY"),
        denials[0]._replace(topic="payments", pattern=LITERAL),
    ]


def test_what_denies_writing_to_everybody_would_shut_the_mirror_out() -> None:
    fence = fence_of("orders")
    assert added(fence, fence._replace(topic="ord", pattern=PREFIXED), fence._replace(topic="*")) == []
    assert added(fence._replace(host="10.0.0.9")) != []


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        ((LITERAL, "a"), (LITERAL, "a"), True),
        ((LITERAL, "a"), (LITERAL, "ab"), False),
        ((LITERAL, "ab"), (PREFIXED, "a"), True),
        ((LITERAL, "a"), (PREFIXED, "ab"), False),
        ((PREFIXED, "abc"), (PREFIXED, "a"), True),
        ((PREFIXED, "b"), (PREFIXED, "a"), False),
    ],
)
def test_bindings_overlap_where_a_topic_may_be_of_both(
    one: tuple[str, str], other: tuple[str, str], answer: bool
) -> None:
    first, second = (READ._replace(pattern=pattern, topic=topic) for pattern, topic in (one, other))
    assert overlap(first, second) is overlap(second, first) is answer


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


@pytest.mark.parametrize("topic", ["pay", "*"])
def test_a_denial_of_many_topics_stays_on_a_remote_topic_whose_source_is_gone(topic: str) -> None:
    """Where a naming knows no prefix, it is a binding of each topic."""
    many = READ._replace(topic=topic, pattern=LITERAL if topic == "*" else PREFIXED, permission="DENY")
    single = many._replace(topic="payments", pattern=LITERAL)
    told = replace(rules(IdentityReplicationPolicy()), revoke=True)
    gone = replace(
        seen(many, target=frozenset({single})),
        mirrored=frozenset(),
        target_topics=frozenset({"payments", "secret"}),
        created=frozenset({single}),
    )
    assert plan_acls(gone, told) == Plan()
    lifted = replace(gone, source=frozenset({READ}))
    assert plan_acls(lifted, told) == Plan((RevokeAcl(single),))
    assert plan_acls(replace(gone, target_topics=frozenset()), told) == Plan((RevokeAcl(single),))


def test_what_was_revoked_already_and_what_is_wanted_again_is_not_revoked() -> None:
    gone, back = READ._replace(topic="A.orders", principal="User:eve"), READ._replace(topic="A.orders")
    snapshot = replace(seen(READ, target=frozenset({back})), created=frozenset({gone, back}))
    assert plan_acls(snapshot, replace(rules(), revoke=True)) == Plan(), "who noted it may be about to create it"
    forgets = ForgetAcl(gone)
    long_after = replace(snapshot, lapsed=frozenset({gone}))
    assert plan_acls(long_after, replace(rules(), revoke=True)) == Plan((forgets,))
    assert forgets.sentence == "forget the ACL ALLOW READ on topic A.orders for User:eve, which is no longer there"


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
