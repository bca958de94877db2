"""Fetch and Produce on the wire: the two requests that carry data, encoded and decoded without a copy.

All other requests are kafka-python's. Only flexible versions are spoken: Fetch v12 to v18 (by topic id from v13) and
Produce v9 to v13 (by topic id from v13). Source: https://kafka.apache.org/protocol and the message schemas
FetchRequest.json, FetchResponse.json, ProduceRequest.json, ProduceResponse.json of Apache Kafka 4.3.
Called by `pipeline.fetch.connection`, `pipeline.produce.connection` and the tests.
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from sparkmirror.errors import ProtocolError
from sparkmirror.model import NO_EPOCH

FETCH = 1
PRODUCE = 0
FETCH_VERSIONS = (12, 18)
PRODUCE_VERSIONS = (9, 13)
FIRST_TRANSACTIONS = (9, 11)
SECOND_TRANSACTIONS = (12, 13)
"""Versions of a produce request in a transaction, by the protocol (KIP-890): from 12 on it adds partitions itself."""
TOPIC_ID_FETCH = 13
TOPIC_ID_PRODUCE = 13
MAX_FRAME_BYTES = 1 << 30

Buffer = bytes | bytearray | memoryview
TopicKey = bytes | str
"""A topic's id where the version speaks ids, as its 16 bytes, whose hash no Python code makes; else its name."""

_HEADER = Struct(">hhih")
_FETCH_HEAD = Struct(">iiibii")
FETCH_TOPICS_AT = _FETCH_HEAD.size
"""Where the number of topics stands in the body of a fetch request, from v15 on."""
_FETCH_RESPONSE = Struct(">ihi")
_PRODUCE_HEAD = Struct(">hi")
_pack_fetch_partition = Struct(">iiqiqix").pack
_FETCHED = Struct(">ihqqq")
_FETCHED_BYTES = _FETCHED.size
_ABORTED = Struct(">qq")
_PRODUCED = Struct(">ihqqq")
_PLAIN_PRODUCED = Struct(">ihqqq3s")
_PLAIN_TAIL = bytes(6)
"""No tagged field of the topic, no throttle time, no tagged field."""
_NO_MESSAGE = b"\x01\0\0"
"""No record's error, a null message, no tagged field."""
_INT32 = Struct(">i")
_TWO_BYTES = Struct("BB")
_EPOCH_END = Struct(">iq")
_NOT_DIVERGING = (-1, -1)
_new_tuple = tuple.__new__


class FetchPosition(NamedTuple):
    """One partition of a fetch request. `current_epoch` is the leader epoch by which its broker was found: a broker of
    another one refuses."""

    topic_key: TopicKey
    partition: int
    offset: int
    last_epoch: int
    bytes_max: int
    current_epoch: int = NO_EPOCH


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class FetchedPartition(NamedTuple):
    """One partition of a fetch response; the records are `buffer[start:stop]` of the frame that was parsed."""

    topic_key: TopicKey
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    preferred_replica: int
    start: int
    stop: int
    aborted: tuple[AbortedTransaction, ...]
    diverging_epoch: int
    diverging_offset: int


class FetchResponse(NamedTuple):
    throttle_ms: int
    error: int
    session_id: int
    partitions: list[FetchedPartition]


class ProducedPartition(NamedTuple):
    """The broker's answer for one batch; `base_offset` is -1 when the broker does not know it (DUPLICATE_SEQUENCE).

    `append_time_ms` is -1 for a batch that was appended now to a topic whose records keep their own times. For one that
    the log has already, by its sequence numbers, it is the time of that one (`UnifiedLog.append`).
    """

    topic_key: TopicKey
    partition: int
    error: int
    base_offset: int
    message: str
    append_time_ms: int = -1


class ProduceResponse(NamedTuple):
    throttle_ms: int
    partitions: list[ProducedPartition]


