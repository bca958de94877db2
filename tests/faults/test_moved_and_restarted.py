"""Partitions that change their task, queries that begin again in one process, and workers that sleep too long: under
load, and with both promises."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tests.faults.numbered import create_topic
from tests.faults.story import PARTITIONS, REPEATED_MAX, Story
from tests.waiting import wait_until

from sparkmirror.model import TopicPartition

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).with_name("restarting_program.py")
RESTARTS = 3
SHORT_TIMES = (
    "{alias}.consumer.request.timeout.ms = 3000",
    "backup.producer.request.timeout.ms = 3000",
    "backup.producer.transaction.timeout.ms = 3000",
)
BUSY_PER_SECOND = 1500
"""Three times a wanted partition's."""
SLEEP_SECONDS = 16.0
"""Ten seconds of grace for a broker's own waiting come on top of a producer's request time-out."""
EXACTLY_ONCE = ("backup.exactly.once.source.support = enabled",)
promise = pytest.mark.parametrize("lines", [(), EXACTLY_ONCE], ids=["least", "once"])


@promise
def test_a_partition_that_moves_between_tasks_under_load_loses_and_repeats_nothing(
    story: Story, lines: tuple[str, ...]
) -> None:
    """The first task begins with a busy topic and one of two wanted partitions: that one goes to the other's."""
    prefix = story.topic
    busy, story = replace(story, topic=f"{prefix}-busy", partitions=1), replace(story, topic=f"{prefix}-wanted")
    for one in (busy, story):
        create_topic(one.source, one.topic, one.partitions)
    lines = (*lines, f"{story.alias}->backup.topics = {prefix}-.*", "balance.interval.seconds = 2")
    moved = TopicPartition(story.topic, 1)
    with story.writer() as writer, busy.writer(per_second=BUSY_PER_SECOND), story.run(lines=lines) as run:
        story.wait_until_close(run, writer)
        run.wait_until(lambda: _owners(story)[moved] == 1, f"{moved} is the second task's", 120)
        assert "partitions move to tasks that have less to do: 1 from task 0 to task 1" in run.errors
        story.wait_for_flow(run)
        story.wait_for_all(run, writer)
        run.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == 0


@promise
def test_a_query_that_is_stopped_and_started_again_in_one_process_loses_nothing(
    story: Story, lines: tuple[str, ...]
) -> None:
    """Spark's own stop, without a word to us: its workers may live on for a while."""
    create_topic(story.target, story.remote_topic, PARTITIONS)
    file = story.directory / "mirror.properties"
    file.write_text(story.text(*lines))
    prefix, scratch = f"{story.alias}.", story.directory / "checkpoints"
    command = [sys.executable, *map(str, (PROGRAM, file, f"{story.alias}->backup", prefix, scratch, RESTARTS))]
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
