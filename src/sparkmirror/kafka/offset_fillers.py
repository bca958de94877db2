"""Fills holes behind mirrored records of a partition of the target, for flows that keep offsets; blocks.

They are taken up by aborted transactions (`policy.fillers`). Called by `pipeline.produce.aligned_offsets`.

A transaction is opened only where the hole still has an offset for its marker: one that is left open, by a process that
died, ends with that marker, whichever process ends it. A newer holder of the transactional id fences an older one.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle
from threading import Lock
from typing import Final
from uuid import UUID

from sparkmirror.errors import AuthorizationFailed, ClusterError, ClusterUnreachable, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.connection import waits_within
from sparkmirror.kafka.errors import (
    COORDINATOR_MOVED,
    NO_ERROR,
    TRANSACTION_PASSING,
    RequestRefused,
    refusal,
)
from sparkmirror.kafka.fencing import ProducerIdentity, init_producer_ids
from sparkmirror.kafka.filler_batches import empty_batch, halve
from sparkmirror.kafka.marker_writer import MarkerWriter
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire.appending import Appender
from sparkmirror.kafka.wire.batch_owners import OwnedBatch, OwnerReader
from sparkmirror.kafka.wire.coordinator import AddPartitions, EndTransaction, find
from sparkmirror.kafka.wire.link import Link
from sparkmirror.model import NO_TOPIC_ID, Cluster, TopicPartition, is_another_topic
from sparkmirror.policy.fillers import (
    IDS,
    RECORDS_MAX,
    SEQUENCES,
    WRITE_MARKERS,
    Hole,
    plan_transactions,
    plan_written,
    transactional_ids,
    written_id,
)

log = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.002
_PAUSE_SECONDS_MAX: Final = 0.1
_SECONDS_MAX: Final = 60.0
_TRANSACTION_MS: Final = 60_000
_SPARE: Final = IDS
"""The last offsets of a hole are filled when the end of all before is known: markers that are sent twice, as after a
broker's restart, take them."""
_NOWHERE: Final = 1 << 62


class EndMoved(SparkMirrorError):
    """The log does not end where it must before it is filled, or after: somebody else has written to it. At `offset`
    it holds what does not belong there, if that is known."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset


class EndBehind(EndMoved):
    """It ends behind the hole: somebody else has written to it, or another process of the flow has gone on there."""


class Overtaken(SparkMirrorError):
    """What this process knows of the log holds no more, and nothing is wrong: another process of the flow has gone on
    in it, or its topic was made again. A clause."""


class FillerClients:
    """Connections to the target for all fillers of a process, each opened when it is first needed. Any thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = Lock()
        self._admin: Admin | None = None
        self._is_closed = False
        self.settings = client_settings(cluster, "fillers")
        self.appender = Appender(self.settings)

    def admin(self) -> Admin:
        """Raises ClusterError."""
        with self._lock:
            if self._is_closed:
                raise ClusterError(f"Cluster {self._cluster.alias}: the mirror is ending.")
            if self._admin is None:
                self._admin = open_admin(self._cluster, "fillers")
            return self._admin

    def close(self) -> None:
        """Ends what waits. Idempotent."""
        with self._lock:
            self._is_closed = True
            if self._admin is not None:
                self._admin.close()
        self.appender.close()


