"""Two flows against each other for as long as is asked, while topics come and go, brokers bounce and workers die.

    python -m tests.faults.soak --minutes 60 --seed 1

No record may be lost, no memory of ours grow, no shared memory leak. `make soak` runs it, `test_soak` a short form.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tests.faults.numbered import NumberedWriter, create_topic, end_offsets
from tests.faults.story import PARTITIONS, Story
from tests.faults.tree import RING, Run, is_gone, open_rings
from tests.faults.witness import Witness
from tests.oracle import count_records, read_topic
from tests.scenarios.data import numbered, write
from tests.scenarios.mirror import COMMAND
from tests.scenarios.status import board_of

from sparkmirror.testing.kafka import KafkaCluster

PER_SECOND = 400
CHURN_RECORDS = 200
SETTLE_SECONDS_MAX = 150.0
WRITER_SECONDS_MAX = 30.0
"""librdkafka's idempotent producer was seen to send nothing for minutes after its broker was back."""
GROWTH_BYTES_MAX = 48 << 20
"""Per role, from the median of the first third of samples to that of the last: heaps of Python and the JVM breathe."""
SAMPLES_MIN = 6
ALL = "all together"
SAMPLES_OF_ALL_MIN = 40
"""Killed workers leave idle ones behind for a minute: their number says nothing in a short run."""
PAGE_HEAD = """\
# Soak

`make soak ARGS="--page docs/soak.md"` writes this page. It runs two flows in opposite directions (A->B and B->A) while
a producer on each cluster writes numbered records without a pause. Meanwhile it creates and deletes topics, stops and
kills brokers, kills workers and whole runs, and restarts tasks by command. An independent consumer on each cluster
checked that no record is missing and that each follows its predecessor. Memory is that of the largest process of each
kind alone (USS) and of all together (PSS), as the median of the first and of the last third of the samples. After each
event, no more leased memory was open than one ring for each flow.
"""


@dataclass(slots=True)
class Direction:
    """One of the two flows: its writer, and its witness on the other side."""

    story: Story
    cluster: KafkaCluster
    other: KafkaCluster
    writer: NumberedWriter
    witness: Witness | None = None
    churned: list[str] = field(default_factory=list)

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.story.source})


