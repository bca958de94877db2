"""One flow that never stops being written to and broken: what the fault matrix (`test_matrix`) breaks, and with what.

A scene is a mode (at least once, exactly once, identical offsets) and a number of brokers on either side. Both clusters
are reached over a proxy, so that links can be broken too; the writer and the witness go past it. While a fault lasts, a
second event may happen (`second_events`): a scene is armed with it, and the fault's strike says when it is in force.
"""

import math
import os
import random
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self
from uuid import UUID

from tests.faults.aligned import AlignedWitness, HoleWriter
from tests.faults.numbered import NumberedWriter, create_topic
from tests.faults.sharing import are_shared
from tests.faults.story import PARTITIONS, Story
from tests.faults.test_lost_records import delete_topic
from tests.faults.tree import Run
from tests.faults.witness import RoutedWitness, Witness
from tests.scenarios.mirror import flow_file
from tests.waiting import wait_until

from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire.lookup import look_up
from sparkmirror.model import Cluster
from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.kill_points import ENVIRONMENT as KILL_POINTS
from sparkmirror.testing.proxy import LongLink

AT_LEAST_ONCE, EXACTLY_ONCE, IDENTICAL = "at least once", "exactly once", "identical offsets"
CATCH_UP_SECONDS_MAX = 120.0
QUICK = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.min.session.timeout.ms": "1000",
}
SESSION_SECONDS = 5
"""Of processes that share the flow, where a second event may stop one: less than most faults last."""
REVIVE_SECONDS = 1.0
SHARED_SECONDS_MAX = 120.0
ABSENCE_SECONDS = (0.0, 3.0)
"""How long a source topic is gone before it is made again: mirrors look for topics every two seconds."""
EXACTLY_ONCE_LINES = ("backup.exactly.once.source.support = enabled", "backup.producer.transaction.timeout.ms = 10000")

OFFSETS_KEPT = "preserve.offsets.enabled = true"
ODD_RECORDS_APART = (
    "transforms.set.topic = if(cast(substring(cast(value AS string), 1, 11) AS bigint) % 2 = 1, "
    "concat(target_topic, '-odd'), target_topic)"
)


@dataclass(frozen=True, slots=True)
class Mode:
    """How the scene's flow delivers, and on how many brokers. `is_routed`: by a transform each range of the source goes
    to two topics."""

    delivery: str
    brokers: int
    is_routed: bool = False

    @property
    def name(self) -> str:
        return f"{self.promise.replace(', ', '-').replace(' ', '-')}-{self.brokers}"

    @property
    def promise(self) -> str:
        """As the page of results says."""
        return f"{self.delivery}, by transforms" if self.is_routed else self.delivery


@dataclass(frozen=True, slots=True)
class FlowStory(Story):
    """A story with the scene's own lines, over the proxies."""

    far_source: str = ""
    far_target: str = ""
    lines: tuple[str, ...] = ()

    def text(self, *lines: str) -> str:
        source, target = ({"bootstrap.servers": servers} for servers in (self.far_source, self.far_target))
        every = ("tasks.max = 2", "tasks.min = 2", *self.lines, *lines)
        return flow_file(source, target, alias=self.alias, topics=self.topic, lines=every, replicas=self.replicas)


SecondEvent = Callable[["Scene"], Callable[[], None]]
"""Happens while a fault lasts; gives what is to be waited for when the fault is healed."""


