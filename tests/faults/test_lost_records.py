"""Records that are lost before they were mirrored, or after: found, told, recorded, and dealt with as the file says."""

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from tests.faults.numbered import NumberedWriter, create_topic, end_offsets
from tests.faults.story import PARTITIONS, Story
from tests.faults.tree import Run
from tests.oracle import read_topic
from tests.scenarios.data import ORDER_SECONDS_MAX
from tests.scenarios.mirror import COMMAND
from tests.waiting import wait_until

from sparkmirror.kafka.clients import open_tail
from sparkmirror.ledger.map_records import MapView
from sparkmirror.ledger.offset_map import Translation
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import TopicPartition

RECORDS = 300
MORE = 50
_UNTOLD = "no broker answered"
_NO_ANSWER = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.REQUEST_TIMED_OUT)
KINDS = ("whole", "deleted", "held", "again", "again-short", "cut", "gone", "gone-held", "last")


def test_what_is_lost_on_either_side_is_recorded_and_held_where_the_file_says(story: Story) -> None:
    """Of nine topics six lose records while nobody looks, on one side or the other, and two more in mid-run."""
    names = {kind: f"{story.topic}-{kind}" for kind in KINDS}
    story = Story(story.directory, story.source, story.target, story.alias, f"{story.topic}-.*")
    for name in names.values():
        create_topic(story.source, name, PARTITIONS)
        _write(story, name)
    with story.run("--once") as first:
        assert first.finish(90).status == 0, first.errors
    _lose_while_nobody_looks(story, names)
    actions = [(names["held"], "pause"), (names["gone-held"], "pause"), (names["last"], "fail")]
    rules = ", ".join(f"{name}:{action}" for name, action in actions)
    with story.run(lines=[f"on.data.loss.topics = {rules}"]) as run:
        _wait_for_ends(story, run, {names["whole"]: 2 * RECORDS, names["gone"]: RECORDS, names["last"]: RECORDS})
        _wait_for_ends(story, run, {names["cut"]: 2 * RECORDS, names["again"]: 2 * RECORDS + MORE})
        _wait_for_ends(story, run, {names["again-short"]: RECORDS + MORE})
        delete_topic(story.target, f"{story.alias}.{names['whole']}")
        _write(story, names["whole"], MORE)
        _wait_for_ends(story, run, {names["whole"]: MORE})
        delete_topic(story.target, f"{story.alias}.{names['last']}")
        _write(story, names["last"], MORE)
        ended = run.finish(60)
        assert ended.status == 1
        assert "on.data.loss=fail ends the mirror" in run.last_words, ended.errors
    _assert_gaps_told(story, names)
    _assert_translated(story, names)


@pytest.mark.long
def test_a_flow_with_transforms_finds_that_its_target_was_deleted(story: Story) -> None:
    """Between two runs and in mid-run."""
    lines = ("transforms.where = value IS NOT NULL",)
    _write(story, story.topic)
    with story.run("--once", lines=lines) as first:
        assert first.finish(90).status == 0, first.errors
    delete_topic(story.target, story.remote_topic)
    _write(story, story.topic)
    with story.run(lines=lines) as run:
        _wait_for_ends(story, run, {story.topic: RECORDS})
        delete_topic(story.target, story.remote_topic)
        _write(story, story.topic, MORE)
        _wait_for_ends(story, run, {story.topic: MORE})
        wait_until(lambda: len(list_gaps(story)) == 2 * PARTITIONS, "it is told twice")
    told = {_told(gap)[1:] for gap in list_gaps(story)}
    assert told == {("target deleted", RECORDS, 0, RECORDS, "went on")}


def _lose_while_nobody_looks(story: Story, names: dict[str, str]) -> None:
    for kind in ("whole", "deleted", "held", "cut", "gone", "gone-held"):
        _write(story, names[kind])
    for kind in ("deleted", "held"):
        _delete_records(story.source, names[kind], below=RECORDS + 100)
    for kind, records in (("again", RECORDS + MORE), ("again-short", MORE)):
        delete_topic(story.source, names[kind])
        create_topic(story.source, names[kind], PARTITIONS)
        _write(story, names[kind], records)
    _delete_records(story.target, f"{story.alias}.{names['cut']}", below=200)
    for kind in ("gone", "gone-held"):
        delete_topic(story.target, f"{story.alias}.{names[kind]}")


