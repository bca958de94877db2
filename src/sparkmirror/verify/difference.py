"""A difference as shown to people: its place, its kind, and both records, with bounded length; pure.

`verify.matching` and `verify.regions` find differences, `verify.report` shows them.
"""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sparkmirror.batch.columns import Columns
from sparkmirror.batch.record_headers import split_headers
from sparkmirror.model import plain

SHOWN_BYTES_MAX: Final = 256
_HEADERS_MAX: Final = 20
_NEAR_BYTES: Final = 16
_PRINTABLE = frozenset(string.printable.encode()) - frozenset(b"\\\t\n\r\x0b\x0c")

MISSING = "missing"
SURPLUS = "surplus"
SWAPPED = "swapped"
UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Seen:
    """One record as a consumer sees it, complete."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]

    def content(self, *, with_time: bool = True) -> tuple[object, ...]:
        """The parts of a record that must be equal on both sides."""
        return (self.key, self.value, self.headers, self.timestamp_ms if with_time else None)

    def as_json(self) -> dict[str, Any]:
        return {
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "key": render_bytes(self.key),
            "value": render_bytes(self.value),
            "headers": [[render_bytes(name), render_bytes(value)] for name, value in self.headers[:_HEADERS_MAX]],
            "headers_count": len(self.headers),
        }


@dataclass(frozen=True, slots=True)
class Difference:
    """`kind` is `missing` or `surplus` (on the target), `swapped`, `unreadable`, or the fields that differ.

    `upstream` and `downstream` are the offsets of the two records, or the offset at which an absent one should be.
    `source` and `target` are the records as JSON; None for an absent one.
    """

    kind: str
    upstream: int
    downstream: int
    source: dict[str, Any] | None = None
    target: dict[str, Any] | None = None
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        return plain(self)


def render_bytes(data: bytes | None) -> str | None:
    """Text unchanged, other bytes as hexadecimal escapes; cut after 256 bytes, with the full length. None is null."""
    if data is None:
        return None
    shown = "".join(chr(byte) if byte in _PRINTABLE else f"\\x{byte:02x}" for byte in data[:SHOWN_BYTES_MAX])
    return shown if len(data) <= SHOWN_BYTES_MAX else f"{shown}… ({len(data):,} bytes)"


def see(columns: Columns, row: int) -> Seen:
    """The record of one row of the columns."""
    key_at, key_size, value_at, value_size, headers_at, headers_size = columns.places[row].tolist()
    headers = columns.content[headers_at : headers_at + max(headers_size, 0)].tobytes()
    return Seen(
        int(columns.offsets[row]),
        int(columns.timestamps[row]),
        _cut(columns, key_at, key_size),
        _cut(columns, value_at, value_size),
        tuple(split_headers(headers)) if len(headers) > 1 else (),
    )


def _cut(columns: Columns, at: int, size: int) -> bytes | None:
    return None if size < 0 else columns.content[at : at + size].tobytes()


def describe(source: Sequence[Seen], target: Sequence[Seen], *, with_time: bool) -> Difference:
    """The difference between the first records of both, which should be equal; the records after them determine its
    kind."""
    ours, theirs = source[0], target[0]
    kind = _kind(
        [one.content(with_time=with_time) for one in source], [one.content(with_time=with_time) for one in target]
    )
    detail = "" if kind else _where(ours, theirs)
    return Difference(
        kind or _fields(ours, theirs), ours.offset, theirs.offset, ours.as_json(), theirs.as_json(), detail
    )


def _where(ours: Seen, theirs: Seen) -> str:
    """The byte at which key or value begin to differ, where that lies beyond the part that is shown."""
    for name, one, other in (("key", ours.key, theirs.key), ("value", ours.value, theirs.value)):
        if one is None or other is None or one == other:
            continue
        common = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
        at = min(len(one), len(other)) if common is None else common
        if at >= SHOWN_BYTES_MAX:
            near = slice(max(at - _NEAR_BYTES, 0), at + _NEAR_BYTES)
            return (
                f'the {name}s differ from byte {at:,} on; around it the source has "{render_bytes(one[near])}", '
                f'the target "{render_bytes(other[near])}"'
            )
    return ""


def _kind(ours: Sequence[object], theirs: Sequence[object]) -> str:
    """The kind of difference, judged by the neighbours: whether one cluster lacks a record and continues as the
    other does."""
    if len(ours) < 2 or len(theirs) < 2:
        return ""
    if ours[0] == theirs[1] and ours[1] == theirs[0]:
        return SWAPPED
    if _follows(ours, theirs):
        return MISSING
    if _follows(theirs, ours):
        return SURPLUS
    return ""


def _follows(longer: Sequence[object], shorter: Sequence[object]) -> bool:
    """Whether the records of `longer`, without the first, begin with those of `shorter`."""
    common = min(len(longer) - 1, len(shorter))
    return longer[1 : 1 + common] == shorter[:common]


def _fields(ours: Seen, theirs: Seen) -> str:
    pairs = {
        "key": (ours.key, theirs.key),
        "value": (ours.value, theirs.value),
        "headers": (ours.headers, theirs.headers),
        "timestamp": (ours.timestamp_ms, theirs.timestamp_ms),
    }
    return ", ".join(name for name, (one, other) in pairs.items() if one != other)
