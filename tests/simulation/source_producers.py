"""Who writes to the source: batches on their own, and transactions that are committed, aborted, or left for a while.

Batches are appended where a leader is, without requests: it is what readers see that counts. Transactions of several
producers overlap, and other batches lie between theirs.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.cluster import Partition
from tests.simulation.log import PartitionLog, Stored
from tests.simulation.scheduler import START_SECONDS
from tests.simulation.truth import Outcome

from sparkmirror.batch.header import Codec, parse_header, stamp
from sparkmirror.batch.records import encode_batch
from sparkmirror.model import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.history import Scene

RHYTHMS = {
    "steady": (0.3, 1 << 30, 0.0), "calm": (0.8, 1 << 30, 0.0), "bursts": (0.1, 12, 4.0), "floods": (1.0, 1 << 30, 0.0),
}  # fmt: skip
"""How a source is written to: the longest pause in seconds, writes of a burst, the longest rest after it. A flood is
many batches at once, of which several are then under way to the target."""
_PRODUCERS = 3
_IN_TRANSACTION_SHARE, _ABORTED_SHARE = 0.6, 0.4
_SECONDS_MAX = (0.02, 0.3, 0.3, 2.0, 6.0)
_RETRY_SECONDS = 0.1
_UNKNOWN = object()
_CODECS = tuple(Codec)
_HANGING_SECONDS = 3.0


@dataclass(slots=True)
class _Producer:
    """A transactional producer; its ids lie far from those that a coordinator gives out. `logs` are those that its
    transaction has written to, with the sequence that each goes on with."""

    producer_id: int
    epoch: int = 0
    is_open: bool = False
    sequences: dict[int, int] = field(default_factory=dict)
    written: set[TopicPartition] = field(default_factory=set)


class SourceProducers:
    """All of a history."""

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene
        self._writes_left = 0
        self.rests_until = 0.0
        self._noted: dict[Stored, bool | None] = {}
        """What was made of the batches of transactions."""
        self._producers = [_Producer(9_000_000 + number) for number in range(_PRODUCERS)]

    def write(self) -> None:
        """A batch now and then, and bursts."""
        scene, world = self._scene, self._scene.world
        if scene.is_healed:
            return
        partitions = [one for one in scene.sources() if not self._is_quiet(one)]
        if partitions:
            partition = world.random.choice(partitions)
            sizes = (10, 20, 30) if scene.script.rhythm == "floods" else (1, 1, 1, 4)
            for _ in range(world.random.choice(sizes)):
                self.write_batch(partition)
        pause, writes, rest = RHYTHMS[scene.script.rhythm]
        self._writes_left -= 1
        if self._writes_left <= 0:
            self._writes_left = world.random.randint(1, writes)
            world.after(rest * world.random.random(), self.write)
        else:
            world.after(pause * world.random.random() ** 2, self.write)

    def _is_quiet(self, partition: Partition) -> bool:
        scene = self._scene
        if scene.world.now < self.rests_until:
            return True
        if not 0 < scene.script.writes_until < scene.world.now - START_SECONDS:
            return False
        focus = scene.focus % len(scene.sources())
        return not scene.script.quiet_focus or partition.where.partition == focus

    def write_batch(self, partition: Partition) -> None:
        scene, random = self._scene, self._scene.world.random
        if partition.leader is None or scene.source.nodes[partition.leader].frozen_until > scene.world.now:
            return
        if scene.source.acls.denies_writes(partition.leader, partition.where.topic):
            return
        scene.note_written_behind_fence(partition.where)
        count = random.choice((1, 1, 2, 5))
        values = [scene.truth.next_value(partition.where) for _ in range(count)]
        base, topic = partition.log.end, scene.source.topics[partition.where.topic]
        more = b"." * scene.script.key_bytes
        keys = [b"key-%d" % random.randrange(6) + more for _ in values]
        codec = random.choice(_CODECS) if scene.script.has_transactions else Codec.NONE
        records = zip(keys, values, strict=True)
        data = bytearray(encode_batch(records, codec, timestamp=int((scene.world.wall - scene.age_seconds) * 1000)))
        is_transactional = scene.script.has_transactions and random.random() < _IN_TRANSACTION_SHARE
        if is_transactional:
            self._stamp(random.choice(self._producers), partition, data)
        error, _ = partition.log.append(bytes(data), is_open=True)
        assert not error, f"the source refuses its producer: {error}"
        outcome = Outcome.OPEN if is_transactional else Outcome.PLAIN
        for at, value in enumerate(values):
            scene.truth.write(partition.where, value, topic.topic_id, base + at, outcome, scene.world.now)
        scene.source.replicate(partition)
        scene.source.note("written")

    def _stamp(self, producer: _Producer, partition: Partition, data: bytearray) -> None:
        world = self._scene.world
        if not producer.is_open:
            producer.is_open = True
            is_aborted, seconds = world.random.random() < _ABORTED_SHARE, world.random.choice(_SECONDS_MAX)
            world.after(seconds * world.random.random(), lambda: self._end(producer, commits=not is_aborted))
        known = partition.log.producers.get(producer.producer_id)
        if known is not None and known.epoch > producer.epoch:  # a marker of a later epoch, as a tool writes
            producer.epoch = known.epoch
        is_known = known is not None and known.epoch == producer.epoch
        sequence = known.last_sequence + 1 if known is not None and is_known else 0
        view = memoryview(data)
        stamp(view, 0, parse_header(view, 0), producer.producer_id, producer.epoch, sequence, True)
        producer.written.add(partition.where)

    def _end(self, producer: _Producer, *, commits: bool) -> None:
        """A marker for each partition, each when there is somebody to write it."""
        if not producer.is_open:
            return
        for where in sorted(producer.written):
            partition = self._scene.source.partition(where)
            if partition is not None and not self._mark(partition, producer.producer_id, commits=commits):
                self._scene.world.after(_RETRY_SECONDS, lambda: self._end(producer, commits=commits))
                return
            producer.written.discard(where)
        producer.is_open = False

    def _mark(self, partition: Partition, producer_id: int, *, commits: bool) -> bool:
        source = self._scene.source
        if partition.leader is None or source.nodes[partition.leader].frozen_until > self._scene.world.now:
            return False
        known = partition.log.producers.get(producer_id)
        epoch = 0 if known is None else known.epoch
        partition.log.add_marker(producer_id, epoch + (not self._scene.script.is_old_source), commits=commits)
        source.replicate(partition)
        self.note_outcomes(partition)
        source.note("written")
        return True

    def note_outcomes(self, partition: Partition) -> None:
        """What has become of the records of transactions, as the log says after a marker or a cut."""
        records = self._scene.truth.of(partition.where).records
        for one in partition.log.batches:
            if one.is_transactional and not one.is_control and self._noted.get(one, _UNKNOWN) != one.is_aborted:
                self._noted[one] = one.is_aborted
                outcome = {None: Outcome.OPEN, True: Outcome.ABORTED, False: Outcome.COMMITTED}[one.is_aborted]
                for record in one.records:
                    records[record.value or b""].settle(outcome)

    def note_cut(self, partition: Partition) -> None:
        """Markers that were lost leave transactions open that nobody ends, until a person does."""
        self.note_outcomes(partition)
        self._scene.world.after(_HANGING_SECONDS, lambda: self._abort_hanging(partition))

    def _abort_hanging(self, partition: Partition) -> None:
        open_here = {one.producer_id for one in self._producers if partition.where in one.written}
        for producer_id in open_producers(partition.log) - open_here:
            self._mark(partition, producer_id, commits=False)

    def heal(self) -> None:
        """All transactions end."""
        for producer in self._producers:
            self._end(producer, commits=True)
        for partition in self._scene.sources():
            self._abort_hanging(partition)


def open_producers(log: PartitionLog) -> set[int]:
    return {number for number, producer in log.producers.items() if producer.first_open is not None}