@dataclass(slots=True)
class Scene:
    """Clusters, a flow, its run, its writer and its witness. `dice` are seeded: they choose brokers and passages.

    `lines` are added to the flow's file. `other` is a second process with the same file, where there is one.
    """

    directory: Path
    mode: Mode
    seed: int
    lines: tuple[str, ...] = ()
    dice: random.Random = field(init=False)
    _open: ExitStack = field(init=False)
    _flows: int = 0
    _started: tuple[Mapping[str, str], Callable[[], None] | None] = ({}, None)
    _revived_at: float = math.inf
    _armed: SecondEvent | None = None
    _under_way: Callable[[], None] | None = None

    source: KafkaCluster = field(init=False)
    target: KafkaCluster = field(init=False)
    writer: NumberedWriter = field(init=False)
    story: FlowStory = field(init=False)
    run: Run = field(init=False)
    other: Run | None = None
    holes: HoleWriter | None = None
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
        self._revived_at = math.inf
        self.story.wait_until_close(self.run, self.writer, CATCH_UP_SECONDS_MAX)

    def ensure_processes(self, count: int) -> None:
        """One process, or two that share the flow."""
        if count == 1 and self.other is not None:
            self.other.stop(30)
            self.other.close()
            self.other = None
        if count == 2 and self.other is None:
            self.other = self._new_run({}, None)
        self.await_sharing()

    def await_sharing(self) -> None:
        """Where there are two processes, each has its task. Fails when one of them has ended."""
        if self.other is not None:
            run, other = self.run, self.other
            self.wait_until(lambda: _share(run, other), "each process runs one of two tasks", SHARED_SECONDS_MAX)

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
            lines=(
                f"backup.producer.client.id = A{self._flows}",
                *(EXACTLY_ONCE_LINES if exactly_once else ()),
                *((ODD_RECORDS_APART,) if self.mode.is_routed else ()),
                *(_lines_that_keep(self._flows) if self.mode.delivery == IDENTICAL else ()),
                *self.lines,
            ),
        )
        create_topic(self.story.source, self.story.topic, PARTITIONS, replicas=min(self.mode.brokers, 3))
        self.writer = self.story.writer()
        self.writer.start()
        if self.mode.delivery == IDENTICAL:
            self.holes = HoleWriter(self.story.source, self.story.topic)
        self.start_run()
        self.story.wait_for_flow(self.run)
        self.witness = self._new_witness()

    def _new_witness(self) -> Witness:
        if self.mode.delivery == IDENTICAL:
            return AlignedWitness(self.story, self.story.target)
        return (RoutedWitness if self.mode.is_routed else Witness)(self.story, self.story.target)

    def start_run(
        self, environment: Mapping[str, str] | None = None, before_start: Callable[[], None] | None = None
    ) -> None:
        """A run of the flow, whose workers know the kill points."""
        self._started = (environment or {}, before_start)
        self.run = self._new_run(*self._started)

    def _new_run(self, environment: Mapping[str, str], before_start: Callable[[], None] | None) -> Run:
        known = {**os.environ, KILL_POINTS: str(self.points), **environment}
        return self.story.run(environment=known, before_start=before_start)

    def kill_run(self) -> None:
        """SIGKILL to all processes of the run, and a new one in its place, again if it ends: as systemd would."""
        self.run.destroy()
        self.run = self._new_run(*self._started)
        self._revived_at = time.monotonic()

    def _revive(self) -> None:
        if not self.run.running and time.monotonic() > self._revived_at + REVIVE_SECONDS:
            self.kill_run()

    def replace_topic(self) -> None:
        """The source topic is deleted when all written records are in, and made again; the writer begins from 0."""
        self.writer.stop()
        delete_topic(self.story.source, self.story.topic)
        time.sleep(self.dice.uniform(*ABSENCE_SECONDS))
        create_topic(self.story.source, self.story.topic, PARTITIONS, replicas=min(self.mode.brokers, 3))
        self.writer = self.story.writer(log=self.writer.log + 1)
        self.writer.start()

    def topic_id(self) -> UUID:
        """Of the source topic as it is now."""
        settings = client_settings(Cluster(self.story.alias, {"bootstrap.servers": self.story.source}), "scene")
        return look_up(settings, [self.story.topic]).topic_ids[self.story.topic]

    def arm(self, event: SecondEvent) -> None:
        """It is to happen while the next fault is in force."""
        self._armed = event

    @property
    def is_armed(self) -> bool:
        """Whether a second event has yet to begin."""
        return self._armed is not None

    def meanwhile(self, seconds: float = 0.0) -> None:
        """A fault is in force, or came a moment ago: what the scene is armed with happens within so many seconds."""
        if self._armed is None:
            return
        event, self._armed = self._armed, None
        self.wait(self.dice.uniform(0.0, seconds))
        self._under_way = event(self)

    def conclude(self) -> None:
        """The second event, if one has begun, is over."""
        finish, self._under_way = self._under_way, None
        if finish is not None:
            finish()

    def end_flow(self, *, broken: bool = False) -> None:
        """Stop what runs; a broken flow is left as it is, and the next is begun with another topic."""
        if not hasattr(self, "run"):
            return
        self.writer.abandon()
        if self.holes is not None:
            self.holes.stop()
            self.holes = None
        if hasattr(self, "witness"):  # a flow that never began has none
            self.witness.close()
            del self.witness
        for run in (self.run, *([self.other] if self.other else [])):
            if broken:
                run.destroy()
            else:
                run.stop(30)
                run.close()
        del self.run
        self.other = self._armed = self._under_way = None

    def restart_after(self, break_it: Callable[[], None], seconds: float) -> None:
        """What ends the whole run: it is started again, as whoever watches over it would; a second event soon after."""
        break_it()
        self.run.destroy()
        self.start_run()
        self.meanwhile(seconds)

    def settle(self) -> None:
        """A second event is over, the run has its tasks and has caught up."""
        self.conclude()
        self.await_sharing()
        self.catch_up()

    def catch_up(self) -> float:
        """Until all that is produced by now has arrived; fails on a gap. Seconds."""
        writer = self.writer
        produced = list(writer.produced)
        return self.witness.read_until(produced, CATCH_UP_SECONDS_MAX, log=writer.log, meanwhile=self._revive)

    def catch_up_with_more(self) -> float:
        """As `catch_up`, and beyond: what is written from now on only arrives once whatever was killed works again."""
        began = time.monotonic()
        self.wait(1.0)
        self.catch_up()
        return time.monotonic() - began - 1.0

    def wait(self, seconds: float, unless: Callable[[], bool] = lambda: False) -> None:
        """The fault lasts: the witness goes on reading."""
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at and not unless():
            self.witness.read()
            self._revive()

    def hold(self, seconds: float) -> None:
        """As `wait`, for a fault that lasts; a second event happens meanwhile."""
        before = seconds * self.dice.uniform(0.1, 0.5) if self._armed else 0.0
        self.wait(before)
        self.meanwhile()
        self.wait(seconds - before)

    def wait_until(self, condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
        wait_until(partial(self._is_true_now, condition), what, seconds)

    def _is_true_now(self, condition: Callable[[], object]) -> bool:
        self.witness.read(0.02)
        self._revive()
        return bool(condition())


def _lines_that_keep(number: int) -> tuple[str, str]:
    return OFFSETS_KEPT, f"A{number}.consumer.isolation.level = read_committed"


def _share(run: Run, other: Run) -> bool:
    for one in (run, other):
        assert one.running, f"process {one.pid} has ended by itself"
    return are_shared(run, other)
