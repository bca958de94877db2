"""Four partitions fail, each for its own reason, and nothing else does; each heals, by itself or by `retry`.

Records that are too large are another story: tests/scenarios/test_failed_partition.py.
"""

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.faults.tree import Run
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import ORDER_SECONDS_MAX, Note, alter_topic, make_topics, numbered, write
from tests.scenarios.mirror import COMMAND, flow_file
from tests.scenarios.status import status_of
from tests.waiting import wait_until

from sparkmirror.telemetry.board import FlowStatus
from sparkmirror.testing.kafka import KafkaCluster

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
TWO_HOURS_MS = 2 * 3600 * 1000
HEAL_SECONDS_MAX = 40.0
ATTEMPTS_MAX = 3
DAMAGE = b"to-be-damaged"


class Wards:
    """The topics of the story, as clients of both clusters see them."""

    names = ("healthy", "damaged", "forbidden", "compacted", "future")

    def __init__(self, source: KafkaCluster, target: KafkaCluster, alias: str) -> None:
        self.broker = source.broker(1)
        self.source: Client = {"bootstrap.servers": source.bootstrap_servers}
        self.target: Client = {"bootstrap.servers": target.bootstrap_servers}
        self.alias = alias

    def text(self) -> str:
        lines = [
            "sync.topic.configs.enabled = false",
            "sync.topic.acls.enabled = false",
            "tasks.max = 2",
            "tasks.min = 2",
        ]
        return flow_file(self.source, self.target, alias=self.alias, topics="|".join(self.names), lines=lines)

    def prepare(self) -> None:
        lenient = {"message.timestamp.after.max.ms": str(2 * TWO_HOURS_MS)}
        make_topics(self.source, dict.fromkeys(self.names, 2), lenient)
        make_topics(self.target, {f"{self.alias}.{name}": 2 for name in self.names})
        self.alter("compacted", "cleanup.policy", "compact")
        self.alter("future", "message.timestamp.after.max.ms", "3600000")
        write(self.source, "healthy", numbered(0, 100, partitions=2))
        far = Note(b"far ahead", timestamp_ms=round(time.time() * 1000) + TWO_HOURS_MS)
        for name, bad in {
            "damaged": Note(DAMAGE), "forbidden": Note(b"never"), "compacted": Note(b"no key"), "future": far
        }.items():  # fmt: skip
            write(self.source, name, numbered(0, 20, partitions=2))
            write(self.source, name, [bad])
            write(self.source, name, numbered(20, 40, partitions=2))

    def flip_a_byte(self) -> None:
        """In the value of one record on the source's disk, while its broker is away; a second time mends it."""
        self.broker.stop()
        (segment,) = (self.broker.data_directory / "damaged-0").glob("*.log")
        with segment.open("r+b") as log:
            at = log.read().index(DAMAGE[:-1])
            log.seek(at + len(DAMAGE) - 1)
            byte = log.read(1)[0]
            log.seek(at + len(DAMAGE) - 1)
            log.write(bytes([byte ^ 1]))
        self.broker.start()

    def alter(self, name: str, key: str, value: str) -> None:
        alter_topic(self.target, f"{self.alias}.{name}", {key: value})

    def forbid(self) -> None:
        """Nobody may write to one partition's topic; reading stays allowed."""
        admin = AdminClient(dict(self.target))
        for done in admin.create_acls([self._acl(AclOperation.READ), self._acl(AclOperation.DESCRIBE)]).values():
            done.result(ORDER_SECONDS_MAX)

    def allow(self) -> None:
        everything = AclBindingFilter(
            ResourceType.TOPIC, f"{self.alias}.forbidden", ResourcePatternType.LITERAL, None, None,
            AclOperation.ANY, AclPermissionType.ANY,
        )  # fmt: skip
        admin = AdminClient(dict(self.target))
        for done in admin.delete_acls([everything]).values():
            done.result(ORDER_SECONDS_MAX)
        # The broker goes by what was before for a moment.
        wait_until(lambda: not admin.describe_acls(everything).result(ORDER_SECONDS_MAX), "the ACLs are gone")

    def _acl(self, operation: AclOperation) -> AclBinding:
        return AclBinding(
            ResourceType.TOPIC, f"{self.alias}.forbidden", ResourcePatternType.LITERAL, "User:ANONYMOUS", "*",
            operation, AclPermissionType.ALLOW,
        )  # fmt: skip

    def status(self) -> FlowStatus:
        return status_of(self.target, self.alias)

    def arrived(self, name: str) -> int:
        return count_records(self.target, f"{self.alias}.{name}")

    def has_all(self, name: str) -> bool:
        return self.arrived(name) == count_records(self.source, name)


