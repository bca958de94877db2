"""A source topic that is deleted and made again while something else goes wrong: all of the new log is mirrored."""

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from tests.faults.numbered import NumberedWriter, create_topic
from tests.faults.story import PARTITIONS, Story
from tests.faults.test_lost_records import delete_topic, list_gaps
from tests.faults.tree import is_gone
from tests.oracle import read_messages
from tests.scenarios.data import FLUSH_SECONDS_MAX, alter_topic
from tests.scenarios.status import status_of

from sparkmirror.ledger.topics import ledger_topics

RECORDS, ANEW = 300, 500
"""The new log reaches beyond where the old one ended."""
SHORT = 120
LIMIT_BYTES = 200_000
UNSEEN = ("tasks.max = 1", "sync.topic.configs.enabled = false", "refresh.topics.enabled = false")
"""Only the reader sees that the topic is another one, of all its partitions when it looks for one of them."""


@pytest.mark.long
def test_a_new_log_that_was_held_or_cut_off_by_a_crash_is_mirrored_from_its_beginning(story: Story) -> None:
    """One topic is held over two runs; the run in which the other's new log begins is killed as soon as it is mirrored:
    what it had not stored by then comes again."""
    held, killed = (_variant(story, kind) for kind in ("held", "killed"))
    both = Story(story.directory, story.source, story.target, story.alias, f"{story.topic}-.*")
    for one in (held, killed):
        create_topic(one.source, one.topic, PARTITIONS)
        _write(one, RECORDS)
    with both.run("--once") as first:
        assert first.finish(240).status == 0, first.errors
    for one in (held, killed):
        _make_anew(one, ANEW)
    hold = f"on.data.loss.topics = {held.topic}:pause"
    with both.run(lines=[hold]) as second:
        second.wait_until(lambda: killed.arrived() == [RECORDS + ANEW] * PARTITIONS, "the new log is mirrored", 90)
        second.wait_until(lambda: len(_gaps(held)) == PARTITIONS, "the other topic's loss is told", 60)
        second.destroy()
    before = killed.generation()
    with both.run(lines=[hold]) as third:
        third.wait_until(lambda: killed.generation() > before, "the third run stores positions", 120)
        third.wait_until(lambda: killed.positions() == [ANEW] * PARTITIONS, "the ledger has the new log's end", 90)
        third.wait_until(lambda: len(_failed(held)) == PARTITIONS, "the other topic is held again", 60)
        third.stop(30)
    assert held.arrived() == [RECORDS] * PARTITIONS
    with both.run("--once") as last:
        assert last.finish(240).status == 0, last.errors
    _assert_whole(held, RECORDS, ANEW)
    _assert_whole_or_again(killed, RECORDS, ANEW)
    for one in (held, killed):
        assert {(told["cause"], told["expected"], told["resumed"]) for told in _gaps(one)} == {
            ("recreated", RECORDS, 0)
        }


@pytest.mark.long
def test_a_task_that_begins_again_behind_the_gap_goes_on_in_the_new_log(story: Story) -> None:
    """Its plan is of the old one: the topic has been made again since."""
    _write(story, RECORDS)
    with story.run(lines=UNSEEN) as run:
        run.wait_until(lambda: story.arrived() == [RECORDS] * PARTITIONS, "the old log is mirrored", 120)
        _make_anew(story, ANEW)
        run.wait_until(lambda: story.positions() == [ANEW] * PARTITIONS, "the ledger has the new log's end", 120)
        (_, writer) = next(run.rings())
        psutil.Process(writer).kill()
        run.wait_until(lambda: is_gone(writer), "the writer is gone")
        more = NumberedWriter(story.source, story.topic, PARTITIONS)
        more.produced = [ANEW] * PARTITIONS
        more.write(SHORT)
        run.wait_until(lambda: min(story.positions()) == ANEW + SHORT, "the task goes on", 120)
        run.stop(30)
    _assert_whole(story, RECORDS, ANEW + SHORT)


@pytest.mark.long
def test_a_position_of_which_one_record_alone_was_stored_still_tells_its_log(story: Story) -> None:
    """A crash between the two leaves Connect's ahead, as a topic of ours does that takes no records."""
    _write(story, RECORDS)
    with story.run("--once") as first:
        assert first.finish(240).status == 0, first.errors
    ours = ledger_topics(story.alias).positions
    alter_topic({"bootstrap.servers": story.target}, ours, {"max.message.bytes": "1"})
    _write(story, SHORT)
    with story.run() as second:
        second.wait_until(lambda: _connect_offsets(story) == [RECORDS + SHORT - 1] * PARTITIONS, "Connect's is ahead")
        second.destroy()
    alter_topic({"bootstrap.servers": story.target}, ours, {"max.message.bytes": "1048588"})
    _make_anew(story, ANEW)
    with story.run("--once") as last:
        assert last.finish(240).status == 0, last.errors
    assert {(told["cause"], told["expected"], told["resumed"]) for told in _gaps(story)} == {
        ("recreated", RECORDS + SHORT, 0)
    }
    _assert_whole(story, RECORDS, SHORT, ANEW)


