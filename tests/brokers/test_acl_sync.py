"""The ACL job between two real clusters with Kafka's StandardAuthorizer."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from tests.brokers.grants import await_acls, grant, revoke
from tests.manual_clock import ManualClock
from tests.oracle import DEADLINE_SECONDS_LEAST

from sparkmirror.config.flow.flows import FlowConfig, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.acls import create_acls, describe_acls
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import LITERAL, PREFIXED, AclBinding, NewTopic
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.errors import RequestRefused
from sparkmirror.model import Cluster
from sparkmirror.operations.failover_run import Fence, Unfence
from sparkmirror.operations.steps import Note
from sparkmirror.sync.acl_job import FORGET_SECONDS, AclNotes, AclSync
from sparkmirror.sync.acls import AclRules, fence_of
from sparkmirror.sync.change import Plan, sync_once
from sparkmirror.sync.flow import acl_rules
from sparkmirror.testing.kafka import KafkaCluster

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
NOTES = "mm2-sparkmirror-status.A.internal"
READ = AclBinding("orders", LITERAL, "User:alice", "*", "READ", "ALLOW")
RULES = AclRules(
    is_mirrored=lambda name: name in ("orders", "ordinary"),
    remote_name=lambda name: f"A.{name}",
    source_name=lambda name: name.removeprefix("A."),
    prefix="A.",
)


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
        return AclSync(source, target, replace(RULES, revoke=revoke), AclNotes(both[1], NOTES, "A"))

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
    left = copies - {READ._replace(topic="A.orders")} | {by_hand}
    await_acls(target, lambda there: there == left)
    assert job(revoke=True).plan() == Plan()

    restored, clock = READ._replace(topic="A.orders"), ManualClock()
    notes = AclNotes(both[1], NOTES, "A")
    notes.add([restored])  # as where the mirror is killed before it notes what it has revoked
    long_lived = AclSync(source, target, replace(RULES, revoke=True), notes, clock)
    assert long_lived.plan() == Plan(), "another process may be about to create it"
    clock.now += FORGET_SECONDS
    assert sync_once(long_lived).failures == ()
    assert restored not in notes.created(target)
    grant(target, restored)
    await_acls(target, lambda there: there == left | {restored})
    assert job(revoke=True).plan() == Plan(), "a person has made it now"


def test_notes_behind_an_open_transaction_count(both: tuple[Cluster, Cluster], target: Admin) -> None:
    """A task's, on the same topic. A binding revoked meanwhile would stay the mirror's if a person made it again."""
    notes = AclNotes(both[1], NOTES, "A")
    notes.add([READ])
    producer = Producer({"bootstrap.servers": both[1].bootstrap_servers, "transactional.id": "task"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(NOTES, b"{}", b"of a task")
    producer.flush(10)
    notes.remove([READ])
    assert READ not in notes.created(target)
    producer.abort_transaction(10)


def test_identity_naming_opens_no_other_topic(both: tuple[Cluster, Cluster], source: Admin, target: Admin) -> None:
    """What may be done to every topic of the source may not be done to every topic of the target."""
    flow = flow_of(both, "topics = orders", IDENTITY)
    everywhere = [READ._replace(topic="*", operation=operation) for operation in ("READ", "DELETE", "ALTER", "ALL")]
    assert target.create_topics([NewTopic("ledger-of-others", 1, 1)]) == {"ledger-of-others": None}
    with granted(source, *everywhere):
        before = describe_acls(target) or set()
        assert sync_once(AclSync(source, target, acl_rules(flow), AclNotes(both[1], NOTES, "A"))).failures == ()
        there = await_acls(target, lambda there: READ in there)
    made = there - before
    assert {(one.topic, one.pattern) for one in made} == {("orders", LITERAL)}, "the one topic that is mirrored"
    assert {one for one in made if one.principal == READ.principal} == {READ}
    revoke(target, *made)


def test_names_that_only_look_alike_open_nothing(both: tuple[Cluster, Cluster], source: Admin, target: Admin) -> None:
    """A naming that takes a prefix away, and one after which a remote topic ends as another one's name does."""
    prefixes = [READ._replace(topic=name, pattern=PREFIXED) for name in ("team-a.", "cur")]
    assert set(source.create_topics([NewTopic(name, 1, 1) for name in ("team-a.x", "currol")]).values()) == {None}
    renamed = {"team-a.x": "x", "currol": "payrol"}
    rules = AclRules(lambda name: name in renamed, lambda name: renamed[name], lambda _: None)
    with granted(source, *prefixes):
        before = describe_acls(target) or set()
        assert sync_once(AclSync(source, target, rules, AclNotes(both[1], NOTES, "A"))).failures == ()
        wanted = {READ._replace(topic=name) for name in renamed.values()}
        there = await_acls(target, lambda there: there >= wanted)
    assert there - before == wanted
    revoke(target, *wanted)


