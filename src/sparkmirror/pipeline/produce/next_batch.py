"""Whether a partition may send now, and its next batch. Called by `pipeline.produce.dispatch`."""

from collections.abc import Mapping
from typing import Final

from sparkmirror.batch.unpacking import CONTENT_HINT, UnpackingBusy
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import ContentTooLarge, ProtocolError, RecordTooLarge
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.brokers import Brokers
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.direct_buffer import DirectBuffer
from sparkmirror.pipeline.produce.drain import Drain
from sparkmirror.pipeline.produce.effects import Advance, BackOff, Effects, Fail
from sparkmirror.pipeline.produce.guarantee import Guarantee
from sparkmirror.pipeline.produce.limits import TargetLimits
from sparkmirror.pipeline.produce.progress import Progress
from sparkmirror.pipeline.produce.queued_records import Batch

_KERNELS_SECONDS: Final = 0.02
_BUSY_SECONDS: Final = 0.05
_PARK_SECONDS: Final = 2.0
_SHORT_SECONDS: Final = 0.001
_OTHERS_PARTS: Final = 9


class NextBatches:
    """The next batches of all partitions of a task. `buffers` are those of source partitions."""

    def __init__(
        self,
        buffers: Mapping[TopicPartition, PartitionBuffer],
        guarantee: Guarantee,
        brokers: Brokers,
        progress: Progress,
        limits: TargetLimits,
        drain: Drain,
        effects: Effects,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._buffers = buffers
        self._guarantee = guarantee
        self._brokers = brokers
        self._progress = progress
        self._limits = limits
        self._drain = drain
        self._effects = effects
        self._clock = clock
        self._park_at = 0.0

    def take(self, buffer: PartitionBuffer) -> Batch | None:
        """The next batch, stamped; None if the partition has none, or may not send now. Then an effect, or the
        guarantee, has it offered again."""
        guarantee = self._guarantee
        if isinstance(buffer, DirectBuffer) and not buffer.keeps_offsets and self._may_pass_at_once:
            passed = buffer.pass_next(guarantee.identity)
            if passed is not None:
                return passed
        if not buffer.sendable:
            return None
        is_again = buffer.is_resending
        began = self._clock.monotonic()
        if not is_again and not (self._may_begin(buffer, began) and guarantee.admits(buffer)):
            return None
        if buffer.round_trip.is_far is not self._brokers.is_far:
            buffer.round_trip.note_distance(is_far=self._brokers.is_far)
        if buffer.awaits_kernels:
            self._effects.append(BackOff(buffer, began + _KERNELS_SECONDS))
            return None
        try:
            batch = buffer.next_batch(*guarantee.identity, guarantee.transactional)
        except UnpackingBusy:
            self._wait_to_unpack(buffer, began)
            return None
        except RecordTooLarge as problem:
            self._limits.ask(buffer.target.topic)
            self._effects.append(Fail(buffer, str(problem)))
            return None
        except ContentTooLarge as problem:
            self._effects.append(Fail(buffer, f"{problem}, and it cannot pass as it is; {CONTENT_HINT}"))
            return None
        except ProtocolError as problem:
            self._effects.append(Fail(buffer, str(problem)))
            return None
        finally:
            self._drain.wait_longer(self._clock.monotonic() - began)
            if buffer.unpacking.is_poor and len(self._buffers) > 1:
                self._hold_back(buffer, began)
        if batch is not None:
            if not is_again:
                guarantee.sent(buffer, batch)
        elif buffer.idle:  # the rest had no record to send
            self._effects.append(Advance(buffer, []))
        return batch

    @property
    def _may_pass_at_once(self) -> bool:
        """Whether nothing but the partition itself decides about its next batch."""
        return not (self._guarantee.transactional or self._brokers.is_far or self._drain.has_begun)

    def _may_begin(self, buffer: PartitionBuffer, now: float) -> bool:
        """In transactions no batch goes out whose position the ledger would refuse; of a lane's that was asked before
        (`pipeline.produce.range_admission`)."""
        if buffer.is_ledger or not self._guarantee.transactional:
            return buffer.is_ledger or self._drain.takes_new(now)
        if buffer.is_lane:
            return True
        reason = self._progress.obstacle(buffer.source)
        if reason:
            self._effects.append(Fail(buffer, reason))
        return not reason

    def _wait_to_unpack(self, buffer: PartitionBuffer, now: float) -> None:
        """Wait for room in the unpacking budget; partitions that do not move give their unpacked batches back."""
        self._rest(buffer, now + _BUSY_SECONDS)
        if now >= self._park_at:
            self._park_at = now + _PARK_SECONDS
            for other in self._buffers.values():
                if other.is_stuck(now, _PARK_SECONDS):
                    other.park()

    def _hold_back(self, buffer: PartitionBuffer, began: float) -> None:
        """Give a partition whose batches become very large a tenth of the time, and the rest to the others.

        Its time is that spent here, and that which the target's broker spends on unpacking batches that pass as they
        are.
        """
        ended = self._clock.monotonic()
        spent = ended - began + buffer.unpacking.owed_seconds
        if spent > _SHORT_SECONDS and not buffer.rests:
            buffer.unpacking.pay()
            self._rest(buffer, ended + _OTHERS_PARTS * spent)

    def _rest(self, buffer: PartitionBuffer, until: float) -> None:
        buffer.rest()
        self._effects.append(BackOff(buffer, until))
