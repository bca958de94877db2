"""The target refuses what the ledger is to hold: no data becomes visible without its position, and the status says why.

One task's sending end on real brokers, without Spark (`one_task`).
"""

import json
import os
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
from tests.faults.clock import SteppedClock
from tests.faults.one_task import Mirrored, OneTask
from tests.faults.story import Story
from tests.scenarios.data import ORDER_SECONDS_MAX, alter_topic
from tests.scenarios.mirror import COMMAND
from tests.scenarios.status import board_of
from tests.waiting import wait_until

from sparkmirror.clock import SystemClock
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.pipeline.produce.coordinator import Coordinator
from sparkmirror.testing.kafka import KafkaCluster

EXACTLY_ONCE = ("backup.exactly.once.source.support = enabled",)
HOUR_NS = 3600 * 10**9
BEFORE, AFTER = 100, 300
TOO_SMALL = "120"
"""Room for the marker that ends a transaction, which a coordinator tries only once, and for no position."""
PAUSE_SECONDS = 3.0
QUESTIONS_MAX = 60
"""Of some ten transactions and one retry in that time; without a pause there are thousands."""
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture
def flow(target_cluster: KafkaCluster, unique: Callable[[str], str]) -> Mirrored:
    flow = Mirrored(target_cluster.bootstrap_servers, unique("A"), unique("numbers"))
    flow.create()
    return flow


@pytest.mark.parametrize("topic", ["positions", pytest.param("offsets", marks=pytest.mark.long)])
def test_a_transaction_whose_positions_are_too_large_is_aborted_and_sent_again(flow: Mirrored, topic: str) -> None:
    refusing = getattr(ledger_topics(flow.alias), topic)
    with OneTask(flow, exactly_once=True) as task:
        task.give(BEFORE, BEFORE)
        task.wait_for_ledger(BEFORE, BEFORE)
        alter_topic({"bootstrap.servers": flow.servers}, refusing, {"max.message.bytes": TOO_SMALL})
        task.give(AFTER, AFTER)
        task.wait_until(lambda: f"{flow.topic}-0" in task.failed, "the partition is FAILED")
        assert refusing in task.failed[f"{flow.topic}-0"]
        assert "max.message.bytes" in task.failed[f"{flow.topic}-0"]
        stopped = flow.positions()  # a broker goes by a topic's settings soon, not at once
        assert sum(stopped) < 2 * AFTER
        flow.arrival().assert_complete(stopped)
        alter_topic({"bootstrap.servers": flow.servers}, refusing, {"max.message.bytes": None})
        task.wait_for_ledger(AFTER, AFTER)
        task.wait_until(lambda: not task.failed, "nothing is FAILED any more")
    arrival = flow.arrival()
    arrival.assert_complete([AFTER, AFTER])
    assert arrival.repeats() == 0


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_clock_that_is_hours_ahead_costs_no_position(flow: Mirrored, exactly_once: bool) -> None:
    """Brokers refuse records of the future, an hour by default."""
    clock = SystemClock()
    clock.time_ns = lambda: time.time_ns() + 3 * HOUR_NS
    with OneTask(flow, exactly_once=exactly_once, clock=clock) as task:
        task.give(BEFORE, BEFORE)
        task.wait_for_ledger(BEFORE, BEFORE)
        assert task.failed == {}
    board = board_of({"bootstrap.servers": flow.servers}, flow.alias)
    assert board.status().records == 2 * BEFORE


@pytest.mark.long
def test_a_mirror_whose_clock_is_hours_ahead_stores_its_positions_and_says_that_it_runs(
    story: Story, tmp_path: Path
) -> None:
    clock = SteppedClock(tmp_path / "clock")
    clock.step(3 * 3600)
    with story.writer() as writer, story.run(lines=EXACTLY_ONCE, environment=os.environ | clock.environment) as run:
        story.wait_until_close(run, writer)
        file = tmp_path / "status.properties"
        file.write_text(story.text(*EXACTLY_ONCE))
        command = [str(COMMAND), "status", str(file), "--format", "json"]
        for environment in (os.environ, os.environ | clock.environment):
            told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
            assert json.loads(told.stdout)[0]["state"] == "RUNNING"
        story.wait_for_all(run, writer)
        run.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == 0


