"""Encodes and decodes Kafka Connect's source-offset records, byte for byte; pure. Connect's offsets are converted here
only.

Connect stores the offset of the *last mirrored* record, everything else here speaks of the *next* one. Keys must be
byte-exact: Connect looks them up by bytes, and compaction works by them (`OffsetStorageWriter`,
`KafkaOffsetBackingStore`). Member order is that of Java's HashMap for these names.
"""

import re
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from sparkmirror.model import Connector, TopicPartition
from sparkmirror.stored_json import Number, TopicName, decode, decode_or_none

_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'["\\\x00-\x1f]|[\U00010000-\U0010ffff]')


@dataclass(frozen=True, slots=True)
class _Members:
    partition: Number
    topic: TopicName


@dataclass(frozen=True, slots=True)
class _Stored:
    offset: Annotated[int, Meta(ge=-(1 << 63), lt=(1 << 63) - 1)] | None = None


def jackson_string(text: str) -> str:
    """`text` as a JSON string the way Jackson writes it: upper-case hex, characters above the BMP as two escapes."""
    return '"' + _ESCAPED.sub(lambda match: _escape(match[0]), text) + '"'


def encode_key(connector: Connector, partition: TopicPartition) -> bytes:
    """The record key under which the connector stores the position of one source partition."""
    cluster, topic = jackson_string(connector.source_alias), jackson_string(partition.topic)
    members = f'"cluster":{cluster},"partition":{partition.partition},"topic":{topic}'
    return f"[{jackson_string(connector.name)},{{{members}}}]".encode()


def decode_key(key: bytes | None, connector: Connector) -> TopicPartition | None:
    """The partition of a key of the connector; None for others' keys and for any that Connect would not find.

    A key that differs in a single byte from what `encode_key` writes is another key to Connect, so it is to us.
    """
    found = decode_or_none(key, tuple[str, _Members])
    if found is None:
        return None
    partition = TopicPartition(found[1].topic, found[1].partition)
    return partition if encode_key(connector, partition) == key else None


def encode_value(next_offset: int) -> bytes:
    """The record value for a partition whose next offset to mirror is `next_offset`.

    Zero becomes `{"offset":-1}`, which MirrorMaker reads as "nothing mirrored yet" (`MirrorUtils.unwrapOffset`).
    """
    if next_offset < 0:
        raise ValueError(f"next_offset must not be negative, got {next_offset}")
    return b'{"offset":%d}' % (next_offset - 1)


def decode_value(value: bytes | None) -> int | None:
    """The next offset to mirror; None for a tombstone and for values that MirrorMaker takes as "not committed".

    Raises ProtocolError for what would break MirrorMaker's task, such as an offset that is not a JSON integer.
    """
    stored = None if value is None else decode(value, _Stored | None, "A stored position")  # type: ignore[arg-type]
    if stored is None or stored.offset is None:
        return None
    return stored.offset + 1 if stored.offset >= -1 else None


def _escape(character: str) -> str:
    if short := _SHORT_ESCAPES.get(character):
        return short
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))