class HoleFiller:
    """Fills holes of one partition, one after the other, as the holder of a few transactional ids. After an error it is
    to be closed, and made again. `producer_id` is the flow's, which writes the records; `topic_id` that of the topic
    in which the holes are."""

    def __init__(
        self,
        clients: FillerClients,
        transactional_id: str,
        where: TopicPartition,
        producer_id: int,
        topic_id: UUID = NO_TOPIC_ID,
    ) -> None:
        self._clients = clients
        self._id = transactional_id
        self._where = where
        self._producer_id = producer_id
        self._topic_id = topic_id
        self._transactions: list[_Transactions] = []
        self._fence: _Transactions | None = None
        """Whose one marker comes before those that are written without a coordinator; None where none are."""
        self._writer: MarkerWriter | None = None
        self._own_from = _NOWHERE
        """From here on nobody else has filled anything."""
        self._reader = OwnerReader(clients.settings, where)

    def close(self) -> None:
        for one in (self._reader, *self._transactions, self._fence, self._writer):
            if one is not None:
                one.close()

    def fill(self, hole: Hole, filler: str, seconds_max: float) -> int:
        """Fills what is left of the hole, for so long at most; returns where the log ends then, in the hole or at its
        end, on all in-sync replicas. The first call ends what a predecessor had begun.

        Raises ClusterError, EndMoved where the log ends before the hole, or where somebody else has written records
        into it or behind it, FencedError where another process of the flow has taken the ids over, Overtaken.
        """
        try:
            return self._fill(hole, filler, seconds_max)
        except EndMoved as moved:
            there = self._clients.admin().list_topics([self._where.topic]).get(self._where.topic)
            if there is not None and is_another_topic(self._topic_id, there.topic_id):
                raise Overtaken("its topic was deleted and made again") from moved
            if not isinstance(moved, EndBehind):
                raise
            self._require_own(Hole(hole.first, hole.stop + 1), hole)
            raise Overtaken(f"another process of the flow has gone on: {moved}") from moved

    def _fill(self, hole: Hole, filler: str, seconds_max: float) -> int:
        ends_at, admin = time.monotonic() + seconds_max, self._clients.admin()
        if not self._transactions:
            self._take_over(admin, is_writing=filler == WRITE_MARKERS)
        self._await_last_markers()
        begun, known = _end_within(admin, self._where, hole), hole.first
        self._own_from = min(self._own_from, begun)
        if self._fence is not None and begun < hole.stop:
            if begun != known:
                self._require_own(Hole(known, begun), hole)
            begun = known = self._write(self._fence, hole, begun, ends_at)
            if plan_written(hole, begun) and self._fence is not None:
                return begun
        while True:
            stop = hole.stop - _SPARE if hole.stop - begun > _SPARE else hole.stop
            planned = plan_transactions(Hole(begun, stop), filler)
            begun = known = self._read_filled(hole, known, begun, self._abort(planned, begun, ends_at))
            if begun == hole.stop or time.monotonic() >= ends_at:
                return begun

    def _await_last_markers(self) -> None:
        """Those of the hole before stand, but their coordinators may not have noted it, and write them once more.
        Before the log's end is read that takes an offset of this hole; later it would be counted for another one."""
        for one in self._transactions if self._fence is None else [*self._transactions, self._fence]:
            if one.may_repeat:
                one.await_marker()

    def _read_filled(self, hole: Hole, known: int, begun: int, counted: int) -> int:
        """Where the log ends, at `counted` or behind it, when all in-sync replicas have what lies before, and that is
        of this flow: the markers of all transactions that were aborted behind `begun`.

        The coordinator answers before it has written the marker: a record of somebody else, which comes in that moment,
        takes its offset. A marker that is sent twice takes an offset of the hole, and may stand for one that is still
        to come.
        """
        admin, end = self._clients.admin(), counted
        markers: Counter[tuple[int, int]] = Counter()
        while known < end:
            for batch in self._own_batches(Hole(known, end), hole):
                if batch.header.is_control and batch.first >= begun:
                    markers[batch.producer_id, batch.header.producer_epoch] += 1
            known, end = end, _end_within(admin, self._where, hole)
            if known == end and self._await_markers(markers, is_last=counted >= hole.stop):
                end = _end_within(admin, self._where, hole)
        return end

    def _await_markers(self, found: Mapping[tuple[int, int], int], *, is_last: bool) -> bool:
        """Whether some may have been still to come; all are written then. Of the last ones no id has two, so that the
        numbers `found` of each identity say it."""
        aborted = {one: count for one in self._transactions if (count := one.take_aborted())}
        if is_last and all(found.get(one.identity, 0) == count for one, count in aborted.items()):
            return False
        for one in aborted:
            one.await_marker()
        return bool(aborted)

    def _require_own(self, taken: Hole, hole: Hole) -> None:
        deque(self._own_batches(taken, hole), maxlen=0)

    def _own_batches(self, taken: Hole, hole: Hole) -> Iterator[OwnedBatch]:
        """Offsets are taken by this process, by markers that were sent twice or of a process that died, or by records
        of somebody else, which nothing else would show, since what follows the hole stands right.

        Records of the flow's own producer in the hole are of a process that read the source before it was compacted.
        Behind what this process has filled they do not stand where they belong.
        """
        begins = max(hole.first, self._own_from)
        is_behind = begins < taken.first
        filler_ids = {one.identity.producer_id for one in self._transactions}
        for batch in self._reader.read(*taken):
            at = max(batch.first, taken.first)
            if batch.takes_up(filler_ids, self._reader.is_aborted) or (
                at >= hole.stop and batch.producer_id == self._producer_id
            ):
                is_behind |= at >= begins
                yield batch
                continue
            if batch.producer_id == self._producer_id and is_behind:
                raise EndMoved(f"offset {at} has a record of the flow that belongs elsewhere: its sender had slept", at)
            if batch.producer_id == self._producer_id:
                raise Overtaken(f"another process of the flow has written a record at offset {at}")
            filled = f"offsets {hole.first} to {hole.stop - 1} were to be filled"
            raise EndMoved(f"offset {at} has a record, and {filled}", at)

    def _take_over(self, admin: Admin, *, is_writing: bool) -> None:
        """All ids at once: nobody before comes further when the log's end is read. That of the first marker is the
        first: of two who take over together, the one that is behind there does not begin."""
        names = transactional_ids(self._id)
        number = written_id(self._id)
        taken = init_producer_ids(admin, [number, *names] if is_writing else names, _TRANSACTION_MS)
        self._transactions = [_Transactions(self._clients, name, self._where, taken[name]) for name in names]
        if is_writing:
            self._fence = _Transactions(self._clients, number, self._where, taken[number])

    def _write(self, fence: "_Transactions", hole: Hole, reached: int, ends_at: float) -> int:
        """Markers as far as they may be written without a coordinator; returns where the log ends."""
        if self._writer is None:
            reached, coordinator_epoch = self._begin(fence, hole, reached)
            self._writer = MarkerWriter(self._clients.settings, self._where, fence.identity, coordinator_epoch)
        try:
            while (count := plan_written(hole, reached)) and time.monotonic() < ends_at:
                reached = self._written(self._writer, hole, reached, count)
        except AuthorizationFailed as refused:
            log.warning("%s: transactions fill its offsets, one by one: %s", self._where, refused)
            fence.await_marker()
            fence.close()
            self._writer.close()
            self._fence = self._writer = None
        return reached

    def _begin(self, fence: "_Transactions", hole: Hole, reached: int) -> tuple[int, int]:
        """Writes the first marker by its coordinator, and waits until the log has it: behind it the log refuses what
        those before have sent, and before it that may take offsets of the hole. Returns where the log ends, and the
        coordinator's epoch."""
        fence.abort_one(0)
        end = reached
        while True:
            end = await_filled(self._clients.admin(), self._where, hole, end + 1)
            coordinator_epoch = None
            for batch in self._own_batches(Hole(reached, end), hole):
                if batch.header.is_control and (batch.producer_id, batch.header.producer_epoch) == fence.identity:
                    coordinator_epoch = batch.coordinator_epoch
            if coordinator_epoch is not None:
                return end, coordinator_epoch

    def _written(self, writer: MarkerWriter, hole: Hole, reached: int, count: int) -> int:
        writer.write(count)
        ends = await_filled(self._clients.admin(), self._where, hole, reached + count)
        if ends != reached + count:
            self._require_own(Hole(reached, ends), hole)
        return ends

    def _abort(self, planned: Iterable[int], reached: int, ends_at: float) -> int:
        """At least one of the planned transactions; returns where the log ends if no marker is sent twice."""
        for records, transactions in zip(planned, cycle(self._transactions), strict=False):
            transactions.abort_one(records)
            reached += records + 1
            if time.monotonic() >= ends_at:
                break
        return reached


