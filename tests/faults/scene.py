"""One flow that never stops being written to and broken: what the fault matrix (`test_matrix`) breaks, and with what.

A scene is a mode (at least once, exactly once) and a number of brokers on either side. Both clusters are reached over
a proxy, so that links can be broken too; the writer and the witness go past it.
"""

import os
import random
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from tests.faults.numbered import NumberedWriter, create_topic, wait_until
from tests.faults.story import PARTITIONS, Story
from tests.faults.tree import Run
from tests.faults.witness import Witness
from tests.scenarios.mirror import flow_file

from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.kill_points import ENVIRONMENT as KILL_POINTS
from sparkmirror.testing.proxy import LongLink

AT_LEAST_ONCE, EXACTLY_ONCE = "at least once", "exactly once"
CATCH_UP_SECONDS_MAX = 120.0
QUICK = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
EXACTLY_ONCE_LINES = ("backup.exactly.once.source.support = enabled", "backup.producer.transaction.timeout.ms = 10000")


@dataclass(frozen=True, slots=True)
class Mode:
    """How the scene's flow delivers, and on how many brokers."""

    delivery: str
    brokers: int

    @property
    def name(self) -> str:
        return f"{self.delivery.replace(' ', '-')}-{self.brokers}"


@dataclass(frozen=True, slots=True)
class FlowStory(Story):
    """A story with the scene's own lines, over the proxies."""

    far_source: str = ""
    far_target: str = ""
    lines: tuple[str, ...] = ()

    def text(self, *lines: str) -> str:
        source, target = ({"bootstrap.servers": servers} for servers in (self.far_source, self.far_target))
        every = ("tasks.max = 2", *self.lines, *lines)
        return flow_file(source, target, alias=self.alias, topics=self.topic, lines=every, replicas=self.replicas)


@dataclass(slots=True)
class Scene:
    """Clusters, a flow, its run, its writer and its witness. `dice` are seeded: they choose brokers and passages."""

    directory: Path
    mode: Mode
    seed: int
    dice: random.Random = field(init=False)
    _open: ExitStack = field(init=False)
    _flows: int = 0

    source: KafkaCluster = field(init=False)
    target: KafkaCluster = field(init=False)
    writer: NumberedWriter = field(init=False)
    story: FlowStory = field(init=False)
    run: Run = field(init=False)
    witness: Witness = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        clusters = [
            KafkaCluster(self.mode.brokers, name=name, config=QUICK, far=LongLink(0.0))
            for name in ("broken-a", "broken-b")
        ]
        self.source, self.target = (self._open.enter_context(cluster) for cluster in clusters)
        self.points.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        self.end_flow()
        self._open.close()

    @property
    def points(self) -> Path:
        """Where kill points are armed."""
        return self.directory / "kill-points"

    def ensure_flow(self) -> None:
        """A flow that runs and follows closely; a new one where the last was left broken."""
        if not hasattr(self, "run"):
            self._begin_flow()
        self.story.wait_until_close(self.run, self.writer, CATCH_UP_SECONDS_MAX)

    def _begin_flow(self) -> None:
        self._flows += 1
        exactly_once = self.mode.delivery == EXACTLY_ONCE
        self.story = FlowStory(
            self.directory,
            self.source.bootstrap_servers,
            self.target.bootstrap_servers,
            f"A{self._flows}",
            f"numbers-{self._flows}",
            min(self.mode.brokers, 3),
            far_source=self.source.bootstrap_servers_far,
            far_target=self.target.bootstrap_servers_far,
            lines=(f"backup.producer.client.id = A{self._flows}", *(EXACTLY_ONCE_LINES if exactly_once else ())),
        )
        create_topic(self.story.source, self.story.topic, PARTITIONS, replicas=min(self.mode.brokers, 3))
        self.writer = self.story.writer()
        self.writer.start()
        self.start_run()
        self.story.wait_for_flow(self.run)
        self.witness = Witness(self.story, self.story.target)

    def start_run(
        self, environment: Mapping[str, str] | None = None, before_start: Callable[[], None] | None = None
    ) -> None:
        """A run of the flow, whose workers know the kill points."""
        known = {**os.environ, KILL_POINTS: str(self.points), **(environment or {})}
        self.run = self.story.run(environment=known, before_start=before_start)

    def end_flow(self, *, broken: bool = False) -> None:
        """Stop what runs; a broken flow is left as it is, and the next is begun with another topic."""
        if not hasattr(self, "run"):
            return
        self.writer.abandon()
        if hasattr(self, "witness"):  # a flow that never began has none
            self.witness.close()
            del self.witness
        if broken:
            self.run.destroy()
        else:
            self.run.stop(30)
            self.run.close()
        del self.run

    def restart_after(self, break_it: Callable[[], None]) -> None:
        """What ends the whole run: it is started again, as whoever watches over it would."""
        break_it()
        self.run.destroy()
        self.start_run()

    def catch_up(self) -> float:
        """Until all that is produced by now has arrived; fails on a gap. Seconds."""
        return self.witness.read_until(list(self.writer.produced), CATCH_UP_SECONDS_MAX)

    def catch_up_with_more(self) -> float:
        """As `catch_up`, and beyond: what is written from now on only arrives once whatever was killed works again."""
        began = time.monotonic()
        self.wait(1.0)
        self.catch_up()
        return time.monotonic() - began - 1.0

    def wait(self, seconds: float) -> None:
        """The fault lasts: the witness goes on reading."""
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            self.witness.read()

    def wait_until(self, condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
        wait_until(partial(_true_while_reading, self.witness, condition), what, seconds)


def _true_while_reading(witness: Witness, condition: Callable[[], object]) -> bool:
    witness.read(0.02)
    return bool(condition())
