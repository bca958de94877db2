"""Which partition a key belongs to, as Java's producer chooses it (`BuiltInPartitioner.partitionForKey`): pure.

Called by `pipeline.produce.progress` for Connect's own topic, and where records go to a topic with another number of
partitions.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_UINT32 = 0xFFFFFFFF
_FACTOR = 0x5BD1E995
_SEED = 0x9747B28C
_POSITIVE = 0x7FFFFFFF


def murmur2_partition(key: bytes, partitions: int) -> int:
    """The partition of `key` in a topic of so many."""
    return (murmur2(key) & _POSITIVE) % partitions


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 (`Utils.murmur2`), as an unsigned number."""
    body = len(data) - len(data) % 4
    hashed = _SEED ^ len(data)
    for start in range(0, body, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _FACTOR & _UINT32
        word = (word ^ word >> 24) * _FACTOR & _UINT32
        hashed = (hashed * _FACTOR & _UINT32) ^ word
    if tail := data[body:]:
        hashed = (hashed ^ int.from_bytes(tail, "little")) * _FACTOR & _UINT32
    hashed = (hashed ^ hashed >> 13) * _FACTOR & _UINT32
    return hashed ^ hashed >> 15


def murmur2_partitions(
    content: "NDArray[np.uint8]", starts: "NDArray[np.int64]", lengths: "NDArray[np.int64]", partitions: int
) -> "NDArray[np.int64]":
    """As `murmur2_partition` for many keys at once, each `content[start : start + length]`; none may be absent."""
    import numpy as np

    padded = np.concatenate([content, np.zeros(4, np.uint8)])
    factor = np.uint32(_FACTOR)
    hashed = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    words = lengths // 4
    for at in range(int(words.max(initial=0))):
        rows = np.flatnonzero(words > at)
        word = _words(padded, starts[rows] + 4 * at) * factor
        word = (word ^ word >> np.uint32(24)) * factor
        hashed[rows] = hashed[rows] * factor ^ word
    tails = lengths % 4
    rows = np.flatnonzero(tails)
    mask = (np.uint32(1) << (tails[rows] * 8).astype(np.uint32)) - np.uint32(1)
    hashed[rows] = (hashed[rows] ^ _words(padded, starts[rows] + 4 * words[rows]) & mask) * factor
    hashed = (hashed ^ hashed >> np.uint32(13)) * factor
    hashed ^= hashed >> np.uint32(15)
    return (hashed & np.uint32(_POSITIVE)).astype(np.int64) % partitions


def _words(content: "NDArray[np.uint8]", starts: "NDArray[np.int64]") -> "NDArray[np.uint32]":
    """The little-endian numbers of four bytes that begin at `starts`."""
    import numpy as np

    quads = content[starts[:, None] + np.arange(4)]
    return np.ascontiguousarray(quads).view("<u4").reshape(-1)
