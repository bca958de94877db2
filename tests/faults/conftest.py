"""Fixtures of the fault tests: a flow of its own for each test, and a target that may be paused and killed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults.numbered import create_topic
from tests.faults.story import PARTITIONS, Story

from sparkmirror.testing.kafka import KafkaCluster

QUICK_ABORTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}


@pytest.fixture(autouse=True)
def kernels_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mirrors use compiled code from the first record on. Others load it when that pays, and most live too briefly."""
    monkeypatch.setenv("SPARKMIRROR_KERNELS", "at-once")


@pytest.fixture(scope="session")
def breakable_target() -> Iterator[KafkaCluster]:
    """A target that tests pause, kill and start again; each leaves it running."""
    with KafkaCluster(name="breakable", config=QUICK_ABORTS) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def first_protocol_target() -> Iterator[KafkaCluster]:
    """A breakable target whose transactions are those before KIP-890: the feature was never finalized."""
    with KafkaCluster(name="first-protocol", features={"transaction.version": 0}, config=QUICK_ABORTS) as cluster:
        yield cluster


@pytest.fixture
def story(
    tmp_path: Path, source_cluster: KafkaCluster, target_cluster: KafkaCluster, unique: Callable[[str], str]
) -> Story:
    return _story(tmp_path, source_cluster, target_cluster, unique)


@pytest.fixture
def breakable_story(
    tmp_path: Path, source_cluster: KafkaCluster, breakable_target: KafkaCluster, unique: Callable[[str], str]
) -> Story:
    """A story whose target may be broken."""
    return _story(tmp_path, source_cluster, breakable_target, unique)


@pytest.fixture
def first_protocol_story(
    tmp_path: Path, source_cluster: KafkaCluster, first_protocol_target: KafkaCluster, unique: Callable[[str], str]
) -> Story:
    """A story whose target has the first transaction protocol."""
    return _story(tmp_path, source_cluster, first_protocol_target, unique)


def _story(path: Path, source: KafkaCluster, target: KafkaCluster, unique: Callable[[str], str]) -> Story:
    story = Story(path, source.bootstrap_servers, target.bootstrap_servers, unique("A"), unique("numbers"))
    create_topic(story.source, story.topic, PARTITIONS)
    return story


@pytest.fixture
def from_three(
    tmp_path: Path, three_brokers: KafkaCluster, target_cluster: KafkaCluster, unique: Callable[[str], str]
) -> Story:
    """A story whose source has three brokers, by the module's fixture `three_brokers`; its topic is not created."""
    addresses = (three_brokers.bootstrap_servers, target_cluster.bootstrap_servers)
    return Story(tmp_path, *addresses, unique("A"), unique("numbers"))
