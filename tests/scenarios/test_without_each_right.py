"""Mirrors that lack one row of the table of permissions each: it is said in a sentence, and all else goes on.

What the row is for works as soon as it is granted, without a restart.
"""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from tests.oracle import count_records
from tests.scenarios.data import alter_topic, grow_topic, make_topics
from tests.scenarios.mirror import StartMirror
from tests.strict import NOWHERE, Scene, strict_config, strict_scene

from sparkmirror.kafka.acls import describe_acls
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.groups import read_group_offsets
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.operations.acl_commands import list_all

pytestmark = pytest.mark.long

FAST = (
    "sync.group.offsets.enabled = true",
    *(
        f"{name}.interval.seconds = 1"
        for name in ("refresh.topics", "sync.topic.configs", "sync.topic.acls", "emit.checkpoints", "refresh.groups")
    ),
)
ROWS = list(list_all(strict_config(NOWHERE, NOWHERE, FAST)[1]))
Act = Callable[[Scene, int], object]
"""With the number of the case, so that each has names and values of its own."""


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """A flow that has run before: its remote topics are there."""
    with strict_scene(*FAST) as scene:
        make_topics(scene.admins["backup"], {"A.orders": 1, "A.orders-eu": 1})
        scene.write("orders")
        yield scene


def make_topic(scene: Scene, number: int) -> None:
    make_topics(scene.admins["A"], {f"orders-{number}": 1})


def has_topic(scene: Scene, number: int) -> bool:
    return scene.is_there(f"A.orders-{number}")


def grow(scene: Scene, number: int) -> None:
    grow_topic(scene.admins["A"], "orders-eu", number + 2)


def has_grown(scene: Scene, number: int) -> bool:
    with open_admin(Cluster("backup", scene.admins["backup"]), "test") as admin:
        return admin.list_topics(["A.orders-eu"])["A.orders-eu"].partitions == number + 2


def set_retention(scene: Scene, number: int) -> None:
    alter_topic(scene.admins["A"], "orders", {"retention.ms": str(200_000_000 + number)})


def has_retention(scene: Scene, number: int) -> bool:
    with open_admin(Cluster("backup", scene.admins["backup"]), "test") as admin:
        (settings,) = admin.describe_configs(["A.orders"], ["retention.ms"]).values()
        return settings["retention.ms"].value == str(200_000_000 + number)


def let_read(scene: Scene, number: int) -> None:
    scene.allow_others(
        AclBinding(
            ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, f"User:u{number}", "*",
            AclOperation.READ, AclPermissionType.ALLOW,
        )
    )  # fmt: skip


def may_read(scene: Scene, number: int) -> bool:
    with open_admin(Cluster("backup", scene.admins["backup"]), "test") as admin:
        return any(one.principal == f"User:u{number}" for one in describe_acls(admin) or ())


def commit(scene: Scene, number: int) -> None:
    scene.commit(number + 1)


def has_moved(scene: Scene, number: int) -> bool:
    """The group is on the target where it was put on the source, or behind copies of the same records."""
    with open_admin(Cluster("backup", scene.admins["backup"]), "test") as admin:
        stands = read_group_offsets(admin, "billing").get(TopicPartition("A.orders", 0))
    return stands is not None and stands.offset > number


def nothing(scene: Scene, number: int) -> bool:
    """What the row is for is seen at a start alone, or by its sentence."""
    return True


def has_all(scene: Scene, number: int) -> bool:
    return scene.mirrored("orders") == scene.written


