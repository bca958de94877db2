"""From fetch responses to rows: runs with leases or payload, gaps, and faults. No sockets; owned by `source.reader`."""

import json
import time
from collections.abc import Callable, Iterable, Mapping

from sparkmirror.batch.header import whole_batches
from sparkmirror.batch.loading import kernels_ready
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.errors import error_name
from sparkmirror.kafka.wire import FetchedPartition
from sparkmirror.relay.lease import Ring
from sparkmirror.relay.schema import FAULT, GAP, RUN, Row
from sparkmirror.source.emptiness import Emptiness
from sparkmirror.source.fetch import FetchConnection, Frame, PartitionKey
from sparkmirror.source.loss import TRUNCATED, Loss, judge_divergence, judge_empty, judge_untaken
from sparkmirror.source.partitions import Partitions, Reading
from sparkmirror.source.runs import MANY_BATCHES_MIN, Run, split_by_epoch, summarize, summarize_committed

INLINE_RESPONSE_BYTES_MAX = 32 << 10
BACKOFF_SECONDS = 0.3
_AHEAD_MAX = 1 << 31
"""What one batch can span."""
SMALL_BATCHES_MAX = 1_000_000
_OFFSET_OUT_OF_RANGE = 1
_ADVICE = {
    2: "; a batch there is damaged (checksum)",
    29: "; grant READ on it to SparkMirror's principal",
}
_MOVED = frozenset({3, 5, 6, 9, 74, 75, 78, 100, 103})
"""Kafka error codes that a metadata look-up mends: unknown topic or id, no leader, not the leader, replica away."""