def _end_within(admin: Admin, where: TopicPartition, hole: Hole) -> int:
    end = admin.log_ends([where]).of(where)
    if hole.first <= end <= hole.stop:
        return end
    kind = EndBehind if end > hole.stop else EndMoved
    raise kind(f"its log ends at offset {end}, and offsets {hole.first} to {hole.stop - 1} were to be filled")


def await_filled(admin: Admin, where: TopicPartition, hole: Hole, reached: int) -> int:
    """Where the log ends, at `reached` or behind it, when all in-sync replicas have what lies before.

    The coordinator answers before it has written the marker, and what a leader alone has is lost with it: the next
    batch would stand one offset too low, and the marker, sent again, behind it. A marker that was sent twice takes an
    offset of the hole. Raises ClusterError, and EndMoved where the log ends behind the hole.
    """
    ends_at, pause = time.monotonic() + _SECONDS_MAX, _PAUSE_SECONDS
    while True:
        replicated = admin.latest_offsets([where]).of(where)
        if replicated >= reached and replicated == _end_within(admin, where, hole):
            return replicated
        if not waits_within(admin.connection, pause, ends_at):
            raise ClusterError(f"{where}: all replicas have it to offset {replicated}, and do not come to {reached}.")
        pause = min(2 * pause, _PAUSE_SECONDS_MAX)


