"""How a lane's batches are packed: they were made to go out as they are (`pipeline.produce.record_pieces`), and are
split only where the target refuses one. Made by `pipeline.produce.gate`, called by `pipeline.produce.buffer`.
"""

from dataclasses import replace

from sparkmirror.batch.header import BatchHeader, parse_header
from sparkmirror.batch.unpacking import Unpacking
from sparkmirror.pipeline.produce.limits import TopicLimits
from sparkmirror.pipeline.produce.packing import Packing
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords, slice_spans


class LanePacking(Packing):
    """Of a lane, whose positions count records."""

    __slots__ = ()

    @classmethod
    def of(cls, packing: Packing) -> "LanePacking":
        return cls(clamp_timestamps=packing.clamp_timestamps, merging=False)

    def _must_rewrite(self, header: BatchHeader, queued: QueuedRecords, limits: TopicLimits) -> bool:  # noqa: ARG002
        """What is larger than the limit known is refused by the target, and split in its turn: a record that is too
        large alone then fails its own source partition, and not all that the lane has records of."""
        return False

    def refit(self, batch: Batch, limits: TopicLimits, unpacking: Unpacking) -> list[Batch]:
        """Split a batch that the target refused into batches within its limits, or of half its size where these are not
        known; a record beyond that stands alone."""
        from sparkmirror.pipeline.produce.kept_records import decode_batch
        from sparkmirror.pipeline.produce.record_pieces import encode_batches

        halved = limits.is_halved(len(batch.data))
        if len(batch.data) <= limits.merged_bytes and not halved and not self.clamp_timestamps:
            return [batch]
        asked = self.asked(limits)
        if halved:
            asked = replace(asked, max_batch_bytes=len(batch.data) // 2)
        columns = decode_batch(batch.data, unpacking.budget.bound)
        fresh: list[Batch] = []
        done, begins = 0, batch.next_offset - batch.records
        for piece in encode_batches(columns, parse_header(batch.data, 0).codec, asked):
            spans, sequence = slice_spans(batch.spans, done, piece.records), batch.sequence + done
            done += piece.records
            data, reached = memoryview(piece.data), begins + done
            fresh.append(Batch(data, sequence, spans, piece.records, reached, batch.lineage, batch.queued))
        for one in fresh:
            one.refusals = batch.refusals
        batch.queued.open_batches += len(fresh) - 1
        return fresh
