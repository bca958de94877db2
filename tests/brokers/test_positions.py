"""`sparkmirror positions` on real brokers, without a mirror: what is stored, and who else is at it meanwhile."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.brokers.late_writes import INVALID_PRODUCER_EPOCH, write_late
from tests.brokers.offset_story import Story, told
from tests.faults.test_lost_records import delete_topic
from tests.scenarios.data import Note, make_topics, numbered, write

from sparkmirror.cli.main import main
from sparkmirror.errors import FencedError, SparkMirrorError
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.fencing import init_producer_ids, transactional_id
from sparkmirror.kafka.membership import Membership
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.topics import SHARING_GROUP
from sparkmirror.model import Position, TopicPartition
from sparkmirror.operations.position_job import Author, set_positions
from sparkmirror.operations.position_snapshot import Choice, Stored, plan_positions, to_earliest
from sparkmirror.sharing.assignment import Claim, MemberMetadata, encode_metadata
from sparkmirror.testing.kafka import KafkaCluster

HOUR_MS = 3_600_000
BEGAN_MS = 1_795_172_400_000  # 2026-11-20T11:00 UTC
Clusters = tuple[dict[str, str], dict[str, str]]


@pytest.fixture
def clusters(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> Clusters:
    source, target = ({"bootstrap.servers": one.bootstrap_servers} for one in (source_cluster, target_cluster))
    return source, target


def stored(story: Story) -> tuple[dict[TopicPartition, Position], dict[TopicPartition, PositionRecord]]:
    with LedgerReader(story.flow.target, story.topics, story.flow.connector) as ledger:
        return ledger.read_to_end(), ledger.view.records


def store(story: Story, where: TopicPartition, position: Position, generation: int = 4) -> None:
    """As a mirror that has ended."""
    key = connect.encode_key(story.flow.connector, where)
    publish(story.flow.target, story.topics.offsets, [(key, connect.encode_value(position.offset))])
    value = positions.encode_value(PositionRecord(position, generation, 0, released=True, run="before"))
    publish(story.flow.target, story.topics.positions, [(positions.encode_key(story.flow.name.source, where), value)])


@contextmanager
def mirrored(clusters: Clusters, alias: str, *lines: str) -> Iterator[tuple[Story, TopicPartition]]:
    """A flow whose mirror has ended: all five records of one partition are mirrored."""
    here = TopicPartition(f"orders-{alias}", 0)
    with told(*clusters, alias, *lines) as story:
        make_topics(clusters[0], {here.topic: 1})
        write(clusters[0], here.topic, numbered(0, 5))
        store(story, here, Position(5))
        yield story, here


@pytest.mark.parametrize("guarantee", [(), ("backup.exactly.once.source.support = enabled",)])
def test_positions_are_shown_rewound_and_skipped(
    clusters: Clusters,
    unique: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    guarantee: tuple[str, ...],
) -> None:
    source, target = clusters
    alias, file = unique("east"), tmp_path / "mm2.properties"
    topic = f"orders-{alias}"
    here = [TopicPartition(topic, number) for number in range(2)]

    def run(*words: str, status: int = 0) -> Any:
        assert main(["positions", words[0], str(file), *words[1:]]) == status
        said = capsys.readouterr()
        return json.loads(said.out) if "json" in words else (said.out, said.err)

    with told(source, target, alias, *guarantee, f"topics = {topic}") as story:
        file.write_text(story.config.text)
        make_topics(source, {topic: 2})
        for number in range(2):
            write(source, topic, [Note(b"%d" % at, None, number, BEGAN_MS + at * HOUR_MS) for at in range(10)])
        topic_id = story.source.list_topics([topic])[topic].topic_id
        store(story, here[0], Position(8, ((0, 0), (3, 6)), topic_id))

        first, second = run("show", "--format", "json")
        assert (first["position"], first["begin"], first["end"], first["behind"]) == (8, 0, 10, 2)
        assert (second["position"], second["note"]) == (None, "begins by auto.offset.reset")

        plan = run("reset", "--shift-by", "-3", "--topic", topic, "--format", "json")
        assert [(move["before"], move["after"], move["effect"]) for move in plan["moves"]] == [
            (8, 5, "3 again"), (None, 0, "set")
        ]  # fmt: skip
        assert not plan["executed"]
        assert stored(story)[0][here[0]].offset == 8, "a rehearsal sets nothing"

        _, said = run("reset", "--shift-by", "-3", "--topic", topic, "--reason", "lost there", "--execute")
        assert "2 positions were set; 3 are mirrored again" in said
        found, records = stored(story)
        assert found[here[0]] == Position(5, ((0, 0),), topic_id), "the log and what is known of it are kept"
        assert found[here[1]] == Position(0, (), topic_id)
        assert {records[where].generation for where in here} == {5}
        assert records[here[0]].released

        run("reset", "--to-datetime", "2026-11-20T20:00", "--topic", topic, "--partition", "0", "--execute")
        assert stored(story)[0][here[0]] == Position(9, (), topic_id)
        run("set", "--offset", f"{topic}:1:4", "--execute")
        assert stored(story)[0][here[1]].offset == 4
        run("reset", "--to-latest", "--all-topics", "--execute")
        assert [stored(story)[0][where].offset for where in here] == [10, 10]
        run("reset", "--to-earliest", "--all-topics", "--execute")
        assert [stored(story)[0][where].offset for where in here] == [0, 0]

        assert main(["gaps", str(file), "--format", "json"]) == 0
        entries = json.loads(capsys.readouterr().out)[f"{alias}->backup"]
        told_of = [(one["partition"], one["cause"], one["expected"], one["resumed"]) for one in entries]
        assert sorted(told_of) == sorted(
            [
                (0, "rewound", 8, 5), (1, "set", 0, 0), (0, "skipped", 5, 9), (1, "skipped", 0, 4),
                (0, "skipped", 9, 10), (1, "skipped", 4, 10), (0, "rewound", 10, 0), (1, "rewound", 10, 0),
            ]
        )  # fmt: skip
        assert {one["lost_records"] for one in entries if one["cause"] == "rewound"} == {0}
        (rewound,) = [one for one in entries if (one["partition"], one["expected"], one["resumed"]) == (0, 8, 5)]
        assert rewound["action"].endswith(f"on {socket.gethostname()}: lost there")

        _, said = run("reset", "--to-latest", "--topic", "nothing", status=1)
        assert "no partition of a topic that matches `nothing` is mirrored" in said
        _, said = run("reset", "--to-latest", status=2)
        assert "either `--topic` or `--all-topics`" in said
        plan = run("set", "--offset", f"{topic}:1:40", "--format", "json")
        assert plan["moves"][0]["after"] == 10, "no position lies behind the end of the log"


def test_nothing_is_set_while_anybody_mirrors(
    clusters: Clusters, unique: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alias, file = unique("east"), tmp_path / "mm2.properties"
    topic = f"orders-{alias}"
    with told(*clusters, alias) as story, open_admin(story.flow.target, "share") as admin:
        file.write_text(story.config.text)
        make_topics(clusters[0], {topic: 1})
        write(clusters[0], topic, numbered(0, 5))

        def refusal() -> str:
            assert main(["positions", "reset", str(file), "--to-latest", "--all-topics", "--execute"]) == 1
            return capsys.readouterr().err

        claim = Claim(str(story.flow.name), 1, "f", 0, group=story.flow.connector.group)
        card = encode_metadata(MemberMetadata("elsewhere", 4711, "mm2.properties", (claim,)))
        ours, theirs = Membership(admin, SHARING_GROUP, 60_000), Membership(admin, f"{alias}-mm2", 60_000)
        ours.join(card, lambda cards: dict.fromkeys(cards, b"{}"))
        assert "process 4711 on elsewhere" in refusal()
        ours.leave()
        theirs.join(b"", lambda cards: dict.fromkeys(cards, b""))
        assert f"group {alias}-mm2 on backup has members" in refusal()
        theirs.leave()
        assert stored(story)[0] == {}
        assert main(["positions", "reset", str(file), "--to-latest", "--all-topics", "--execute"]) == 0


def test_of_two_that_begin_at_once_one_alone_goes_on(clusters: Clusters, unique: Callable[[str], str]) -> None:
    """A process that takes the flow over while positions are being set: it has read the old ones."""
    with mirrored(clusters, unique("east")) as (story, here):
        flow = story.flow
        calls: list[int] = []

        def begin_elsewhere() -> None:
            """At the last moment."""
            calls.append(1)
            if len(calls) == 2:
                init_producer_ids(story.target, [transactional_id(flow.connector, 0)])

        def plan(kept: Stored) -> Any:
            return plan_positions(flow, story.source, kept, Choice(), to_earliest)

        with pytest.raises(FencedError, match="so nothing was changed"):
            set_positions(flow, story.source, story.target, plan, Author(), begin_elsewhere)
        assert stored(story)[0] == {here: Position(5)}

        set_positions(flow, story.source, story.target, plan, Author(), lambda: None)
        assert stored(story)[0][here].offset == 0


def test_a_flow_that_keeps_offsets_has_no_position_that_a_person_could_set(
    clusters: Clusters, unique: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ("preserve.offsets.enabled = true", "consumer.isolation.level = read_committed")
    with mirrored(clusters, unique("east"), *lines) as (story, here):
        file = tmp_path / "mm2.properties"
        file.write_text(story.config.text)
        before = stored(story)
        for words in (("reset", "--to-earliest", "--topic", here.topic), ("set", "--offset", f"{here.topic}:0:1")):
            for more in ((), ("--execute",)):
                assert main(["positions", words[0], str(file), *words[1:], *more]) == 1
                assert f"offsets are kept in {here}" in capsys.readouterr().err
        assert stored(story) == before


def test_a_topic_that_is_made_again_meanwhile_keeps_its_position(
    clusters: Clusters, unique: Callable[[str], str]
) -> None:
    with mirrored(clusters, unique("east")) as (story, here):
        flow = story.flow

        def plan(kept: Stored) -> Any:
            found = plan_positions(flow, story.source, kept, Choice(), to_earliest)
            delete_topic(clusters[0]["bootstrap.servers"], here.topic)
            return found

        with pytest.raises(SparkMirrorError, match="deleted or made again just now: nothing was changed"):
            set_positions(flow, story.source, story.target, plan, Author(), lambda: None)
        assert stored(story)[0] == {here: Position(5)}


def test_a_task_that_slept_cannot_write_its_position_afterwards(
    clusters: Clusters, unique: Callable[[str], str]
) -> None:
    """Of another task than the one under whose id positions are set, and at least once: no coordinator is asked."""
    with mirrored(clusters, unique("east"), "tasks.max = 2", "tasks.min = 2") as (story, here):
        flow = story.flow
        name = transactional_id(flow.connector, 1)
        slept = init_producer_ids(story.target, [name])[name]

        def plan(kept: Stored) -> Any:
            return plan_positions(flow, story.source, kept, Choice(), to_earliest)

        set_positions(flow, story.source, story.target, plan, Author(), lambda: None)
        assert write_late(story.target, story.flow, here, slept) == INVALID_PRODUCER_EPOCH
        assert stored(story)[0][here].offset == 0
