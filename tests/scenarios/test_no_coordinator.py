"""A target with fewer brokers than its transaction.state.log.replication.factor: at least once is mirrored there."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import COMMAND, StartMirror, flow_file
from tests.scenarios.status import board_of

from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.known_ids import used_tasks
from sparkmirror.model import Cluster, Connector
from sparkmirror.telemetry.records import JobState
from sparkmirror.testing.kafka import KafkaCluster

SETTING = "transaction.state.log.replication.factor"
EXACTLY_ONCE = "backup.exactly.once.source.support = enabled"


@pytest.fixture(scope="module")
def lone_target() -> Iterator[Client]:
    """One broker with the factor that a broker has whose file does not set it."""
    with KafkaCluster(name="lone", config={SETTING: "3"}) as cluster:
        yield {"bootstrap.servers": cluster.bootstrap_servers}


def test_at_least_once_mirrors_without_a_coordinator_and_fences_as_soon_as_one_can_exist(
    source: Client, lone_target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    alias, topic = unique("east"), unique("orders")
    make_topics(source, {topic: 2})
    write(source, topic, numbered(0, 200, 2))
    mirror = start_mirror(flow_file(source, lone_target, alias=alias, topics=topic))
    remote = f"{alias}.{topic}"
    mirror.wait_until(lambda: count_records(lone_target, remote) == 200, "all records are mirrored")
    assert_same(read_topic(source, topic), read_topic(lone_target, remote), remote)

    def fencing() -> JobState | None:
        job = board_of(lone_target, alias).jobs.get("fencing")
        return job.state if job else None

    mirror.wait_until(lambda: fencing() is JobState.FAILED, "its status says that nobody is fenced")
    assert SETTING in board_of(lone_target, alias).jobs["fencing"].reason
    assert mirror.errors.count("Predecessors are not fenced") == 1
    connector = Connector.of_dedicated_mode(alias)
    with open_admin(Cluster("backup", dict(lone_target)), "test") as admin:
        assert not used_tasks(admin, connector)
        admin.create_topics([NewTopic("__transaction_state", 3, 1)])
        mirror.wait_until(lambda: used_tasks(admin, connector), "its task has a transactional id")
    mirror.wait_until(lambda: fencing() is JobState.RUNNING, "its status says that all is well")
    write(source, topic, numbered(200, 300, 2))
    mirror.wait_until(lambda: count_records(lone_target, remote) == 300, "it goes on")
    assert_same(read_topic(source, topic), read_topic(lone_target, remote), remote)
    assert "Traceback" not in mirror.stop().errors


def test_exactly_once_is_refused_with_the_brokers_setting(
    source: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    with KafkaCluster(name="lonely", config={SETTING: "3"}) as cluster:
        target = {"bootstrap.servers": cluster.bootstrap_servers}
        alias = unique("east")
        once = flow_file(source, target, alias=alias, topics="orders", lines=[EXACTLY_ONCE])
        ended = start_mirror(once).finish()
        assert ended.status == 1
        assert f"exactly-once needs transactions, and cluster backup has fewer brokers than its {SETTING} = 3" in (
            ended.errors
        )
        for lines, level in (([EXACTLY_ONCE], "FAIL"), ([], "WARN")):
            file = tmp_path / f"{level}.properties"
            file.write_text(flow_file(source, target, alias=alias, topics="orders", lines=lines))
            doctor = subprocess.run(
                [COMMAND, "doctor", file, "--format", "json"], capture_output=True, text=True, check=False
            )
            found = [one for one in json.loads(doctor.stdout) if one["what"] == "transactions"]
            assert [(one["level"], SETTING in one["said"]) for one in found] == [(level, True)]
