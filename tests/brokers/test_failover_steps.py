"""Steps of a failover and of the way back on real brokers, without a mirror: groups taken back, names that stay."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer
from tests.brokers.offset_story import Story, told
from tests.brokers.test_stale_offsets import Scene
from tests.oracle import DEADLINE_SECONDS_LEAST, Client

from sparkmirror.cli.main import main
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger import positions
from sparkmirror.ledger.connect import encode_key, encode_value
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Connector, Position, TopicPartition
from sparkmirror.operations.cluster_pair import ClusterPair
from sparkmirror.operations.failover_run import MoveGroups, Moves
from sparkmirror.operations.failover_snapshot import look
from sparkmirror.testing.kafka import KafkaCluster

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
Begin = Callable[..., Scene]


@pytest.fixture
def begin(source_cluster: KafkaCluster, target_cluster: KafkaCluster, unique: Callable[[str], str]) -> Iterator[Begin]:
    """Begins a story by these lines of its file: a topic that both clusters have, and the name of a group."""
    source, target = ({"bootstrap.servers": one.bootstrap_servers} for one in (source_cluster, target_cluster))
    with ExitStack() as stories:

        def begin(*lines: str, partitions: int = 1) -> Scene:
            story = stories.enter_context(told(source, target, unique("east"), *lines))
            alias = story.flow.name.source
            where = TopicPartition(f"orders-{alias}", 0)
            story.make_topic(where.topic, partitions)
            remote = TopicPartition(story.flow.remote_topic(where.topic), 0)
            return Scene(story, where, remote, f"billing-{alias}")

        yield begin


def test_moved_groups_are_taken_back_unless_they_have_moved_on(begin: Begin) -> None:
    scene = begin(partitions=2)
    story, group, new = scene.story, scene.group, f"new-{scene.group}"
    first, second = scene.remote, scene.remote._replace(partition=1)
    story.target_groups.commit(group, {first: Committed(10, "before")})
    moves = {group: {first: Committed(40), second: Committed(50, "note")}, new: {first: Committed(7)}}
    step = MoveGroups(story.target, lambda: Moves(moves, ids_of(story, moves)))
    note = json.loads(json.dumps(step.prepare()))
    assert story.on_target(group) == {first: Committed(10, "before")}, "preparing changes nothing"

    for _ in range(2):  # a step that was interrupted is applied once more
        assert step.apply(note) == "2 groups stand on backup where they go on (3 partitions)"
        assert story.on_target(group) == moves[group]
    story.target_groups.commit(group, {first: Committed(45)})
    step.apply(note)
    assert story.on_target(group)[first] == Committed(45), "never back"

    for _ in range(2):
        assert "1 were left" in step.undo(note)
        assert story.on_target(group) == {first: Committed(45)}
        assert story.on_target(new) == {}
    story.target_groups.commit(group, {first: Committed(40)})
    step.undo(note)
    assert story.on_target(group) == {first: Committed(10, "before")}


def test_a_group_that_has_got_members_is_left_to_them_and_the_others_move(begin: Begin) -> None:
    scene = begin()
    story, where = scene.story, scene.remote
    busy, idle, new = f"a-busy-{scene.group}", f"b-idle-{scene.group}", f"c-new-{scene.group}"
    story.target_groups.commit(busy, {where: Committed(10)})
    moves = {group: {where: Committed(40)} for group in (busy, idle, new)}
    step = MoveGroups(story.target, lambda: Moves(moves, ids_of(story, moves)))
    note = step.prepare()
    with member(story.target_client, busy, where.topic):
        said = step.apply(note)
        assert said == (
            f"2 groups stand on backup where they go on (2 partitions); left alone, since they have members there: "
            f"{busy}"
        )
        assert [story.on_target(group) for group in (busy, idle)] == [{where: Committed(10)}, moves[idle]]
    with member(story.target_client, new, where.topic):
        assert "1 were left" in step.undo(note)
        assert [story.on_target(group) for group in (idle, new)] == [{}, moves[new]]


@contextmanager
def member(client: Client, group: str, topic: str) -> Iterator[None]:
    """The group has one that has joined; it commits nothing."""
    consumer = Consumer({**client, "group.id": group, "enable.auto.commit": False})
    consumer.subscribe([topic])
    ends_at = time.monotonic() + DEADLINE_SECONDS_LEAST
    while not consumer.assignment():
        consumer.poll(0.1)
        assert time.monotonic() < ends_at, f"{group} got nothing"
    try:
        yield
    finally:
        consumer.close()


def test_offsets_of_a_topic_that_is_made_again_behind_the_look_are_not_committed(begin: Begin) -> None:
    scene = begin()
    story, group = scene.story, scene.group
    story.map(scene.partition, (0, 100, 0))
    story.commit(group, {scene.partition: Committed(40)})

    def moves() -> Moves:
        found = look(story.flow, ClusterPair(story.source, story.target), differences=False, is_step=True)
        assert found.moves(planned=True) == {group: {scene.remote: Committed(40)}}
        scene.recreate(300)
        return Moves(found.moves(planned=True), found.topic_ids)

    step = MoveGroups(story.target, moves)
    note = step.prepare()
    with pytest.raises(SparkMirrorError, match=f"Topic {scene.remote.topic} on backup is not there, or was made again"):
        step.apply(note)
    assert story.on_target(group) == {}


def ids_of(story: Story, moves: Mapping[str, GroupOffsets]) -> Mapping[str, UUID]:
    names = {where.topic for offsets in moves.values() for where in offsets}
    return {name: topic.topic_id for name, topic in story.target.list_topics(names).items()}


def test_where_names_stay_the_reverse_flow_starts_behind_what_came_from_the_old_primary(
    begin: Begin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "identity.properties"

    def back(kind: str, *arguments: str, status: int = 0) -> Any:
        assert main(["failback", kind, str(file), "--format", "json", *arguments]) == status
        said = capsys.readouterr()
        return json.loads(said.out) if said.out else said.err

    scene = begin(IDENTITY)
    story, where, group = scene.story, scene.partition, scene.group
    topic = where.topic
    file.write_text(story.config.text)
    story.map(where, (0, 100, 0), (100, 150, 102))
    story.target_groups.commit(group, {where: Committed(202, "a note")})

    plan = back("plan")
    assert plan["reverse_flow_starts"] == [[topic, 0, 252]]
    assert plan["interleaved"] == [[topic, 0, 2]]
    (home,) = plan["groups"]
    assert (home["home_topic"], home["home_offset"], home["exact"]) == (topic, 200, True)
    (only_there,) = plan["only_on_source"]
    assert (only_there["first"], only_there["end"]) == (0, 300), "there is no ledger in this story"

    def reverse_flow() -> dict[TopicPartition, int]:
        topics = ledger_topics("backup")
        with LedgerReader(story.flow.source, topics, Connector.of_dedicated_mode("backup")) as ledger:
            found = {at: position.offset for at, position in ledger.read_to_end().items()}
        return {at: offset for at, offset in found.items() if at.topic == topic}

    def at_home() -> dict[TopicPartition, Committed]:
        found, _ = story.source_groups.committed([group])
        return dict(found[group])

    back("run")
    assert reverse_flow() == {where: 252}
    assert at_home() == {where: Committed(200, "a note")}
    back("run", "--undo")
    assert (reverse_flow(), at_home()) == ({}, {})
    back("run")
    back("run", "--finish")
    assert "finished before" in back("run", "--undo", status=1)
    assert (reverse_flow(), at_home()) == ({where: 252}, {where: Committed(200, "a note")})


def test_where_names_stay_and_the_map_is_gone_the_ledger_says_where_the_reverse_flow_starts_or_nobody(
    begin: Begin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "identity.properties"
    scene = begin(IDENTITY)
    story, flow, where = scene.story, scene.story.flow, scene.partition
    topic = where.topic
    file.write_text(story.config.text)
    publish(flow.target, story.topics.offsets, [(encode_key(flow.connector, where), encode_value(100))])
    assert main(["failback", "run", str(file)]) == 1
    said = capsys.readouterr().err
    assert f"{topic}-0 has a position and no offset map" in said and "offsets rebuild FILE --execute" in said

    topic_id = story.target.list_topics([topic])[topic].topic_id
    record = PositionRecord(Position(100), 1, 0, extent=Extent(topic, topic_id, 120))
    key = positions.encode_key(flow.name.source, where)
    publish(flow.target, story.topics.positions, [(key, positions.encode_value(record))])
    assert main(["failback", "plan", str(file), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["reverse_flow_starts"] == [[topic, 0, 120]]
