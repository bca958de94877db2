"""The broker's side of the wire: requests from bytes and answers to bytes.

Fetch and Produce are written out here, by the message schemas of Apache Kafka 4.3 and apart from the product's own
encoding; all other requests are kafka-python's classes.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from kafka.protocol.admin import (
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteRecordsRequest,
    DescribeAclsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeProducersRequest,
    IncrementalAlterConfigsRequest,
    ListGroupsRequest,
)
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest
from kafka.protocol.producer.transaction import WriteTxnMarkersRequest

REQUESTS = {
    request.API_KEY: request
    for request in (
        ApiVersionsRequest, MetadataRequest, FindCoordinatorRequest, ListOffsetsRequest, DescribeConfigsRequest,
        DescribeTransactionsRequest, ListTransactionsRequest, InitProducerIdRequest, AddPartitionsToTxnRequest,
        EndTxnRequest, JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest, DescribeGroupsRequest,
        ListGroupsRequest, OffsetCommitRequest, OffsetFetchRequest, OffsetDeleteRequest, CreateTopicsRequest,
        CreatePartitionsRequest, DescribeAclsRequest, CreateAclsRequest, DeleteAclsRequest,
        IncrementalAlterConfigsRequest, DescribeProducersRequest, DeleteRecordsRequest, WriteTxnMarkersRequest,
    )
}  # fmt: skip
PRODUCE, FETCH = 0, 1
Key = UUID | str


_topic_id = lru_cache(1000)(lambda data: UUID(bytes=data))
_form = cache(lambda form: struct.Struct(">" + form))
_FETCHED, _ABORTED, _DIVERGING = struct.Struct(">ihqqq"), struct.Struct(">qqb"), struct.Struct(">iqb")
_SMALL = [bytes([value]) for value in range(0x80)]
_PREFERRED = struct.pack(">i", -1)
_HEADER = struct.Struct(">hhih")


class Reader:
    """Takes fields off the front of a request."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def take(self, form: str) -> Any:
        packed = _form(form)
        found = packed.unpack_from(self.data, self.at)
        self.at += packed.size
        return found[0] if len(found) == 1 else found

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def raw(self, size: int) -> bytes:
        self.at += size
        return bytes(self.data[self.at - size : self.at])

    def string(self) -> str | None:
        size = self.uvarint() - 1
        return None if size < 0 else self.raw(size).decode()

    def key(self, *, by_id: bool) -> Key:
        return _topic_id(self.raw(16)) if by_id else str(self.string())

    def tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self.raw(self.uvarint())

    def count(self) -> int:
        return max(self.uvarint() - 1, 0)


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _string(text: str | None) -> bytes:
    return b"\0" if text is None else uvarint(len(text.encode()) + 1) + text.encode()


def _key(key: Key) -> bytes:
    return key.bytes if isinstance(key, UUID) else _string(key)


def framed(correlation: int, body: bytes) -> bytes:
    """An answer with response header v1."""
    return struct.pack(">iib", 5 + len(body), correlation, 0) + body


class Header(NamedTuple):
    api: int
    version: int
    correlation: int
    body_at: int
    client_id: str


def read_header(frame: bytes) -> Header:
    api, version, correlation, size = _HEADER.unpack_from(frame)
    client_id = frame[10 : 10 + max(size, 0)].decode()
    return Header(api, version, correlation, 10 + max(size, 0) + 1, client_id)


@dataclass(slots=True)
class Wanted:
    """One partition of a Fetch."""

    key: Key
    partition: int
    leader_epoch: int
    offset: int
    last_epoch: int
    bytes_max: int


@dataclass(slots=True)
class FetchAsked:
    version: int
    wait_ms: int
    bytes_min: int
    bytes_max: int
    is_committed: bool
    session_id: int
    session_epoch: int
    wanted: list[Wanted]
    forgotten: list[tuple[Key, int]]


def read_fetch(header: Header, frame: bytes) -> FetchAsked:
    it = Reader(frame, header.body_at)
    version = header.version
    if version < 15:
        it.take("i")
    wait_ms, bytes_min, bytes_max, isolation, session_id, session_epoch = it.take("iiibii")
    wanted: list[Wanted] = []
    for _ in range(it.count()):
        key = it.key(by_id=version >= 13)
        for _ in range(it.count()):
            partition, leader_epoch, offset, last_epoch, _start, partition_bytes = it.take("iiqiqi")
            it.tags()
            wanted.append(Wanted(key, partition, leader_epoch, offset, last_epoch, partition_bytes))
        it.tags()
    forgotten: list[tuple[Key, int]] = []
    for _ in range(it.count()):
        key = it.key(by_id=version >= 13)
        forgotten += [(key, it.take("i")) for _ in range(it.count())]
        it.tags()
    return FetchAsked(
        version, wait_ms, bytes_min, bytes_max, bool(isolation), session_id, session_epoch, wanted, forgotten
    )


@dataclass(slots=True)
class Fetched:
    """One partition of a Fetch answer."""

    key: Key
    partition: int
    error: int = 0
    high_watermark: int = -1
    last_stable: int = -1
    start: int = -1
    aborted: list[tuple[int, int]] | None = None
    records: bytes = b""
    diverging: tuple[int, int] | None = None


