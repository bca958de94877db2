"""A source that lost records before they were mirrored: found, told, recorded, and dealt with as the file says."""

import json
import subprocess
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.faults.numbered import NumberedWriter, create_topic, wait_until
from tests.faults.story import PARTITIONS, Story
from tests.oracle import list_topics, read_topic
from tests.scenarios.mirror import COMMAND

RECORDS = 300


def test_deleted_records_and_topics_made_anew_are_recorded_and_held_where_the_file_says(story: Story) -> None:
    """Four topics are mirrored; while nobody looks, one stays whole, two lose records, one is made anew and longer."""
    names = {kind: f"{story.topic}-{kind}" for kind in ("whole", "deleted", "held", "anew")}
    story = Story(story.directory, story.source, story.target, story.alias, f"{story.topic}-.*")
    for name in names.values():
        create_topic(story.source, name, PARTITIONS)
        _write(story, name)
    _mirror(story)

    for kind in ("whole", "deleted", "held"):
        _write(story, names[kind])
    for kind in ("deleted", "held"):
        _delete_records(story, names[kind], below=RECORDS + 100)
    _make_anew(story, names["anew"], records=RECORDS + 50)
    held = f"on.data.loss.topics = {names['held']}:pause"
    _mirror(story, held)

    gaps = {gap["topic"]: gap for gap in _gaps(story) if gap["partition"] == 0}
    assert set(gaps) == {names["deleted"], names["held"], names["anew"]}
    assert _told(gaps[names["deleted"]]) == ("retention", RECORDS, RECORDS + 100, 100, "went on")
    assert _told(gaps[names["held"]]) == ("retention", RECORDS, RECORDS + 100, 100, "partition paused")
    assert _told(gaps[names["anew"]]) == ("recreated", RECORDS, 0, 0, "went on")
    assert {kind: _arrived(story, name) for kind, name in names.items()} == {
        "whole": 2 * RECORDS,
        "deleted": 2 * RECORDS - 100,
        "held": RECORDS,
        "anew": 2 * RECORDS + 50,
    }


def _told(gap: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(gap[name] for name in ("cause", "expected", "resumed", "lost_records", "action"))


def _mirror(story: Story, *lines: str) -> None:
    with story.run("--once", lines=lines) as run:
        run.finish(90)


def _gaps(story: Story) -> list[dict[str, Any]]:
    file = Path(story.directory, "gaps.properties")
    file.write_text(story.text())
    done = subprocess.run(
        [COMMAND, "gaps", str(file), "--format", "json"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)[f"{story.alias}->backup"]
    return found


def _arrived(story: Story, topic: str) -> int:
    """Records in the first partition of the remote topic."""
    return len(read_topic({"bootstrap.servers": story.target}, f"{story.alias}.{topic}")[0])


def _write(story: Story, topic: str, records: int = RECORDS) -> None:
    NumberedWriter(story.source, topic, PARTITIONS).write(records)


def _delete_records(story: Story, topic: str, below: int) -> None:
    admin = AdminClient({"bootstrap.servers": story.source})
    wanted = [TopicPartition(topic, number, below) for number in range(PARTITIONS)]
    for future in admin.delete_records(wanted).values():
        future.result(30)


def _make_anew(story: Story, topic: str, records: int) -> None:
    client = {"bootstrap.servers": story.source}
    admin = AdminClient(client)
    admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: topic not in list_topics(client), "the topic is gone", 20)
    create_topic(story.source, topic, PARTITIONS)
    _write(story, topic, records)
