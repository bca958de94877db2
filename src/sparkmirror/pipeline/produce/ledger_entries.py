"""Records for the ledger on their way, and the lots that they go out in. Pure; made by `pipeline.produce.progress`."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from sparkmirror.batch.records import RecordHeader

_LOT_BYTES_MAX: Final = 512 << 10
_RECORD_OVERHEAD_BYTES_MAX: Final = 32


class Entry(NamedTuple):
    """One record of the ledger; `forget` makes it due again if it was lost, `keep` is called when it is stored for
    good."""

    key: bytes
    value: bytes
    forget: Callable[[], None]
    headers: tuple[RecordHeader, ...] = ()
    keep: Callable[[], None] | None = None

    @property
    def bytes_max(self) -> int:
        """The most bytes that it takes of a batch."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key) + len(self.value) + headers + _RECORD_OVERHEAD_BYTES_MAX


def keep_all(stored: Iterable[Entry]) -> None:
    """They are stored for good."""
    for entry in stored:
        if entry.keep is not None:
            entry.keep()


def lots_of(entries: list[Entry]) -> Iterator[list[Entry]]:
    """Lots that any topic's `max.message.bytes` allows."""
    lot: list[Entry] = []
    size = 0
    for entry in entries:
        if lot and size + entry.bytes_max > _LOT_BYTES_MAX:
            yield lot
            lot, size = [], 0
        lot.append(entry)
        size += entry.bytes_max
    yield lot