def encode_uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    value = buffer[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    shift = 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 35:
            raise ProtocolError("a broker sent a length that does not end")


def _compact_string(text: str) -> bytes:
    encoded = text.encode()
    return encode_uvarint(len(encoded) + 1) + encoded


def encode_topic_key(key: TopicKey) -> bytes:
    """As it stands before a topic's partitions."""
    return key if isinstance(key, bytes) else _compact_string(key)


def request_header(api: int, version: int, correlation: int, client_id: str) -> bytes:
    """Request header v2 (KIP-482), without the frame's length."""
    name = client_id.encode()
    return b"".join((_HEADER.pack(api, version, correlation, len(name)), name, b"\0"))


def frame(*parts: Buffer) -> list[Buffer]:
    """Put the frame's length before the parts."""
    return [_INT32.pack(sum(map(len, parts))), *parts]


def encode_fetch(
    version: int,
    *,
    session_id: int,
    session_epoch: int,
    positions: Sequence[FetchPosition],
    forgotten: Sequence[tuple[TopicKey, int]] = (),
    wait_ms: int,
    bytes_min: int,
    bytes_max: int,
    read_committed: bool,
    rack: str = "",
) -> bytes:
    """The body of a consumer's FetchRequest v12 to v18, as one step of an incremental session (KIP-227)."""
    out = bytearray()
    if version < 15:
        out += _INT32.pack(-1)
    out += _FETCH_HEAD.pack(wait_ms, bytes_min, bytes_max, int(read_committed), session_id, session_epoch)
    topics: dict[TopicKey, list[FetchPosition]] = {}
    for position in positions:
        topics.setdefault(position.topic_key, []).append(position)
    out += encode_uvarint(len(topics) + 1)
    for key, members in topics.items():
        out += encode_topic_key(key) + encode_uvarint(len(members) + 1)
        for _, partition, offset, last_epoch, partition_bytes_max, current_epoch in members:
            out += _pack_fetch_partition(partition, current_epoch, offset, last_epoch, -1, partition_bytes_max)
        out += b"\0"
    gone: dict[TopicKey, list[int]] = {}
    for key, partition in forgotten:
        gone.setdefault(key, []).append(partition)
    out += encode_uvarint(len(gone) + 1)
    for key, partitions in gone.items():
        out += encode_topic_key(key) + encode_uvarint(len(partitions) + 1)
        out += b"".join(map(_INT32.pack, partitions)) + b"\0"
    out += _compact_string(rack) + b"\0"
    return bytes(out)


def decode_fetch(version: int, buffer: memoryview) -> FetchResponse:
    """Decode one whole FetchResponse frame (response header v1 included); records stay where they are.

    Raises ProtocolError for anything that does not parse.
    """
    try:
        return _decode_fetch(version, buffer)
    except (IndexError, StructError, UnicodeDecodeError, ValueError) as problem:
        raise ProtocolError(f"a fetch response of {len(buffer)} bytes cannot be read: {problem}") from problem


def _decode_fetch(version: int, buffer: memoryview) -> FetchResponse:
    position = _skip_tags(buffer, 4)
    throttle, error, session = _FETCH_RESPONSE.unpack_from(buffer, position)
    topics, position = _uvarint(buffer, position + _FETCH_RESPONSE.size)
    fetched: list[FetchedPartition] = []
    for _ in range(topics - 1):
        key, position = _read_topic_key(buffer, position, by_id=version >= TOPIC_ID_FETCH)
        count, position = _uvarint(buffer, position)
        for _ in range(count - 1):
            partition, position = _decode_fetched(buffer, position, key)
            fetched.append(partition)
        position = _skip_tags(buffer, position)
    _finish(buffer, position)
    return FetchResponse(max(throttle, 0), error, session, fetched)


def _decode_fetched(buffer: memoryview, position: int, key: TopicKey) -> tuple[FetchedPartition, int]:
    index, error, high_watermark, last_stable, log_start = _FETCHED.unpack_from(buffer, position)
    position += _FETCHED_BYTES
    aborted: tuple[AbortedTransaction, ...] = ()
    if buffer[position] <= 1:
        position += 1
    else:
        aborted, position = _aborted(buffer, position)
    (preferred,) = _INT32.unpack_from(buffer, position)
    start = position + 6
    length, high = buffer[position + 4], buffer[position + 5]
    if length >= 0x80 and high < 0x80:  # as most lengths of records are
        length = length & 0x7F | high << 7
    else:
        length, start = _uvarint(buffer, position + 4)
    stop = start + length - 1 if length else start
    if stop > len(buffer):
        raise ValueError("records reach beyond the frame")
    (epoch, end), position = _diverging_epoch(buffer, stop) if buffer[stop] else (_NOT_DIVERGING, stop + 1)
    return _new_tuple(
        FetchedPartition,
        (key, index, error, high_watermark, last_stable, log_start, preferred, start, stop, aborted, epoch, end),
    ), position


def _aborted(buffer: memoryview, position: int) -> tuple[tuple[AbortedTransaction, ...], int]:
    transactions, position = _uvarint(buffer, position)
    aborted = []
    for _ in range(transactions - 1):
        aborted.append(AbortedTransaction(*_ABORTED.unpack_from(buffer, position)))
        position = _skip_tags(buffer, position + _ABORTED.size)
    return tuple(aborted), position


def _diverging_epoch(buffer: memoryview, position: int) -> tuple[tuple[int, int], int]:
    tags, position = _uvarint(buffer, position)
    diverging = _NOT_DIVERGING
    for _ in range(tags):
        tag, position = _uvarint(buffer, position)
        size, position = _uvarint(buffer, position)
        if tag == 0:
            diverging = _EPOCH_END.unpack_from(buffer, position)
        position += size
    return diverging, position


class ProduceItem(NamedTuple):
    """One batch for one target partition; `records` is a whole v2 batch."""

    topic_key: TopicKey
    partition: int
    records: memoryview


def produce_head(timeout_ms: int, transactional_id: str | None = None) -> bytes:
    """The body of a ProduceRequest v9 to v13 with acks=all, up to the number of its topics."""
    name = b"\0" if transactional_id is None else _compact_string(transactional_id)
    return name + _PRODUCE_HEAD.pack(-1, timeout_ms)


def encode_produce(
    items: Sequence[tuple[TopicKey, int, memoryview]], *, transactional_id: str | None = None, timeout_ms: int = 30_000
) -> list[Buffer]:
    """The body of a ProduceRequest v9 to v13 with acks=all, as buffers for `sendmsg`: the records are not copied.

    The items' topic keys decide the version: names up to v12, ids from v13.
    """
    head = bytearray(produce_head(timeout_ms, transactional_id))
    topics: dict[TopicKey, list[tuple[TopicKey, int, memoryview]]] = {}
    for item in items:
        topics.setdefault(item[0], []).append(item)
    head += encode_uvarint(len(topics) + 1)
    out: list[Buffer] = []
    for key, members in topics.items():
        head += encode_topic_key(key) + encode_uvarint(len(members) + 1)
        for _, partition, records in members:
            head += _INT32.pack(partition)
            size = len(records) + 1
            head += _TWO_BYTES.pack(size & 0x7F | 0x80, size >> 7) if 0x80 <= size < 0x4000 else encode_uvarint(size)
            out += (bytes(head), records)
            head = bytearray(b"\0")
        head += b"\0"
    head += b"\0"
    out.append(bytes(head))
    return out


def decode_produce(version: int, buffer: memoryview) -> ProduceResponse:
    """Decode one whole ProduceResponse frame (response header v1 included). Raises ProtocolError."""
    try:
        return _decode_produce(version, buffer)
    except (IndexError, StructError, UnicodeDecodeError, ValueError) as problem:
        raise ProtocolError(f"a produce response of {len(buffer)} bytes cannot be read: {problem}") from problem


def _decode_produce(version: int, buffer: memoryview) -> ProduceResponse:
    topics, position = _uvarint(buffer, _skip_tags(buffer, 4))
    produced: list[ProducedPartition] = []
    for _ in range(topics - 1):
        key, position = _read_topic_key(buffer, position, by_id=version >= TOPIC_ID_PRODUCE)
        count, position = _uvarint(buffer, position)
        for _ in range(count - 1):
            partition, position = _decode_produced(buffer, position, key)
            produced.append(partition)
        position = _skip_tags(buffer, position)
    (throttle,) = _INT32.unpack_from(buffer, position)
    _finish(buffer, position + 4)
    return ProduceResponse(max(throttle, 0), produced)


def decode_plain_produce(buffer: memoryview, topic_key: TopicKey, count: int) -> list[ProducedPartition] | None:
    """As `decode_produce` for the answer that mostly comes: for `count` partitions of one topic, without an error, a
    message, a throttle time or a tagged field. None for any other, and for what cannot be read."""
    head = b"\0\x02" + encode_topic_key(topic_key) + encode_uvarint(count + 1)
    start = 4 + len(head)
    stop = start + count * _PLAIN_PRODUCED.size
    if buffer[4:start] != head or buffer[stop:] != _PLAIN_TAIL:
        return None
    produced: list[ProducedPartition] = []
    for index, error, base_offset, append_time, _, message in _PLAIN_PRODUCED.iter_unpack(buffer[start:stop]):
        if error or message != _NO_MESSAGE:
            return None
        produced.append(_new_tuple(ProducedPartition, (topic_key, index, 0, base_offset, "", append_time)))
    return produced


def _decode_produced(buffer: memoryview, position: int, key: TopicKey) -> tuple[ProducedPartition, int]:
    index, error, base_offset, append_time, _log_start = _PRODUCED.unpack_from(buffer, position)
    position += _PRODUCED.size
    if buffer[position : position + 3] == _NO_MESSAGE:
        return _new_tuple(ProducedPartition, (key, index, error, base_offset, "", append_time)), position + 3
    record_errors, position = _uvarint(buffer, position)
    messages = []
    for _ in range(record_errors - 1):
        text, position = _read_string(buffer, position + 4)
        messages.append(text)
        position = _skip_tags(buffer, position)
    message, position = _read_string(buffer, position)
    position = _skip_tags(buffer, position)
    told = "; ".join(filter(None, [message, *messages]))
    return ProducedPartition(key, index, error, base_offset, told, append_time), position


def _read_topic_key(buffer: memoryview, position: int, *, by_id: bool) -> tuple[TopicKey, int]:
    if by_id:
        return bytes(buffer[position : position + 16]), position + 16
    return _read_string(buffer, position)


def _read_string(buffer: memoryview, position: int) -> tuple[str, int]:
    length, position = _uvarint(buffer, position)
    stop = position + max(length - 1, 0)
    return bytes(buffer[position:stop]).decode(), stop


def _finish(buffer: memoryview, position: int) -> None:
    if _skip_tags(buffer, position) > len(buffer):
        raise ValueError("its last tagged field reaches beyond the frame")


def _skip_tags(buffer: memoryview, position: int) -> int:
    if not buffer[position]:
        return position + 1
    tags, position = _uvarint(buffer, position)
    for _ in range(tags):
        _, position = _uvarint(buffer, position)
        size, position = _uvarint(buffer, position)
        position += size
    return position
