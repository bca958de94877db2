"""Judges a flow that keeps offsets: each record of the target stands where the source has it, or its partition is
FAILED, for a reason that something explains."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from tests.simulation.checker import Checker, end_of_batches
from tests.simulation.cluster import Partition
from tests.simulation.kept import source_where
from tests.simulation.scheduler import Process
from tests.simulation.truth import CUT, PartitionTruth, Written

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.history import Scene

_TURNED = ("source cut", "source made again")
REASONS = {
    r"came to stand at offset": ("foreign", "came late", "target cut", "taken by name", "forgets"),
    r"empty records for offset \d+ came to stand": ("target deleted",),
    r"somebody else has written records": ("foreign", "ledger lost"),
    r"somebody else has written a marker": ("foreign",),
    r"it was cut, and written again": ("target cut", "taken by name"),
    r"were appended twice, or late": ("forgets", "target cut", "target deleted"),
    r"something else at offset": ("foreign", "came late", "target cut", "target deleted", "forgets", *_TURNED),
    r"the source's log (goes on at offset|is another one)": _TURNED,
    r"the target's log ends at offset \d+, and its source's at": ("foreign", "came late", "forgets", *_TURNED),
    r"offsets before: it was cut": ("target cut", "taken by name"),
    r"the source's topic was made again": ("source made again",),
    r"the source's log was cut": _TURNED,
    r"a record of the flow that belongs elsewhere": ("came late",),
    r"were to be filled": ("foreign", "came late", "target cut", "taken by name", "forgets"),
    r"that this flow has not written": ("foreign", "target cut", "target deleted", "forgets"),
    r"partitions on the source and": ("grown",),
    r"the source may not have its records any more": ("target deleted", "target cut"),
    r"no offset in common that could be compared": ("ledger lost", "foreign", "taken by name"),
    r"nobody knows whether they were mirrored": ("ledger lost", *_TURNED),
}
"""Why a partition may be FAILED for good, and what must have happened then. Where the target was deleted, brokers of
3.9 have `taken by name` what was meant for the former log; of markers that clients write late, and of empty records,
all do. What `came late` is a record that its source has lost, from a process that had stood still: sequence numbers
count records, and holes have none."""
_WRONG_MAX = 5
"""Batches that a process may have under way when the first of them is found at a wrong offset."""

_FAILED_SECONDS, _BETWEEN_SECONDS = 14.0, 6.0
"""How long a partition is FAILED until no other epoch can be about to find it well, and how long it takes from one
epoch to the next."""
_LONG_EPOCH_SECONDS = 600
_NOTICED_SECONDS = 6.0
_NOTED_SECONDS = 2.0
"""So long a task takes, where nothing holds it up, from a batch to what the ledger has of it."""


class Causes:
    """What has happened to partitions, by the source's, and which ones the mirror says are FAILED for good."""

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene
        self._known: dict[TopicPartition, set[str]] = {}
        self._began_again: dict[TopicPartition, float] = {}
        self._made_again: dict[TopicPartition, float] = {}

    def note(self, partition: Partition, cause: str) -> None:
        where = source_where(partition)
        self._known.setdefault(where, set()).add(cause)
        if cause == "source made again":
            self._made_again[where] = self._scene.world.now

    def hear(self, partition: Partition, process: Process | None) -> None:
        """Note a record that its source has lost, and that comes behind a process's sleep: it stands elsewhere, or at
        its own offset, where another mirror may be about to put a filler, which then stands elsewhere. So does what is
        sent behind one that the log takes for another mirror's, by its sequence number."""
        if partition.where.topic != self._scene.remote or process is None or not process.was_held:
            return
        where = source_where(partition)
        source, last = self._scene.source.partition(where), partition.log.batches[-1:]
        has_others = any(process not in one.processes for one in self._scene.mirrors if not one.is_over)
        for record in last[0].records if last else ():
            own = self._scene.truth.of(where).records.get(record.value or b"")
            if own is None or (own.offset == record.offset and not has_others):
                continue
            is_lost = source is None or own.offset < source.log.start or own.is_compacted or own.is_truncated
            if is_lost or (own.offset != record.offset and self._scene.truth.of(where).source_losses):
                self.note(partition, "came late")

    def begin_again(self, partition: Partition) -> None:
        """The target's topic is deleted: nothing of what happened to it explains anything now, but that a batch of an
        older process may reach the next one. What it had is to come again, where offsets are kept."""
        if self._scene.script.kept is None:
            return
        where = source_where(partition)
        by_name = {"taken by name"} if self._scene.script.is_old_target else set()
        before = self.of(where) if where in self.failed() else set()  # it stays FAILED until the next epoch
        if self._scene.world.now - self._made_again.get(where, -1e9) < _NOTICED_SECONDS:
            before |= {"source made again"}  # its task may not have met that yet, and fails by it when it does
        grown = self._known.get(where, set()) & {"grown"}  # a source that is made again has fewer partitions then
        self._known[where] = {"target deleted"} | by_name | before | grown
        self._began_again[where] = self._scene.world.now
        truth = self._scene.truth.of(where)
        truth.lose_target(0)
        truth.lost_on_target.clear()

    def began_again(self, where: TopicPartition) -> float:
        """When the target's topic was deleted last."""
        return self._began_again.get(where, 0.0)

    def of(self, where: TopicPartition) -> set[str]:
        kept, truth = self._scene.script.kept, self._scene.truth.of(where)
        found = set(self._known.get(where, ()))
        found |= {"forgets"} if kept is not None and kept.forgets else set()
        remote = self._scene.target.partition(TopicPartition(self._scene.remote, where.partition))
        found |= {"taken by name"} if remote is not None and remote.is_taken_by_name else set()
        return found | ({"source cut"} if CUT in truth.source_losses else set())

    def failed(self) -> dict[TopicPartition, str]:
        """By the source's partition: the reason, as the tasks of living mirrors say it."""
        found: dict[TopicPartition, str] = {}
        for mirror in self._scene.mirrors:
            for attempt in mirror.attempts.values() if not mirror.is_over else ():
                if attempt.sender is not None and not attempt.is_over:
                    found |= {where: why for where, why in attempt.sender.task_metrics.failed.items() if _is_final(why)}
        return found


