"""The one encoder and decoder of JSON that lies on topics: types, ranges, lengths, depth and size are checked; pure.

A client that may write to an internal topic may write anything into it, so nothing is used that does not fit a declared
type. Members that a type does not have are ignored: two versions of SparkMirror can share a flow. What a record that
cannot be read means is its reader's to say; none of them may end for it. Used by the readers of all internal topics.
"""

import json
import threading
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec
from msgspec import Meta

from sparkmirror.errors import ProtocolError

_INT64_MAX: Final = (1 << 63) - 1
_INT32_MAX: Final = (1 << 31) - 1
BYTES_MAX: Final = 1 << 20
"""Of a key or a value; what SparkMirror writes is smaller (`pipeline.produce.progress`, `control.commands`)."""
_SHOWN_BYTES: Final = 120
_BUILDING: Final = threading.Lock()
_DECODERS: Final[dict[Any, "msgspec.json.Decoder[Any]"]] = {}

Offset = Annotated[int, Meta(ge=0, lt=_INT64_MAX)]
"""Of a record, the next one to mirror; one more is an int64 too."""
Count = Annotated[int, Meta(ge=0, le=_INT64_MAX)]
MOMENT_MS_MAX: Final = 253_402_300_799_999
Moment = Annotated[int, Meta(ge=0, le=MOMENT_MS_MAX)]
"""Milliseconds since 1970, up to the year 9999: what a calendar can show."""
Number = Annotated[int, Meta(ge=0, le=_INT32_MAX)]
"""Of a partition, a task, an epoch: what Kafka's protocol has as an int32 that is not negative."""
NumberOrNone = Annotated[int, Meta(ge=-1, le=_INT32_MAX)]
"""As `Number`, or -1 where there is none."""
TopicName = Annotated[str, Meta(min_length=1, max_length=249)]
Name = Annotated[str, Meta(max_length=1024)]
"""Of a run, a process, a cluster, a host."""

Text = Annotated[str, Meta(max_length=1 << 16)]
"""A sentence, or several."""

_T = TypeVar("_T")


def _as_json(value: Any) -> object:
    """Of a class that writes itself."""
    return value.as_json()


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_as_json)
_SORTING_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def encode(value: object) -> bytes:
    """Compact JSON in UTF-8 of a dataclass, a tagged struct, or collections of those; mappings keep their order."""
    return _ENCODER.encode(value)


def encode_lossy(value: object) -> bytes:
    """As `encode`; what UTF-8 does not have, as in the text of an error about a file with an odd name, becomes `?`."""
    try:
        return encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, enc_hook=_as_json)
        return json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def encode_sorted(value: object) -> bytes:
    """As `encode`, with sets and mappings sorted, so that equal values have equal bytes."""
    return _SORTING_ENCODER.encode(value)


def encode_ascii(value: object) -> bytes:
    """As `encode`, with other characters escaped: keys of the command and status topics are written so."""
    return json.dumps(value, separators=(",", ":")).encode()


def decode(data: bytes | None, kind: type[_T], what: str, *, bytes_max: int = BYTES_MAX) -> _T:
    """JSON as a `kind`: a dataclass, a tuple, or a collection of those. Raises ProtocolError, which says "`what`"."""
    if data is None or len(data) > bytes_max:
        raise unreadable(data, what, "it is empty" if data is None else f"it has {len(data):,} bytes")
    key: Any = kind
    try:
        return cast(_T, _decoder(key).decode(data))
    except (ValueError, RecursionError) as problem:
        raise unreadable(data, what, _reason(problem)) from None


def convert(value: object, kind: type[_T], what: str) -> _T:
    """As `decode`, of what is decoded already."""
    key: Any = kind
    try:
        _decoder(key)
        return msgspec.convert(value, kind, dec_hook=_own, str_keys=True)
    except (ValueError, RecursionError) as problem:
        raise ProtocolError(f"{what} cannot be read ({_reason(problem)}).") from None


def decode_or_none(data: bytes | None, kind: type[_T]) -> _T | None:
    """As `decode`; None for what is none."""
    try:
        return decode(data, kind, "")
    except ProtocolError:
        return None


def convert_or_none(value: object, kind: type[_T]) -> _T | None:
    """As `convert`; None for what is none."""
    try:
        return convert(value, kind, "")
    except ProtocolError:
        return None


def unreadable(data: bytes | None, what: str, reason: str) -> ProtocolError:
    """The error for bytes that are not `what` they should be."""
    return ProtocolError(f"{what} cannot be read ({reason}): {(data or b'')[:_SHOWN_BYTES]!r}.")


def _decoder(kind: Any) -> "msgspec.json.Decoder[Any]":
    """One thread alone builds what msgspec knows of a class: it stores that at the class before it is whole, and a
    thread that finds it then ends the process (0.22)."""
    found = _DECODERS.get(kind)
    if found is None:
        with _BUILDING:
            found = _DECODERS[kind] = msgspec.json.Decoder(kind, dec_hook=_own)
    return found


def _own(kind: type[Any], value: Any) -> Any:
    """A class that reads itself."""
    try:
        return kind.from_json(value)
    except ProtocolError as problem:
        raise ValueError(str(problem)) from None


def _reason(problem: Exception) -> str:
    return "it is nested too deep" if isinstance(problem, RecursionError) else str(problem)
