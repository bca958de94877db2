"""Partitions that change their task, queries that begin anew in one process, and workers that sleep too long: under
load, and with both promises."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient
from tests.faults.numbered import create_topic, wait_until
from tests.faults.story import PARTITIONS, REPEATED_MAX, Story

from sparkmirror.model import TopicPartition

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).with_name("restarting_program.py")
RESTARTS = 3
SHORT_TIMES = (
    "{alias}.consumer.request.timeout.ms = 3000",
    "backup.producer.request.timeout.ms = 3000",
    "backup.producer.transaction.timeout.ms = 3000",
)
SLEEP_SECONDS = 16.0
"""Ten seconds of grace for a broker's own waiting come on top of a producer's request time-out."""
EXACTLY_ONCE = ("backup.exactly.once.source.support = enabled",)
promise = pytest.mark.parametrize("lines", [(), EXACTLY_ONCE], ids=["least", "once"])


@promise
def test_a_partition_that_moves_between_tasks_under_load_loses_and_repeats_nothing(
    story: Story, lines: tuple[str, ...]
) -> None:
    """Two tasks have three partitions each, until two idle topics of the first are deleted."""
    prefix = story.topic
    story = replace(story, topic=f"{prefix}-wanted")
    idle = [f"{prefix}-idle-{number}" for number in range(4)]
    for topic in idle:
        create_topic(story.source, topic, 1)
    create_topic(story.source, story.topic, PARTITIONS)
    lines = (*lines, f"{story.alias}->backup.topics = {prefix}-.*")
    with story.writer() as writer, story.run(lines=lines) as run:
        story.wait_until_close(run, writer)
        owners = _owners(story)
        deleted = [TopicPartition(topic, 0) for topic in idle if owners[TopicPartition(topic, 0)] == 0]
        assert len(deleted) == 2, owners
        admin = AdminClient({"bootstrap.servers": story.source})
        for future in admin.delete_topics([where.topic for where in deleted]).values():
            future.result(30)
        moved = TopicPartition(story.topic, 1)
        assert owners[moved] == 1
        run.wait_until(lambda: _owners(story)[moved] == 0, f"{moved} has changed its task", 60)
        story.wait_for_flow(run)
        story.wait_for_all(run, writer)
        run.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == 0


@promise
def test_a_query_that_is_stopped_and_started_anew_in_one_process_loses_nothing(
    story: Story, lines: tuple[str, ...]
) -> None:
    """Spark's own stop, without a word to us: its workers may live on for a while."""
    create_topic(story.target, story.remote_topic, PARTITIONS)
    file = story.directory / "mirror.properties"
    file.write_text(story.text(*lines))
    prefix, scratch = f"{story.alias}.", story.directory / "checkpoints"
    command = [sys.executable, PROGRAM, file, f"{story.alias}->backup", prefix, scratch, str(RESTARTS)]
    with story.writer() as writer, (story.directory / "program.err").open("w+") as errors:
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=errors, cwd=story.directory)
        try:
            for number in range(RESTARTS):
                _wait_for_flow(story, program)
                if number == RESTARTS - 1:
                    writer.stop()
                assert program.stdin is not None
                program.stdin.write(b"\n")
                program.stdin.flush()
            assert program.wait(120) == 0, (story.directory / "program.err").read_text()[-3000:]
        finally:
            program.kill()
            program.wait()
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert story.positions() == writer.produced
    assert arrival.repeats() <= (0 if lines else RESTARTS * REPEATED_MAX)


@promise
def test_workers_that_sleep_over_every_time_out_go_on_and_lose_nothing(
    breakable_story: Story, lines: tuple[str, ...]
) -> None:
    """Readers and writers alike; the coordinator has long aborted what was open."""
    story = breakable_story
    lines = (*lines, *(line.format(alias=story.alias) for line in SHORT_TIMES))
    with story.writer() as writer, story.run(lines=lines) as run:
        story.wait_until_close(run, writer)
        workers = [psutil.Process(pid) for pair in run.rings() for pid in pair]
        assert len(workers) == 4
        wake_at = time.monotonic() + SLEEP_SECONDS
        _signal(workers, signal.SIGSTOP)
        wait_until(lambda: time.monotonic() >= wake_at, "they have slept", SLEEP_SECONDS + 2)
        _signal(workers, signal.SIGCONT)
        story.wait_for_flow(run)
        story.wait_for_all(run, writer)
        run.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() <= (0 if lines[0] in EXACTLY_ONCE else REPEATED_MAX)


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        process.send_signal(number)


def _owners(story: Story) -> dict[TopicPartition, int]:
    """The task that wrote each partition's last position."""
    with story.ledger() as ledger:
        ledger.read_to_end()
        return {partition: record.task for partition, record in ledger.view.records.items()}


def _wait_for_flow(story: Story, program: "subprocess.Popen[bytes]") -> None:
    before = story.arrived()

    def flows() -> bool:
        assert program.poll() is None, (story.directory / "program.err").read_text()[-3000:]
        return all(now > then for now, then in zip(story.arrived(), before, strict=True))

    wait_until(flows, f"records reach {story.remote_topic}", 60)