def test_a_denial_is_there_before_what_it_takes_away_is_allowed(
    both: tuple[Cluster, Cluster], source: Admin, target: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the topics that it is of are still to come; and one that the target refuses opens nothing."""
    flow = flow_of(both, "topics = or.*, late.*")
    allowed = READ._replace(principal="User:carol")
    denied = allowed._replace(topic="late", pattern=PREFIXED, permission="DENY")
    also = allowed._replace(topic="ord", pattern=PREFIXED, permission="DENY", host="10.0.0.9")
    sync = AclSync(source, target, acl_rules(flow), AclNotes(both[1], NOTES, "A"))
    copies = {one._replace(topic=f"A.{one.topic}") for one in (allowed, denied, also)}
    with granted(source, allowed, denied, also):
        refusing = refuse(also._replace(topic="A.ord"), create_acls)
        monkeypatch.setattr("sparkmirror.sync.acl_job.create_acls", refusing)
        failures = sync_once(sync).failures
        assert any("waits for DENY READ on topics beginning with A.ord" in failure for failure in failures), failures
        there = await_acls(target, lambda there: denied._replace(topic="A.late") in there)
        assert allowed._replace(topic="A.orders") not in there
        monkeypatch.undo()
        assert sync_once(sync).failures == ()
        await_acls(target, lambda there: there >= copies)
    revoke(target, *copies)


def test_what_is_created_as_the_mirror_dies_is_revoked_later(
    both: tuple[Cluster, Cluster], source: Admin, target: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was refused is a person's own where one creates it."""
    created = READ._replace(topic="A.orders", principal="User:dave")
    refused = READ._replace(topic="A.orders", principal="User:erin")

    def job() -> AclSync:
        return AclSync(source, target, replace(RULES, revoke=True), AclNotes(both[1], NOTES, "A"))

    def die(admin: Admin, bindings: list[AclBinding]) -> dict[AclBinding, SparkMirrorError | None]:
        create_acls(admin, bindings)
        raise KeyboardInterrupt

    with granted(source, created._replace(topic="orders")):
        monkeypatch.setattr("sparkmirror.sync.acl_job.create_acls", die)
        with pytest.raises(KeyboardInterrupt):
            sync_once(job())
        await_acls(target, lambda there: created in there)
    with granted(source, refused._replace(topic="orders")):
        no = RequestRefused("refused", "", 44)  # POLICY_VIOLATION
        monkeypatch.setattr("sparkmirror.sync.acl_job.create_acls", lambda _, bindings: dict.fromkeys(bindings, no))
        assert sync_once(job()).failures
        grant(target, refused)
    monkeypatch.undo()
    assert sync_once(job()).failures == ()
    there = await_acls(target, lambda there: created not in there)
    assert refused in there
    revoke(target, refused)


def refuse(
    refused: AclBinding, honest: Callable[..., dict[AclBinding, SparkMirrorError | None]]
) -> Callable[..., dict[AclBinding, SparkMirrorError | None]]:
    """Creating ACLs on a target that does not take one of them."""

    def create(admin: Admin, bindings: list[AclBinding]) -> dict[AclBinding, SparkMirrorError | None]:
        problem = {refused: SparkMirrorError("refused")} if refused in bindings else {}
        return honest(admin, [one for one in bindings if one != refused]) | problem

    return create


@contextmanager
def granted(admin: Admin, *bindings: AclBinding) -> Iterator[None]:
    grant(admin, *bindings)
    yield
    revoke(admin, *bindings)


def flow_of(both: tuple[Cluster, Cluster], *lines: str) -> FlowConfig:
    addresses = [f"{one.alias}.bootstrap.servers = {one.bootstrap_servers}" for one in both]
    text = "\n".join(["clusters = A, B", "A->B.enabled = true", *addresses, *lines])
    return parse_config(parse_properties(text.encode(), "acls.properties")).flows[0]


def test_a_fence_denies_writing_is_not_copied_and_is_lifted(
    both: tuple[Cluster, Cluster], source: Admin, target: Admin
) -> None:
    flow = flow_of(both, "topics = or.*")
    source_acls, target_acls = describe_acls(source), describe_acls(target)
    by_hand = fence_of("ordinary")
    grant(source, by_hand)
    kept: list[Note] = []
    fence = Fence(flow, source, kept.append)
    note = fence.prepare()
    for _ in range(2):  # a step that was interrupted is applied once more
        assert fence.apply(note) == "nobody but super users may write to 2 topics of A"
        assert describe_acls(source) == (source_acls or set()) | {by_hand, fence_of("orders")}
    sync_once(AclSync(source, target, RULES, AclNotes(both[1], NOTES, "A")))
    assert describe_acls(target) == target_acls, "on the target it would shut the mirror out"
    fence.undo(note)
    assert describe_acls(source) == (source_acls or set()) | {by_hand}, "what was there before stays"

    assert not kept, "no topic was made since the step began"
    source.create_topics([NewTopic("orphans", 1, 1)])
    ends_at = time.monotonic() + DEADLINE_SECONDS_LEAST
    while "orphans" not in source.list_topics():
        assert time.monotonic() < ends_at, "the new topic is not listed"
        time.sleep(0.02)
    assert fence.apply(note) == "nobody but super users may write to 3 topics of A", "one was made since"
    fence.undo(kept[-1])
    assert describe_acls(source) == (source_acls or set()) | {by_hand}, "it was noted before it was fenced"

    fence.apply(note)
    unfence = Unfence(flow, source)
    lifted = unfence.prepare()
    assert unfence.apply(lifted) == "3 topics of A were fenced and may be written to again"
    assert describe_acls(source) == source_acls
    unfence.undo(lifted)
    assert describe_acls(source) == (source_acls or set()) | {by_hand, fence_of("orders"), fence_of("orphans")}
    unfence.apply(lifted)


def test_clusters_without_an_authorizer_are_left_alone(source_cluster: KafkaCluster) -> None:
    with open_admin(Cluster("C", {"bootstrap.servers": source_cluster.bootstrap_servers}), "test") as admin:
        assert describe_acls(admin) is None
        assert AclSync(admin, admin, RULES, AclNotes(Cluster("C", {}), NOTES, "A")).plan() == Plan()
        (failure,) = create_acls(admin, [READ]).values()
        assert "creating the ACL ALLOW READ on topic orders for User:alice failed with SECURITY_DISABLED" in str(
            failure
        )