def _assert_gaps_told(story: Story, names: dict[str, str]) -> None:
    # The mirror ends with the first loss that it finds of the last topic, in either partition.
    gaps = [gap for gap in list_gaps(story) if gap["partition"] == 0 or gap["topic"] == names["last"]]
    assert sorted({_told(gap): 0 for gap in gaps}) == sorted(
        [
            (names["deleted"], "retention", RECORDS, RECORDS + 100, 100, "went on"),
            (names["held"], "retention", RECORDS, RECORDS + 100, 100, "partition paused"),
            (names["again"], "recreated", RECORDS, 0, 0, "went on"),
            (names["again-short"], "recreated", RECORDS, 0, 0, "went on"),
            (names["gone"], "target deleted", RECORDS, 0, RECORDS, "went on"),
            (names["gone-held"], "target deleted", RECORDS, 0, RECORDS, "partition paused"),
            (names["whole"], "target deleted", 2 * RECORDS, 0, 2 * RECORDS, "went on"),
            (names["last"], "target deleted", RECORDS, 0, RECORDS, "mirror ended"),
        ]
    )
    readable = {kind: _readable(story, names[kind]) for kind in KINDS if kind != "last"}
    assert readable == {
        "whole": MORE,
        "deleted": 2 * RECORDS - 100,
        "held": RECORDS,
        "again": 2 * RECORDS + MORE,
        "again-short": RECORDS + MORE,
        "cut": 2 * RECORDS - 200,
        "gone": RECORDS,
        "gone-held": 0,
    }


def _assert_translated(story: Story, names: dict[str, str]) -> None:
    """Offsets of records that are there, exactly; of those that are gone, not beyond what follows (invariant 7)."""
    view = MapView(story.alias)
    home = TopicPartition(ledger_topics(story.alias).offset_map, 0)
    with open_tail(story.cluster(), "oracle", [home]) as tail:
        for record in tail.read_to_end():
            view.take(record.key, record.value)

    def translate(kind: str, offset: int) -> Translation | None:
        found = view.map_of(TopicPartition(names[kind], 0))
        assert found is not None
        return found.translate(offset)

    assert translate("cut", RECORDS + 10) == (RECORDS + 10, True), "the beginning of a log may go"
    assert translate("cut", 10) == (10, True)
    assert translate("gone", RECORDS + 10) == (10, True)
    assert translate("whole", 2 * RECORDS + 10) == (10, True)
    for kind in ("gone", "whole"):
        lost = translate(kind, 40)
        assert lost is not None
        assert lost.offset == 0, "what followed it lies at the new log's beginning"


def _told(gap: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(gap[name] for name in ("topic", "cause", "expected", "resumed", "lost_records", "action"))


def list_gaps(story: Story) -> list[dict[str, Any]]:
    file = Path(story.directory, "gaps.properties")
    file.write_text(story.text())
    done = subprocess.run(
        [COMMAND, "gaps", str(file), "--format", "json"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)[f"{story.alias}->backup"]
    return found


def _wait_for_ends(story: Story, run: Run, wanted: dict[str, int]) -> None:
    """Until each remote topic ends there, in all partitions."""
    for name, end in wanted.items():
        remote = f"{story.alias}.{name}"
        run.wait_until(
            lambda remote=remote, end=end: end_offsets(story.target, remote, PARTITIONS) == [end] * PARTITIONS,
            f"{remote} ends at {end}",
            60,
        )


def _readable(story: Story, topic: str) -> int:
    """Records in the first partition of the remote topic."""
    return len(read_topic({"bootstrap.servers": story.target}, f"{story.alias}.{topic}")[0])


def _write(story: Story, topic: str, records: int = RECORDS) -> None:
    NumberedWriter(story.source, topic, PARTITIONS).write(records)


def _delete_records(bootstrap: str, topic: str, below: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [ClientPartition(topic, number, below) for number in range(PARTITIONS)]
    _await(admin.delete_records(wanted).values())


def delete_topic(bootstrap: str, topic: str) -> None:
    """Gone for now: the mirror makes a remote topic again as soon as it sees that."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    before = _topic_id(admin, topic)
    _await(admin.delete_topics([topic]).values())
    wait_until(lambda: _topic_id(admin, topic) not in (before, _UNTOLD), f"{topic} is gone")


def _topic_id(admin: AdminClient, topic: str) -> str:
    """Empty where the topic is not there."""
    try:
        return str(admin.describe_topics(TopicCollection([topic]))[topic].result(ORDER_SECONDS_MAX).topic_id)
    except KafkaException as problem:
        return _UNTOLD if problem.args[0].code() in _NO_ANSWER else ""


def _await(futures: Iterable[Any]) -> None:
    for future in futures:
        future.result(ORDER_SECONDS_MAX)
