"""What the fault tests tell: a topic, a flow of its own that mirrors it, runs of that flow, and the judgement."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from tests.faults.numbered import Arrival, NumberedWriter, end_offsets, read_arrival
from tests.faults.tree import Run
from tests.oracle import DEADLINE_SECONDS_LEAST, list_topics
from tests.scenarios.mirror import COMMAND, flow_file

from sparkmirror.errors import ClusterError
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster, Connector, TopicPartition

PARTITIONS = 2
PER_SECOND = 1000
REPEATED_MAX = 5 * PER_SECOND
"""What a crash may repeat: the ledger is stored every second, and tests crash what is at most two seconds behind it;
the rest is for a busy machine."""


@dataclass(frozen=True, slots=True)
class Story:
    """Addresses, the source's alias, its topic, and a directory for files; how many copies the target keeps."""

    directory: Path
    source: str
    target: str
    alias: str
    topic: str
    replicas: int = 1
    partitions: int = PARTITIONS

    @property
    def remote_topic(self) -> str:
        return f"{self.alias}.{self.topic}"

    def text(self, *lines: str) -> str:
        """The flow's file; `lines` come last."""
        source, target = ({"bootstrap.servers": servers} for servers in (self.source, self.target))
        # As a line of the flow: a former version that does not know the key counts it too (test_rolling_upgrade.py).
        least = 1 if "tasks.max = 1" in lines else 2
        own = ("tasks.max = 2", f"{self.alias}->backup.tasks.min = {least}", *lines)
        return flow_file(source, target, alias=self.alias, topics=self.topic, lines=own, replicas=self.replicas)

    def run(
        self,
        *arguments: str,
        lines: Sequence[str] = (),
        command: Path = COMMAND,
        verb: str = "run",
        environment: Mapping[str, str] | None = None,
        before_start: Callable[[], None] | None = None,
    ) -> Run:
        """A run of the flow, to be used in a `with` block."""
        text = self.text(*lines)
        return Run(
            self.directory, text, arguments,
            command=command, verb=verb, environment=environment, before_start=before_start,
        )  # fmt: skip

    def writer(
        self, *, per_second: int = PER_SECOND, record_bytes: int = 200, first: Sequence[int] = (), log: int = 0
    ) -> NumberedWriter:
        """Its records are numbered from `first` on, by partition; `log` counts how often the topic was made again."""
        writer = NumberedWriter(
            self.source, self.topic, self.partitions, per_second=per_second, record_bytes=record_bytes, log=log
        )
        writer.produced = list(first) or writer.produced
        return writer

    def arrived(self) -> list[int]:
        """End offset of each target partition."""
        return end_offsets(self.target, self.remote_topic, self.partitions)

    def wait_for_flow(self, run: Run, seconds: float = 240.0) -> None:
        """Until more records have reached every target partition than there are now."""
        before = self.arrived()
        run.wait_until(
            lambda: all(now > then for now, then in zip(self.arrived(), before, strict=True)),
            f"records reach {self.remote_topic}",
            seconds,
        )

    def wait_until_close(self, run: Run, writer: NumberedWriter, seconds: float = 240.0) -> None:
        """Until the ledger is at most two seconds of writing behind: a crash from here on repeats little."""
        near = 2 * writer.per_second // self.partitions
        self._wait_for_ledger(
            run, lambda at: min(at) > 0 and max(writer.produced) - min(at) <= near, "the ledger follows", seconds
        )

    def wait_until_passed(self, run: Run, produced: Sequence[int], seconds: float = 240.0) -> None:
        """Until the ledger has passed what was produced by now, in every partition."""
        before = list(produced)
        self._wait_for_ledger(
            run,
            lambda at: all(now > then for now, then in zip(at, before, strict=True)),
            f"the ledger passes {before}",
            seconds,
        )

    def wait_for_all(self, run: Run, writer: NumberedWriter, seconds: float = 240.0) -> None:
        """No more is written; until the ledger says that all of it is mirrored."""
        writer.stop()
        produced = writer.produced
        self._wait_for_ledger(run, lambda at: at == produced, f"the ledger reaches {produced}", seconds)

    def wait_until_on_log(self, run: Run, topic_id: UUID, seconds: float = 240.0) -> None:
        """Until all positions of the ledger are in the source's log of that topic id."""
        places = [TopicPartition(self.topic, number) for number in range(self.partitions)]
        with self.ledger() as ledger:
            ledger.read_to_end()

            def look() -> bool:
                ledger.poll(0.2)
                found = [ledger.view.positions.get(place) for place in places]
                return all(position is not None and position.topic_id == topic_id for position in found)

            run.wait_until(look, f"the ledger's positions carry the topic id {topic_id}", seconds)

    def _wait_for_ledger(self, run: Run, is_met: Callable[[list[int]], bool], what: str, seconds: float) -> None:
        run.wait_until(self.target_has_ledger, "the ledger's topics exist", seconds)
        with self.ledger() as ledger:
            ledger.read_to_end()

            def look() -> bool:
                ledger.poll(0.2)
                return is_met(self._offsets(ledger))

            run.wait_until(look, what, seconds)

    def positions(self) -> list[int]:
        """The ledger's positions, by partition; 0 where it has none."""
        with self.ledger() as ledger:
            ledger.read_to_end()
            return self._offsets(ledger)

    def generation(self) -> int:
        """The highest in the ledger: it grows with each run and each epoch."""
        with self.ledger() as ledger:
            ledger.read_to_end()
            return max((record.generation for record in ledger.view.records.values()), default=0)

    def _offsets(self, ledger: LedgerReader) -> list[int]:
        at = [ledger.view.positions.get(TopicPartition(self.topic, number)) for number in range(self.partitions)]
        return [0 if position is None else position.offset for position in at]

    def ledger(self) -> LedgerReader:
        """The flow's ledger, to be closed. One broker of several may hear of its topics later than another."""
        ends_at = time.monotonic() + DEADLINE_SECONDS_LEAST
        while True:
            try:
                return LedgerReader(self.cluster(), ledger_topics(self.alias), Connector.of_dedicated_mode(self.alias))
            except ClusterError:
                if time.monotonic() > ends_at:
                    raise
            time.sleep(0.2)

    def offsets_producer(self) -> int:
        """The producer id with which the flow keeps offsets, by its ledger."""
        with self.ledger() as ledger:
            ledger.read_to_end()
            found = ledger.view.offsets_producer
        assert found is not None
        return found

    def target_has_ledger(self) -> bool:
        return set(ledger_topics(self.alias)) <= list_topics({"bootstrap.servers": self.target})

    def cluster(self) -> Cluster:
        """The target, for the project's own clients."""
        return Cluster("backup", {"bootstrap.servers": self.target})

    def arrival(self) -> Arrival:
        return read_arrival(self.target, self.remote_topic, self.partitions)