class Soak:
    """A context manager; `go` lives through so many minutes, `report` says how it was."""

    def __init__(self, directory: Path, seed: int, tell: Callable[[str], None] = print, only: str = "") -> None:
        self._directory = directory
        self._dice = random.Random(seed)
        self._tell = tell
        self._only = only
        self._open = ExitStack()
        self._topics = 0
        self.did: Counter[str] = Counter()
        self.memory: dict[str, list[int]] = {}

    def __enter__(self) -> "Soak":
        with ExitStack() as opened:
            a, b = (opened.enter_context(KafkaCluster(name=f"soak-{name}")) for name in "ab")
            self.directions = [self._direction("A", a, b), self._direction("B", b, a)]
            self.run = self._start()
            opened.callback(lambda: self.run.destroy())  # the one that runs then
            for direction in self.directions:
                direction.writer.start()
                opened.callback(direction.writer.abandon)
                direction.story.wait_for_flow(self.run)
                direction.witness = Witness(direction.story, direction.story.target)
                opened.callback(direction.witness.close)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _direction(self, alias: str, source: KafkaCluster, target: KafkaCluster) -> Direction:
        story = Story(
            self._directory, source.bootstrap_servers, target.bootstrap_servers, alias, f"numbers-{alias.lower()}"
        )
        create_topic(story.source, story.topic, PARTITIONS)
        writer = story.writer(per_second=PER_SECOND)
        writer.patience_seconds = WRITER_SECONDS_MAX
        return Direction(story, source, target, writer)

    def _text(self) -> str:
        a, b = (direction.story.source for direction in self.directions)
        lines = [
            "clusters = A, B",
            f"A.bootstrap.servers = {a}",
            f"B.bootstrap.servers = {b}",
            "A->B.enabled = true",
            "B->A.enabled = true",
            "topics = numbers-.*, churn-.*",
            "replication.factor = 1",
            "offset.storage.replication.factor = 1",
            "heartbeats.topic.replication.factor = 1",
            "checkpoints.topic.replication.factor = 1",
            "offset-syncs.topic.replication.factor = 1",
            "refresh.topics.interval.seconds = 1",
            "tasks.max = 1",
        ]
        return "\n".join([*lines, ""])

    def _start(self) -> Run:
        return Run(self._directory, self._text())

    # What happens.

    def go(self, minutes: float, actions_min: int = 0) -> None:
        """Live through it, then let all arrive. Fails on a lost record, and when a flow does not come back.

        A slow machine takes longer, until at least `actions_min` things have happened.
        """
        ends_at = time.monotonic() + minutes * 60
        order = self._actions()
        self._sample()
        while time.monotonic() < ends_at or self.did.total() < actions_min:
            name, act = next(order)
            self.did[name] += 1
            self._tell(f"{self.did.total()}. {name}")
            act()
            self._settle()
            self._sample()
        for direction in self.directions:
            direction.writer.stop()
        self._settle()
        for direction in self.directions:
            self._until(partial(_is_well, direction.story), f"nothing of the flow of {direction.story.alias} waits")

    def _actions(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Each once in an order of the dice, and again; whole runs are killed more seldom."""
        every: list[tuple[str, Callable[[], None]]] = [
            ("topic created, mirrored and deleted", self._churn),
            ("worker killed", self._kill_worker),
            ("broker killed", lambda: self._bounce(kill=True)),
            ("tasks begun again by order", self._restart_tasks),
            ("broker stopped", lambda: self._bounce(kill=False)),
            ("nothing, for a while", lambda: self._watch(5.0)),
        ]
        every = [(name, act) for name, act in every if self._only in name]
        rounds = 0
        while True:
            rounds += 1
            yield from self._dice.sample(every, len(every))
            if rounds % 5 == 0 and not self._only:
                yield "whole run killed", self._kill_run

    def _churn(self) -> None:
        """A topic of today on either side; that of last time goes, on both."""
        self._topics += 1
        for direction in self.directions:
            topic = f"churn-{direction.story.alias.lower()}-{self._topics}"
            client = {"bootstrap.servers": direction.story.source}
            create_topic(direction.story.source, topic, 1)
            write(client, topic, numbered(0, CHURN_RECORDS))
            remote = f"{direction.story.alias}.{topic}"
            there = {"bootstrap.servers": direction.story.target}
            self._until(lambda there=there, remote=remote: _is_whole(there, remote), f"{remote} is whole")
            for old in direction.churned:
                _delete(direction.story.source, old)
                _delete(direction.story.target, f"{direction.story.alias}.{old}")
                self._until(
                    lambda at=direction, old=old: old not in _told_of(at.story), f"{old} is not told of any more"
                )
            direction.churned = [topic]

    def _kill_worker(self) -> None:
        rings = sorted(self.run.rings())
        if rings:
            victim = psutil.Process(self._dice.choice(self._dice.choice(rings)))
            victim.kill()
            self._until(lambda: is_gone(victim.pid), "the worker is gone")

    def _bounce(self, *, kill: bool) -> None:
        broker = self._dice.choice(self.directions).cluster.broker(1)
        if kill:
            broker.kill()
        else:
            broker.stop()
        self._watch(2.0)
        broker.start()

    def _restart_tasks(self) -> None:
        file = self._directory / "soak.properties"
        file.write_text(self._text())
        done = subprocess.run([str(COMMAND), "restart", str(file)], capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, f"restart ended with {done.returncode}: {done.stderr}"

    def _kill_run(self) -> None:
        self.run.destroy()
        self.run = self._start()

    def _watch(self, seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            for direction in self.directions:
                assert direction.witness is not None
                direction.witness.read()

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        ends_at = time.monotonic() + SETTLE_SECONDS_MAX
        while not condition():
            assert self.run.running, f"the mirror ended: {self.run.errors}"
            assert time.monotonic() < ends_at, (
                f"not in {SETTLE_SECONDS_MAX:g} s: {what}. The mirror said:\n{self.run.errors}"
            )
            self._watch(0.1)

    def _settle(self) -> None:
        """All that was produced by now has arrived on both sides."""
        for direction in self.directions:
            assert direction.witness is not None
            reopened = direction.witness.reopened
            try:
                direction.witness.read_until(list(direction.writer.produced), SETTLE_SECONDS_MAX)
            except AssertionError as late:
                flow = f"the flow of {direction.story.alias}"
                ends = end_offsets(direction.story.source, direction.story.topic, PARTITIONS)
                raise AssertionError(
                    f"{flow}: {late}; the source ends at {ends}. The mirror said:\n{self.run.stacks()}"
                ) from None
            if times := direction.witness.reopened - reopened:
                self._tell(f"   {direction.story.alias}: the witness was opened again {times} times")
            if direction.writer.reopened:
                self._tell(
                    f"   {direction.story.alias}: the writer was opened again {direction.writer.reopened} times so far"
                )

    # How it was.

    def _sample(self) -> None:
        """Memory by role while nothing is broken; leases: no more rings than tasks, each with its two ends."""
        self._until(lambda: len(list(self.run.rings())) == len(self.directions), "each flow has its ring")
        self._until(lambda: len(open_rings(self.run.processes())) == len(self.directions), f"no other {RING} is open")
        for role, size in _memory_by_role(self.run).items():
            self.memory.setdefault(role, []).append(size)

    def growth(self) -> dict[str, tuple[int, int]]:
        """Median bytes of each role in the first and in the last third of the samples."""
        thirds = {}
        for role, sizes in self.memory.items():
            if len(sizes) >= (SAMPLES_OF_ALL_MIN if role == ALL else SAMPLES_MIN):
                third = len(sizes) // 3
                thirds[role] = (int(statistics.median(sizes[:third])), int(statistics.median(sizes[-third:])))
        return thirds

    def assert_flat(self) -> None:
        for role, (first, last) in self.growth().items():
            assert last - first < GROWTH_BYTES_MAX, f"{role}: {first >> 20} MB became {last >> 20} MB"

    def end(self) -> None:
        """A clean stop; nothing of it is left."""
        self.run.stop(30)
        self.run.close()

    def report(self) -> list[str]:
        """Lines of a page."""
        lines = ["| flow | records | repeated |", "|---|---|---|"]
        for direction in self.directions:
            assert direction.witness is not None
            records = sum(len(log.first) for log in direction.witness.logs)
            lines.append(f"| of {direction.story.alias} | {records:,} | {direction.witness.repeats:,} |")
        lines += ["", "| what happened | times |", "|---|---|"]
        lines += [f"| {name} | {times} |" for name, times in sorted(self.did.items())]
        lines += ["", "| memory of | first third | last third |", "|---|---|---|"]
        lines += [
            f"| {role} | {first / 1e6:.0f} MB | {last / 1e6:.0f} MB |" for role, (first, last) in self.growth().items()
        ]
        return lines


def _memory_by_role(run: Run) -> dict[str, int]:
    """What the largest process of each kind has for itself (USS), and what all have together (PSS).

    PSS of one process says little: it grows when others that share its pages end. Spark's workers read and write by
    turns, so they are one kind.
    """
    workers = {pid for pair in run.rings() for pid in pair}
    sizes: dict[str, list[int]] = {}
    everything = 0
    for process in run.processes():
        with suppress(psutil.Error, OSError):
            memory = process.memory_full_info()
            role = "a reader or writer" if process.pid in workers else _role(run, process)
            sizes.setdefault(role, []).append(memory.uss)
            everything += memory.pss
    return {**{role: max(found) for role, found in sizes.items()}, ALL: everything}


def _role(run: Run, process: psutil.Process) -> str:
    if process.pid == run.pid:
        return "driver"
    return "JVM" if process.name() == "java" else "another Python process"


def _is_whole(client: dict[str, str], topic: str) -> bool:
    """Every record is there. At least once: a task that begins again at this moment repeats some."""
    try:
        if count_records(client, topic) < CHURN_RECORDS:
            return False
        return {seen.value for seen in read_topic(client, topic)[0]} == {
            note.value for note in numbered(0, CHURN_RECORDS)
        }
    except KafkaException:
        return False


def _is_well(story: Story) -> bool:
    """Idle partitions too: it is over when their broker answers again."""
    status = board_of({"bootstrap.servers": story.target}, story.alias).status()
    return not (status.faults or status.failed or status.problem)


def _told_of(story: Story) -> set[str]:
    """The source topics that the flow's status has."""
    return {where.topic for where in board_of({"bootstrap.servers": story.target}, story.alias).partitions}


def _delete(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_topics([topic]).values():
        done.result(60)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="of the dice (default: 1)")
    parser.add_argument("--only", metavar="TEXT", default="", help="only what has this in its name")
    parser.add_argument("--page", type=Path, help="a page to write the result to")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="sparkmirror-soak-") as directory,
        Soak(Path(directory), args.seed, only=args.only) as soak,
    ):
        soak.go(args.minutes)
        soak.end()
        report = [f"{args.minutes:g} minutes, seed {args.seed}.", "", *soak.report(), ""]
        print("\n".join(report))
        soak.assert_flat()
        if args.page:
            args.page.write_text("\n".join([PAGE_HEAD, *report]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
