"""Compress and decompress the records of a batch as Kafka's Java client does; bounded, so that no batch is a bomb.

Called by `batch.records` only; batches that pass through are never decompressed.

Source: `org.apache.kafka.common.compress` (`GzipCompression`, `SnappyCompression`, `Lz4BlockOutputStream`, …).
"""

import mmap
import threading

import cramjam

from sparkmirror.batch.content_size import BLOCK_LENGTH, XERIAL_HEADER, has_xerial_frame, read_claim, xerial_blocks
from sparkmirror.batch.header import Codec
from sparkmirror.errors import ContentTooLarge, ProtocolError

_XERIAL_BLOCK_BYTES = 32 * 1024
_SCRATCH_BYTES = 1 << 20


def compress(codec: Codec, data: bytes | memoryview) -> bytes:
    """`data` as a complete stream of the codec, readable by every Kafka client; `data` itself for `Codec.NONE`."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data))
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            return _compress_lz4(data)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data))


def decompress(codec: Codec, data: bytes | memoryview, max_bytes: int) -> bytes:
    """The whole content of a stream of the codec.

    Raises ContentTooLarge for content of more than `max_bytes`: before anything is unpacked where the stream's frames
    tell its size, else as soon as so much is there, whatever they say. Raises ProtocolError for a damaged stream.
    """
    packed = memoryview(data)
    claim = read_claim(codec, packed)
    if claim is not None and claim.is_stated and claim.content_bytes > max_bytes:
        raise _too_large(codec, max_bytes)
    if codec is Codec.NONE:
        return bytes(packed)
    if claim is None and codec is Codec.SNAPPY:
        raise ProtocolError("the snappy data of a record batch is damaged: its blocks have no lengths")
    room_bytes = max_bytes if claim is None else min(claim.content_bytes, max_bytes)
    try:
        if codec is Codec.SNAPPY:
            return _decompress_snappy(packed)
        return _decompress_stream(codec, packed, room_bytes)
    except cramjam.DecompressionError as error:
        raise ProtocolError(f"the {codec.name.lower()} data of a record batch is damaged: {error}") from error
    except _NoRoom:
        if room_bytes == max_bytes:
            raise _too_large(codec, max_bytes) from None
        reason = f"it holds more than the {room_bytes} bytes that it states"
        raise ProtocolError(f"the {codec.name.lower()} data of a record batch is damaged: {reason}") from None


def _compress_lz4(data: bytes | memoryview) -> bytes:
    # Kafka's Java reader refuses linked blocks, cramjam's default. Level 1 is the fast compressor that Java takes too,
    # at 0.5 ns a byte; cramjam's default is the high compressor, at 8 ns.
    compressor = cramjam.lz4.Compressor(level=1, block_linked=False, content_checksum=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _compress_xerial(data: bytes | memoryview) -> bytes:
    framed = bytearray(XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        framed += BLOCK_LENGTH.pack(len(block)) + block
    return bytes(framed)


class _Scratch(threading.local):
    """Pages that are there already: touching new ones for each batch costs several times what decompressing does."""

    def __init__(self) -> None:
        self.pages = bytearray(_SCRATCH_BYTES)


_scratch = _Scratch()


class _NoRoom(Exception):
    """The content does not fit."""


def _decompress_stream(codec: Codec, data: memoryview, room_bytes: int) -> bytes:
    """In the room at hand where the content may fit into it, else in pages that are backed as far as they are written.

    Raises _NoRoom.
    """
    if len(data) < _SCRATCH_BYTES:
        try:
            return _decompress_into(_scratch.pages, codec, data, room_bytes)
        except _NoRoom:
            if room_bytes <= _SCRATCH_BYTES:
                raise
    with mmap.mmap(-1, room_bytes + 1) as pages:
        return _decompress_into(pages, codec, data, room_bytes)


def _decompress_into(room: bytearray | mmap.mmap, codec: Codec, data: memoryview, room_bytes: int) -> bytes:
    module = {Codec.GZIP: cramjam.gzip, Codec.LZ4: cramjam.lz4, Codec.ZSTD: cramjam.zstd}[codec]
    try:
        size_bytes = module.decompress_into(data, room)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise _NoRoom from error
        raise
    if size_bytes > room_bytes:
        raise _NoRoom
    with memoryview(room) as content:
        return bytes(content[:size_bytes])


def _decompress_snappy(data: memoryview) -> bytes:
    """Each block's length stands in front of it, and no block gets more room."""
    if not has_xerial_frame(data):
        return bytes(cramjam.snappy.decompress_raw(data))
    content = bytearray()
    for block in xerial_blocks(data):
        content += cramjam.snappy.decompress_raw(block)
    return bytes(content)


def _too_large(codec: Codec, max_bytes: int) -> ContentTooLarge:
    return ContentTooLarge(
        f"a {codec.name.lower()} record batch holds more than {max_bytes} bytes once decompressed; it is not unpacked"
    )
