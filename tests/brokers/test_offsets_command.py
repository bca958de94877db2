"""`sparkmirror offsets` on real brokers: by time, by checkpoint, translated; the offset map is written by hand."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.brokers.offset_story import Story, told
from tests.scenarios.data import Note, make_topics, numbered, write

from sparkmirror.cli.main import main
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger import connect
from sparkmirror.ledger.mirror_records import OffsetSync
from sparkmirror.model import TopicPartition
from sparkmirror.testing.kafka import KafkaCluster

HOUR_MS = 3_600_000
BEGAN_MS = 1_795_172_400_000  # 2026-11-20T11:00 UTC


def test_offsets_by_time_by_checkpoint_and_from_one_side_to_the_other(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    unique: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, target = ({"bootstrap.servers": one.bootstrap_servers} for one in (source_cluster, target_cluster))
    alias = unique("east")
    topic, group, file = f"orders-{alias}", f"billing-{alias}", tmp_path / "mm2.properties"
    remote, here = f"{alias}.{topic}", TopicPartition(topic, 0)
    there = TopicPartition(remote, 0)

    def offsets(*arguments: str, status: int = 0) -> Any:
        assert main(["offsets", arguments[0], str(file), *arguments[1:]]) == status
        said = capsys.readouterr()
        return json.loads(said.out) if status == 0 and "json" in arguments else (said.out, said.err)

    with told(source, target, alias) as story:
        file.write_text(story.config.text)
        for client, name in ((source, topic), (target, remote)):
            make_topics(client, {name: 1})
            write(client, name, [Note(b"%d" % at, timestamp_ms=BEGAN_MS + at * HOUR_MS) for at in range(10)])
        _store_position(story, here, 10)
        story.map(here, (0, 4, 0), (5, 5, 4))
        story.commit(group, {here: Committed(6, "a note")})
        story.job()

        found = offsets("at", "--time", "2026-11-20T14:30", "--topic", topic, "--format", "json")
        assert [(row["topic"], row["offset"], row["end"], row["records"]) for row in found] == [
            (topic, 4, 10, 6), (remote, 4, 10, 6)
        ]  # fmt: skip
        (row,) = offsets("at", "--time", "2027-01-01", "--topic", remote, "--cluster", "backup", "--format", "json")
        assert (row["cluster"], row["offset"], row["records"]) == ("backup", 10, 0), "nothing so young: the end"

        (one,) = offsets("translate", "--group", group, "--format", "json")
        assert (one["target_topic"], one["target_offset"], one["exact"]) == (remote, 5, True)
        table, _ = offsets("translate", "--offset", f"{topic}:0:3", "--offset", f"{topic}:0:9")
        assert [line.split()[-2:] for line in table.splitlines()[1:]] == [["3", "yes"], ["8", "yes"]]
        _, said = offsets("translate", "--offset", "unheard-of:0:3", status=1)
        assert "No flow of the file knows" in said

        on_target = ("reset", "--group", group, "--cluster", "backup")
        plan = offsets(*on_target, "--to-time", "2026-11-20T13:00", "--format", "json")
        assert [(move["before"], move["after"], move["effect"]) for move in plan["moves"]] == [(5, 2, "3 again")]
        assert plan["executed"] is False
        assert story.on_target(group)[there].offset == 5, "a rehearsal sets nothing"
        for goal, offset in (("--to-earliest", 0), ("--to-checkpoint", 5), ("--to-latest", 10)):
            offsets(*on_target, goal, "--execute")
            assert story.on_target(group)[there].offset == offset
        offsets(*on_target, "--to-time", "2026-11-20T13:00", "--execute")
        assert story.on_target(group) == {there: Committed(2)}
        offsets(
            "reset", "--group", f"new-{alias}", "--cluster", "backup", "--to-earliest", "--topic", remote, "--execute"
        )
        assert story.on_target(f"new-{alias}") == {there: Committed(0)}

        _rebuild(story, offsets)
        _, said = offsets("reset", "--group", "nobody", "--cluster", "backup", "--to-latest", status=1)
        assert "Group nobody has committed no offsets on backup." in said
        _, said = offsets("reset", "--group", "nobody", "--cluster", "backup", "--to-checkpoint", status=1)
        assert "no checkpoint of group nobody" in said
        _, said = offsets("reset", "--group", group, "--cluster", "moon", "--to-latest", status=2)
        assert f"known are {alias}, backup" in said
        with _member(target, group, remote):
            _, said = offsets(*on_target, "--to-latest", status=1)
            assert f"Group {group} on backup has members" in said
            assert "hint: Stop its consumers" in said


def _store_position(story: Story, where: TopicPartition, offset: int) -> None:
    """What a mirror would have stored."""
    key, value = connect.encode_key(story.flow.connector, where), connect.encode_value(offset)
    publish(story.flow.target, story.flow.offset_storage_topic, [(key, value)])


def _rebuild(story: Story, offsets: Callable[..., Any]) -> None:
    """The map's topic is lost: both logs are compared between what offset syncs know."""
    topic, flow = f"lost-{story.flow.name.source}", story.flow
    here, there = TopicPartition(topic, 0), TopicPartition(flow.remote_topic(topic), 0)
    story.make_topic(topic)
    write(story.target_client, there.topic, numbered(299, 300))  # the last record was sent again
    syncs = [OffsetSync(here, at, at) for at in (0, 101, 202)]
    publish(flow.source, "mm2-offset-syncs.backup.internal", [(sync.key(), sync.value()) for sync in syncs])
    _store_position(story, here, 300)
    for option in ([], ["--execute"]):
        (one,) = offsets("rebuild", "--topic", topic, *option, "--format", "json")
        assert (one["first"], one["end"], one["exact"]) == (0, 300, 202)
    found = offsets("translate", "--offset", f"{topic}:0:150", "--offset", f"{topic}:0:250", "--format", "json")
    assert [(one["target_offset"], one["exact"]) for one in found] == [(150, True), (202, False)]


class _member:
    """A consumer of the group that has read a record."""

    def __init__(self, client: dict[str, str], group: str, topic: str) -> None:
        self._consumer = Consumer({**client, "group.id": group, "enable.auto.commit": False})
        self._consumer.subscribe([topic])

    def __enter__(self) -> None:
        ends_at = time.monotonic() + 60
        while (message := self._consumer.poll(0.1)) is None or message.error():
            assert time.monotonic() < ends_at, "the member got nothing"

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
