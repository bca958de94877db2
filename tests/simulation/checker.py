"""Judges a history: what the target and the ledger hold, against what the source has had."""

from operator import attrgetter
from typing import TYPE_CHECKING
from uuid import UUID

from tests.simulation.cluster import Partition
from tests.simulation.endings import wrong_endings
from tests.simulation.folding import Folded
from tests.simulation.log import Stored
from tests.simulation.retained import grown
from tests.simulation.scheduler import Process
from tests.simulation.truth import CUT, DELETED, MADE_AGAIN, Outcome, PartitionTruth, Written

from sparkmirror.batch.records import Record
from sparkmirror.ledger import gaps as gap_ledger
from sparkmirror.ledger import map_records
from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.map_records import ChunkName, MapView
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import NO_TOPIC_ID, Position, TopicPartition
from sparkmirror.pipeline.fetch.loss import EMPTY, RECREATED, RETENTION, TRUNCATED
from sparkmirror.policy.loss import CONTINUE, DONE

if TYPE_CHECKING:
    from tests.simulation.history import Scene

_SHOWN_MAX = 4
_LOSSES: dict[str, set[str]] = {RETENTION: {DELETED}, TRUNCATED: {CUT, MADE_AGAIN}, RECREATED: {MADE_AGAIN}}
"""What explains a gap, by its cause."""
_FORMER_LEADERS = frozenset({"isolate leader", "wake stale"})
"""Faults in which a former leader answers from what it had."""
_offset = attrgetter("offset")


