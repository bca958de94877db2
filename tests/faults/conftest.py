"""Fixtures of the fault tests: a flow of its own for each test, and a target that may be paused and killed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from mirror_process import Mirror, flow_file
from oracle import Arrival, NumberedWriter, create_topic, end_offsets, read_arrival, wait_until

from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.testing.kafka import KafkaCluster

PARTITIONS = 2


@dataclass(frozen=True, slots=True)
class Story:
    """A topic of two partitions on the source, and a flow of its own that mirrors it: alias, topic, runs, judgement."""

    directory: Path
    source: str
    target: str
    alias: str
    topic: str

    @property
    def remote_topic(self) -> str:
        return f"{self.alias}.{self.topic}"

    def text(self, *lines: str) -> str:
        """The flow's file."""
        return flow_file(self.source, self.target, self.topic, alias=self.alias, lines=("tasks.max = 2", *lines))

    def mirror(self, *arguments: str, name: str = "run", lines: Sequence[str] = ()) -> Mirror:
        """A run of the flow, to be entered with `with`."""
        return Mirror(self.directory, self.text(*lines), *arguments, name=name)

    def writer(self, *, per_second: int = 2000, record_bytes: int = 200) -> NumberedWriter:
        return NumberedWriter(self.source, self.topic, PARTITIONS, per_second=per_second, record_bytes=record_bytes)

    def arrived(self) -> list[int]:
        """End offset of each target partition."""
        return end_offsets(self.target, self.remote_topic, PARTITIONS)

    def wait_for_flow(self, mirror: Mirror, seconds: float = 40.0) -> None:
        """Until more records reach every target partition than there are now."""
        before = self.arrived()

        def flows() -> bool:
            assert mirror.running, f"the mirror ended:\n{mirror.output()}"
            return all(now > then for now, then in zip(self.arrived(), before, strict=True))

        wait_until(flows, f"records reach {self.remote_topic}; the mirror said:\n{mirror.output()}", seconds)

    def wait_for_all(self, mirror: Mirror, writer: NumberedWriter, seconds: float = 40.0) -> None:
        """Until the ledger says that all the writer wrote is mirrored."""

        def settled() -> bool:
            assert mirror.running, f"the mirror ended:\n{mirror.output()}"
            return self.positions() == writer.produced

        wait_until(settled, f"the ledger reaches {writer.produced}; it stands at {self.positions()}", seconds)

    def positions(self) -> list[int]:
        """The ledger's positions, by partition; 0 where it has none."""
        cluster = Cluster("B", {"bootstrap.servers": self.target})
        with LedgerReader(cluster, ledger_topics(self.alias), self.alias) as ledger:
            found = ledger.read_to_end()
        at = [found.get(TopicPartition(self.topic, number)) for number in range(PARTITIONS)]
        return [0 if position is None else position.offset for position in at]

    def arrival(self) -> Arrival:
        return read_arrival(self.target, self.remote_topic, PARTITIONS)


@pytest.fixture(scope="session")
def breakable_target() -> Iterator[KafkaCluster]:
    """A target that tests pause, kill and start again; each leaves it running."""
    with KafkaCluster(name="breakable") as cluster:
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


def _story(path: Path, source: KafkaCluster, target: KafkaCluster, unique: Callable[[str], str]) -> Story:
    story = Story(path, source.bootstrap_servers, target.bootstrap_servers, unique("A"), unique("numbers"))
    create_topic(story.source, story.topic, PARTITIONS)
    return story
