"""How large the content of a compressed batch is, as its own frames say: read without unpacking anything; pure.

Called by `batch.codecs` before it unpacks, and by `pipeline.produce.packing` before batches are chosen to be merged.
About a microsecond a batch.

Source: RFC 8878 (zstd), the LZ4 frame format 1.6.1, snappy's format description, `SnappyOutputStream` (xerial).
"""

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from sparkmirror.batch.header import Codec
from sparkmirror.errors import ProtocolError

# snappy-java frames its blocks: magic, version 1, compatible with 1, then (length, raw snappy) until the end.
XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
BLOCK_LENGTH: Final = struct.Struct(">i")

_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_BLOCK_BYTES_MAX: Final = 128 << 10
_ZSTD_RAW, _ZSTD_RLE, _ZSTD_COMPRESSED = range(3)
LZ4_MAGIC: Final = 0x184D2204
LZ4_RAW: Final = 1 << 31
_LZ4_SHARE_MAX: Final = 255
_SKIPPABLE: Final = 0x184D2A50
_U32: Final = struct.Struct("<I")


class ContentSize(NamedTuple):
    """`content_bytes` of a batch's records. Not `is_stated`, they are the most that the frame's blocks can hold."""

    content_bytes: int
    is_stated: bool


ReadFrame = Callable[[memoryview, int], tuple[ContentSize, int]]
"""The size that a frame's content has, and where the frame ends, of the stream and where the frame begins."""


def read_claim(codec: Codec, data: memoryview) -> ContentSize | None:
    """What the compressed `data` says. None where it says nothing: gzip, and what is no stream of the codec.

    It is the sender's word: who unpacks still has to bound what comes out.
    """
    try:
        match codec:
            case Codec.NONE:
                return ContentSize(len(data), is_stated=True)
            case Codec.GZIP:  # its size stands at its end, modulo 2^32, and of its last member only
                return None
            case Codec.SNAPPY:
                return _snappy(data)
            case Codec.LZ4:
                return _add_up(_frames(data, LZ4_MAGIC, _lz4_frame))
            case Codec.ZSTD:
                return _add_up(_frames(data, _ZSTD_MAGIC, _zstd_frame))
    except (IndexError, struct.error, ProtocolError):
        return None


def has_xerial_frame(data: memoryview, at: int = 0) -> bool:
    """Whether snappy-java's framing begins there; other clients write one raw block."""
    return data[at : at + len(XERIAL_MAGIC)].tobytes() == XERIAL_MAGIC


def xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    """The raw snappy blocks of a stream in snappy-java's framing. Raises ProtocolError for a damaged one."""
    position = 0
    while position < len(data):
        if has_xerial_frame(data, position):  # at the start, and where one was appended
            position += len(XERIAL_HEADER)
            continue
        start = position + BLOCK_LENGTH.size
        length = BLOCK_LENGTH.unpack_from(data, position)[0] if start <= len(data) else -1
        if not 0 <= length <= len(data) - start:
            raise ProtocolError("the snappy data of a record batch is damaged: a block is cut off or has no length")
        position = start + length
        yield data[start:position]
    if position > len(data):
        raise ProtocolError("the snappy data of a record batch is damaged: its frame's header is cut off")


def _snappy(data: memoryview) -> ContentSize:
    if not has_xerial_frame(data):
        return ContentSize(_varint(data), is_stated=True)
    return ContentSize(sum(_varint(block) for block in xerial_blocks(data)), is_stated=True)


def _varint(block: memoryview) -> int:
    """The length in front of a snappy block."""
    value = 0
    for place in range(5):
        byte = block[place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value
    raise IndexError("a length that does not end")


def _add_up(frames: Iterator[ContentSize]) -> ContentSize | None:
    found = list(frames)
    return (
        ContentSize(sum(frame.content_bytes for frame in found), all(frame.is_stated for frame in found))
        if found
        else None
    )


def _frames(data: memoryview, own_magic: int, read: ReadFrame) -> Iterator[ContentSize]:
    """Of each frame of the stream; zstd and lz4 share the skippable ones. `read` is given where one begins."""
    at = 0
    while at < len(data):
        magic = _U32.unpack_from(data, at)[0]
        if magic & ~0xF == _SKIPPABLE:
            at += 8 + _U32.unpack_from(data, at + 4)[0]
            continue
        if magic != own_magic:
            raise IndexError("no frame")
        found, at = read(data, at)
        yield found


def _zstd_frame(data: memoryview, at: int) -> tuple[ContentSize, int]:
    descriptor = data[at + 4]
    is_single, has_checksum = bool(descriptor & 0x20), bool(descriptor & 0x04)
    at += 5
    window = _ZSTD_BLOCK_BYTES_MAX if is_single else _zstd_window(data[at])
    at += (not is_single) + (0, 1, 2, 4)[descriptor & 3]
    size_bytes = (int(is_single), 2, 4, 8)[descriptor >> 6]
    stated_bytes = int.from_bytes(data[at : at + size_bytes], "little") + (256 if size_bytes == 2 else 0)
    blocks_bytes, at = _zstd_blocks(data, at + size_bytes, min(window, _ZSTD_BLOCK_BYTES_MAX))
    return ContentSize(stated_bytes if size_bytes else blocks_bytes, bool(size_bytes)), at + 4 * has_checksum


def _zstd_window(byte: int) -> int:
    base = 1 << (10 + (byte >> 3))
    return base + base // 8 * (byte & 7)


def _zstd_blocks(data: memoryview, at: int, block_bytes_max: int) -> tuple[int, int]:
    """The most that a frame's blocks hold, and where they end."""
    content_bytes = 0
    while True:
        header = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        kind, size = header >> 1 & 3, header >> 3
        content_bytes += block_bytes_max if kind == _ZSTD_COMPRESSED else size
        at += 3 + (1 if kind == _ZSTD_RLE else size)
        if header & 1:
            return content_bytes, at


def _lz4_frame(data: memoryview, at: int) -> tuple[ContentSize, int]:
    flags, block_bytes_max = data[at + 4], 1 << (8 + 2 * (data[at + 5] >> 4 & 7))
    has_size, has_checksum = bool(flags & 0x08), bool(flags & 0x04)
    stated_bytes = int.from_bytes(data[at + 6 : at + 14], "little") if has_size else 0
    at += 7 + 8 * has_size + 4 * (flags & 1)
    blocks_bytes, at = _lz4_blocks(data, at, block_bytes_max, 4 if flags & 0x10 else 0)
    return ContentSize(stated_bytes if has_size else blocks_bytes, has_size), at + 4 * has_checksum


def _lz4_blocks(data: memoryview, at: int, block_bytes_max: int, checksum_bytes: int) -> tuple[int, int]:
    content_bytes = 0
    while size := _U32.unpack_from(data, at)[0]:
        packed_bytes = size & ~LZ4_RAW
        content_bytes += packed_bytes if size & LZ4_RAW else min(block_bytes_max, packed_bytes * _LZ4_SHARE_MAX)
        at += 4 + packed_bytes + checksum_bytes
    return content_bytes, at + 4