@pytest.fixture
def wards(unique: Callable[[str], str]) -> Iterator[Wards]:
    with KafkaCluster(name="damaged") as source, KafkaCluster(name="guarded", config=AUTHORIZER) as target:
        yield Wards(source, target, unique("east"))


def order(path: Path, verb: str, *arguments: str) -> str:
    told = subprocess.run([str(COMMAND), verb, str(path), *arguments], capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    return told.stdout


def test_each_partition_fails_alone_with_its_reason_and_heals_when_the_cause_goes(wards: Wards, tmp_path: Path) -> None:
    wards.prepare()
    wards.forbid()
    wards.flip_a_byte()
    file = tmp_path / "wards.properties"
    file.write_text(wards.text())
    reasons = {
        "compacted-0": "without key",
        "damaged-0": "checksum",
        "forbidden-0": "grant WRITE",
        "forbidden-1": "grant WRITE",
        "future-0": "timestamp",
    }
    with Run(tmp_path, wards.text()) as run:
        failed: dict[str, str] = {}

        def they_fail() -> bool:
            failed.clear()
            failed.update(wards.status().failed)
            return failed.keys() == reasons.keys()

        run.wait_until(they_fail, "these partitions fail, and no other")
        for where, words in reasons.items():
            assert words in failed[where], failed[where]
        run.wait_until(lambda: wards.has_all("healthy"), "the healthy topic is whole", 20)
        run.wait_until(lambda: [wards.arrived(name) for name in ("damaged", "compacted", "future")] == [30, 30, 30],
                       "what stands before the bad record, and the other partition", 20)  # fmt: skip
        write(wards.source, "healthy", numbered(100, 200, partitions=2))
        run.wait_until(lambda: wards.has_all("healthy"), "and goes on", 10)
        _retry_by_order(wards, run, file)
        wards.alter("compacted", "cleanup.policy", "delete")
        wards.alter("future", "message.timestamp.after.max.ms", str(2 * TWO_HOURS_MS))
        wards.flip_a_byte()
        run.wait_until(lambda: all(map(wards.has_all, wards.names)), "all heal by themselves", HEAL_SECONDS_MAX)
        run.wait_until(lambda: not wards.status().failed, "and nothing is called FAILED", 10)
        _pause_and_resume(wards, run, file)
        run.stop()
    for name in wards.names:
        assert_same(read_topic(wards.source, name), read_topic(wards.target, f"{wards.alias}.{name}"), name)


def _retry_by_order(wards: Wards, run: Run, file: Path) -> None:
    """While its next try is still seconds away; where the machine was slower than that, once more."""
    for _ in range(ATTEMPTS_MAX):
        due = 0.0

        def is_far() -> bool:
            nonlocal due
            seconds = wards.status().retry_at_ms.get("forbidden-1", 0) / 1000 - time.time()
            due = time.monotonic() + seconds
            return seconds > 6

        run.wait_until(is_far, "its second pause, of ten seconds", 30)
        wards.allow()
        said = order(file, "retry", "--topic", "forbidden")
        assert "forbidden-1" in said or time.monotonic() > due, said
        run.wait_until(lambda: wards.has_all("forbidden"), "the topic heals", 30)
        if time.monotonic() < due:
            return
        wards.forbid()
        run.wait_until(lambda: _is_refused(wards), "the topic is forbidden again")
    pytest.fail("it only healed when its time came")


def _is_refused(wards: Wards) -> bool:
    write(wards.source, "forbidden", numbered(0, 2, partitions=2))
    return "forbidden-1" in wards.status().failed


def _pause_and_resume(wards: Wards, run: Run, file: Path) -> None:
    """A pause outlasts a restart of the tasks; what it does not cover goes on."""
    order(file, "pause", "--topic", "healthy")
    run.wait_until(lambda: wards.status().paused == ("healthy-0", "healthy-1"), "they are called paused", 10)
    order(file, "restart")
    write(wards.source, "healthy", numbered(200, 300, partitions=2))
    write(wards.source, "forbidden", numbered(40, 60, partitions=2))
    run.wait_until(lambda: wards.has_all("forbidden"), "the other topics go on", 20)
    assert wards.arrived("healthy") == 200
    order(file, "resume")
    wait_until(lambda: wards.has_all("healthy"), "it is read again", 10)
