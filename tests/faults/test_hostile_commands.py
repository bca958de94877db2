"""Whoever may write to the command topic may write anything: it ends no task, and hands out no partition."""

import json

from confluent_kafka import Producer
from tests.faults.numbered import NumberedWriter, create_topic, end_offsets
from tests.faults.story import PARTITIONS, Story
from tests.oracle import list_topics
from tests.scenarios.data import FLUSH_SECONDS_MAX
from tests.scenarios.status import board_of

from sparkmirror.control.assignment import Assigned
from sparkmirror.control.commands import Assign, Pause, Selection, encode_command
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import TopicPartition
from sparkmirror.telemetry.board import StatusBoard

RECORDS = 100


def test_forged_and_damaged_orders_change_nothing_and_end_no_task(story: Story) -> None:
    create_topic(story.source, f"private-{story.topic}", 1)
    NumberedWriter(story.source, f"private-{story.topic}", 1).write(RECORDS)
    writer = NumberedWriter(story.source, story.topic, PARTITIONS)
    writer.write(RECORDS)
    with story.run() as run:
        run.wait_until(lambda: end_offsets_of(story) == [RECORDS] * PARTITIONS, "all is mirrored")
        run.wait_until(lambda: board(story).tasks.keys() == {0, 1}, "both tasks have told of themselves")
        before = board(story)
        write_commands(story, forged(story, before.run))
        writer.write(RECORDS)
        run.wait_until(lambda: end_offsets_of(story) == [2 * RECORDS] * PARTITIONS, "what came after is mirrored too")
        epochs = {number: (task.epoch, task.producer_epoch) for number, task in before.tasks.items()}
        after = {number: (task.epoch, task.producer_epoch) for number, task in board(story).tasks.items()}
        assert after == epochs, f"no task began again:\n{run.errors}"
        run.stop()
    assert not [name for name in list_topics({"bootstrap.servers": story.target}) if "private" in name]


def forged(story: Story, run: str) -> list[bytes]:
    """Of which each ended a task, or had it mirror what it must not, before orders were decoded strictly."""
    private = Assigned(TopicPartition(f"private-{story.topic}", 0), 0)
    return [
        encode_command(Assign(run, 1_000_000, task, (private,), topics={private.partition.topic: 1})) for task in (0, 1)
    ] + [
        encode_command(Pause.of(run, Selection("("), 1)),
        json.dumps({"kind": "pause", "run": run, "pattern": 7, "partition": None, "at_ms": 1}).encode(),
        json.dumps({"kind": "throttle", "run": run, "pattern": [], "bytes_per_second": 1}).encode(),
        json.dumps({"kind": "share", "run": run, "process": "", "number": 9, "tasks": ["x"], "member": 7}).encode(),
        b"[" * 100_000,
    ]


def write_commands(story: Story, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": story.target})
    for number, value in enumerate(values):
        producer.produce(ledger_topics(story.alias).commands, value, f"forged-{number}".encode(), 0)
    assert producer.flush(FLUSH_SECONDS_MAX) == 0


def board(story: Story) -> StatusBoard:
    return board_of({"bootstrap.servers": story.target}, story.alias)


def end_offsets_of(story: Story) -> list[int]:
    return end_offsets(story.target, story.remote_topic, PARTITIONS)
