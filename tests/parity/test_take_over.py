"""From a live MirrorMaker 2 4.3.0 to us and back, by one file, while records and commits go on."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from tests.faults.numbered import NumberedWriter, create_topic, end_offsets
from tests.faults.story import PARTITIONS, Story
from tests.oracle import read_messages
from tests.parity.mirror_maker import mirror_maker
from tests.waiting import wait_until

from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.groups import GroupOffsetsClient, has_members
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Cluster, Connector, TopicPartition
from sparkmirror.testing.kafka import KafkaCluster

PER_SECOND = 400
WAIT_SECONDS = 90.0
SETTINGS = (
    "groups = .*",
    "groups.exclude = oracle, ends",
    "sync.group.offsets.enabled = true",
    "sync.group.offsets.interval.seconds = 1",
    "emit.checkpoints.interval.seconds = 1",
    "refresh.groups.interval.seconds = 1",
    "offset.flush.interval.ms = 1000",
    "offset.lag.max = 10",
    "emit.heartbeats.enabled = false",
    "sync.topic.acls.enabled = false",
    "config.storage.replication.factor = 1",
    "status.storage.replication.factor = 1",
    "offset-syncs.topic.replication.factor = 1",
    "checkpoints.topic.replication.factor = 1",
)
EXACTLY_ONCE = ("backup.exactly.once.source.support = enabled",)
ON_TARGET = "syncs on the target"


class Travellers:
    """A group that goes on on the source, and what is seen of it on the target, again and again."""

    def __init__(self, story: Story, group: str, writer: NumberedWriter) -> None:
        source = Cluster(story.alias, {"bootstrap.servers": story.source})
        self._admins = [open_admin(cluster, "test") for cluster in (source, story.cluster())]
        self._source, self._target = (GroupOffsetsClient(admin, 20.0) for admin in self._admins)
        self._group, self._writer = group, writer
        self._partitions = [TopicPartition(story.topic, number) for number in range(PARTITIONS)]
        self._remotes = [TopicPartition(story.remote_topic, number) for number in range(PARTITIONS)]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.committed = [0] * PARTITIONS
        self.seen: list[list[int]] = []

    def go_on(self) -> list[int]:
        """A consumer reads to the end and commits; where it stands."""
        self.committed = list(self._writer.produced)
        offsets = {where: Committed(at) for where, at in zip(self._partitions, self.committed, strict=True)}
        assert self._source.commit(self._group, offsets) == {}
        return self.committed

    def on_target(self) -> list[int]:
        found, failed = self._target.committed([self._group])
        assert failed == {}
        return [found[self._group].get(where, Committed(0)).offset for where in self._remotes]

    def _look(self) -> None:
        while not self._over.wait(0.1):
            self.seen.append(self.on_target())

    @contextmanager
    def watched(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()
            for admin in self._admins:
                admin.close()

    def assert_never_back(self) -> None:
        for column in zip(*self.seen, strict=True):
            falls = [(one, two) for one, two in pairwise(column) if two < one]
            assert falls == [], "the group was moved backwards on the target"


@pytest.fixture(params=["at least once", "exactly once", ON_TARGET])
def guarantee(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.long
def test_a_live_mirror_maker_is_taken_over_and_takes_over_again(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    unique: Callable[[str], str],
    tmp_path: Path,
    guarantee: str,
) -> None:
    alias, topic = unique("east"), unique("numbers")
    story = Story(tmp_path, source_cluster.bootstrap_servers, target_cluster.bootstrap_servers, alias, topic)
    create_topic(story.source, topic, PARTITIONS)
    once = guarantee == "exactly once"
    lines = (*SETTINGS, *(EXACTLY_ONCE if once else ()))
    lines += ("offset-syncs.topic.location = target",) if guarantee == ON_TARGET else ()
    with story.writer(per_second=PER_SECOND) as writer, mirror_maker(tmp_path, story.text(*lines)) as theirs:
        group = Travellers(story, unique("billing"), writer)
        with group.watched():
            theirs.launch()
            _wait_until_grown(story, theirs.wait_until)
            _go_on_until_moved(group, theirs.wait_until)

            with story.run(lines=lines) as beside:
                refused = beside.finish(60)
            assert refused.status == 1
            assert f"group {alias}-mm2 on backup has members" in refused.errors
            assert "127.0.0.1" in refused.errors, "it is named by its address"
            theirs.kill()
            _wait_until_left(story)
            repeated = 0 if once else _not_committed(story)

            with story.run(lines=lines) as ours:
                _wait_until_grown(story, ours.wait_until)
                _go_on_until_moved(group, ours.wait_until)
                assert ours.stop(30).status == 0

            theirs.launch()
            _wait_until_grown(story, theirs.wait_until)
            _go_on_until_moved(group, theirs.wait_until)
            writer.stop()
            theirs.wait_until(lambda: story.positions() == writer.produced, "mirrored all", WAIT_SECONDS)
            theirs.stop()
            at = group.on_target()
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == repeated, "only what MirrorMaker had not committed when it was killed came again"
    group.assert_never_back()
    _assert_not_beyond(story, at, group.committed)


def _wait_until_grown(story: Story, wait: Callable[[Callable[[], bool], str, float], object]) -> None:
    """More records have reached every target partition than there are now."""
    before = story.arrived()
    wait(
        lambda: all(now > then + PER_SECOND for now, then in zip(story.arrived(), before, strict=True)),
        "mirrors records",
        WAIT_SECONDS,
    )


def _go_on_until_moved(group: Travellers, wait: Callable[[Callable[[], bool], str, float], object]) -> None:
    """The group commits on the source and follows on the target."""
    before = group.on_target()
    group.go_on()
    wait(
        lambda: all(now > then for now, then in zip(group.on_target(), before, strict=True)),
        "moves the group on the target",
        WAIT_SECONDS,
    )


def _wait_until_left(story: Story) -> None:
    """The killed worker is in its group until its session is over."""
    with open_admin(story.cluster(), "test") as admin:
        wait_until(lambda: not has_members(admin, f"{story.alias}-mm2"), "MirrorMaker's session ends", 60)


def _not_committed(story: Story) -> int:
    """Records on the target that MirrorMaker's own positions do not cover."""
    view, topic = LedgerView(Connector.of_dedicated_mode(story.alias)), ledger_topics(story.alias).offsets
    with open_tail(story.cluster(), "test", [TopicPartition(topic, number) for number in range(25)]) as tail:
        for record in tail.read_to_end(20):
            view.take_connect(record.key, record.value)
    committed = sum(position.offset for position in view.positions.values())
    return sum(end_offsets(story.target, story.remote_topic, PARTITIONS)) - committed


def _assert_not_beyond(story: Story, at: Sequence[int], committed: Sequence[int]) -> None:
    """Where the group stands on the target it misses nothing: its next record is not behind that on the source."""
    for partition, messages in read_messages({"bootstrap.servers": story.target}, story.remote_topic):
        following = [int((one.value() or b"")[:11]) for one in messages if (one.offset() or 0) >= at[partition]]
        assert following[:1] <= [committed[partition]], f"partition {partition}: record {following[:1]} would be next"
