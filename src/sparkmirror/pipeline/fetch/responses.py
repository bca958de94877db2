"""Turns fetch responses into rows: runs with leases or payload, gaps and faults. No sockets; owned by
`pipeline.fetch.reader`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from sparkmirror.batch.header import AHEAD_MAX, whole_batches
from sparkmirror.batch.headers import MANY_BATCHES_MIN, MANY_BYTES_MIN
from sparkmirror.batch.loading import kernels_ready
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.errors import LEADER_MOVED, error_name
from sparkmirror.kafka.wire.data_requests import FetchedPartition
from sparkmirror.model import NO_EPOCH
from sparkmirror.pipeline.fetch.connection import FetchConnection, Frame
from sparkmirror.pipeline.fetch.emptiness import Emptiness
from sparkmirror.pipeline.fetch.extents import Extents
from sparkmirror.pipeline.fetch.fetch_session import SESSION_LOST, PartitionKey
from sparkmirror.pipeline.fetch.loss import TRUNCATED, Loss, judge_divergence, judge_empty, judge_untaken
from sparkmirror.pipeline.fetch.open_ends import OpenEnds, is_held_back
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState, Partitions
from sparkmirror.pipeline.fetch.runs import (
    Run,
    implausible,
    last_plausible,
    split_by_epoch,
    summarize,
    summarize_committed,
    summarize_plain,
)
from sparkmirror.pipeline.relay.plan_row import GapRow
from sparkmirror.pipeline.relay.ring import Ring
from sparkmirror.pipeline.relay.schema import FAULT, GAP, RUN, Row
from sparkmirror.stored_json import encode

INLINE_RESPONSE_BYTES_MAX = 32 << 10
_BACKOFF_SECONDS = 0.3
SMALL_BATCHES_MAX = 1_000_000
_OFFSET_OUT_OF_RANGE = 1
_ADVICE = {
    2: "; a batch there is damaged (checksum)",
    29: "; grant READ on it to SparkMirror's principal",
}


class Answer(NamedTuple):
    """An answer that is being turned into rows and announcements, which lease pieces of its region in the ring; without
    a region, or `by_value`, rows carry the bytes."""

    buffer: memoryview
    region: int | None
    leases: list[int]
    fetched_at_ms: int
    by_value: bool = False


class FetchResponseReader:
    """Collects the rows of one turn of the loop. `on_out_of_range` is called for a partition whose log's bounds must be
    looked up."""

    def __init__(
        self, ring: Ring, on_out_of_range: Callable[[PartitionFetchState], None], clock: Clock = SYSTEM_CLOCK,
        *, read_committed: bool = False,
    ) -> None:  # fmt: skip
        self._ring = ring
        self._clock = clock
        self._on_out_of_range = on_out_of_range
        self.rows: list[Row] = []
        self.extents = Extents(ring)
        self._nothing_left = False
        self._emptiness = Emptiness()
        self._open_ends = OpenEnds(read_committed=read_committed)
        self._small_batches = 0

    @property
    def is_plain(self) -> bool:
        """Whether nothing is watched that any answer may tell of."""
        return not (self._emptiness or self._open_ends)

    def take_rows(self) -> list[Row]:
        rows, self.rows = self.rows, []
        return rows

    def take_frame(self, node: int, connection: FetchConnection, frame: Frame, partitions: Partitions) -> None:
        """Turn one response into rows and announcements; its region is lent, or free at once. Raises ProtocolError."""
        leases: list[int] = []
        announced = self._ring.announcer.announced
        try:
            response = connection.decode(frame)
            self._ring.note_throttled(response.throttle_ms)
            if response.error:
                self._take_refusal(node, response.error, partitions.by_key(node, by_id=connection.by_id).values())
                return
            by_value = len(frame.buffer) <= INLINE_RESPONSE_BYTES_MAX or not self._ring.peer
            answer = Answer(frame.buffer, frame.region, leases, self._clock.time_ns() // 1_000_000, by_value)
            fetch_states = partitions.by_key(node, by_id=connection.by_id)
            self._nothing_left = bool(response.partitions) or not response.throttle_ms
            for fetched in response.partitions:
                if fetched.start != fetched.stop:
                    self._nothing_left = False
                    break
            for fetched in response.partitions:
                fetch_state = fetch_states.get(fetched[:2])
                if fetch_state is None or fetch_state.is_chased or fetch_state.held_by_order:
                    continue
                if connection.asked(fetched, fetch_state.offset):
                    self._take_partition(fetch_state, fetched, answer)
            if self._nothing_left and self._emptiness:
                self._step_over_empty(fetch_states, connection.by_id)
            if self._open_ends:
                self._report_open_ends(partitions)
        finally:
            self._lend(frame, leases, announced)

    def take_range(self, fetch_state: PartitionFetchState, fetched: FetchedPartition, frame: Frame) -> None:
        """As `take_frame`, of an answer of a read-ahead connection, when it is its turn. Raises ProtocolError."""
        leases: list[int] = []
        announced = self._ring.announcer.announced
        try:
            answer = Answer(frame.buffer, frame.region, leases, self._clock.time_ns() // 1_000_000)
            self._take_partition(fetch_state, fetched, answer)
        finally:
            self._lend(frame, leases, announced)

    def _lend(self, frame: Frame, leases: list[int], announced: int) -> None:
        """What was taken of an answer stays in the ring; the writer is called if more than `announced` entries are on
        the board."""
        if frame.region is not None:
            self._ring.lend(frame.region, leases)
        if self._ring.announcer.announced != announced:
            self._ring.call()

    def _follow(self, fetch_state: PartitionFetchState, fetched: FetchedPartition, answer: Answer) -> bool:
        """Announce what a partition brings that is followed and had nothing unusual lately: the short way of most
        answers of a mirror that is caught up. False, and nothing is done, where `_take_partition` has to look."""
        if self.rows or answer.region is None or fetched.stop - fetched.start >= MANY_BYTES_MIN:
            return False
        if fetched.error or fetched.aborted or fetched.diverging_offset >= 0 or fetched.preferred_replica >= 0:
            return False
        if not fetch_state.is_followed:
            return False
        epochs, end = fetch_state.lineage.epochs, fetched.high_watermark
        epoch = epochs[-1][0] if epochs else NO_EPOCH
        run = summarize_plain(answer.buffer, fetched.start, fetched.stop, fetch_state.offset, epoch)
        if run is None or run.next_offset > end + AHEAD_MAX or end < 0:
            return False
        lease = answer.region + run.start
        if not self.extents.announce(fetch_state, run, end, lease, answer.fetched_at_ms):
            return False
        answer.leases.append(lease)
        readable = end if fetched.last_stable_offset < 0 else fetched.last_stable_offset
        fetch_state.follow(run.next_offset, readable, run.batches, run.stop - run.start)
        if readable < end:
            self._open_ends.note(fetch_state, end, self._clock.monotonic())
        return True

    def _take_partition(self, fetch_state: PartitionFetchState, fetched: FetchedPartition, answer: Answer) -> None:
        if self._follow(fetch_state, fetched, answer):
            return
        if fetched.error or fetched.diverging_offset >= 0:
            self._take_error(fetch_state, fetched)
            return
        if fetched.preferred_replica >= 0:
            fetch_state.node, fetch_state.is_nearer = fetched.preferred_replica, True
        runs = self._read_runs(fetch_state, fetched, answer.buffer)
        if runs is None:
            return
        is_told = False
        if fetch_state.doubts:
            fetch_state.doubts = 0
        fetch_state.readable = fetched.high_watermark if fetched.last_stable_offset < 0 else fetched.last_stable_offset
        if not runs and self._is_hollow(fetch_state, fetched):
            self._suspect(fetch_state)
        elif runs:
            fetch_state.fault, fetch_state.is_end_told = "", True
        elif fetch_state in self._open_ends and is_held_back(fetch_state, fetched.high_watermark):
            pass
        elif fetch_state.fault or not (fetch_state.is_end_told or fetch_state.offset < fetch_state.readable):
            self._tell_end(fetch_state, fetched.high_watermark)
            fetch_state.fault, fetch_state.is_end_told, is_told = "", True, True
        self._note_small_batches(runs)
        for run in runs:
            self._add_run(fetch_state, run, fetched.high_watermark, answer)
        self._open_ends.note(fetch_state, fetched.high_watermark, self._clock.monotonic(), is_reported=is_told)

    def _read_runs(
        self, fetch_state: PartitionFetchState, fetched: FetchedPartition, buffer: memoryview
    ) -> list[Run] | None:
        """The runs before the first unreadable batch. None if the first is unreadable: this partition alone then backs
        off."""
        if fetched.start == fetched.stop:
            return []
        try:
            runs = _runs(buffer, fetched, fetch_state)
            reason = implausible(runs, fetched)
        except ProtocolError as problem:
            runs, reason = [], str(problem)
        if runs and not reason:
            return runs
        sound = whole_batches(buffer, fetched.start, fetched.stop, last_plausible(fetched))
        if sound:
            return _runs(buffer, fetched._replace(stop=fetched.start + sound), fetch_state)
        reason = reason or f"the batch is longer than the {fetched.stop - fetched.start} bytes that came"
        where = f"{fetch_state.partition} from offset {fetch_state.offset} on"
        self.back_off(fetch_state, f"what the source sent for {where} cannot be read: {reason}")
        return None

    def _note_small_batches(self, runs: list[Run]) -> None:
        """Load kernels after a million small batches: loading costs as much as those, and more are then likely."""
        if self._small_batches < SMALL_BATCHES_MAX:
            self._small_batches += sum(run.batches for run in runs if run.batches >= MANY_BATCHES_MIN)
            if self._small_batches >= SMALL_BATCHES_MAX:
                kernels_ready()

    def _add_run(self, fetch_state: PartitionFetchState, run: Run, high_watermark: int, answer: Answer) -> None:
        fetch_state.spend(run.stop - run.start)
        fetch_state.measure(run.next_offset - run.first_offset, run.batches, run.stop - run.start)
        fetch_state.advance(run.next_offset)
        if run.leader_epoch > fetch_state.leader_epoch:
            fetch_state.lineage = fetch_state.lineage.read(run.leader_epoch, run.first_offset)
        lease = None
        if answer.region is not None and run.stop > run.start:
            lease = answer.region + run.start
        if lease is not None and self._announce(fetch_state, run, high_watermark, lease, answer):
            return
        payload = None
        if answer.by_value or answer.region is None:
            payload, lease = bytes(answer.buffer[run.start : run.stop]), None
            self._ring.note_inline(len(payload))
        elif lease is not None:
            answer.leases.append(lease)
        self.extents.open(fetch_state, run)
        self.rows.append(_run_row(fetch_state, run, high_watermark, answer.fetched_at_ms, payload, lease))

    def _announce(
        self, fetch_state: PartitionFetchState, run: Run, high_watermark: int, lease: int, answer: Answer
    ) -> bool:
        """Announce the run to the writer, if that is in order: rows that wait here go first."""
        if self.rows or not self.extents.announce(fetch_state, run, high_watermark, lease, answer.fetched_at_ms):
            return False
        answer.leases.append(lease)
        return True

    def _is_hollow(self, fetch_state: PartitionFetchState, fetched: FetchedPartition) -> bool:
        """Whether a bounded read gets no records before its end, although the broker reports a later readable end.

        Only if the whole response is empty: a full one has no room for this partition's records, which are still there.
        """
        if fetch_state.end is None or fetch_state.done or not self._nothing_left or fetched.preferred_replica >= 0:
            return False
        return fetch_state.readable >= fetch_state.end

    def _suspect(self, fetch_state: PartitionFetchState) -> None:
        assert fetch_state.end is not None
        self._emptiness.suspect(fetch_state, self._clock.monotonic())
        nothing = (
            f"offsets {fetch_state.offset} to {fetch_state.end - 1} of {fetch_state.partition}, which it says it has"
        )
        self.report([fetch_state], f"the source gives nothing for {nothing}")

    def _step_over_empty(self, fetch_states: Mapping[PartitionKey, PartitionFetchState], by_id: bool) -> None:
        """Treat ranges that stayed empty for long as empty, and report each as a gap (invariant 1)."""
        for fetch_state in self._emptiness.believe(fetch_states, by_id, self._clock.monotonic()):
            assert fetch_state.end is not None
            self.lose(fetch_state, judge_empty(fetch_state.offset, fetch_state.lineage, fetch_state.end))

    def _take_error(self, fetch_state: PartitionFetchState, fetched: FetchedPartition) -> None:
        self._emptiness.clear(fetch_state)
        is_elsewhere = fetched.diverging_offset >= 0 or fetched.error == _OFFSET_OUT_OF_RANGE
        if is_elsewhere and fetch_state.is_nearer:  # a replica that is behind answers so too; only the leader knows
            fetch_state.node = None
            fetch_state.not_before = self._clock.monotonic() + _BACKOFF_SECONDS
        elif fetched.diverging_offset >= 0:
            position, lineage = fetch_state.offset, fetch_state.lineage
            self.lose(
                fetch_state, judge_divergence(position, lineage, fetched.diverging_epoch, fetched.diverging_offset)
            )
        elif fetched.error == _OFFSET_OUT_OF_RANGE:
            fetch_state.not_before = self._clock.monotonic() + _BACKOFF_SECONDS
            self._on_out_of_range(fetch_state)
        elif fetched.error in LEADER_MOVED:
            fetch_state.node = None
            fetch_state.not_before = self._clock.monotonic() + _BACKOFF_SECONDS / 3
        else:
            advice = _ADVICE.get(fetched.error, "")
            self.back_off(
                fetch_state, f"the source refuses to give {fetch_state.partition}: {error_name(fetched.error)}{advice}"
            )

    def _take_refusal(self, node: int, error: int, fetch_states: Iterable[PartitionFetchState]) -> None:
        """A broker answered none of the partitions that it was asked for."""
        if error in SESSION_LOST:
            return
        now = self._clock.monotonic()
        for fetch_state in fetch_states:
            if fetch_state.may_read(now) and not fetch_state.is_chased:
                self.refuse(fetch_state, node, error)

    def refuse(self, fetch_state: PartitionFetchState, node: int, error: int) -> None:
        """A broker answered with an error that is no partition's: the next answer would be the same."""
        self._emptiness.clear(fetch_state)
        self.back_off(fetch_state, f"broker {node} of the source refuses the whole fetch: {error_name(error)}")

    def lose(self, fetch_state: PartitionFetchState, loss: Loss) -> None:
        """Report in a gap row that the log changed, and continue at its new place (invariant 1)."""
        if loss.after.turns != loss.before.turns:
            fetch_state.losses += (loss,)
        if fetch_state.end is not None and loss.cause == TRUNCATED:
            fetch_state.end = min(fetch_state.end, loss.resume)
        self._turn(fetch_state, loss)

    def seek(self, fetch_state: PartitionFetchState, offset: int, turns: int) -> None:
        """Continue at `offset` of the log that `turns` identifies, as the writer ordered; report later rewrites of the
        log again."""
        if turns >= fetch_state.lineage.turns:
            fetch_state.offset, fetch_state.lineage = offset, fetch_state.lineage.up_to(offset)
        else:
            self._turn(fetch_state, judge_untaken(offset, fetch_state.losses[turns:]))

    def _turn(self, fetch_state: PartitionFetchState, loss: Loss) -> None:
        where, after = fetch_state.partition, loss.after
        told = GapRow(loss.cause, after.topic_id, after.epochs, loss.before.turns)
        row = Row(GAP, where.topic, where.partition, loss.position, loss.resume, turns=after.turns)
        self.rows.append(row._replace(payload=encode(told)))
        fetch_state.offset, fetch_state.lineage = loss.resume, after

    def back_off(self, fetch_state: PartitionFetchState, reason: str) -> None:
        """Fetch nothing of a partition for a moment, and report why."""
        fetch_state.node = None
        fetch_state.not_before = self._clock.monotonic() + 4 * _BACKOFF_SECONDS
        self.report([fetch_state], reason)

    def _tell_end(self, fetch_state: PartitionFetchState, high_watermark: int, reason: str = "") -> None:
        """Report the partition's end after the first answer without records: no run may come for hours that would show
        it."""
        where = fetch_state.partition
        row = Row(FAULT, where.topic, where.partition, high_watermark=high_watermark, payload=reason.encode())
        self.rows.append(row)

    def _report_open_ends(self, partitions: Partitions) -> None:
        for fetch_state, end, reason in self._open_ends.take_due(partitions, self._clock.monotonic()):
            self._tell_end(fetch_state, end, reason)
            fetch_state.fault = reason

    def report(self, fetch_states: Iterable[PartitionFetchState], reason: str) -> None:
        """Report why partitions do not move, once for each reason."""
        for fetch_state in fetch_states:
            if fetch_state.fault != reason:
                fetch_state.fault = reason
                where = fetch_state.partition
                self.rows.append(Row(FAULT, where.topic, where.partition, payload=reason.encode()))


def _runs(buffer: memoryview, fetched: FetchedPartition, fetch_state: PartitionFetchState) -> list[Run]:
    if fetched.aborted:
        span = (fetched.start, fetched.stop, fetch_state.offset, fetch_state.end)
        runs = summarize_committed(buffer, *span, fetched.aborted)
        return [part for run in runs for part in split_by_epoch(buffer, run, fetch_state.leader_epoch)]
    run = summarize(buffer, fetched.start, fetched.stop, fetch_state.offset, fetch_state.end)
    return [] if run is None else split_by_epoch(buffer, run, fetch_state.leader_epoch)


def _run_row(
    fetch_state: PartitionFetchState,
    run: Run,
    high_watermark: int,
    fetched_at: int,
    payload: bytes | None,
    lease: int | None,
) -> Row:
    return Row(
        RUN,
        fetch_state.partition.topic,
        fetch_state.partition.partition,
        run.first_offset,
        run.next_offset,
        run.batches,
        run.records,
        run.stop - run.start,
        run.max_timestamp,
        high_watermark,
        fetched_at,
        run.leader_epoch,
        fetch_state.lineage.turns,
        payload,
        lease,
    )
