"""The same run on a Spark standalone cluster, whose workers and executors are lost and added while it mirrors."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.faults.numbered import create_topic
from tests.faults.standalone import LOCAL, Standalone
from tests.faults.story import Story

PARTITIONS = 6
DRIVER = {**os.environ, **LOCAL}


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Standalone]:
    with Standalone(tmp_path) as cluster:
        yield cluster


def test_a_bounded_run_mirrors_on_the_executors_of_a_cluster_that_has_fewer_slots_than_tasks(
    story: Story, spark: Standalone
) -> None:
    for _ in range(2):
        spark.add_worker()
    writer = story.writer()
    writer.write(5000)
    with story.run("--once", "--master", spark.url, lines=["tasks.max = 3"], environment=DRIVER) as run:
        ended = run.finish(150)
        assert ended.status == 0, ended.errors
    assert f"Spark at {spark.url} has 2 slots for 3 tasks: {story.alias}->backup 2 of 3 run." in ended.errors
    for worker in spark.workers:
        assert worker.log.count("Asked to launch executor") == 1, "one executor on each worker, which stayed alive"
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == 0


@pytest.mark.long
@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_executors_and_workers_that_are_lost_and_added_in_mid_copy_lose_nothing(
    story: Story, spark: Standalone, exactly_once: str
) -> None:
    wide = replace(story, topic=f"{story.topic}-wide", partitions=PARTITIONS)
    create_topic(wide.source, wide.topic, PARTITIONS)
    for _ in range(3):
        spark.add_worker()
    lines = ["tasks.max = 4", f"exactly.once.source.support = {exactly_once}"]
    with (
        wide.run("--master", spark.url, lines=lines, environment=DRIVER) as run,
        wide.writer(per_second=3000) as writer,
    ):
        wide.wait_until_close(run, writer)
        assert " 3 slots for 4 tasks" in run.errors

        (executor,) = spark.workers[0].executors()
        executor.kill()
        wide.wait_until_close(run, writer)

        spark.workers[1].kill()
        run.wait_until(lambda: " 2 slots for 4 tasks" in run.errors, "the lost worker is missed", 90)
        wide.wait_until_close(run, writer)

        spark.add_worker(cores=2)
        run.wait_until(lambda: " 4 slots for 4 tasks" in run.errors, "the new worker is used", 90)
        wide.wait_until_close(run, writer)
        wide.wait_for_all(run, writer)
    arrival = wide.arrival()
    arrival.assert_complete(writer.produced)
    if exactly_once == "enabled":
        assert arrival.repeats() == 0
