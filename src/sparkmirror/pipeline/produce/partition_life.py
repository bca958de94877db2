"""The state of a source partition, and how it fails and comes back. The base of `pipeline.produce.buffer`."""

from typing import ClassVar

from sparkmirror.ledger.committed_end import CommittedEnd
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.acked_position import AckedPosition
from sparkmirror.pipeline.produce.in_flight import InFlight
from sparkmirror.pipeline.produce.partition_state import Event, State, follow


class PartitionLife(AckedPosition):
    """Below the source offset `apart_until` batches go out one by one, since the target refused one that several may
    have become: those before the bad one are taken then. `is_failed` and `is_held` follow from `state`; `reason` and
    `failures` are of the last failure and of those since the last acknowledgement, or, if its records go to several
    partitions in transactions, the last commit of some; `retry_at` is a monotonic time, 0 where no retry is due.
    `committed_end` is up to where what was sent to the target partition is committed; None if that is not known."""

    __slots__ = (
        "_in_flight", "apart_until", "committed_end", "failures", "is_failed", "is_held", "reason", "rests", "retry_at",
        "state",
    )  # fmt: skip

    keeps_offsets: ClassVar[bool] = False
    """Whether records stand on the target where the source has them, as in `pipeline.produce.aligned_buffer`."""

    def __init__(self, source: TopicPartition, offset: int, moved: dict[TopicPartition, None] | None) -> None:
        super().__init__(source, offset, moved)
        self.state = State.FLOWING
        self.is_failed = self.is_held = False
        self.reason = ""
        self.failures = 0
        self.retry_at = 0.0
        self.rests = False
        self.apart_until = 0
        self._in_flight = InFlight(source)
        self.committed_end: CommittedEnd | None = None

    def _change(self, event: Event) -> None:
        self.state = state = follow(self.state, event, self.source)
        self.is_held = state is State.HOLDING or state is State.HELD
        self.is_failed = self.is_held or state is State.FAILING or state is State.FAILED

    @property
    def sequence(self) -> int | None:
        """The number that the producer gives the first record that is not acknowledged, where it keeps offsets."""
        return None

    def begin_again(self) -> None:
        """The task takes the partition on: what was before does not count."""
        self._change(Event.TAKEN_ON)
        self.reason = ""
        self.failures = 0
        self.retry_at = 0.0

    def commit(self) -> None:
        """What is acknowledged stays. A partition that has moved and flows starts its pauses over."""
        if self.failures and not self.is_failed and self.place != self.committed:
            self.failures = 0
        super().commit()

    # Transactions.

    @property
    def coming_end(self) -> CommittedEnd | None:
        """What `committed_end` is once the open transaction is committed."""
        return self._in_flight.sent_end or self.committed_end

    def commit_sent(self, *, is_marked: bool) -> None:
        """The transaction that has what was sent is committed, and `is_marked` in the log before more is taken."""
        self.expect_marker(is_written=is_marked)
        self.committed_end, self._in_flight.has_open = self.coming_end, False

    def know_committed_end(self, end: CommittedEnd | None) -> None:
        self.committed_end = end

    # Failing, and coming back.

    def refuse_row(self) -> None:
        """A row does not continue the partition: rows are dropped until the reader sends `position` again."""
        self._change(Event.OUT_OF_ORDER)

    def fail(self, reason: str) -> None:
        """Nothing more is taken or sent until `PartitionBuffer.resume`."""
        self._change(Event.REFUSED)
        self._note_failure(reason)

    def hold(self, reason: str) -> None:
        """As `fail`, for the rest of the run. A buffer that has failed already keeps its reason."""
        has_failed = self.is_failed
        self._change(Event.HOLD)
        if not has_failed:
            self._note_failure(reason)

    def _note_failure(self, reason: str) -> None:
        self.reason = reason
        self.failures += 1

    def settle(self, retry_at: float) -> None:
        """No answer is due any more: a retry comes at `retry_at`, inf for never."""
        self._change(Event.SETTLED)
        self.retry_at = retry_at

    def retry_soon(self, now: float) -> None:
        """The cause of the failure may be gone."""
        if self.state is State.FAILED:
            self.retry_at = now

    def forget_failures(self) -> None:
        """If it fails again, the pauses begin with the shortest."""
        self.failures = 0

    def rest(self) -> None:
        """Send nothing until `wake`: the target, or the unpacking of batches, needs a pause."""
        self.rests = True

    def wake(self) -> None:
        self.rests = False