class Harvest:
    """Collects the rows of a turn. `on_out_of_range` is called for a partition whose log bounds must be asked for."""

    def __init__(self, ring: Ring, on_out_of_range: Callable[[Reading], None]) -> None:
        self._ring = ring
        self._on_out_of_range = on_out_of_range
        self.rows: list[Row] = []
        self._nothing_left = False
        self._emptiness = Emptiness()
        self._small_batches = 0

    def take_rows(self) -> list[Row]:
        rows, self.rows = self.rows, []
        return rows

    def take_frame(self, node: int, connection: FetchConnection, frame: Frame, partitions: Partitions) -> None:
        """Turn one response into rows; its region is lent, or free at once. Raises ProtocolError."""
        leases: list[int] = []
        try:
            response = connection.decode(frame)
            self._ring.note_throttled(response.throttle_ms)
            if response.error:
                return
            inline = frame.region is None or len(frame.buffer) <= INLINE_RESPONSE_BYTES_MAX or not self._ring.peer
            readings = partitions.by_key(node, by_id=connection.by_id)
            fetched_at = time.time_ns() // 1_000_000
            self._nothing_left = all(fetched.start == fetched.stop for fetched in response.partitions)
            for fetched in response.partitions:
                reading = readings.get((fetched.topic_key, fetched.partition))
                if reading is None or reading.is_chased or reading.held_by_order:
                    continue
                if connection.asked(fetched, reading.offset):
                    region = None if inline else frame.region
                    self._take_partition(reading, fetched, frame.buffer, region, leases, fetched_at)
            if self._nothing_left and self._emptiness:
                self._step_over_empty(readings, connection.by_id)
        finally:
            if frame.region is not None:
                self._ring.lend(frame.region, leases)

    def take_range(self, reading: Reading, fetched: FetchedPartition, frame: Frame) -> None:
        """Turn an answer that `source.lanes` has brought, in its turn, into rows. Raises ProtocolError."""
        leases: list[int] = []
        try:
            fetched_at = time.time_ns() // 1_000_000
            self._take_partition(reading, fetched, frame.buffer, frame.region, leases, fetched_at)
        finally:
            if frame.region is not None:
                self._ring.lend(frame.region, leases)

    def _take_partition(
        self,
        reading: Reading,
        fetched: FetchedPartition,
        buffer: memoryview,
        region: int | None,
        leases: list[int],
        fetched_at: int,
    ) -> None:
        if fetched.error or fetched.diverging_offset >= 0:
            self._take_error(reading, fetched)
            return
        if fetched.preferred_replica >= 0:
            reading.node, reading.is_nearer = fetched.preferred_replica, True
        runs = self._read_runs(reading, fetched, buffer)
        if runs is None:
            return
        if reading.doubts:
            reading.doubts = 0
        reading.readable = fetched.high_watermark if fetched.last_stable_offset < 0 else fetched.last_stable_offset
        if not runs and self._is_hollow(reading, fetched):
            self._suspect(reading)
        elif reading.fault:
            if not runs:
                self._recover(reading)
            reading.fault = ""
        self._note_small_batches(runs)
        for run in runs:
            self._add_run(reading, run, fetched.high_watermark, buffer, region, leases, fetched_at)

    def _read_runs(self, reading: Reading, fetched: FetchedPartition, buffer: memoryview) -> list[Run] | None:
        """What came, up to what cannot be read. None if it begins with that: this partition then rests, and only it."""
        if fetched.start == fetched.stop:
            return []
        try:
            runs = _runs(buffer, fetched, reading)
            reason = _implausible(runs, fetched)
        except ProtocolError as problem:
            runs, reason = [], str(problem)
        if runs and not reason:
            return runs
        sound = whole_batches(buffer, fetched.start, fetched.stop, _last_plausible(fetched))
        if sound:
            return _runs(buffer, fetched._replace(stop=fetched.start + sound), reading)
        reason = reason or f"the batch is longer than the {fetched.stop - fetched.start} bytes that came"
        where = f"{reading.partition} from offset {reading.offset} on"
        self.rest(reading, f"what the source sent for {where} cannot be read: {reason}")
        return None

    def _note_small_batches(self, runs: list[Run]) -> None:
        """Loading kernels costs as much as a million small batches; what comes in such numbers goes on so."""
        if self._small_batches < SMALL_BATCHES_MAX:
            self._small_batches += sum(run.batches for run in runs if run.batches >= MANY_BATCHES_MIN)
            if self._small_batches >= SMALL_BATCHES_MAX:
                kernels_ready()

    def _add_run(
        self,
        reading: Reading,
        run: Run,
        high_watermark: int,
        buffer: memoryview,
        region: int | None,
        leases: list[int],
        fetched_at: int,
    ) -> None:
        reading.spend(run.stop - run.start)
        reading.measure(run.next_offset - run.first_offset, run.batches, run.stop - run.start)
        reading.offset = run.next_offset
        if run.leader_epoch > reading.leader_epoch:
            reading.lineage = reading.lineage.read(run.leader_epoch, run.first_offset)
        lease = None
        payload = None
        if region is None:
            payload = bytes(buffer[run.start : run.stop])
            self._ring.note_inline(len(payload))
        elif run.stop > run.start:
            lease = region + run.start
            leases.append(lease)
        self.rows.append(_run_row(reading, run, high_watermark, fetched_at, payload, lease))

    def _is_hollow(self, reading: Reading, fetched: FetchedPartition) -> bool:
        """Whether a bounded read is given nothing before its end, although the broker says that readers may read on.

        Only if the whole response is empty: a full one has no room for this partition's records, which are still there.
        """
        if reading.end is None or reading.done or not self._nothing_left or fetched.preferred_replica >= 0:
            return False
        return reading.readable >= reading.end

    def _suspect(self, reading: Reading) -> None:
        assert reading.end is not None
        self._emptiness.suspect(reading, time.monotonic())
        nothing = f"offsets {reading.offset} to {reading.end - 1} of {reading.partition}, which it says it has"
        self.report([reading], f"the source gives nothing for {nothing}")

    def _step_over_empty(self, readings: Mapping[PartitionKey, Reading], by_id: bool) -> None:
        """What has stayed empty for long is taken to be empty, and told as a gap (invariant 1)."""
        for reading in self._emptiness.believe(readings, by_id, time.monotonic()):
            assert reading.end is not None
            self.lose(reading, judge_empty(reading.offset, reading.lineage, reading.end))

    def _take_error(self, reading: Reading, fetched: FetchedPartition) -> None:
        self._emptiness.clear(reading)
        is_elsewhere = fetched.diverging_offset >= 0 or fetched.error == _OFFSET_OUT_OF_RANGE
        if is_elsewhere and reading.is_nearer:  # a replica that is behind says so too: the leader knows
            reading.node = None
            reading.not_before = time.monotonic() + BACKOFF_SECONDS
        elif fetched.diverging_offset >= 0:
            position, lineage = reading.offset, reading.lineage
            self.lose(reading, judge_divergence(position, lineage, fetched.diverging_epoch, fetched.diverging_offset))
        elif fetched.error == _OFFSET_OUT_OF_RANGE:
            reading.not_before = time.monotonic() + BACKOFF_SECONDS
            self._on_out_of_range(reading)
        elif fetched.error in _MOVED:
            reading.node = None
            reading.not_before = time.monotonic() + BACKOFF_SECONDS / 3
        else:
            advice = _ADVICE.get(fetched.error, "")
            self.rest(reading, f"the source refuses to give {reading.partition}: {error_name(fetched.error)}{advice}")

    def lose(self, reading: Reading, loss: Loss) -> None:
        """The log is not where it was left: say so in a gap row, and go on from where it is (invariant 1)."""
        if loss.after.turns != loss.before.turns:
            reading.losses += (loss,)
        if reading.end is not None and loss.cause == TRUNCATED:
            reading.end = min(reading.end, loss.resume)
        self._turn(reading, loss)

    def seek(self, reading: Reading, offset: int, turns: int) -> None:
        """The writer goes on from `offset` of the log that `turns` tells: what has turned it since is told again."""
        if turns >= reading.lineage.turns:
            reading.offset, reading.lineage = offset, reading.lineage.up_to(offset)
        else:
            self._turn(reading, judge_untaken(offset, reading.losses[turns:]))

    def _turn(self, reading: Reading, loss: Loss) -> None:
        where, after = reading.partition, loss.after
        told = {"cause": loss.cause, "id": str(after.topic_id), "epochs": after.epochs, "from": loss.before.turns}
        row = Row(GAP, where.topic, where.partition, loss.position, loss.resume, turns=after.turns)
        self.rows.append(row._replace(payload=json.dumps(told).encode()))
        reading.offset, reading.lineage = loss.resume, after

    def rest(self, reading: Reading, reason: str) -> None:
        """Leave a partition alone for a moment, and tell why."""
        reading.node = None
        reading.not_before = time.monotonic() + 4 * BACKOFF_SECONDS
        self.report([reading], reason)

    def _recover(self, reading: Reading) -> None:
        """Its broker answers again, and has nothing new of it: no run says so, and none may come for hours."""
        where = reading.partition
        self.rows.append(Row(FAULT, where.topic, where.partition, payload=b""))

    def report(self, readings: Iterable[Reading], reason: str) -> None:
        """Tell why partitions do not move, once for each reason."""
        for reading in readings:
            if reading.fault != reason:
                reading.fault = reason
                where = reading.partition
                self.rows.append(Row(FAULT, where.topic, where.partition, payload=reason.encode()))


