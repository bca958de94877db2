"""Reads the file in which a standalone worker of Kafka Connect keeps positions (`offset.storage.file.filename`).

It is a `HashMap<byte[], byte[]>` as Java serialises it (`FileOffsetBackingStore.save`; Java Object Serialization
Specification, chapter 6), of which exactly that is read: no other class, nothing behind it. Keys and values are those
of Connect's offsets topic (`ledger.connect`). Called by `operations.position_snapshot`.
"""

import struct
from pathlib import Path
from typing import Final

from sparkmirror.errors import ConfigError, ProtocolError
from sparkmirror.ledger import connect
from sparkmirror.model import Connector, TopicPartition

BYTES_MAX: Final = 64 << 20
"""The largest file that is read; a position takes about a hundred bytes."""
_MAGIC: Final = bytes.fromhex("aced0005")
_NULL, _REFERENCE, _CLASS, _OBJECT, _ARRAY, _BLOCK, _END_BLOCK = 0x70, 0x71, 0x72, 0x73, 0x75, 0x77, 0x78
_FIRST_HANDLE: Final = 0x7E0000
# Name, serialVersionUID, flags, two fields, the end of annotations, no superclass.
_MAP_CLASS: Final = b"".join(
    (
        bytes.fromhex("72 0011") + b"java.util.HashMap",
        bytes.fromhex("0507dac1c31660d1 03 0002"),
        b"F" + bytes.fromhex("000a") + b"loadFactor",
        b"I" + bytes.fromhex("0009") + b"threshold",
        bytes.fromhex("78 70"),
    )
)
_BYTES_CLASS: Final = bytes.fromhex("72 0002") + b"[B" + bytes.fromhex("acf317f8060854e0 02 0000 78 70")


def read_positions(path: str, connector: Connector) -> dict[TopicPartition, int]:
    """The next offset to mirror of each partition that the file has of the connector.

    Raises ConfigError where the file cannot be read, is no such file, or has none.
    """
    stored = _read(path)
    found: dict[TopicPartition, int] = {}
    for key, value in stored.items():
        partition = connect.decode_key(key, connector)
        try:
            offset = None if partition is None else connect.decode_value(value)
        except ProtocolError as problem:
            raise ConfigError(f"the position of {partition}: {problem}", file=path) from None
        if partition is not None and offset is not None:
            found[partition] = offset
    if not found:
        wanted = f"the connector `{connector.name}` with the source alias `{connector.source_alias}`"
        raise ConfigError(f"there is no position of {wanted} among the {len(stored)} that it has", file=path)
    return found


def _read(path: str) -> dict[bytes, bytes | None]:
    try:
        with Path(path).open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"the offsets file `{path}` cannot be read: {error.strerror or error}") from None
    if len(data) > BYTES_MAX:
        raise ConfigError(f"it has more than {BYTES_MAX >> 20} MiB, which no worker's offsets take", file=path)
    try:
        return parse(data)
    except ProtocolError as problem:
        hint = "it is the one that offset.storage.file.filename of the standalone worker names; stop the worker first"
        raise ConfigError(f"this is not the offsets file of a standalone worker: {problem}", hint, file=path) from None


def parse(data: bytes) -> dict[bytes, bytes | None]:
    """Keys and values of a serialised map; what has a null key is left out. Raises ProtocolError for anything else."""
    stream = _Stream(data)
    stream.expect(_MAGIC + bytes([_OBJECT]) + _MAP_CLASS, "a java.util.HashMap")
    stream.take(8)  # loadFactor, threshold
    stream.expect(bytes([_BLOCK, 8]), "the map's size")
    _, size = struct.unpack(">ii", stream.take(8))
    if not 0 <= size <= stream.left // 2:  # a null is a byte
        raise ProtocolError(f"a map of {size} entries in {stream.left} bytes")
    found: dict[bytes, bytes | None] = {}
    for _ in range(size):
        key, value = stream.read_bytes(), stream.read_bytes()
        if key is not None:
            found[key] = value
    stream.expect(bytes([_END_BLOCK]), "the map's end")
    if stream.left:
        raise ProtocolError(f"{stream.left} bytes behind the map's end")
    return found


class _Stream:
    """Objects get handles in the order in which they come: the map's class, the map, the class of arrays, arrays."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._arrays: dict[int, bytes] = {}
        self._bytes_class = 0
        self._handle = _FIRST_HANDLE + 2

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise ProtocolError(f"{size} bytes at {self._at}, where {self.left} are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def expect(self, wanted: bytes, what: str) -> None:
        at = self._at
        if self._data[at : at + len(wanted)] != wanted:
            raise ProtocolError(f"no {what.removeprefix('a ')} at byte {at}")
        self._at += len(wanted)

    def read_bytes(self) -> bytes | None:
        """An array of bytes, new or met before, or null."""
        at, kind = self._at, self.take(1)[0]
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            return self._known(self._int(), at)
        if kind != _ARRAY:
            raise ProtocolError(f"no array of bytes at byte {at}")
        self._read_class()
        handle = self._next_handle()
        self._arrays[handle] = self.take(self._int())
        return self._arrays[handle]

    def _known(self, handle: int, at: int) -> bytes:
        if handle not in self._arrays:
            raise ProtocolError(f"a reference to no array of bytes at byte {at}")
        return self._arrays[handle]

    def _read_class(self) -> None:
        """The class of byte arrays: described at its first use, named by its handle later."""
        if not self._bytes_class:
            self.expect(_BYTES_CLASS, "the class of arrays of bytes")
            self._bytes_class = self._next_handle()
            return
        self.expect(bytes([_REFERENCE]) + struct.pack(">I", self._bytes_class), "the class of arrays of bytes")

    def _next_handle(self) -> int:
        self._handle += 1
        return self._handle - 1

    def _int(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])