@pytest.mark.long
@pytest.mark.parametrize("lines", [(), ("backup.exactly.once.source.support = enabled",)], ids=["least", "once"])
def test_a_log_that_is_created_again_while_its_partition_is_failed_is_mirrored_whole(
    story: Story, lines: tuple[str, ...]
) -> None:
    """The first partition is refused for one large record, so that nothing that the reader finds meanwhile is taken."""
    story = _variant(story, "failed")
    larger: dict[str, Any] = {"max.message.bytes": str(10 * LIMIT_BYTES)}
    smaller: dict[str, Any] = {"max.message.bytes": str(LIMIT_BYTES)}
    create_topic(story.source, story.topic, PARTITIONS, **larger)
    create_topic(story.target, story.remote_topic, PARTITIONS, **smaller)
    _write(story, RECORDS)
    with story.run(lines=[*UNSEEN, *lines]) as run:
        run.wait_until(lambda: _readable(story) == [RECORDS] * PARTITIONS, "the old log is mirrored", 90)
        _write_large(story)
        run.wait_until(lambda: _seconds_to_retry(story) > 12, "one partition is FAILED, for a while", 120)
        _make_anew(story, SHORT)
        run.wait_until(lambda: _readable(story)[1] == RECORDS + SHORT, "the other partition has the new log", 60)
        run.wait_until(lambda: _readable(story)[0] >= RECORDS + SHORT, "the failed one has it too", 120)
        writer = NumberedWriter(story.source, story.topic, PARTITIONS)
        writer.produced = [SHORT] * PARTITIONS
        writer.write(ANEW - SHORT)
        run.wait_until(lambda: min(_readable(story)) == RECORDS + ANEW, "both go on", 60)
        run.stop(30)
    _assert_whole(story, RECORDS, ANEW)


def _variant(story: Story, kind: str) -> Story:
    """The same flow's, with a topic of its own."""
    return Story(Path(story.directory), story.source, story.target, story.alias, f"{story.topic}-{kind}")


def _write(story: Story, records: int) -> None:
    NumberedWriter(story.source, story.topic, PARTITIONS).write(records)


def _write_large(story: Story) -> None:
    """More than the target takes, to the first partition."""
    client = {"bootstrap.servers": story.source, "message.max.bytes": 10 * LIMIT_BYTES}
    producer = Producer(client)
    producer.produce(story.topic, b"%011d " % RECORDS + b"." * (2 * LIMIT_BYTES), partition=0)
    assert producer.flush(FLUSH_SECONDS_MAX) == 0


def _make_anew(story: Story, records: int) -> None:
    delete_topic(story.source, story.topic)
    create_topic(story.source, story.topic, PARTITIONS)
    _write(story, records)


def _connect_offsets(story: Story) -> list[int]:
    """What Kafka Connect finds stored for each partition, the last record of a key."""
    topic = ledger_topics(story.alias).offsets
    found: dict[int, int] = {}
    for _, messages in read_messages({"bootstrap.servers": story.target}, topic):
        for message in messages:
            _, members = json.loads(message.key() or b"")
            found[members["partition"]] = json.loads(message.value() or b"")["offset"]
    return [offset for _, offset in sorted(found.items())]


def _readable(story: Story) -> list[int]:
    return [len(numbers) for _, numbers in sorted(story.arrival().numbers.items())]


def _failed(story: Story) -> set[str]:
    failed = status_of({"bootstrap.servers": story.target}, story.alias).failed
    return {where for where in failed if where.startswith(f"{story.topic}-")}


def _seconds_to_retry(story: Story) -> float:
    """Until the first partition is tried again; the pauses grow."""
    status = status_of({"bootstrap.servers": story.target}, story.alias)
    return status.retry_at_ms.get(f"{story.topic}-0", 0) / 1000 - time.time()


def _gaps(story: Story) -> list[dict[str, object]]:
    return [gap for gap in list_gaps(story) if gap["topic"] == story.topic]


def _assert_whole(story: Story, *logs: int) -> None:
    """All records of each log after the other, once, in every partition."""
    expected = [number for records in logs for number in range(records)]
    assert story.arrival().numbers == dict.fromkeys(range(PARTITIONS), expected)


def _assert_whole_or_again(story: Story, former: int, records: int) -> None:
    """All records of the former log once, then those of the new one in order, from some of them on perhaps again."""
    found = story.arrival().numbers
    assert sorted(found) == list(range(PARTITIONS))
    for numbers in found.values():
        assert numbers[:former] == list(range(former))
        new = numbers[former:]
        assert sorted(set(new)) == list(range(records))
        assert all(following == number + 1 or following <= number for number, following in pairwise(new))
        assert new[-1] == records - 1
