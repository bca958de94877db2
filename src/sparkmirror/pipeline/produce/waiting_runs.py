"""The runs of one target partition that wait to be sent, in order. Owned by `pipeline.produce.buffer`."""

from collections import deque

from sparkmirror.errors import ProtocolError
from sparkmirror.pipeline.produce.packing import Linger
from sparkmirror.pipeline.produce.queued_records import QueuedRecords


class WaitingRuns:
    """`runs` is changed by `pipeline.produce.packing` too, which joins runs at its head."""

    __slots__ = ("_linger", "runs")

    def __init__(self, linger: Linger) -> None:
        self._linger = linger
        self.runs: deque[QueuedRecords] = deque()

    def add(self, queued: QueuedRecords, size_bytes: int) -> None:
        self.runs.append(queued)
        self._linger.add(size_bytes)

    def take_finished(self) -> QueuedRecords | None:
        """Remove a run without a batch to send from the head; None if there is none.

        So the offsets of control batches and gaps are reached when the batches before them are acknowledged, even while
        no target is known.
        """
        try:
            if self.runs and not self.runs[0].seek_batch():
                return self._leave()
        except ProtocolError:
            pass  # Met again by `PartitionBuffer.next_batch`, where it fails this partition alone.
        return None

    def _leave(self) -> QueuedRecords:
        queued = self.runs.popleft()
        queued.hand_out()
        if not self.runs:
            self._linger.begin_anew()
        return queued

    def copy_first(self) -> QueuedRecords | None:
        """A copy of the next batch alone; None without one that can be sent."""
        return self.runs[0].copy_first() if self.runs else None

    def park(self) -> None:
        """Free the unpacked batches."""
        for queued in self.runs:
            if queued.rewriting is not None:
                queued.rewriting.park()

    def drop(self) -> None:
        """Free the memory of all that waits; the reader sends it again."""
        while self.runs:
            self._leave()
