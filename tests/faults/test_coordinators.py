"""Exactly once on three brokers: transaction coordinators die and move, and forget a producer that was idle."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from tests.faults.numbered import create_topic
from tests.faults.story import PARTITIONS, Story

from sparkmirror.kafka.fencing import transactional_id
from sparkmirror.model import Connector
from sparkmirror.testing.kafka import KafkaCluster

pytestmark = pytest.mark.long

EXACTLY_ONCE = ("backup.exactly.once.source.support = enabled",)
FORGETFUL = {
    "transactional.id.expiration.ms": "4000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
}
TASKS = (0, 1)


@pytest.fixture(params=[0, 2], ids=["first-protocol", "second-protocol"])
def three_targets(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    features = {"transaction.version": request.param}
    with KafkaCluster(brokers=3, name="coordinators", config=FORGETFUL, features=features) as cluster:
        yield cluster


def test_coordinators_that_die_move_and_forget_cost_nothing(
    tmp_path: Path, source_cluster: KafkaCluster, three_targets: KafkaCluster, unique: Callable[[str], str]
) -> None:
    addresses = (source_cluster.bootstrap_servers, three_targets.bootstrap_servers)
    story = Story(tmp_path, *addresses, unique("A"), unique("numbers"), replicas=3)
    create_topic(story.source, story.topic, PARTITIONS)
    with story.writer() as writer, story.run(lines=EXACTLY_ONCE) as run:
        story.wait_until_close(run, writer)
        for task in TASKS:
            coordinator = three_targets.broker(_coordinator(story, task))
            coordinator.kill()
            story.wait_for_flow(run, 60)
            coordinator.start()
            three_targets.wait_ready()
            story.wait_until_close(run, writer)
        story.wait_for_all(run, writer)
        run.wait_until(lambda: not _known(story), "the coordinators have forgotten the flow's producers", 60)
        late = story.writer()
        late.produced = list(writer.produced)
        late.write(500)
        story.wait_for_all(run, late)
        run.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(late.produced)
    assert arrival.repeats() == 0


def _coordinator(story: Story, task: int) -> int:
    """The broker that coordinates the task's transactions."""
    wanted = transactional_id(Connector.of_dedicated_mode(story.alias), task)
    with closing(KafkaAdminClient(bootstrap_servers=story.target)) as admin:
        return int(admin.describe_transactions([wanted])[wanted].coordinator_id)


def _known(story: Story) -> list[Any]:
    with closing(KafkaAdminClient(bootstrap_servers=story.target)) as admin:
        found = [one for each in admin.list_transactions().values() for one in each]
    return [one for one in found if one.transactional_id.startswith(story.alias)]
