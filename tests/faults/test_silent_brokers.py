"""A source broker is silent (SIGSTOP): what it leads is unknown, and nobody says that all is mirrored."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.story import Story
from tests.faults.tree import Run
from tests.scenarios.data import await_leaders, numbered, write
from tests.scenarios.mirror import COMMAND, Ended

from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.log_offsets import OffsetsUnknown
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.testing.kafka import KafkaCluster

pytestmark = pytest.mark.long

RECORDS, MORE = 1_000, 500
QUICK = ("emit.offset-syncs.enabled = false",)


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[KafkaCluster]:
    """A silent broker leads what it led until its session is over: so late that a mirror has begun meanwhile."""
    with KafkaCluster(brokers=3, name="silent", config={"broker.session.timeout.ms": "20000"}) as cluster:
        yield cluster


def test_once_names_what_a_silent_broker_leads_and_copies_it_when_it_is_back(
    from_three: Story, three_brokers: KafkaCluster
) -> None:
    story = from_three
    _create(story, [[1], [3]])
    with _silent(three_brokers):
        ended = _run(story, "run", "--once")
        assert ended.status == 1, f"said that all is copied:\n{ended.errors}"
        _assert_named(story, ended.errors)
    assert _run(story, "run", "--once").status == 0
    assert story.arrived() == [RECORDS, RECORDS]


def test_a_verb_that_needs_all_ends_waits_for_new_leaders_and_others_are_reported_what_is_unknown(
    from_three: Story, three_brokers: KafkaCluster
) -> None:
    story = from_three
    _create(story, [[1, 2], [3, 2]])
    _create(story, [[3]], of_broker_3 := f"{story.topic}-of-3")
    alone, moves = (TopicPartition(story.topic, number) for number in range(2))
    stays = TopicPartition(of_broker_3, 0)
    with open_admin(Cluster("A", {"bootstrap.servers": story.source}), "test") as admin, _silent(three_brokers):
        told = admin.latest_offsets([alone, moves, stays])
        assert (told.known, told.unknown.keys()) == ({alone: RECORDS}, {moves, stays})
        assert admin.await_latest_offsets([alone, moves], 120) == {alone: RECORDS, moves: RECORDS}
        with pytest.raises(OffsetsUnknown, match=rf"{stays} .*broker 3"):
            admin.await_latest_offsets([alone, moves, stays], 1)
        with pytest.raises(OffsetsUnknown, match=rf"{stays} .*broker 3"):
            admin.await_earliest_offsets([stays], 1)


def test_once_waits_for_the_leader_that_takes_the_place_of_a_silent_one(
    from_three: Story, three_brokers: KafkaCluster
) -> None:
    story = from_three
    _create(story, [[1, 2], [3, 2]])
    with _silent(three_brokers):
        ended = _run(story, "run", "--once")
        assert (ended.status, story.arrived()) == (0, [RECORDS, RECORDS]), ended.errors


def test_neither_failover_nor_verify_nor_migrate_says_all_of_what_a_silent_broker_leads(
    from_three: Story, three_brokers: KafkaCluster
) -> None:
    story = from_three
    _create(story, [[1], [3]])
    assert _run(story, "run", "--once").status == 0
    write({"bootstrap.servers": story.source}, story.topic, numbered(0, MORE))
    assert _run(story, "run", "--once").status == 0
    with _silent(three_brokers):
        (found,) = _json(_run(story, "failover status", "--format", "json"))
        assert (found["records_behind"], found["seconds_behind"]) == (None, None)
        assert [(one["topic"], one["partition"]) for one in found["unknown"]] == [(story.topic, 1)]
        assert "nothing would be lost" not in _run(story, "failover status").output

        drained = _run(story, "failover run")
        assert drained.status == 1, f"said that all is mirrored: {drained.output} {drained.errors}"
        _assert_named(story, drained.errors)

        (verified,) = _json(_run(story, "verify", "--format", "json"))
        assert verified["verdict"] == "unproven"
        assert [name for name in verified["skipped"] if name == f"{story.topic}-1"]

        migrated = _run(story, "migrate run")
        assert migrated.status == 1, f"went on: {migrated.output} {migrated.errors}"
        _assert_named(story, migrated.errors)
    assert _run(story, "failover run").status == 0


def _assert_named(story: Story, said: str) -> None:
    last = said[said.rindex("sparkmirror: ") :]
    assert f"{story.topic}-1" in last, said
    assert "broker 3" in last, said
    assert f"{story.topic}-0" not in last, said


def _create(story: Story, replicas: list[list[int]], topic: str = "") -> None:
    """The partitions, on these brokers, the first of each its leader; with records."""
    topic = topic or story.topic
    admin = AdminClient({"bootstrap.servers": story.source})
    wanted = NewTopic(topic, len(replicas), replica_assignment=replicas)
    admin.create_topics([wanted])[topic].result(30)
    client = {"bootstrap.servers": story.source}
    await_leaders(client, {topic: len(replicas)})
    write(client, topic, numbered(0, RECORDS * len(replicas), len(replicas)))


@contextmanager
def _silent(cluster: KafkaCluster) -> Iterator[None]:
    cluster.broker(3).pause()
    try:
        yield
    finally:
        cluster.broker(3).resume()
        cluster.wait_ready()


def _run(story: Story, verb: str, *arguments: str) -> Ended:
    file = story.directory / "flow.properties"
    text = story.text(*QUICK)
    file.write_text(text)
    with Run(story.directory, text, arguments, program=(str(COMMAND), *verb.split(), str(file))) as run:
        return run.finish(300)


def _json(ended: Ended) -> Any:
    assert ended.output, ended.errors
    return json.loads(ended.output)
