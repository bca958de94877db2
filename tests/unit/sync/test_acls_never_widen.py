"""Whatever the source's ACLs, topics and naming: on the target nobody may do more than read what he may read there."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sync.authorizer import OPERATIONS, may

from sparkmirror.kafka.answers import LITERAL, PREFIXED, AclBinding
from sparkmirror.policy.naming import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    SameNamePolicy,
    added_prefix,
)
from sparkmirror.sync.acls import ALL_BUT_WRITE, READ_ONLY, AclRules, AclSnapshot, AddAcl, RevokeAcl, plan_acls

NAMES = ("cur", "curpay", "orders", "orders.eu", "ord", "pay", "payrol", "payroll", "team-a.orders", "checkpoints.x")
OTHERS = (
    "A.ordinary",
    "A.checkpoints.internal",
    "mm2-offsets.A.internal",
    "payrol",
    "private",
    "team-a.x",
    "heartbeats",
)
OWN = frozenset({"A.checkpoints.internal", "mm2-offsets.A.internal", "heartbeats"})
PRINCIPALS = ("User:alice", "User:bob")
HOSTS = ("10.0.0.1", "10.0.0.2")
READING = {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}


class Stripping(DefaultReplicationPolicy):
    """Takes a prefix away: `team-a.orders` becomes `orders`, and so does `orders`."""

    def format_remote_topic(self, source: str, topic: str) -> str:
        return topic.removeprefix("team-a.")

    def upstream_topic(self, topic: str) -> str | None:
        return topic


class Suffixing(DefaultReplicationPolicy):
    """`cur` becomes `curpay`, as another topic may be called."""

    def format_remote_topic(self, source: str, topic: str) -> str:
        return f"{topic}pay"

    def upstream_topic(self, topic: str) -> str | None:
        return topic.removesuffix("pay")


class Merging(DefaultReplicationPolicy):
    """All become one."""

    def format_remote_topic(self, source: str, topic: str) -> str:
        return "all"

    def upstream_topic(self, topic: str) -> str | None:
        return None


POLICIES: tuple[ReplicationPolicy, ...] = (
    DefaultReplicationPolicy(),
    DefaultReplicationPolicy("-"),
    IdentityReplicationPolicy(source="A"),
    SameNamePolicy(source="A"),
    Stripping(),
    Suffixing(),
    Merging(),
)

names = st.sampled_from(NAMES)
operations = st.sampled_from(OPERATIONS)
permissions = st.sampled_from(("ALLOW", "ALLOW", "DENY"))
who = st.sampled_from((*PRINCIPALS, "User:*"))
where = st.sampled_from((*HOSTS, "*", "*"))
literal = st.builds(AclBinding, names | st.just("*"), st.just(LITERAL), who, where, operations, permissions)
prefixes = names.flatmap(lambda name: st.integers(1, len(name)).map(lambda size: name[:size]))
prefixed = st.builds(AclBinding, prefixes, st.just(PREFIXED), who, where, operations, permissions)
sources = st.frozensets(literal | prefixed, max_size=8)
on_target = st.frozensets(
    st.builds(
        AclBinding, st.sampled_from((*OTHERS, "A.orders")), st.just(LITERAL), who, where, operations, permissions
    ),
    max_size=3,
)


@dataclass(frozen=True)
class Moment:
    """The source as it was in one round: its ACLs, and which of its topics were there and are mirrored."""

    acls: frozenset[AclBinding]
    topics: frozenset[str]


moments = st.builds(Moment, sources, st.frozensets(names, max_size=6))


def rules_of(policy: ReplicationPolicy, *, revoke: bool, operations: str, left_out: Collection[str]) -> AclRules:
    return AclRules(
        is_mirrored=lambda name: name not in left_out,
        remote_name=lambda name: policy.format_remote_topic("A", name),
        source_name=policy.upstream_topic,
        prefix=added_prefix(policy, "A"),
        own_topics=OWN,
        revoke=revoke,
        operations=operations,
    )


def granted(moments: Iterable[Moment], rules: AclRules) -> Callable[[str, str, str, str], bool]:
    """Whether the source allows in one of these rounds what somebody does to a remote topic: to all that go there."""

    def ask(principal: str, host: str, operation: str, topic: str) -> bool:
        if operation not in READING and (rules.operations == READ_ONLY or operation == "WRITE"):
            return False
        for one in moments:
            from_here = [name for name in one.topics if rules.is_mirrored(name) and rules.remote_name(name) == topic]
            if from_here and all(may(one.acls, principal, host, operation, name) for name in from_here):
                return True
        return False

    return ask


def assert_nobody_gained(
    before: Collection[AclBinding],
    after: Collection[AclBinding],
    topics: Iterable[str],
    granted: Callable[[str, str, str, str], bool],
) -> None:
    for topic in topics:
        for principal in PRINCIPALS:
            for host in HOSTS:
                for operation in OPERATIONS:
                    question = (principal, host, operation, topic)
                    if may(after, *question) and not may(before, *question):
                        assert granted(*question), f"{question} by {set(after) - set(before)}"


@settings(max_examples=120, deadline=None)
@given(
    before=on_target,
    first=moments,
    second=moments,
    policy=st.sampled_from(POLICIES),
    revoke=st.booleans(),
    operations=st.sampled_from((READ_ONLY, READ_ONLY, ALL_BUT_WRITE)),
    left_out=st.frozensets(names, max_size=3),
)
def test_nobody_may_do_more_than_read_what_he_may_read_on_the_source(
    before: frozenset[AclBinding],
    first: Moment,
    second: Moment,
    policy: ReplicationPolicy,
    revoke: bool,
    operations: str,
    left_out: frozenset[str],
) -> None:
    """In no moment of two rounds, between which everything on the source may have changed."""
    rules = rules_of(policy, revoke=revoke, operations=operations, left_out=left_out)
    remote = {rules.remote_name(name) for name in (first.topics | second.topics) - left_out}
    topics = sorted(remote | {*OTHERS, *OWN, *NAMES, *(f"A.{name}" for name in NAMES)})
    there, created = set(before), frozenset[AclBinding]()
    seen_so_far: list[Moment] = []
    for moment in (first, second):
        seen_so_far.append(moment)
        seen = AclSnapshot(moment.acls, frozenset(there), moment.topics - left_out, frozenset(topics), created)
        plan = plan_acls(seen, rules)
        for change in plan.changes:
            assert isinstance(change, AddAcl | RevokeAcl)
            assert change.binding.topic != "*"
            (there.add if isinstance(change, AddAcl) else there.discard)(change.binding)
            assert_nobody_gained(before, there, topics, granted(seen_so_far, rules))
        created = (created | {change.binding for change in plan.changes if isinstance(change, AddAcl)}) & there
        seen = replace(seen, target=frozenset(there), created=created)
        assert plan_acls(seen, rules).changes == ()
    if revoke and not isinstance(policy, Stripping | Merging):  # they do not tell where a name comes from
        assert_nobody_gained(before, there, topics, granted([second], rules))


@settings(max_examples=100, deadline=None)
@given(acls=sources, topics=st.frozensets(names, max_size=6), later=names, policy=st.sampled_from(POLICIES))
def test_a_topic_that_is_made_later_is_not_open_before_its_denials_are_there(
    acls: frozenset[AclBinding], topics: frozenset[str], later: str, policy: ReplicationPolicy
) -> None:
    """Its remote topic may have been made already, and a prefix that allows cover it. One that joins others in their
    remote topic is another matter: who may read that goes on reading it until the next round."""
    rules = rules_of(policy, revoke=False, operations=READ_ONLY, left_out=())
    plan = plan_acls(AclSnapshot(acls, frozenset(), topics), rules)
    there = {change.binding for change in plan.changes if isinstance(change, AddAcl)}
    remote = {rules.remote_name(later)} - {rules.remote_name(name) for name in topics}
    assert_nobody_gained((), there, remote, granted([Moment(acls, topics | {later})], rules))


def test_a_forged_note_takes_nothing_away_from_topics_of_others() -> None:
    """Notes lie in a topic: who may write there must not be able to have ACLs of the target removed."""
    rules = rules_of(DefaultReplicationPolicy(), revoke=True, operations=READ_ONLY, left_out=())
    denial = AclBinding("private", LITERAL, "User:bob", "*", "ALL", "DENY")
    others = [denial, *(denial._replace(topic=name) for name in OWN), denial._replace(topic="*")]
    others += [denial._replace(topic=prefix, pattern=PREFIXED) for prefix in ("A", "p")]
    ours = denial._replace(topic="A.orders", permission="ALLOW", operation="READ")
    seen = AclSnapshot(frozenset(), frozenset((*others, ours)), frozenset(), created=frozenset((*others, ours)))
    assert plan_acls(seen, rules).changes == (RevokeAcl(ours),)
    same = rules_of(IdentityReplicationPolicy(source="A"), revoke=True, operations=READ_ONLY, left_out=("private",))
    seen = replace(seen, target=frozenset({denial}), created=frozenset({denial}))
    assert plan_acls(seen, same).changes == ()
