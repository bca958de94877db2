"""One source, mirrored by MirrorMaker 2 4.3 to one target and by us to another: both targets are equal afterwards."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkmirror.config.flow.flows import FlowConfig, load_config
from sparkmirror.kafka.acls import create_acls, delete_acls, describe_acls
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import LITERAL, PREFIXED, AclBinding, NewTopic
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.topic_settings import alter_topics
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster
from sparkmirror.sync.flow import sync_flow
from sparkmirror.testing.guard import Guard
from sparkmirror.testing.jars import MIRROR_MAKER, class_path
from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.process import JavaProcess, JavaProgram

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
MIRROR_MAKER_CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"
IN_STEP_SECONDS_MAX = 90.0
READ = AclBinding("orders", LITERAL, "User:alice", "*", "READ", "ALLOW")
SETTINGS = """
A->B.enabled = true
B->A.enabled = false
emit.heartbeats.enabled = false
emit.checkpoints.enabled = false
topics = orders.*, pay, x-internal, heartbeats, B.round, .*replica, __own
topics.exclude = .*\\\\.replica
config.properties.exclude = min\\\\.insync\\\\.replicas, retention\\\\.bytes
replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
config.storage.replication.factor = 1
status.storage.replication.factor = 1
refresh.topics.interval.seconds = 1
sync.topic.configs.interval.seconds = 1
sync.topic.acls.interval.seconds = 1
"""


@dataclass(frozen=True)
class Side:
    """What a target has of the source: settings of its remote topics by name, with their partition count, and ACLs."""

    topics: dict[str, tuple[int, dict[str, str | None]]]
    acls: set[AclBinding]


@dataclass(frozen=True)
class Trio:
    """The source, the target of MirrorMaker, ours, and the flow that leads to ours."""

    source: Admin
    theirs: Admin
    ours: Admin
    flow: FlowConfig


def look_at(target: Admin) -> Side:
    remote = {name: topic for name, topic in target.list_topics().items() if not name.startswith(("mm2-", "__"))}
    described = target.describe_configs(remote)
    overrides = {
        name: {key: entry.value for key, entry in described[name].items() if entry.is_override}
        for name in remote
        if name in described
    }
    return Side({name: (topic.partitions, overrides.get(name, {})) for name, topic in remote.items()}, acls_of(target))


def acls_of(target: Admin) -> set[AclBinding]:
    return describe_acls(target) or set()


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    directory = tmp_path_factory.mktemp("parity")
    with ExitStack() as cleanup:
        a, theirs, ours = (
            cleanup.enter_context(KafkaCluster(name=name, config=AUTHORIZER)) for name in ("a", "theirs", "ours")
        )
        admins = [
            cleanup.enter_context(open_admin(Cluster(name, {"bootstrap.servers": cluster.bootstrap_servers}), "test"))
            for name, cluster in (("A", a), ("theirs", theirs), ("ours", ours))
        ]
        prepare(admins[0])
        guard = Guard(directory / "mirror-maker")
        (directory / "mirror-maker").mkdir(exist_ok=True)
        cleanup.callback(guard.close)
        program = JavaProgram(
            "MirrorMaker 2", MIRROR_MAKER_CLASS, class_path(MIRROR_MAKER), [str(write_file(directory, a, theirs))]
        )
        mirror_maker = JavaProcess(program, directory / "mirror-maker.log", guard)
        mirror_maker.launch()
        cleanup.callback(mirror_maker.kill)
        (flow,) = load_config(write_file(directory, a, ours)).flows
        ensure_ledger_topics(admins[2], ledger_topics("A", replication_factor=1))
        yield Trio(admins[0], admins[1], admins[2], flow)


def write_file(directory: Path, a: KafkaCluster, b: KafkaCluster) -> Path:
    addresses = f"A.bootstrap.servers = {a.bootstrap_servers}\nB.bootstrap.servers = {b.bootstrap_servers}\n"
    file = directory / f"{b.name}.properties"
    file.write_text(f"clusters = A, B\n{addresses}{SETTINGS}")
    return file


def prepare(source: Admin) -> None:
    topics = [
        NewTopic("orders", 3, 1, {"cleanup.policy": "compact", "retention.bytes": "9", "min.insync.replicas": "1"}),
        NewTopic("orders.eu", 1, 1, {"max.message.bytes": "2000000"}),
        *(
            NewTopic(name, 1, 1)
            for name in ("pay", "x-internal", "other", "heartbeats", "B.round", "a.replica", "__own")
        ),
    ]
    assert set(source.create_topics(topics).values()) == {None}
    bindings = [
        READ,
        READ._replace(operation="WRITE"),
        READ._replace(operation="ALL", principal="User:bob"),
        READ._replace(operation="WRITE", permission="DENY", principal="User:eve", host="10.0.0.1"),
        READ._replace(topic="other"),
        READ._replace(topic="x-internal", operation="DESCRIBE"),
    ]
    assert set(create_acls(source, bindings).values()) == {None}


def wait_until_equal(trio: Trio, what: str, is_met: Callable[[Side], bool]) -> Side:
    """Our round is done at once, but brokers know of changes a moment later; MirrorMaker's rounds follow.

    Both may be equal before either has come to see what is new, so `is_met` says that ours has.
    """
    deadline = time.monotonic() + IN_STEP_SECONDS_MAX
    while True:
        for one in sync_flow(trio.flow):
            assert one.failures == ()
        ours, theirs = look_at(trio.ours), look_at(trio.theirs)
        if ours == theirs and is_met(ours):
            return ours
        assert time.monotonic() < deadline, f"{what}:\nours   {ours}\ntheirs {theirs}"
        time.sleep(0.1)


def test_targets_are_equal_at_first_and_after_every_change(trio: Trio) -> None:
    first = wait_until_equal(trio, "after the start", lambda side: len(side.acls) >= 4)
    assert first.topics["A.orders"] == (3, {"cleanup.policy": "compact"})
    assert set(first.topics) == {f"A.{name}" for name in ("orders", "orders.eu", "pay", "x-internal", "heartbeats")}
    assert len(first.acls) == 4

    assert trio.source.create_topics([NewTopic("orders.late", 2, 1, {"segment.bytes": "2097152"})]) == {
        "orders.late": None
    }
    assert trio.source.create_partitions({"pay": 4}) == {"pay": None}
    assert alter_topics(trio.source, {"orders": {"cleanup.policy": None, "retention.bytes": "10"}}) == []
    for target in (trio.theirs, trio.ours):
        by_operator = {"A.orders": {"retention.bytes": "7", "max.message.bytes": "1000"}}
        assert alter_topics(target, by_operator) == []
    late = READ._replace(topic="orders.eu", principal="User:late")
    assert create_acls(trio.source, [late]) == {late: None}
    assert delete_acls(trio.source, [READ]) == {READ: None}
    topics, copy = {"A.orders.late", "A.pay"}, late._replace(topic="A.orders.eu")

    def has_followed(side: Side) -> bool:
        counted = topics <= side.topics.keys() and side.topics["A.pay"][0] == 4
        return counted and copy in side.acls and side.topics["A.orders"][1] == {"retention.bytes": "7"}

    time_to_see = wait_until_equal(trio, "after changes on both sides", has_followed)
    assert time_to_see.topics["A.orders"] == (3, {"retention.bytes": "7"}), "an operator's override is removed"
    assert time_to_see.topics["A.orders.late"] == (2, {"segment.bytes": "2097152"})
    assert time_to_see.topics["A.pay"][0] == 4
    assert READ._replace(topic="A.orders") in time_to_see.acls, "neither revokes unless asked"
    assert late._replace(topic="A.orders.eu") in time_to_see.acls


def test_prefixed_patterns_are_what_we_copy_and_mirror_maker_does_not(trio: Trio) -> None:
    prefixed = READ._replace(topic="ord", pattern=PREFIXED, principal="User:prefix")
    marker = READ._replace(topic="pay", principal="User:marker")
    assert create_acls(trio.source, [prefixed, marker]) == {prefixed: None, marker: None}
    deadline = time.monotonic() + IN_STEP_SECONDS_MAX
    while prefixed._replace(topic="A.ord") not in acls_of(trio.ours):
        assert time.monotonic() < deadline, "we do not copy prefixed patterns any more"
        sync_flow(trio.flow)
    while marker._replace(topic="A.pay") not in acls_of(trio.theirs):
        assert time.monotonic() < deadline, "MirrorMaker does not copy ACLs any more"
        time.sleep(0.1)
    assert not any(binding.pattern == PREFIXED for binding in acls_of(trio.theirs))