class Checker:
    """`problems` are sentences."""

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene
        self.problems: list[str] = []
        connector = scene.flow.connector
        self._ledger = Folded(lambda: LedgerView(connector), _take_position)
        self._maps = Folded(lambda: MapView("A"), lambda view, record: view.take(record.key, record.value))
        self._copies: dict[TopicPartition, tuple[list[tuple[bytes, int]], int, int, object, dict[bytes, int]]] = {}
        self._arrived: dict[TopicPartition, Folded[list[tuple[bytes, int]]]] = {}
        self._of_sleepers: dict[tuple[UUID, TopicPartition, int], tuple[Process, float]] = {}
        """Places, by the target's topic id, of what processes that have slept have sent, and when."""
        self._of_replaced: set[tuple[UUID, TopicPartition, int]] = set()
        """Places of what mirrors have sent since the next one was started."""
        scene.target.appends.append(self._note_sender)
        scene.world.recorded.append(self._hear_recorded)
        scene.world.mapped.append(self._hear_mapped)

    def _note_sender(self, partition: Partition, process: Process | None) -> None:
        if process is None or partition.where.topic != self._scene.remote:
            return
        where, log = TopicPartition("orders", partition.where.partition), self._remote_id()
        last = partition.log.batches[-1:]  # none where all of a log is deleted, and a batch comes a second time
        places = [(log, where, record.offset) for one in last for record in one.records]
        if process.was_held:
            self._of_sleepers.update(dict.fromkeys(places, (process, self._scene.world.now)))
        if self._scene.is_replaced(process):
            self._of_replaced.update(places)

    def _remote_id(self) -> UUID:
        topic = self._scene.target.topics.get(self._scene.remote)
        return NO_TOPIC_ID if topic is None else topic.topic_id

    def _hear_recorded(self, gap: Gap) -> None:
        """No fault takes from the gap ledger what its replicas have; who has the same to say later replaces it. What it
        says was done is what the process that records it was started to do."""
        name = self._scene.world.thread().process.name
        mine = next(one for one in self._scene.mirrors if name.startswith(f"{one.name} "))
        if gap.action != (asked := DONE[mine.flow.on_data_loss.of(gap.partition.topic)]):
            self.fail(f"{gap.partition}: {gap.cause}: `{gap.action}`, and by on.data.loss it is `{asked}`")
        if not self._is_stored(self._scene.ledger.gaps, gap_ledger.encode_key("A", gap)):
            told = f"{gap.cause} {gap.expected} to {gap.resumed}"
            self.fail(f"{gap.partition}: a gap counts as recorded that the gap ledger lacks: {told}")

    def _hear_mapped(self, where: TopicPartition, name: ChunkName) -> None:
        if not self._is_stored(self._scene.ledger.offset_map, map_records.encode_key("A", where, name)):
            self.fail(f"{where}: the map counts as stored that has a cut of the target's log, and is not")

    def _is_stored(self, topic: str, key: bytes) -> bool:
        return any(record.key == key for _, one in self.stored(topic) for record in one.records)

    def fail(self, problem: str) -> None:
        if len(self.problems) < 10:
            at = self._scene.world.now - 1000.0
            self.problems.append(f"[{at:.3f} s] {problem}")
            self._scene.world.tell(f"FOUND: {problem}")

    # What the ledger says.

    def stored(self, name: str) -> list[tuple[Partition, Stored]]:
        topic = self._scene.target.topics.get(name)
        members = topic.partitions if topic is not None else []
        return [(partition, one) for partition in members for one in self._replicated(partition)]

    def _replicated(self, partition: Partition) -> list[Stored]:
        end = partition.log.high_watermark
        return [one for one in partition.log.batches if one.last < end and self._is_committed(one)]

    def _is_committed(self, one: Stored) -> bool:
        """Or decided to be: then nothing can undo it."""
        if one.is_control or one.is_aborted:
            return False
        if one.is_aborted is None:
            known = self._scene.target.coordinator.known.values()
            return any(t.producer_id == one.producer_id and t.state == "PrepareCommit" for t in known)
        return True

    def view(self) -> LedgerView:
        ledger = self._scene.ledger
        batches = [*self.stored(ledger.offsets), *self.stored(ledger.positions)]
        return self._ledger.of(batches)

    def is_of_this_log(self, where: TopicPartition) -> bool:
        """Whether the ledger's position is one in the logs that both clusters have now."""
        record, topic = self.view().records.get(where), self._scene.source.topics.get(where.topic)
        remote = self._scene.target.topics.get(self._scene.remote)
        if record is None or topic is None or remote is None or record.position.topic_id != topic.topic_id:
            return False
        return record.extent is not None and record.extent.topic_id == remote.topic_id

    def maps(self) -> MapView:
        return self._maps.of(self.stored(self._scene.ledger.offset_map))

    def _gaps(self) -> list[Gap]:
        pairs = [(r.key, r.value) for _, one in self.stored(self._scene.ledger.gaps) for r in one.records]
        return gap_ledger.list_gaps("A", pairs)

    def arrived(self, where: TopicPartition) -> list[tuple[bytes, int]]:
        """Values on the target with their offsets, as the promised consumer sees them."""
        remote = TopicPartition(self._scene.remote, where.partition)
        partition = self._scene.target.partition(remote)
        if partition is None:
            return []
        known = self._arrived.setdefault(where, Folded(list[tuple[bytes, int]], _take_arrived))
        return known.of((partition, one) for one in self._replicated(partition))

    def copies(self, where: TopicPartition, arrived: list[tuple[bytes, int]]) -> dict[bytes, int]:
        """The last place of each value on the target, without records that are on their way again: those behind the
        ledger's position that lie before an earlier record, as after a kill."""
        records, position = self._scene.truth.of(where).records, self.view().position(where)
        known = self._copies.get(where)
        if known is not None and known[0] is arrived and known[1:4] == (len(arrived), len(records), position):
            return known[4]
        last, highest, begin = dict(arrived), -1, 1 << 62 if position is None else position.offset
        for value, one in records.items():
            offset = last.get(value, -1)
            if offset >= highest:
                highest = offset
            elif offset >= 0 and one.offset >= begin:
                del last[value]
        self._copies[where] = arrived, len(arrived), len(records), position, last
        return last

    # Now and then.

    def look(self) -> None:
        """No position beyond what is there (invariant 3), and no translated offset (invariant 7). Where markers are
        left out, what is there may not be seen yet."""
        if self._scene.readers is not None:
            self._scene.readers.look()
        if self._scene.script.leaves_markers_out:
            return
        view, gaps = self.view(), self._gaps()
        for partition in self._scene.sources():
            where = partition.where
            truth = self._scene.truth.of(where)
            position = view.position(where)
            topic_id = self._scene.source.topics[where.topic].topic_id
            landed = self.arrived(where)
            if not truth.target_losses and not truth.source_losses:
                self._judge_map(where, truth, landed)
            if position is None or position.topic_id != topic_id:
                continue
            if truth.truncations and not _lies_in(position, partition):
                continue
            arrived, end = {value for value, _ in landed}, position.offset
            missing = [
                one
                for value, one in truth.records.items()
                if value not in arrived
                and (one.offset < end or one.topic_id != topic_id)
                and self._is_owed(one, truth, arrived, gaps, where)
            ]
            if missing:
                self.fail(f"{where} stands at {position.offset} in the ledger, and the target lacks {_name(missing)}")

    def _is_owed(
        self, one: Written, truth: PartitionTruth, arrived: set[bytes], gaps: list[Gap], where: TopicPartition
    ) -> bool:
        if (
            one.topic_id in truth.blind
            or one.value in arrived
            or one.value in truth.lost_on_target
            or one.is_truncated
            or one.is_compacted
            or self._is_hidden(one, where)
        ):
            return False
        is_there, is_vague = self._is_there(one, where), self._is_vague(one, where)
        counted = (gap for gap in gaps if not is_there or gap.cause == EMPTY)
        return not any(_covers(gap, one, where, is_vague=is_vague) for gap in counted)

    def _is_there(self, one: Written, where: TopicPartition) -> bool:
        """Whether a record that was neither cut nor compacted away can still be read on the source: no gap has it."""
        partition, topic = self._scene.source.partition(where), self._scene.source.topics.get(where.topic)
        if partition is None or topic is None or topic.topic_id != one.topic_id:
            return False
        return one.offset >= partition.log.start

    def _is_hidden(self, one: Written, where: TopicPartition) -> bool:
        """Whether a mirror of committed records must not have it, or never can: no transaction ends in a log that is
        gone."""
        if not self._scene.script.read_committed:
            return False
        if one.may_be_passed:
            return True
        topic = self._scene.source.topics.get(where.topic)
        return one.outcome is Outcome.OPEN and (topic is None or topic.topic_id != one.topic_id)

    def _is_vague(self, one: Written, where: TopicPartition) -> bool:
        """What was written over a cut end and is gone before it was read: nobody can know that it has been."""
        return one.is_over_cut and not self._is_there(one, where)

    def is_caught_up(self) -> bool:
        view = self.view()
        for partition in self._scene.sources():
            position, end = view.position(partition.where), end_of_batches(partition)
            topic_id = self._scene.source.topics[partition.where.topic].topic_id
            if position is None or position.topic_id != topic_id or position.offset < end:
                return False
            if self._is_before_cut(partition):
                return False
        return True

    def _is_before_cut(self, partition: Partition) -> bool:
        """Whether the stored position is of the source's log as it was before a cut: who reads it next finds that,
        though it lies at the end of the log or beyond. Nobody may have run since."""
        position = self.view().position(partition.where)
        if position is None or not self._scene.truth.of(partition.where).truncations:
            return False
        is_beyond = position.offset > partition.log.high_watermark
        return is_beyond or (bool(position.epochs) and not _lies_in(position, partition))

    # At the end.

    def judge(self, *, is_done: bool) -> None:
        self.look()
        if not is_done:
            self._tell_stall()
        gaps = self._gaps()
        for partition in self._scene.sources():
            self._judge_partition(partition, gaps, is_done=is_done)
        if self._scene.readers is not None and is_done:
            self._scene.readers.judge()
        self._judge_rest(is_done=is_done)

    def _judge_rest(self, *, is_done: bool) -> None:
        """What is neither of the source's partitions nor of a group's."""
        scene = self._scene
        is_lossy = any(one.source_losses or one.target_losses for one in scene.truth.partitions.values())
        found = wrong_endings(scene.mirrors, is_lossy=is_lossy)
        if is_done:
            found += [*scene.losses.problems(), *scene.unsettled(), *grown(scene)]
        for problem in found:
            self.fail(problem)

    def _tell_stall(self) -> None:
        view = self.view()
        for partition in self._scene.sources():
            position = view.position(partition.where)
            if position is None or position.offset < end_of_batches(partition):
                mirror = self._scene.mirror
                failed = {str(failing): why for failing, why in mirror.failed.items()}
                self.fail(
                    f"{partition.where} does not move: it stands at {position}, the source ends at "
                    f"{partition.log.high_watermark}; mirror over: {mirror.is_over} {mirror.reason}; failed: {failed}"
                )

    def _judge_partition(self, partition: Partition, gaps: list[Gap], *, is_done: bool) -> None:
        where = partition.where
        truth = self._scene.truth.of(where)
        arrived = self.arrived(where)
        values = {value for value, _ in arrived}
        own = [gap for gap in gaps if gap.partition == where]
        if is_done:
            missing = [one for one in truth.records.values() if self._is_owed(one, truth, values, own, where)]
            if missing:
                self.fail(f"{where}: {len(missing)} records are neither on the target nor in a gap: {_name(missing)}")
            self._judge_open(where)
        if strange := [value for value in values if value not in truth.records]:
            self.fail(f"{where}: the target holds what the source never had: {strange[:3]}")
        if self._scene.script.read_committed:
            self._judge_committed(where, [truth.records[value] for value in values if value in truth.records])
        self._judge_order(where, truth, [(truth.records[v], at) for v, at in arrived if v in truth.records])
        self._judge_gaps(partition, truth, own)

    def _judge_open(self, where: TopicPartition) -> None:
        """Where a marker was left out, consumers see nothing behind a transaction that no coordinator ends any more."""
        scene, remote = self._scene, TopicPartition(self._scene.remote, where.partition)
        partition = scene.target.partition(remote)
        if partition is None or not scene.script.leaves_markers_out:
            return
        known = scene.target.coordinator.known.values()
        ending = {one.producer_id for one in known if one.is_unended and remote in one.partitions}
        left = [one for one in partition.log.batches if one.is_aborted is None and one.producer_id not in ending]
        if left:
            count, first = sum(len(one.records) for one in left), left[0].base
            self.fail(f"{where}: {count} records from {first} on lie open on the target, and are nobody's to end")

    def _judge_gaps(self, partition: Partition, truth: PartitionTruth, own: list[Gap]) -> None:
        """Each is of a loss that has happened, and has no record that can be read on the source still."""
        where = partition.where
        for gap in own:
            told = f"{gap.cause} {gap.expected} to {gap.resumed}"
            causes = truth.source_losses & _LOSSES.get(gap.cause, set())
            if not (truth.target_losses if gap.is_on_target else causes):
                self.fail(f"{where}: a gap that nothing explains: {told}")
            if gap.cause == RECREATED and gap.topic_id in truth.logs[:1]:
                self.fail(f"{where}: a gap leads to the first log of all, as if it had been made again: {told}")
            left = [one for one in truth.records.values() if self._is_left(gap, one, where)]
            if left:
                self.fail(f"{where}: a gap has what the source has still: {told}, {_name(left)}")

    def _is_left(self, gap: Gap, one: Written, where: TopicPartition) -> bool:
        is_in_gap = not gap.is_on_target and gap.topic_id == one.topic_id and gap.expected <= one.offset < gap.resumed
        return is_in_gap and not (one.is_truncated or one.is_compacted) and self._is_there(one, where)

    def target_gaps(self, where: TopicPartition) -> frozenset[Gap]:
        """Losses on the target that the ledger knows of."""
        return frozenset(gap for gap in self._gaps() if gap.partition == where and gap.is_on_target)

    def _judge_committed(self, where: TopicPartition, arrived: list[Written]) -> None:
        if never := [one for one in arrived if not one.may_be_read]:
            self.fail(f"{where}: the target holds what was never committed: {_name(never)}")

    def _judge_order(self, where: TopicPartition, truth: PartitionTruth, arrived: list[tuple[Written, int]]) -> None:
        """What was passed as aborted, until a cut took the marker away and another one committed it, may come late. So
        may what was under way when the target's log was cut, or when the next one began, which knows no producer; where
        the marker that aborted it is cut off, it may also come twice. At least once a process that has slept sends what
        it had under way of the source's former log behind what its successor has sent of the next one, and so what
        compaction has taken since, which its successor has not read. One that is replaced while it runs sends side by
        side with its successor, and one of them may have read before a cut of the source what the other one read behind
        it. A former leader gives its records to who begins where the cut is not known, as its predecessor was killed
        before it had stored that."""
        seen: set[int] = set()
        at_least_once, log = not self._scene.script.exactly_once, self._remote_id()
        latest, of_latest, is_of_replaced = -1, NO_TOPIC_ID, False
        for record, offset in arrived:
            rank, is_in_order = record.rank, truth.is_in_order(record, offset)
            if rank in seen:
                if self._scene.script.exactly_once and is_in_order and not self._may_come_again(record):
                    self.fail(f"{where}: record {rank} is on the target twice")
                    return
                continue
            seen.add(rank)
            if not is_in_order:
                continue
            place = log, where, offset
            is_late = place in self._of_sleepers and (record.topic_id != of_latest or record.is_compacted)
            replaced = place in self._of_replaced
            is_beside = record.is_truncated and (replaced or is_of_replaced)
            may_be_late = at_least_once and (is_late or is_beside or self._may_come_again(record))
            if rank < latest and not (record.may_be_passed or may_be_late):
                self.fail(f"{where}: record {rank} comes after record {latest}")
                return
            if rank > latest:
                latest, of_latest, is_of_replaced = rank, record.topic_id, replaced

    def _may_come_again(self, one: Written) -> bool:
        """What a cut has taken from the source, a former leader has still that is cut off from the others, or wakes up:
        a mirror that begins there has read nothing from the next one. A position that lies open is aborted where nobody
        knows any more that it was committed."""
        if self._scene.target.has_left_position_open:
            return True
        return one.is_truncated and self._scene.has_struck(*_FORMER_LEADERS)

    def _judge_map(self, where: TopicPartition, truth: PartitionTruth, arrived: list[tuple[bytes, int]]) -> None:
        """A consumer at a translated offset sees all that it has not read (invariant 7)."""
        found = self.maps().map_of(where)
        if found is None:
            return
        last = self.copies(where, arrived)
        remote = self._scene.target.partition(TopicPartition(self._scene.remote, where.partition))
        bound = remote.log.high_watermark if remote is not None else 0
        translate, place = found.translate, last.get
        for written in sorted(truth.records.values(), key=_offset, reverse=True):
            if not written.is_compacted and (copy := place(written.value, bound)) < bound:
                bound = copy
            told = translate(written.offset)
            if told is not None and told.offset > bound:
                self.fail(f"{where}: offset {written.offset} translates to {told.offset}, beyond {bound}")
                return