class _Transactions:
    """Aborted transactions of one transactional id over one partition, one after the other."""

    def __init__(
        self, clients: FillerClients, transactional_id: str, where: TopicPartition, identity: ProducerIdentity
    ) -> None:
        self._clients = clients
        self._id = transactional_id
        self._where = where
        self.identity = identity
        self._sequence = 0
        self._largest = RECORDS_MAX
        self._aborted = 0
        self.may_repeat = False
        """Whether the coordinator may write the last marker once more: it has not said that it is written."""
        self._link: Link | None = None

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def await_marker(self) -> None:
        """Until the marker of the last transaction is written: the coordinator puts off all that is asked before."""
        self._ask(EndTransaction(self._id, self.identity, second_protocol=False, commits=False))
        self.may_repeat = False

    def take_aborted(self) -> int:
        """How many it has aborted since this was asked."""
        count, self._aborted = self._aborted, 0
        return count

    def abort_one(self, records: int) -> None:
        self._ask(AddPartitions(self._id, self.identity, (self._where,)))
        while records:
            records -= self._append(min(records, self._largest))
        self.may_repeat = True
        self._ask(EndTransaction(self._id, self.identity, second_protocol=False, commits=False))
        self._aborted += 1

    def _append(self, records: int) -> int:
        """How many the log took: none where they are too many for one batch."""
        batch = empty_batch(records, self.identity, self._sequence, is_transactional=True)
        try:
            self._clients.appender.append_batch(self._where, batch, time.monotonic() + _SECONDS_MAX, self._id)
        except RequestRefused as refused:
            self._largest = halve(records, refused)
            return 0
        self._sequence = (self._sequence + records) % SEQUENCES
        return records

    def _ask(self, question: AddPartitions | EndTransaction) -> None:
        """Asks until the coordinator has done it. Raises ClusterUnreachable when the answer is lost: it may have."""
        ends_at, pause = time.monotonic() + _SECONDS_MAX, _PAUSE_SECONDS
        while (code := self._ask_once(question)) != NO_ERROR:
            if code not in TRANSACTION_PASSING or not waits_within(self._clients.admin().connection, pause, ends_at):
                raise refusal(code, self._clients.settings.alias, f"filling offsets of {self._where}")
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    def _ask_once(self, question: AddPartitions | EndTransaction) -> int:
        try:
            if self._link is None or time.monotonic() >= self._link.reauthenticate_at:
                self.close()
                self._link = find(self._clients.settings, self._id)
            answer = question.decode(self._link, self._link.exchange(question.encode(self._link)))
        except OSError as broken:
            self.close()
            raise ClusterUnreachable(f"The coordinator of {self._id} broke off the connection: {broken}") from broken
        code = next(iter(answer.refused.values()), answer.error)
        if code in COORDINATOR_MOVED:
            self.close()
        return code
