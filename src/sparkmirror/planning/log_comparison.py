"""Whether the records of two logs stand at the same offsets, with the same content; pure.

Called by `planning.log_proof`, with a source's batches and those of a target that keeps offsets, and by
`operations.kept_return`. Where one log has nothing at all, compaction or retention may have removed what the other
still has. Where one has a record, and the other a marker, aborted records or another record, they do not agree. Times
are not compared: the target may stamp its own.
"""

from collections import deque
from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from sparkmirror.batch.header import MAGIC
from sparkmirror.batch.records import Record, decode_records
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.wire.batch_owners import OwnedBatch


class _Stretch(NamedTuple):
    """Offsets of a log: a `batch` that was not looked into, a `record`, or neither, where no record is or was."""

    first: int
    stop: int
    batch: OwnedBatch | None = None
    record: Record | None = None
    is_opaque: bool = False
    """What lies here cannot be read, and agrees with anything."""


class _Log:
    def __init__(self, batches: Iterable[OwnedBatch], is_void: Callable[[OwnedBatch], bool]) -> None:
        self._batches = iter(batches)
        self._is_void = is_void
        self._stretches: deque[_Stretch] = deque()

    def head(self) -> _Stretch | None:
        """What a cleaner has left of a producer's last batch, without a record, is nothing."""
        if not self._stretches:
            for batch in self._batches:
                if not batch.header.records_count:
                    continue
                self._stretches.append(_Stretch(batch.first, batch.stop, None if self._is_void(batch) else batch))
                break
        return self._stretches[0] if self._stretches else None

    def step(self) -> None:
        self._stretches.popleft()

    def look_into(self, batch: OwnedBatch) -> None:
        """Put the head's records in its place."""
        self.step()
        self._stretches.extendleft(reversed(list(_records(batch))))


@dataclass(slots=True)
class Common:
    """Records, or whole batches, that two logs were found to have at the same offsets. Logs that agree may have none:
    where one has nothing, it agrees. `next_sequence` and `next_offset` follow the last of the flow's own batches on the
    target, None where it has none there."""

    count: int = 0
    next_sequence: int | None = None
    next_offset: int | None = None


def first_difference(
    source: Iterable[OwnedBatch], target: Iterable[OwnedBatch], common: Common | None = None, begins: int = 0
) -> int | None:
    """The first offset at which the logs do not agree, None without one; both in the order of offsets. What they have
    in `common` is counted. A log that `begins` within a batch has deleted what comes before in that."""
    return _compare(_Log(source, _has_no_record), _Log(target, _is_filler), common or Common(), begins)


def first_parting(
    one: Iterable[OwnedBatch],
    other: Iterable[OwnedBatch],
    *,
    is_committed: bool,
    common: Common | None = None,
    begins: int = 0,
) -> int | None:
    """As `first_difference`, of logs of which either may be the copy; `is_committed` says how both were read."""
    is_void = _has_no_record if is_committed else _is_filler
    return _compare(_Log(one, is_void), _Log(other, is_void), common or Common(), begins)


def are_same_at(
    offset: int, source: Collection[OwnedBatch], target: Collection[OwnedBatch], filler_ids: Container[int]
) -> bool:
    """Whether both logs have a record at this offset, with the same content; or the source's log still has a marker or
    aborted records there, so that no record belongs there, and the target's a marker or one of the flow's fillers."""
    one, other = _record_at(offset, source, _has_no_record), _record_at(offset, target, _is_filler)
    if one is not None and other is not None:
        return _content(one) == _content(other)
    here = (batch for batch in source if batch.first <= offset < batch.stop)
    there = (batch for batch in target if batch.first <= offset < batch.stop)
    return any(map(_has_no_record, here)) and any(batch.takes_up(filler_ids, lambda _: False) for batch in there)


def _record_at(offset: int, batches: Iterable[OwnedBatch], is_void: Callable[[OwnedBatch], bool]) -> Record | None:
    records = (one for batch in batches if not is_void(batch) for one in _records(batch))
    return next((one.record for one in records if one.first == offset and one.record is not None), None)


def _compare(here: _Log, there: _Log, common: Common, begins: int) -> int | None:
    while (one := here.head()) is not None and (other := there.head()) is not None:
        if one.stop <= other.first:
            here.step()
        elif other.stop <= one.first:
            there.step()
        elif _are_same_batch(one, other):
            common.count += 1
            here.step()
            there.step()
        elif one.batch is not None:
            here.look_into(one.batch)
        elif other.batch is not None:
            there.look_into(other.batch)
        elif (at := max(one.first, other.first)) >= begins and _disagree(one, other):
            return at
        else:
            common.count += at >= begins and one.record is not None and other.record is not None
            (here if one.stop <= other.stop else there).step()
    return None


def _has_no_record(batch: OwnedBatch) -> bool:
    """Empty records of a transaction are records of the source, which may be a target itself."""
    return batch.header.is_control or batch.is_aborted


def _is_filler(batch: OwnedBatch) -> bool:
    return batch.is_filler


def _records(batch: OwnedBatch) -> Iterable[_Stretch]:
    if batch.header.magic != MAGIC:
        return [_Stretch(batch.first, batch.stop, is_opaque=True)]
    try:
        found = decode_records(batch.data)
    except ProtocolError:
        return [_Stretch(batch.first, batch.stop, is_opaque=True)]
    return [_Stretch(one.offset, one.offset + 1, record=one) for one in found]


def _are_same_batch(one: _Stretch, other: _Stretch) -> bool:
    return one.batch is not None and other.batch is not None and one.batch.has_same_bytes(other.batch)


def _disagree(one: _Stretch, other: _Stretch) -> bool:
    if one.is_opaque or other.is_opaque:
        return False
    return _content(one.record) != _content(other.record)


def _content(record: Record | None) -> object:
    return record and record.content
