"""The partitions that an open transaction has sent to, and which of them still await answers. Owned by
`pipeline.produce.transaction`.
"""

from collections.abc import Collection, Iterable

from sparkmirror.pipeline.produce.buffer import PartitionBuffer


class TransactionContents:
    """`sources` are those of source partitions whose data a closing transaction holds."""

    def __init__(self) -> None:
        self._unsettled: dict[PartitionBuffer, None] = {}
        self._touched: dict[PartitionBuffer, None] = {}
        self.sources: dict[PartitionBuffer, None] = {}
        self._moved_at = 0.0

    def add(self, buffer: PartitionBuffer) -> None:
        """A batch of it goes out."""
        self._unsettled[buffer] = None

    def __contains__(self, buffer: PartitionBuffer) -> bool:
        return buffer in self._unsettled or buffer in self._touched

    def add_range(self, source: PartitionBuffer, lanes: Iterable[PartitionBuffer]) -> None:
        """Records of the source wait in these lanes."""
        self._unsettled.update(dict.fromkeys(lanes))
        self.sources[source] = None

    def close(self, now: float) -> None:
        """No more data goes out."""
        self._moved_at = now
        self._touched.update(self._unsettled)
        own = (buffer for buffer in self._unsettled if not buffer.is_lane and not buffer.is_ledger)
        self.sources.update(dict.fromkeys(own))

    def settle(self, now: float) -> Collection[PartitionBuffer]:
        """Drop those whose batches are all acknowledged, or given up; returns the others."""
        for buffer in list(self._unsettled):
            if buffer.idle if buffer.is_lane else buffer.settled:
                del self._unsettled[buffer]
                self._moved_at = now
        return self._unsettled

    def note_progress(self, now: float) -> None:
        """Count the target's silence from now on."""
        self._moved_at = now

    def awaited(self, ledger: Iterable[PartitionBuffer]) -> list[PartitionBuffer]:
        """The buffers, also of the ledger, whose answers the transaction needs to end."""
        return list(dict.fromkeys([*self._unsettled, *(buffer for buffer in ledger if not buffer.idle)]))

    def is_silent(self, now: float, seconds: float, ledger: Iterable[PartitionBuffer]) -> bool:
        """Whether the target has acknowledged nothing of it for so long; a slow one still answers now and then."""
        if now - self._moved_at <= seconds:
            return False
        self._moved_at = max([self._moved_at, *(buffer.progressed_at for buffer in self.awaited(ledger))])
        return now - self._moved_at > seconds

    @property
    def is_answered(self) -> bool:
        """Whether every batch of the transaction has an answer."""
        return all(buffer.quiet and not buffer.is_in_doubt for buffer in self._unsettled)

    @property
    def all(self) -> Collection[PartitionBuffer]:
        """The buffers whose data it has."""
        return {**self._unsettled, **self._touched}

    def forget(self) -> None:
        """The transaction is over."""
        self._unsettled.clear()
        self._touched.clear()
        self.sources.clear()
