"""Whether the next batches of a partition are better merged than passed through, and how many of them; pure.

Called by `pipeline.produce.packing` for each batch that is about to be sent: `may_pay` first, then `choose` where that
says yes.

The cost model. A batch that passes through costs some 50 µs of CPU over all processes, whatever its size: its share of
requests, answers, positions and rows. Merging costs some 45 µs, and for each byte of records what it takes to decode
and encode it in that codec (`python -m bench.kernels`); of lz4, what `batch.splicing` takes. So on a near target, what
pays is small batches: about 40 KB uncompressed, 20 KB of lz4, nothing of gzip that is worth sending. Fewer than eight
pass in any case, or are joined without kernels (`batch.joining`): to rebuild some takes 150 µs, and twice that when the
code is cold, as it is where a mirror is caught up.

Far away, time is the cost: at most 5 batches of a partition are in flight, so as long as more are waiting, each takes a
fifth of the round trip from the partition's rate. Half of that counts, for the core has other partitions to serve. The
round trip is the shortest acknowledgement lately: longer ones say that brokers are busy, which merging does not mend,
and up to 5 ms says nothing.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from sparkmirror.batch.header import MAGIC, Codec
from sparkmirror.batch.headers import MAGIC_NUMBER, TOTAL_BYTES, Headers
from sparkmirror.batch.unpacking import USUAL_SHARE

IN_FLIGHT_MAX: Final = 5
MERGED_BYTES_MAX: Final = 4 << 20
"""Larger batches save nothing more, and are memory that cannot be freed in parts."""

PASSED_BYTES_MIN: Final = 48 << 10
"""To merge larger batches never pays on a near target: `_pays`, of any number of them, in any codec."""

_BATCH_SECONDS = 50e-6
_MERGE_SECONDS = 45e-6
_BYTE_SECONDS = {
    Codec.NONE: 1.0e-9,
    Codec.GZIP: 28e-9,
    Codec.SNAPPY: 2.0e-9,
    Codec.LZ4: 1.3e-9,
    Codec.ZSTD: 5.0e-9,
}
_PACKED_SHARE = 0.9
_NEAR_SECONDS = 5e-3
_WAITING_SHARE = 0.5
_FEW_BATCHES = 8
_GAIN_MIN = 1.2
"""Guesses are rough, so that merging must look better by this much."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """How one target partition stands: batches in flight, the shortest acknowledgement lately, and its limits.

    `round_trip_seconds` is 0 for a near target, whose slow answers are its own. `max_batch_bytes` is the target topic's
    `max.message.bytes`, `filled_bytes_max` what merging may fill a batch up to. `unpacked_share` is what a compressed
    byte of the partition became last; the rest of the error is in how the records compress.
    """

    in_flight: int
    round_trip_seconds: float
    max_batch_bytes: int
    filled_bytes_max: int = MERGED_BYTES_MAX
    unpacked_share: float = USUAL_SHARE

    def merged_bytes_max(self, codec: Codec) -> int:
        """How much of the source to merge into one batch: packed records take more or less room than they did before,
        and what does not fit would be a small batch among the few that may be in flight."""
        room_bytes = min(self.max_batch_bytes, self.filled_bytes_max)
        return room_bytes if codec is Codec.NONE else int(room_bytes * _PACKED_SHARE)


def may_pay(batch_bytes: int, codec: Codec, queued_bytes: int, traffic: Traffic) -> bool:
    """Whether merging would pay if all of the `queued_bytes` came in batches as large as the next one. 1 µs."""
    waiting = queued_bytes // batch_bytes
    if waiting < _FEW_BATCHES and traffic.round_trip_seconds <= _NEAR_SECONDS:
        return False
    batches = min(queued_bytes, traffic.merged_bytes_max(codec)) // batch_bytes
    return _pays(batches, batches * batch_bytes, codec, waiting, traffic)


def passing_seconds(batches: int, traffic: Traffic) -> float:
    """What it would take to pass so many waiting batches through, one by one."""
    return batches * (_BATCH_SECONDS + _waiting_seconds(batches, traffic))


def choose(headers: Headers, first: int, traffic: Traffic, *, is_rewritten: bool = False) -> int:
    """How many of the queued batches from row `first` on to make one batch of, by `batch.rewrite.rewrite`.

    1 means that the batch is best left alone: passed through, if it can be. Control batches among them count, too; they
    vanish. A batch that cannot pass through is rewritten anyway, and so takes along what fits; `is_rewritten` says so
    of one for reasons that its header does not tell. Raises ProtocolError for a codec that Kafka does not have.
    """
    table = headers.table[first:]
    control = headers.are_control[first:]
    sizes = np.where(control, 0, table[:, TOTAL_BYTES])
    codec = headers.codec_of(first)
    fitting = int(np.searchsorted(np.cumsum(sizes), traffic.merged_bytes_max(codec), "right"))
    is_rewritten = is_rewritten or not bool(headers.rows(first, first + 1).passable(traffic.max_batch_bytes)[0])
    kinds = headers.codecs[first:] + 8 * (table[:, MAGIC_NUMBER] == MAGIC)
    others = np.flatnonzero((kinds != kinds[0]) & ~control)
    count = min(fitting, int(others[0]) if len(others) else len(table))
    if count < 2 or is_rewritten:
        return max(count, 1)
    batches = count - int(np.count_nonzero(control[:count]))
    waiting = len(table) - int(np.count_nonzero(control))
    return count if _pays(batches, int(sizes[:count].sum()), codec, waiting, traffic) else 1


def _pays(batches: int, all_bytes: int, codec: Codec, waiting: int, traffic: Traffic) -> bool:
    if batches < 2:
        return False
    saved = (batches - 1) * (_BATCH_SECONDS + _waiting_seconds(waiting, traffic))
    unpacked_bytes = all_bytes if codec is Codec.NONE else all_bytes * traffic.unpacked_share
    return saved > _GAIN_MIN * (_MERGE_SECONDS + unpacked_bytes * _BYTE_SECONDS[codec])


def _waiting_seconds(waiting: int, traffic: Traffic) -> float:
    """What one batch more costs in time, where the batches that wait are more than may be in flight."""
    if waiting <= IN_FLIGHT_MAX - traffic.in_flight:
        return 0.0
    return max(traffic.round_trip_seconds - _NEAR_SECONDS, 0.0) / IN_FLIGHT_MAX * _WAITING_SHARE
