"""With exactly-once on, a read_committed consumer sees each record once, whatever dies or sleeps (invariant 4)."""

import os
import signal

from tests.faults.numbered import NumberedWriter, end_offsets, wait_until
from tests.faults.story import Story
from tests.faults.tree import Run, is_gone

EXACTLY_ONCE = ("backup.exactly.once.source.support = enabled",)
HEAL_SECONDS_MAX = 30


def test_a_bounded_run_in_transactions_copies_each_record_once(story: Story) -> None:
    writer = story.writer()
    writer.write(20_000)
    with story.run("--once", lines=EXACTLY_ONCE) as run:
        ended = run.finish(90)
        assert ended.status == 0, ended.errors
    _assert_once(story, writer)
    ends = end_offsets(story.target, story.remote_topic, len(writer.produced))
    assert all(end > count for end, count in zip(ends, writer.produced, strict=True)), "no transaction marker"


def test_whatever_is_killed_under_load_and_whoever_takes_over_each_record_comes_once(story: Story) -> None:
    with story.writer() as writer:
        with story.run(lines=EXACTLY_ONCE) as first:
            story.wait_until_close(first, writer)
            _kill_a_worker(story, first, writing=True)
            _kill_a_worker(story, first, writing=False)
            first.kill()
            wait_until(lambda: not first.processes(), "JVM and Python workers end by themselves", 15)
        with story.run(lines=EXACTLY_ONCE) as second:
            story.wait_for_flow(second)
            with story.run(lines=EXACTLY_ONCE) as third:
                ended = second.finish(60)
                assert "taken over" in ended.errors.splitlines()[-2], ended.errors
                story.wait_for_flow(third)
                third.jvm().kill()
                assert third.finish(20).status == 1
        with story.run(lines=EXACTLY_ONCE) as last:
            story.wait_for_all(last, writer)
            last.stop(30)
    _assert_once(story, writer)


def _kill_a_worker(story: Story, run: Run, *, writing: bool) -> None:
    rings = list(run.rings())
    assert len(rings) == 2, "a ring for each task"
    victim = rings[0][1 if writing else 0]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: is_gone(victim), "the worker is dead", 5)
    story.wait_for_flow(run, HEAL_SECONDS_MAX)
    run.wait_until(lambda: len(list(run.rings())) == 2, "both tasks work again")


def _assert_once(story: Story, writer: NumberedWriter) -> None:
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == 0
    assert story.positions() == writer.produced