def end_of_batches(partition: Partition) -> int:
    """A log that was cut within a hole ends behind its last batch: what is between is taken up when more comes."""
    batches, end = partition.log.batches, partition.log.high_watermark
    return min(end, batches[-1].last + 1) if batches else partition.log.start


def _take_position(view: LedgerView, record: Record) -> None:
    """Keys of the two topics are never alike."""
    headers = [(name.decode(), value) for name, value in record.headers]
    if view.take_connect(record.key, record.value, "", headers) is None:
        view.take_ours(record.key, record.value)


def _take_arrived(found: list[tuple[bytes, int]], record: Record) -> None:
    found.append((record.value or b"", record.offset))


def _lies_in(position: Position, partition: Partition) -> bool:
    """Whether a position is one in the source's log as it is now, by its last leader epoch (KIP-320)."""
    if not position.epochs:
        return False
    found = partition.log.end_of_epoch(position.leader_epoch)
    return found is not None and found[0] == position.leader_epoch and position.offset <= found[1]


def _covers(gap: Gap, one: Written, where: TopicPartition, *, is_vague: bool) -> bool:
    if gap.partition != where or gap.is_on_target or gap.action != DONE[CONTINUE]:
        return False
    if gap.topic_id == one.topic_id:
        return (is_vague or gap.expected <= one.offset) and one.offset < gap.resumed
    return gap.cause == "recreated" and (is_vague or gap.expected <= one.offset)


def _name(missing: list[Written]) -> str:
    shown = ", ".join(f"{one.value.decode()} at {one.offset}" for one in missing[:_SHOWN_MAX])
    return f"{shown}{' …' if len(missing) > _SHOWN_MAX else ''}"
