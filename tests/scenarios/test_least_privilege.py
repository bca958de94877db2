"""A mirror whose principal may do exactly what docs/permissions.md lists: all of the default configuration works."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from tests.faults.sharing import wait_until_shared
from tests.oracle import Client
from tests.scenarios.data import Note, grow_topic, make_topics, write
from tests.scenarios.mirror import Mirror, StartMirror
from tests.scenarios.test_identical_offsets import KEEPS, begin_at, spans
from tests.scenarios.test_transactions import write_aborted, write_transactions
from tests.strict import Scene, strict_scene

from sparkmirror.cli.main import main
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.acls import describe_acls
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire.batch_owners import read_owners
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.policy.fillers import WRITE_MARKERS

pytestmark = pytest.mark.long

READER = AclBinding(
    ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:alice", "*",
    AclOperation.READ, AclPermissionType.ALLOW,
)  # fmt: skip


@pytest.fixture
def scene() -> Iterator[Scene]:
    with strict_scene() as scene:
        scene.allow_others(READER)
        yield scene


def is_copied(scene: Scene) -> bool:
    with open_admin(Cluster("backup", scene.admins["backup"]), "test") as admin:
        return any(one.topic == "A.orders" and one.principal == "User:alice" for one in describe_acls(admin) or ())


def assert_nothing_was_refused(mirror: Mirror) -> None:
    refused = [line for line in mirror.errors.splitlines() if "AUTHORIZATION" in line or "grant" in line.lower()]
    assert refused == []


def test_exactly_these_rights_do_over_a_restart_and_a_second_process(scene: Scene, start_mirror: StartMirror) -> None:
    scene.write("orders")
    scene.commit(40)
    first = start_mirror(scene.text)
    first.wait_until(lambda: scene.mirrored("orders") == 100, "records arrive")
    for alias, topic in (
        ("backup", "A.checkpoints.internal"),
        ("backup", "heartbeats"),
        ("A", "heartbeats"),
        ("A", "mm2-offset-syncs.backup.internal"),
    ):
        first.wait_until(lambda alias=alias, topic=topic: scene.has_records(alias, topic), f"{topic} on {alias}")
    first.wait_until(lambda: is_copied(scene), "ACLs are copied")
    first.stop(60)
    assert_nothing_was_refused(first)
    make_topics(scene.admins["A"], {"orders-late": 1})
    grow_topic(scene.admins["A"], "orders-eu", 2)
    second, third = start_mirror(scene.text), start_mirror(scene.text)
    wait_until_shared(second, third)  # type: ignore[arg-type]
    for topic in ("orders", "orders-late", "orders-eu"):
        scene.write(topic)
    second.wait_until(
        lambda: [scene.mirrored(f"orders{end}") for end in ("", "-late", "-eu")] == [200, 100, 100], "all"
    )
    assert not scene.is_there("A.secret")
    second.stop(60)
    third.stop(60)
    assert_nothing_was_refused(second)
    assert_nothing_was_refused(third)


def planned(scene: Scene, directory: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the mirror's own principal is told by `plan`."""
    file = directory / "plan.properties"
    file.write_text(scene.text)
    capsys.readouterr()
    assert main(["plan", str(file)]) == 0
    return capsys.readouterr().out


def test_the_rows_for_kept_offsets_do_for_a_start_and_for_holes(
    start_mirror: StartMirror, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without those for ACLs: who may alter the cluster may write markers too."""
    lines = (f"preserve.offsets.filler = {WRITE_MARKERS}", "sync.topic.acls.enabled = false")
    with strict_scene(KEEPS, "A.consumer.isolation.level = read_committed", *lines) as scene:
        source, target = scene.admins["A"], scene.admins["backup"]
        grow_topic(source, "orders", 2)
        begin_at(source, "orders", 1000)
        write_transactions(source, "orders", "writer")
        write_aborted(source, "orders", 3000)
        scene.commit(1000)

        out = planned(scene, tmp_path, capsys)
        assert "fill 1,000 offsets of A.orders-0, 0 to 999, before it begins" in out
        assert re.search(r"fill about 3,\d+ of 3,\d+ offsets of A.orders-0, 1000 to", out)
        assert re.search(r"by the ACLs, only User:\S+ and super users may write to 2 topics whose offsets", out)

        def are_identical() -> bool:
            try:
                return spans(target, "A.orders", 2) == spans(source, "orders", 2)
            except ClusterError:  # it is not there yet
                return False

        mirror = start_mirror(scene.text)
        mirror.wait_until(are_identical, "offsets are identical")
        assert_nothing_was_refused(mirror)
        (before, end), _ = spans(target, "A.orders", 2).values()
        assert most_markers_of_one(target, before, end) > 1500, "one producer id, without transactions"

        (written,) = (one for one in scene.grants if WRITE_MARKERS in one.feature)
        scene.forbid(written)
        write_aborted(source, "orders", 3000)
        write(source, "orders", [Note(b"behind it")])
        mirror.wait_until(are_identical, "transactions do without the right", 60)
        assert most_markers_of_one(target, end, end + 3000) < 1500, "those of some transactional ids"
        mirror.stop(60)


def most_markers_of_one(target: Client, first: int, stop: int) -> int:
    """How many of the offsets one producer has filled."""
    settings = client_settings(Cluster("backup", target), "test")
    batches = read_owners(settings, TopicPartition("A.orders", 0), first, stop)
    return max(Counter(one.producer_id for one in batches if one.is_filler).values())