def _is_final(reason: str) -> bool:
    return any(re.search(one, reason) for one in REASONS)


@dataclass(slots=True)
class _Failed:
    """A partition that was FAILED from `since` to `last`, at the same position."""

    reason: str
    position: int
    since: float
    last: float


class KeptChecker(Checker):
    """As `Checker`, by offsets: positions count in the target's log that they are of."""

    def __init__(self, scene: "Scene") -> None:
        super().__init__(scene)
        self._indexed: dict[TopicPartition, int] = {}
        self._places: dict[TopicPartition, dict[tuple[object, int], Written]] = {}
        self._failed: dict[TopicPartition, _Failed] = {}
        self._given_up: set[TopicPartition] = set()
        self._taken_over: dict[tuple[TopicPartition, UUID], int] = {}

    # What stands where.

    def _place(self, where: TopicPartition) -> dict[tuple[object, int], Written]:
        """What the source has, or had, by topic id and offset: of a log that was cut the later one."""
        places = self._places.setdefault(where, {})
        records = list(self._scene.truth.of(where).records.values())
        for one in records[self._indexed.get(where, 0) :]:
            places[one.topic_id, one.offset] = one
        self._indexed[where] = len(records)
        return places

    def remote(self, where: TopicPartition) -> Partition | None:
        return self._scene.target.partition(TopicPartition(self._scene.remote, where.partition))

    def first_wrong(self, where: TopicPartition) -> int | None:
        """The first offset of the target's log at which it has something else than its source, as far as the source has
        anything there: what retention or compaction has removed of it nobody can compare. So it is with a log that was
        taken over: what the source lacks it may have had."""
        remote, topic = self.remote(where), self._scene.source.topics.get(where.topic)
        if remote is None or topic is None:
            return None
        places, known = self._place(where), self._scene.truth.of(where).records
        source = self._scene.source.partition(where)
        begins = 0 if source is None else source.log.start
        causes = self._scene.causes.of(where)
        taken_over, is_cut = (self._begun(where) if "ledger lost" in causes else 0), "target cut" in causes
        for one in remote.log.batches:
            if one.is_control:
                continue
            for record in one.records:
                if record.offset < remote.log.start:
                    continue
                is_filler = one.is_transactional and one.is_aborted is not False
                if not (record.key or record.value) and (is_filler or record.offset < begins):
                    continue
                wanted, own = places.get((topic.topic_id, record.offset)), known.get(record.value or b"")
                is_right = wanted is not None and wanted.value == record.value and not wanted.is_truncated
                if is_right or (record.offset < begins and own is not None):
                    continue
                if one.is_aborted and wanted is not None and wanted.may_be_passed and self._scene.script.read_committed:
                    continue  # neither log has a record there for those who read as the mirror does
                if wanted is not None and wanted is own and own.is_truncated:
                    continue  # nothing came there since the source lost it: that is as if compaction had taken it
                if wanted is not None and not wanted.is_compacted:
                    return record.offset
                if record.offset < taken_over:
                    continue
                is_filled = is_cut and not (record.key or record.value)  # in the place of a filler, which has no number
                if wanted is None and (is_filled or self._is_unnoted(where, record.offset)):
                    continue
                if own is None or not own.is_compacted:
                    return record.offset
        return None

    def _is_unnoted(self, where: TopicPartition, offset: int) -> bool:
        """Whether a process that had slept put that there, and was killed before the ledger could have its note: where
        the source has a hole nothing tells that it is wrong."""
        process, sent_at = self._of_sleepers.get((self._remote_id(), where, offset), (None, 0.0))
        return process is not None and process.ended_at < sent_at + _NOTED_SECONDS

    # Now and then.

    def look(self) -> None:
        if self._scene.readers is not None:
            self._scene.readers.look()
        for partition in self._scene.sources():
            if self.is_of_this_log(partition.where):
                self._look_at(partition.where)
        self._for_good()  # a history may end between two epochs, when no task says what is FAILED

    def _look_at(self, where: TopicPartition) -> None:
        """No position beyond a record that stands elsewhere, or lacks, nor beyond the log's end."""
        truth, record = self._scene.truth.of(where), self.view().records.get(where)
        remote = self.remote(where)
        if record is None or remote is None or "target cut" in self._scene.causes.of(where):
            return
        position = record.position  # Connect's record of it may come a moment later
        if {"ledger lost", "source made again"} & self._scene.causes.of(where) and position.topic_id is not None:
            self._taken_over.setdefault((where, position.topic_id), position.offset)
        if position.offset > remote.log.high_watermark:
            self.fail(f"{where} stands at {position.offset} in the ledger, beyond {remote.log.high_watermark}")
        if truth.truncations:
            return
        wrong = self.first_wrong(where)
        if wrong is not None and wrong < position.offset:
            self.fail(f"{where} stands at {position.offset} in the ledger, and the target is wrong at {wrong}")
        self._judge_missing(where, position.offset)

    def _judge_missing(self, where: TopicPartition, to: int) -> None:
        arrived, gaps = {value for value, _ in self.arrived(where)}, self._gaps()
        topic = self._scene.source.topics.get(where.topic)
        topic_id, truth = (None if topic is None else topic.topic_id), self._scene.truth.of(where)
        missing = [
            one
            for one in truth.records.values()
            if one.topic_id == topic_id and one.offset < to and self._is_owed(one, truth, arrived, gaps, where)
        ]
        if missing:
            named = ", ".join(f"{one.value.decode()} at {one.offset}" for one in missing[:4])
            self.fail(f"{where} stands at {to} in the ledger, and the target lacks {named}")

    def _is_owed(
        self, one: Written, truth: PartitionTruth, arrived: set[bytes], gaps: list[Gap], where: TopicPartition
    ) -> bool:
        partition = self._scene.source.partition(where)
        is_gone = partition is None or one.offset < partition.log.start
        if is_gone and self._scene.causes.of(where) & {"target deleted", "target cut"}:
            return False
        if is_gone and one.offset < self._begun(where):  # without a position a source begins where it begins
            return False
        return super()._is_owed(one, truth, arrived, gaps, where)

    def _begun(self, where: TopicPartition) -> int:
        """The first position in the source's topic as it is now, where none from before counts."""
        topic = self._scene.source.topics.get(where.topic)
        return 0 if topic is None else self._taken_over.get((where, topic.topic_id), 0)

    def is_caught_up(self) -> bool:
        """Or FAILED, unless a person rebuilds it. Who still sleeps has not met all that it is to say, and positions
        wait for the answers of a broker that stood still."""
        living = [mirror for mirror in self._scene.mirrors if not mirror.is_over]
        is_held = any(one.is_held for mirror in living for one in mirror.processes)
        if is_held or self._scene.world.now < self._scene.thaws_at:
            return False
        view, kept = self.view(), self._scene.script.kept
        # Who was killed since may take long to come to it again.
        failed = self._for_good().keys() & self._scene.causes.failed().keys()
        lately = self._lately_failed()
        for partition in self._scene.sources():
            where = partition.where
            if where in failed and not (kept and kept.rebuilds):
                continue
            if where in lately:  # whether that is for good a while will tell
                return False
            position = view.position(where)
            topic_id = self._scene.source.topics[where.topic].topic_id
            if position is None or position.topic_id != topic_id or where in failed:
                return False
            is_there = position.offset >= end_of_batches(partition) or self._is_taken_back(partition)
            if not is_there or not self._is_of_this_or_no_log(where) or self._is_before_cut(partition):
                return False
        return True

    def _for_good(self) -> dict[TopicPartition, str]:
        """The partitions that have been FAILED for a while, in all epochs, and where they stood."""
        now, view = self._scene.world.now, self.view()
        for where, reason in self._scene.causes.failed().items():
            position = view.position(where)
            at, known = -1 if position is None else position.offset, self._failed.get(where)
            if known is None or now - known.last > _BETWEEN_SECONDS or known.position != at:
                self._failed[where] = known = _Failed(reason, at, now, now)
            known.reason, known.last = reason, now
        lately = self._lately_failed()
        found = {where: one.reason for where, one in lately.items() if now - one.since >= _FAILED_SECONDS}
        self._given_up |= found.keys()
        return found

    def _lately_failed(self) -> dict[TopicPartition, _Failed]:
        now, began_again = self._scene.world.now, self._scene.causes.began_again
        return {
            where: one
            for where, one in self._failed.items()
            if now - one.last <= _BETWEEN_SECONDS and one.last > began_again(where)
        }

    def _is_of_this_or_no_log(self, where: TopicPartition) -> bool:
        record = self.view().records.get(where)
        return record is not None and (record.extent is None or self.is_of_this_log(where))

    # At the end.

    def judge(self, *, is_done: bool) -> None:
        self.look()
        again = {where: why for where, why in self._scene.causes.failed().items() if where in self._given_up}
        failed = self._for_good() | again
        for partition in self._scene.sources():
            where = partition.where
            if where in failed:
                self._judge_reason(where, failed[where])
            elif not self._is_moved(partition):
                self._tell_stall_of(partition)
            elif not self._waits_for_epoch(where):
                self._judge_whole(partition)
        if self._scene.readers is not None and is_done:
            self._scene.readers.judge()
        self._judge_rest(is_done=is_done)

    def _waits_for_epoch(self, where: TopicPartition) -> bool:
        """Whether all was mirrored before the target's topic was deleted, and nothing came since that would meet the
        new one: the next epoch does, later than a history ends."""
        return self._scene.script.epoch_seconds >= _LONG_EPOCH_SECONDS and not self._is_of_this_or_no_log(where)

    def _is_moved(self, partition: Partition) -> bool:
        position = self.view().position(partition.where)
        return position is not None and (position.offset >= end_of_batches(partition) or self._is_taken_back(partition))

    def _is_taken_back(self, partition: Partition) -> bool:
        """Whether a mirror that slept has stored what it had when it woke, behind its successor, though all is there:
        who begins next compares it, and the next record stores its position again. A successor that has not begun yet
        has no run, and nobody has slept beside it."""
        view, remote = self.view(), self.remote(partition.where)
        record = view.records.get(partition.where)
        runs = [mirror.run for mirror in self._scene.mirrors if mirror.planner is not None]
        is_late = not view.is_whole(partition.where) or (record is not None and record.run not in runs[-1:])
        return (
            is_late
            and self._scene.world.has_slept
            and len(self._scene.mirrors) > 1
            and remote is not None
            and remote.log.high_watermark >= end_of_batches(partition)
        )

    def _tell_stall_of(self, partition: Partition) -> None:
        where, mirror = partition.where, self._scene.mirror
        if self._hangs(partition):
            return
        failed = {str(failing): why for failing, why in mirror.failed.items()}
        remote = self.remote(where)
        self.fail(
            f"{where} does not move: it stands at {self.view().position(where)}, the source ends at "
            f"{partition.log.high_watermark}, the target at {remote and remote.log.end}; mirror over: {mirror.is_over} "
            f"{mirror.reason}; failed: {failed}"
        )

    def _hangs(self, partition: Partition) -> bool:
        """Whether a log that is to be adopted has a transaction whose marker was cut off: a person is to end that. Or
        one is to be compared with its source's that was cut within a hole: that is silent at its end until more
        comes."""
        remote = self.remote(partition.where)
        if remote is None:
            return False
        if end_of_batches(partition) < min(partition.log.high_watermark, remote.log.high_watermark):
            return True
        is_adopted = {"target cut", "ledger lost"} <= self._scene.causes.of(partition.where)
        return is_adopted and remote.log.last_stable < remote.log.high_watermark

    def _judge_reason(self, where: TopicPartition, reason: str) -> None:
        causes = self._scene.causes.of(where)
        allowed = {cause for one, known in REASONS.items() if re.search(one, reason) for cause in known}
        if not allowed & causes:
            self.fail(f"{where} is FAILED, and only {sorted(causes)} has happened: {reason}")

    def _is_met_by_others(self, partition: Partition, wrong: int | None) -> bool:
        """Whether somebody else, or a process that had slept, appended that behind a cut, and the flow nothing, since
        its source is quiet: the next epoch looks at the log, later than a history ends."""
        where, remote = partition.where, self.remote(partition.where)
        is_long = self._scene.script.epoch_seconds >= _LONG_EPOCH_SECONDS
        is_quiet = remote is not None and remote.log.high_watermark < partition.log.high_watermark
        is_theirs = "foreign" in self._scene.causes.of(where)
        return is_long and is_quiet and (is_theirs or (self._remote_id(), where, wrong) in self._of_sleepers)

    def _judge_whole(self, partition: Partition) -> None:
        """A partition that is not FAILED is the source's copy, to its end."""
        where, log = partition.where, partition.log
        wrong, is_before_cut = self.first_wrong(where), self._is_before_cut(partition)
        if (wrong is not None or is_before_cut) and (lately := self._lately_failed().get(where)) is not None:
            self._judge_reason(where, lately.reason)
            return
        causes, remote = self._scene.causes.of(where), self.remote(where)
        if {"target cut", "forgets"} <= causes:
            return  # only the producer's sequence number tells that a log has grown again to where it was
        if "target cut" in causes and remote is not None and not self._scene.target.has_met_cut(remote):
            return  # nothing has come since, and no process has begun
        if "target cut" in causes and self._is_met_by_others(partition, wrong):
            return
        if wrong is not None and wrong < log.high_watermark:
            self.fail(f"{where} is not FAILED, and the target is wrong at {wrong}")
            return
        if is_before_cut:
            self.fail(f"{where} is not FAILED, and its position is one of a log that the source has no more")
            return
        self._judge_missing(where, log.high_watermark)
        own = [gap for gap in self._gaps() if gap.partition == where]
        self._judge_gaps(partition, self._scene.truth.of(where), own)