def _implausible(runs: list[Run], fetched: FetchedPartition) -> str:
    """No checksum covers base offsets: one that lies absurdly far ahead is damage."""
    if runs and runs[-1].next_offset > _last_plausible(fetched) >= 0:
        return f"a batch claims offsets up to {runs[-1].next_offset}, where the end is {fetched.high_watermark}"
    return ""


def _last_plausible(fetched: FetchedPartition) -> int:
    """The broker reads the records after it has noted the end: a busy partition's may reach beyond it. -1: no bound."""
    return fetched.high_watermark + _AHEAD_MAX if fetched.high_watermark >= 0 else -1


def _runs(buffer: memoryview, fetched: FetchedPartition, reading: Reading) -> list[Run]:
    if fetched.aborted:
        span = (fetched.start, fetched.stop, reading.offset, reading.end)
        runs = summarize_committed(buffer, *span, fetched.aborted)
        return [part for run in runs for part in split_by_epoch(buffer, run, reading.leader_epoch)]
    run = summarize(buffer, fetched.start, fetched.stop, reading.offset, reading.end)
    return [] if run is None else split_by_epoch(buffer, run, reading.leader_epoch)


def _run_row(
    reading: Reading, run: Run, high_watermark: int, fetched_at: int, payload: bytes | None, lease: int | None
) -> Row:
    return Row(
        RUN,
        reading.partition.topic,
        reading.partition.partition,
        run.first_offset,
        run.next_offset,
        run.batches,
        run.records,
        run.stop - run.start,
        run.max_timestamp,
        high_watermark,
        fetched_at,
        run.leader_epoch,
        reading.lineage.turns,
        payload,
        lease,
    )
