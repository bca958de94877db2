"""The end of a history in which offsets are kept and names stay: the mirror has ended, the other cluster is written to,
and the reverse flow, whose start the product's steps have set, mirrors that home at the same offsets. In some the old
primary has records that were not mirrored."""

from random import Random
from typing import TYPE_CHECKING

from tests.memory_journal import MemoryJournal
from tests.simulation.cluster import Partition
from tests.simulation.failing_back import steps_back
from tests.simulation.mirror import Mirror
from tests.simulation.scheduler import Process, SimKilled

from sparkmirror.batch.header import parse_header, stamp
from sparkmirror.batch.records import encode_batch
from sparkmirror.config.flow.flows import FlowConfig, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.errors import SparkMirrorError
from sparkmirror.model import TopicPartition
from sparkmirror.operations.cluster_pair import open_sides
from sparkmirror.operations.steps import take_steps

if TYPE_CHECKING:
    from tests.simulation.history import Scene

_SETTLES_SECONDS, _STEPS_SECONDS_MAX, _MIRRORS_SECONDS_MAX, _AFTER_SECONDS = 15.0, 120.0, 120.0, 3.0
_WRITER_ID = 11_000_000
_LOST_SHARE, _BEFORE_SHARE = 0.3, 0.5
"""How often the old primary has more than was mirrored, and the other cluster is written to before the steps."""


class WayHome:
    """`starts` are the partitions that keep their offsets, each with the offset at which the reverse flow begins: the
    end of its log on the old primary, and of an empty one, whose start is filled if need be, the beginning of the other
    log."""

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene
        self._world = scene.world
        self._starts: dict[TopicPartition, int] = {}
        self._problem = ""

    def play(self) -> None:
        """With all well, and nothing written to the source any more."""
        scene, world = self._scene, self._world
        random = Random(f"way home of {scene.script.seed}")
        is_lost, is_before = random.random() < _LOST_SHARE, random.random() < _BEFORE_SHARE
        scene.end_mirrors()
        for partition in scene.sources() if is_lost else ():
            scene.producers.write_batch(partition)
        if is_before:
            self._write_all()
        world.run(world.now + _SETTLES_SECONDS)
        before = {one.where: one.log.high_watermark for one in scene.sources()}
        process = Process(world, "way home")
        process.spawn(lambda: self._take_steps(process), "steps")
        if not world.run(world.now + _STEPS_SECONDS_MAX, lambda: not process.is_alive) or self._problem:
            scene.checker.fail(f"the way home is not prepared: {self._problem or 'it takes too long'}")
            process.kill()
            return
        if not is_before:
            self._write_all()
        self._mirror()
        for where, end in before.items():
            self._judge(where, end)

    def _take_steps(self, process: Process) -> None:
        journal = MemoryJournal()

        def tell(step: str, sentence: str) -> None:
            self._world.tell(f"way home: {step}: {sentence}")

        try:
            with open_sides(self._scene.flow, "failback") as pair:
                take_steps(steps_back(self._scene, pair), journal, tell)
            noted = journal.load().steps["kept offsets"].note["positions"]
            self._starts = {TopicPartition(one["topic"], one["partition"]): one["after"] for one in noted}
            self._starts = self._filled() | self._starts
        except SimKilled:
            raise
        except SparkMirrorError as problem:
            self._problem = str(problem)
        except Exception as bug:
            self._problem = repr(bug)
            self._world.bugs.append(bug)
        finally:
            process.is_alive = False

    def _filled(self) -> dict[TopicPartition, int]:
        found = {}
        for one in self._scene.sources():
            away = self._scene.target.partition(TopicPartition(self._scene.remote, one.where.partition))
            end = one.log.high_watermark
            if away is not None and one.log.start == end and end in (0, away.log.start):
                found[one.where] = away.log.start
        return found

    def _write_all(self) -> None:
        topic = self._scene.target.topics.get(self._scene.remote)
        for partition in topic.partitions if topic is not None else ():
            self._write(partition)

    def _write(self, partition: Partition) -> None:
        """As the primary that the other cluster is now: records, and a transaction whose marker leaves a hole."""
        log, producer_id = partition.log, _WRITER_ID + partition.where.partition
        for number in range(3):
            records = [
                (b"key", b"home %d/%d/%d" % (partition.where.partition, number, one)) for one in range(number + 1)
            ]
            data = bytearray(encode_batch(records, timestamp=int(self._world.wall * 1000)))
            if number == 1:
                view = memoryview(data)
                stamp(view, 0, parse_header(view, 0), producer_id, 0, 0, True)
            log.append(bytes(data), is_open=True)
            if number == 1:
                log.add_marker(producer_id, 0, commits=True)
        self._scene.target.replicate(partition)

    def _mirror(self) -> None:
        scene, world = self._scene, self._world
        for partition in scene.sources():
            partition.log.sequences = scene.target.sequences
        mirror = Mirror(world, scene.net, _flow_home(scene), "mirror home")
        scene.mirrors.append(mirror)
        world.run(world.now + _MIRRORS_SECONDS_MAX, self._is_home)
        world.run(world.now + _AFTER_SECONDS)
        mirror.kill()

    def _pair(self, where: TopicPartition) -> tuple[Partition, Partition]:
        home = self._scene.source.partition(where)
        away = self._scene.target.partition(TopicPartition(self._scene.remote, where.partition))
        assert home is not None
        assert away is not None
        return home, away

    def _is_home(self) -> bool:
        return all(home.log.high_watermark >= away.log.high_watermark for home, away in map(self._pair, self._starts))

    def _judge(self, where: TopicPartition, end: int) -> None:
        """Behind its former end the old primary has the other one's records, at their offsets, and no more. Where the
        logs part it stays as it was."""
        home = self._scene.source.partition(where)
        start = self._starts.get(where)
        if home is None:
            return
        here = [(one.offset, one.value) for one in home.log.visible(committed=True) if one.offset >= end]
        if start is None:
            if home.log.high_watermark != end:
                self._scene.checker.fail(f"{where} is refused on the way home, and goes on behind {end}: {here[:3]}")
            return
        _, away = self._pair(where)
        committed = self._scene.script.read_committed  # else what fillers have aborted is copied, as all that was
        there = [(one.offset, one.value) for one in away.log.visible(committed=committed) if one.offset >= start]
        if (start != end and end) or here != there:
            self._scene.checker.fail(
                f"{where} has {here[:4]} behind {end} on the way home, and {there[:4]} behind {start} is to come"
            )


def _flow_home(scene: "Scene") -> FlowConfig:
    assert scene.script.kept is not None
    lines = [
        "clusters = A, B",
        "A.bootstrap.servers = A-0:9092, A-1:9092",
        "B.bootstrap.servers = B-0:9092, B-1:9092",
        "B->A.enabled = true",
        "B->A.topics = orders",
        "tasks.max = 1",
        "B->A.lease.ring.bytes = 1048576",
        "B->A.offset.flush.interval.ms = 1000",
        "B->A.preserve.offsets.enabled = true",
        f"B->A.preserve.offsets.filler = {scene.script.kept.filler}",
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    ]
    if scene.script.read_committed:
        lines.append("B.consumer.isolation.level = read_committed")
    (flow,) = parse_config(parse_properties("\n".join([*lines, ""]).encode(), "mm2")).flows
    return flow