def write_fetch(
    correlation: int, error: int, session_id: int, partitions: list[Fetched], throttle_ms: int = 0
) -> bytes:
    head = struct.pack(">ihi", throttle_ms, error, session_id)
    return framed(correlation, head + _by_topic(partitions, _fetched) + b"\0")


def _fetched(one: Fetched) -> bytes:
    out = bytearray(_FETCHED.pack(one.partition, one.error, one.high_watermark, one.last_stable, one.start))
    out += b"\0" if one.aborted is None else uvarint(len(one.aborted) + 1)
    for aborted in one.aborted or ():
        out += _ABORTED.pack(*aborted, 0)
    out += _PREFERRED + uvarint(len(one.records) + 1) + one.records
    out += b"\0" if one.diverging is None else b"\1\0\x0d" + _DIVERGING.pack(*one.diverging, 0)
    return bytes(out)


@dataclass(slots=True)
class ProduceAsked:
    version: int
    transactional_id: str | None
    items: list[tuple[Key, int, bytes]]
    acks: int = -1


def read_produce(header: Header, frame: bytes) -> ProduceAsked:
    it = Reader(frame, header.body_at)
    transactional_id = it.string()
    acks, _timeout_ms = it.take("hi")
    items: list[tuple[Key, int, bytes]] = []
    for _ in range(it.count()):
        key = it.key(by_id=header.version >= 13)
        for _ in range(it.count()):
            partition = it.take("i")
            items.append((key, partition, it.raw(it.count())))
            it.tags()
        it.tags()
    return ProduceAsked(header.version, transactional_id, items, acks)


@dataclass(slots=True)
class Produced:
    key: Key
    partition: int
    error: int = 0
    base: int = -1
    start: int = -1
    message: str | None = None
    append_time_ms: int = -1
    """That of the batch which the log has already."""


def write_produce(correlation: int, partitions: list[Produced], throttle_ms: int = 0) -> bytes:
    return framed(correlation, _by_topic(partitions, _produced) + struct.pack(">ib", throttle_ms, 0))


def _produced(one: Produced) -> bytes:
    head = _FETCHED.pack(one.partition, one.error, one.base, one.append_time_ms, one.start)
    return head + b"\1" + _string(one.message) + b"\0"


_Answer = TypeVar("_Answer", Fetched, Produced)


def _by_topic(partitions: Iterable[_Answer], write: Callable[[_Answer], bytes]) -> bytes:
    """The array of topics, each with the array of its partitions."""
    topics: dict[Key, list[_Answer]] = {}
    for one in partitions:
        topics.setdefault(one.key, []).append(one)
    written = (
        _key(key) + uvarint(len(members) + 1) + b"".join(map(write, members)) + b"\0" for key, members in topics.items()
    )
    return uvarint(len(topics) + 1) + b"".join(written)


@dataclass(slots=True)
class Known:
    """What one broker version speaks: API -> (lowest, highest). `fences_own` is as the coordinator has it."""

    versions: dict[int, tuple[int, int]]
    features: dict[str, int] = field(default_factory=dict)
    fences_own: bool = False


KAFKA_4_3 = Known(
    {0: (3, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 10: (0, 6), 11: (2, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5),
     15: (0, 6), 18: (0, 5), 22: (0, 5), 24: (0, 5), 26: (0, 5),
     32: (1, 4), 65: (0, 0), 66: (0, 2), 8: (2, 10), 9: (1, 10), 16: (0, 5), 47: (0, 0), 19: (2, 7), 37: (0, 3),
     29: (1, 3), 30: (1, 3), 31: (1, 3), 21: (0, 2), 61: (0, 0), 27: (1, 1)},
    {"transaction.version": 2},
)  # fmt: skip
KAFKA_3_0 = Known(
    {0: (0, 9), 1: (0, 12), 2: (0, 7), 3: (0, 11), 10: (0, 4), 11: (0, 7), 12: (0, 4), 13: (0, 4), 14: (0, 5),
     15: (0, 5), 18: (0, 3), 22: (0, 4), 24: (0, 3), 26: (0, 3),
     32: (0, 4), 65: (0, 0), 66: (0, 0), 8: (0, 8), 9: (0, 8), 16: (0, 4), 47: (0, 0), 19: (0, 7), 37: (0, 3),
     29: (0, 2), 30: (0, 2), 31: (0, 2), 21: (0, 2), 61: (0, 0), 27: (0, 1)},
    fences_own=True,
)  # fmt: skip
KAFKA_3_9 = Known(
    {0: (0, 11), 1: (0, 17), 2: (0, 9), 3: (0, 12), 10: (0, 6), 11: (0, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5),
     15: (0, 5), 18: (0, 4), 22: (0, 5), 24: (0, 5), 26: (0, 4),
     32: (0, 4), 65: (0, 0), 66: (0, 1), 8: (0, 9), 9: (0, 9), 16: (0, 5), 47: (0, 0), 19: (0, 7), 37: (0, 3),
     29: (0, 3), 30: (0, 3), 31: (0, 3), 21: (0, 2), 61: (0, 0), 27: (0, 1)},
    fences_own=True,
)  # fmt: skip
