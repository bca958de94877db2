"""Kafka Connect's source-offset records, byte for byte; pure, the one place where Connect's offsets meet ours.

Connect stores the offset of the *last mirrored* record, everything else here speaks of the *next* one. Keys must be
byte-exact: Connect looks them up by bytes, and compaction works by them (`OffsetStorageWriter`,
`KafkaOffsetBackingStore`). Member order is that of Java's HashMap for these names.
"""

import json
import re

from sparkmirror.errors import ProtocolError
from sparkmirror.model import Connector, TopicPartition

_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'["\\\x00-\x1f]|[\U00010000-\U0010ffff]')


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
    try:
        _, members = json.loads(key or b"")
        found = TopicPartition(members["topic"], members["partition"])
        exact = encode_key(connector, found) == key
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return found if exact and type(found.partition) is int else None


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
    if value is None:
        return None
    try:
        stored = json.loads(value)
    except ValueError:
        raise ProtocolError(f"A stored position is not JSON: {value[:80]!r}.") from None
    if stored is None or (isinstance(stored, dict) and stored.get("offset") is None):
        return None
    if not isinstance(stored, dict) or type(stored["offset"]) is not int:
        raise ProtocolError(f"A stored position is not an integer offset: {value[:80]!r}.")
    offset: int = stored["offset"]
    return offset + 1 if offset >= -1 else None


def _escape(character: str) -> str:
    if short := _SHORT_ESCAPES.get(character):
        return short
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))