CROSSING = "commits of consumers at the same moment as the mirror's"
CASES: dict[tuple[str, str], tuple[Act, Act | tuple[str, str]]] = {
    ("A", "reading the mirrored topics"): (nothing, has_all),
    ("A", "copying their settings"): (make_topic, has_topic),
    ("A", "copying ACLs (sync.topic.acls.enabled)"): (let_read, may_read),
    ("A", "offset syncs (emit.offset-syncs.enabled)"): (nothing, ("A", "mm2-offset-syncs.backup.internal")),
    ("A", "reading offsets of groups"): (commit, ("backup", "A.checkpoints.internal")),
    ("A", "heartbeats (emit.heartbeats.enabled)"): (nothing, ("A", "heartbeats")),
    ("backup", "writing the remote topics"): (nothing, has_all),
    ("backup", "creating remote topics"): (make_topic, has_topic),
    ("backup", "adding partitions to remote topics"): (grow, has_grown),
    ("backup", "fencing an older instance"): (nothing, nothing),
    ("backup", "sharing flows between processes"): (nothing, nothing),
    ("backup", "keeping settings in step (sync.topic.configs.enabled)"): (set_retention, has_retention),
    ("backup", "copying ACLs (sync.topic.acls.enabled)"): (let_read, may_read),
    ("backup", "checkpoints (emit.checkpoints.enabled)"): (commit, ("backup", "A.checkpoints.internal")),
    ("backup", "keeping groups in step (sync.group.offsets.enabled)"): (commit, has_moved),
    ("backup", CROSSING): (commit, has_moved),
    ("backup", "heartbeats (emit.heartbeats.enabled)"): (nothing, ("backup", "heartbeats")),
}
"""What makes a row matter, and what then works: a condition, or more records in a topic of one side."""
KEPT_STILL = {"reading the mirrored topics", "writing the remote topics"}
LEDGER = ("backup", "positions, status and orders")
COPIED = ("backup", "committing offsets of groups on the remote topics")
"""It cannot be withheld here: who may read a topic may read its remote topic, once the mirror has copied the ACL."""


def test_there_is_a_case_for_each_row() -> None:
    assert {*CASES, LEDGER, COPIED} == {(row.alias, row.feature) for row in ROWS}


def test_without_its_ledger_a_flow_does_not_begin(scene: Scene, start_mirror: StartMirror) -> None:
    (row,) = (one for one in scene.grants if (one.alias, one.feature) == LEDGER)
    scene.forbid(row)
    ended = start_mirror(scene.text).finish()
    assert ended.status == 1
    assert "mm2-" in ended.errors and "Grant the principal of backup access" in ended.errors
    assert "`sparkmirror doctor` names what it lacks" in ended.errors and "Traceback" not in ended.errors
    scene.allow(row)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=f"{row.alias}: {row.feature}")
        for number, row in enumerate(ROWS)
        if (row.alias, row.feature) not in (LEDGER, COPIED)
    ],
)
def test_the_mirror_says_what_it_lacks_and_goes_on(scene: Scene, number: int, start_mirror: StartMirror) -> None:
    row = scene.grants[number]
    act, after = CASES[row.alias, row.feature]
    scene.forbid(row)
    try:
        mirror = start_mirror(scene.text)
        act(scene, number)
        scene.write("orders")
        told = f"the principal that {row.alias}.* of the file logs in as: {row.without} meanwhile"
        mirror.wait_until(lambda: told in mirror.errors, f"it says that {row.without}")
        if row.feature not in KEPT_STILL:
            mirror.wait_until(partial(has_all, scene, number), "records are mirrored all the same")
        if row.feature == CROSSING:
            mirror.wait_until(partial(has_moved, scene, number), "the group is moved all the same")
            assert "shows no topic __consumer_offsets" in mirror.errors
        healed = grows(scene, *after) if isinstance(after, tuple) else partial(after, scene, number)
    finally:
        scene.allow(row)
    scene.write("orders")
    mirror.wait_until(healed, "it works once it is granted")
    mirror.wait_until(partial(has_all, scene, number), "all are mirrored")
    if row.feature != "reading the mirrored topics":  # topics that cannot be seen may not be there either
        mirror.wait_until(lambda: "all permissions are granted now" in mirror.errors, "it says so")
    mirror.stop(60)


def grows(scene: Scene, alias: str, topic: str) -> Callable[[], bool]:
    before = count_records(scene.admins[alias], topic) if scene.has_records(alias, topic) else 0
    return lambda: scene.has_records(alias, topic) and count_records(scene.admins[alias], topic) > before
