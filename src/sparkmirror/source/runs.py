"""From the records of one partition in a fetch response to a run: headers only, pure. Called by `source.harvest`."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from sparkmirror.batch.header import CONTROL, LOG_OVERHEAD_BYTES, iterate_headers
from sparkmirror.kafka.wire import AbortedTransaction


class Run(NamedTuple):
    """The contiguous batches `buffer[start:stop]`, which account for source offsets first_offset … next_offset - 1.

    `first_offset` is the position that was fetched from, even where the first batch begins later (offsets that
    compaction or a transaction left empty) or earlier (the position lies inside it; the writer cuts it).
    """

    start: int
    stop: int
    first_offset: int
    next_offset: int
    batches: int
    records: int
    max_timestamp: int
    leader_epoch: int


def summarize(buffer: memoryview, start: int, stop: int, position: int, end: int | None) -> Run | None:
    """The run that a fetch from `position` brought, up to `end` when the read is bounded; None when it brought nothing.

    Batches that end below `position` are left out: brokers answer from the start of an index entry. Where the next
    batch begins at or after `end`, the offsets up to there are empty: the run has no bytes and accounts for them.
    Raises ProtocolError.
    """
    run_start = run_stop = start
    next_offset = position
    batches = records = 0
    max_timestamp = leader_epoch = -1
    for at, header in iterate_headers(buffer, start, stop):
        base_offset, batch_length, epoch, _, _, attributes, last_offset_delta = header[:7]
        after = base_offset + last_offset_delta + 1
        if after <= position:
            run_start = run_stop = at + batch_length + LOG_OVERHEAD_BYTES
            continue
        if end is not None and base_offset >= end:
            next_offset = max(next_offset, end)
            break
        run_stop = at + batch_length + LOG_OVERHEAD_BYTES
        batches += 1
        next_offset = after
        leader_epoch = epoch
        if not attributes & CONTROL:
            records += header[12]
            if header[8] > max_timestamp:
                max_timestamp = header[8]
    if next_offset == position:
        return None
    return Run(run_start, run_stop, position, next_offset, batches, records, max_timestamp, leader_epoch)


def summarize_committed(
    buffer: memoryview, start: int, stop: int, position: int, end: int | None, aborted: Sequence[AbortedTransaction]
) -> list[Run]:
    """As `summarize` for a read_committed fetch: batches of aborted transactions are left out, so runs may be several.

    They continue each other: the offsets of what was left out belong to the run behind it, or to a last run without
    bytes. `aborted` is what the broker said of this fetch (KIP-98); a transaction ends at its producer's next marker.
    """
    runs: list[Run] = []
    waiting = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
    open_producers: set[int] = set()
    left_out_to = position
    segment = start
    for at, header in iterate_headers(buffer, start, stop):
        while waiting and waiting[0].first_offset < header.next_offset:
            open_producers.add(waiting.popleft().producer_id)
        if header.is_control:
            open_producers.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in open_producers:
            _append(runs, summarize(buffer, segment, at, _reached(runs, position), end))
            segment = at + header.total_bytes
            left_out_to = header.next_offset if end is None else min(header.next_offset, end)
    _append(runs, summarize(buffer, segment, stop, _reached(runs, position), end))
    if left_out_to > _reached(runs, position):
        runs.append(Run(stop, stop, _reached(runs, position), left_out_to, 0, 0, -1, -1))
    return runs


def _append(runs: list[Run], run: Run | None) -> None:
    if run is not None:
        runs.append(run)


def _reached(runs: list[Run], position: int) -> int:
    return runs[-1].next_offset if runs else position