@pytest.mark.long
def test_status_and_exit_say_that_positions_are_refused(story: Story) -> None:
    """With `on.send.failure = fail`, which ends the mirror; else it tries again, and `status` names the reason."""
    refusing = ledger_topics(story.alias).positions
    with story.writer() as writer, story.run(lines=(*EXACTLY_ONCE, "on.send.failure = fail")) as run:
        story.wait_until_close(run, writer)
        alter_topic({"bootstrap.servers": story.target}, refusing, {"max.message.bytes": TOO_SMALL})
        ended = run.finish(90)
        assert ended.status == 1
        assert refusing in ended.errors and "max.message.bytes" in ended.errors
    failed = board_of({"bootstrap.servers": story.target}, story.alias).status().failed
    assert any(refusing in reason for reason in failed.values())
    alter_topic({"bootstrap.servers": story.target}, refusing, {"max.message.bytes": None})
    with story.run("--once", lines=EXACTLY_ONCE) as last:
        assert last.finish(90).status == 0
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == 0


@pytest.fixture(
    params=[pytest.param(0, id="first protocol"), pytest.param(2, id="second protocol", marks=pytest.mark.long)]
)
def guarded_flow(request: pytest.FixtureRequest, unique: Callable[[str], str]) -> Iterator[Mirrored]:
    features = {"transaction.version": request.param}
    with KafkaCluster(name="guarded-ledger", features=features, config=AUTHORIZER) as cluster:
        flow = Mirrored(cluster.bootstrap_servers, unique("A"), unique("numbers"))
        flow.create()
        yield flow


def test_a_ledger_topic_that_may_not_be_written_fails_its_partitions_and_is_asked_for_with_pauses(
    guarded_flow: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, asked = guarded_flow, []
    ask = Coordinator.ask
    monkeypatch.setattr(Coordinator, "ask", lambda self, question: (asked.append(question), ask(self, question))[1])
    forbidden = ledger_topics(flow.alias).positions
    with OneTask(flow, exactly_once=True) as task:
        task.give(BEFORE, BEFORE)
        task.wait_for_ledger(BEFORE, BEFORE)
        forbid_writing(flow, forbidden)
        task.give(AFTER, AFTER)
        task.wait_until(lambda: f"{flow.topic}-0" in task.failed, "the partition is FAILED")
        assert forbidden in task.failed[f"{flow.topic}-0"]
        assert "uthorization" in task.failed[f"{flow.topic}-0"].replace("AUTHORIZATION", "Authorization")
        asked.clear()
        task.read_for(PAUSE_SECONDS)
        assert len(asked) < QUESTIONS_MAX
        flow.arrival().assert_complete([BEFORE, BEFORE])
        allow_all(flow, forbidden)
        task.wait_for_ledger(AFTER, AFTER)
    arrival = flow.arrival()
    arrival.assert_complete([AFTER, AFTER])
    assert arrival.repeats() == 0


def forbid_writing(flow: Mirrored, topic: str) -> None:
    """Reading stays allowed to whoever comes without a name, which all do here."""
    allowed = [
        AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation,
            AclPermissionType.ALLOW,
        )
        for operation in (AclOperation.READ, AclOperation.DESCRIBE)
    ]  # fmt: skip
    admin = AdminClient({"bootstrap.servers": flow.servers})
    for done in admin.create_acls(allowed).values():
        done.result(ORDER_SECONDS_MAX)
    wait_until(lambda: admin.describe_acls(_acls(topic)).result(ORDER_SECONDS_MAX), "the broker goes by the ACLs")


def _acls(topic: str) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
    )


def allow_all(flow: Mirrored, topic: str) -> None:
    everything = _acls(topic)
    admin = AdminClient({"bootstrap.servers": flow.servers})
    for done in admin.delete_acls([everything]).values():
        done.result(ORDER_SECONDS_MAX)
    wait_until(lambda: not admin.describe_acls(everything).result(ORDER_SECONDS_MAX), "the ACLs are gone")
