"""Compress and decompress the records of a batch as Kafka's Java client does; bounded, so that no batch is a bomb.

Called by `batch.records` only; batches that pass through are never decompressed.

Source: `org.apache.kafka.common.compress` (`GzipCompression`, `SnappyCompression`, `Lz4BlockOutputStream`, …).
"""

import mmap
import struct
import threading
from collections.abc import Iterator

import cramjam

from sparkmirror.batch.header import Codec
from sparkmirror.errors import ProtocolError

# snappy-java frames its blocks: magic, version 1, compatible with 1, then (length, raw snappy) until the end.
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_SCRATCH_BYTES = 1 << 20
_BLOCK_LENGTH = struct.Struct(">i")


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

    Raises ProtocolError when the stream is damaged, or its content larger than `max_bytes`; memory is touched only as
    far as there is content.
    """
    if codec is Codec.NONE:
        return _bounded(bytes(data), codec, max_bytes)
    try:
        if codec is Codec.SNAPPY:
            return _decompress_snappy(bytes(data), max_bytes)
        return _decompress_stream(codec, data, max_bytes)
    except cramjam.DecompressionError as error:
        raise ProtocolError(f"the {codec.name.lower()} data of a record batch is damaged: {error}") from error


def _compress_lz4(data: bytes | memoryview) -> bytes:
    # Kafka's Java reader refuses linked blocks, cramjam's default. Level 1 is the fast compressor that Java takes too,
    # at 0.5 ns a byte; cramjam's default is the high compressor, at 8 ns.
    compressor = cramjam.lz4.Compressor(level=1, block_linked=False, content_checksum=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _compress_xerial(data: bytes | memoryview) -> bytes:
    framed = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        framed += _BLOCK_LENGTH.pack(len(block)) + block
    return bytes(framed)


class _Scratch(threading.local):
    """Pages that are there already: touching new ones for each batch costs several times what decompressing does."""

    def __init__(self) -> None:
        self.pages = bytearray(_SCRATCH_BYTES)


_scratch = _Scratch()


def _decompress_stream(codec: Codec, data: bytes | memoryview, max_bytes: int) -> bytes:
    """gzip, lz4 and zstd do not tell their content's size: try the room at hand, then all that is allowed."""
    if len(data) < _SCRATCH_BYTES:
        try:
            return _decompress_into(_scratch.pages, codec, data, max_bytes)
        except _NoRoom:
            pass
    try:
        with mmap.mmap(-1, max_bytes + 1) as pages:  # backed as far as it is written
            return _decompress_into(pages, codec, data, max_bytes)
    except _NoRoom as error:
        raise _too_large(codec, max_bytes) from error


class _NoRoom(Exception):
    """The content does not fit."""


def _decompress_into(room: bytearray | mmap.mmap, codec: Codec, data: bytes | memoryview, max_bytes: int) -> bytes:
    module = {Codec.GZIP: cramjam.gzip, Codec.LZ4: cramjam.lz4, Codec.ZSTD: cramjam.zstd}[codec]
    try:
        size_bytes = module.decompress_into(data, room)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise _NoRoom from error
        raise
    if size_bytes > max_bytes:
        raise _too_large(codec, max_bytes)
    with memoryview(room) as content:
        return bytes(content[:size_bytes])


def _decompress_snappy(data: bytes, max_bytes: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _decompress_snappy_block(data, max_bytes)
    content = bytearray()
    for block in _xerial_blocks(data):
        content += _decompress_snappy_block(block, max_bytes, before_bytes=len(content))
    return bytes(content)


def _decompress_snappy_block(block: bytes, max_bytes: int, before_bytes: int = 0) -> bytes:
    # A block's length is written in front of it, so a bomb is known before a byte of it is made.
    if before_bytes + cramjam.snappy.decompress_raw_len(block) > max_bytes:
        raise _too_large(Codec.SNAPPY, max_bytes)
    return bytes(cramjam.snappy.decompress_raw(block))


def _xerial_blocks(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        if data.startswith(_XERIAL_MAGIC, position):  # at the start, and where one stream was appended to another
            position += len(_XERIAL_HEADER)
            continue
        start = position + _BLOCK_LENGTH.size
        length = _BLOCK_LENGTH.unpack_from(data, position)[0] if start <= len(data) else -1
        if not 0 <= length <= len(data) - start:
            raise ProtocolError("the snappy data of a record batch is damaged: a block is cut off or has no length")
        position = start + length
        yield data[start:position]
    if position > len(data):
        raise ProtocolError("the snappy data of a record batch is damaged: its frame's header is cut off")


def _bounded(content: bytes, codec: Codec, max_bytes: int) -> bytes:
    if len(content) > max_bytes:
        raise _too_large(codec, max_bytes)
    return content


def _too_large(codec: Codec, max_bytes: int) -> ProtocolError:
    return ProtocolError(
        f"a {codec.name.lower()} record batch holds more than {max_bytes} bytes once decompressed; it is not unpacked"
    )
