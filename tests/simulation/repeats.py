"""What a mirror that delivers at least once may repeat: what lies behind the position that the ledger had when its task
was planned. Records before that come again only where the source's log was cut."""

from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.cluster import Partition
from tests.simulation.log import Stored
from tests.simulation.scheduler import Process
from tests.simulation.truth import CUT, Written

from sparkmirror.ledger import connect
from sparkmirror.ledger.positions import decode_value
from sparkmirror.model import Position, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.history import Scene


class Standing(NamedTuple):
    """What the ledger said when a task was about to be planned: positions, and where the logs of Connect's ended."""

    positions: dict[TopicPartition, Position]
    ends: list[int]


class Repeats:
    """Hears of each batch that comes to the remote topic, and of each position that is stored."""

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene
        self._last: dict[Partition, Stored] = {}
        self._generations: dict[tuple[Partition, bytes], tuple[int, tuple[int, int]]] = {}
        """Of each key the highest generation that was stored, and the identity of the producer that stored it."""
        scene.target.appends.append(self._hear)
        if scene.script.processes == 1:
            scene.target.appends.append(self._hear_position)

    def standing(self) -> Standing:
        scene, view = self._scene, self._scene.checker.view()
        known = {one.where: view.position(one.where) for one in scene.sources()}
        ends = [one.log.end for one in self._offsets()]
        return Standing({where: position for where, position in known.items() if position is not None}, ends)

    def _offsets(self) -> list[Partition]:
        topic = self._scene.target.topics.get(self._scene.ledger.offsets)
        return [] if topic is None else topic.partitions

    def _hear(self, partition: Partition, process: Process | None) -> None:
        batch = partition.log.batches[-1]
        is_new = self._last.get(partition) is not batch  # else the leader had it, and has appended nothing
        if process is None or process.standing is None or partition.where.topic != self._scene.remote or not is_new:
            return
        self._last[partition] = batch
        where = TopicPartition("orders", partition.where.partition)
        position, truth = process.standing.positions.get(where), self._scene.truth.of(where)
        if position is None or CUT in truth.source_losses:
            return
        own = [truth.records.get(record.value or b"") for record in batch.records]
        below = [
            one for one in own if one is not None and one.topic_id == position.topic_id and one.offset < position.offset
        ]
        if below:
            self._judge(where, process, below)

    def _hear_position(self, partition: Partition, process: Process | None) -> None:
        """Who was replaced stores no position behind its successor's of the same partition. Who took the producer's id
        later was not replaced: the successor is, and has stored that before it knew."""
        if partition.where.topic != self._scene.ledger.positions:
            return
        batch = partition.log.batches[-1]
        holder = batch.producer_id, batch.producer_epoch
        for record in batch.records:
            stored, key = decode_value(record.value), record.key or b""
            if stored is None:
                continue
            known, by = self._generations.setdefault((partition, key), (stored.generation, holder))
            is_later_holder = holder[0] == by[0] and holder[1] > by[1]
            if stored.generation < known and not (is_later_holder or self._knows_no_fence(process)):
                name = "nobody" if process is None else process.name
                self._scene.checker.fail(f"{key.decode()}: {name} is of generation {stored.generation}, behind {known}")
            if stored.generation >= known:
                self._generations[partition, key] = stored.generation, holder

    def _knows_no_fence(self, process: Process | None) -> bool:
        """Whether a cut of the ledger may have taken what keeps a replaced mirror's process out."""
        return process is not None and self._scene.has_struck("cut ledger") and self._scene.is_replaced(process)

    def _judge(self, where: TopicPartition, process: Process, below: list[Written]) -> None:
        """Who has slept may have set the ledger back before it was read."""
        arrived = {value for value, _ in self._scene.checker.arrived(where)}
        lowest = self._lowest(where, process.standing)
        again = [one for one in below if one.value in arrived and one.offset < lowest]
        if again:
            self._scene.checker.fail(
                f"{where}: {process.name} sends {again[0].value.decode()} at {again[0].offset} again, and the ledger "
                f"stood at {lowest} before it was planned"
            )

    def _lowest(self, where: TopicPartition, standing: Standing) -> int:
        """The lowest position since then, 0 where nobody can tell."""
        if self._scene.has_struck("cut ledger"):
            return 0
        lowest, key = standing.positions[where].offset, connect.encode_key(self._scene.flow.connector, where)
        for partition, end in zip(self._offsets(), standing.ends, strict=False):
            if partition.log.is_compacted:
                return 0
            later = (one for one in partition.log.batches if one.base >= end and not one.is_control)
            own = (record.value for one in later for record in one.records if record.key == key)
            stored = (connect.decode_value(value) for value in own)
            lowest = min([lowest, *(0 if offset is None else offset for offset in stored)])
        return lowest
