"""kafka-python's messages as bytes and back, each form once: a history asks the same things again and again.

What is decoded is shared by all that receive equal bytes, also in later histories; nobody changes a message that was
sent to it, but for metadata, into which `kafka.witnesses` puts what other brokers know.
"""

import struct
from functools import lru_cache
from typing import Any

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

_SIZE, _CORRELATION = struct.Struct(">i"), struct.Struct(">i")
_REQUEST_HEAD = struct.Struct(">hhih")
_API_VERSIONS = 18
_KEPT = 20_000
DECODERS = {kind: vars(kind)["decode"] for kind in (ApiMessage, ApiVersionsResponse)}
"""Where kafka-python decodes, and by what; `decode` stands there for the time of a history."""
_NO_NUMBER = bytes(4)


@lru_cache(_KEPT)
def _decoded(kind: Any, version: int | None, frame: bytes, header: bool) -> Any:
    return DECODERS.get(kind, DECODERS[ApiMessage]).__func__(kind, frame, version=version, header=header)


@lru_cache(None)
def _number_at(kind: Any) -> int:
    return 4 if kind.is_request() else 0


def _decode(kind: Any, data: Any, version: int | None = None, header: bool = False, framed: bool = False) -> Any:
    """A message is found by all its bytes but the number that pairs a question with its answer."""
    if framed or not isinstance(data, bytes):
        return DECODERS[ApiMessage].__func__(kind, data, version=version, header=header, framed=framed)
    if header:
        at = _number_at(kind)
        data = data[:at] + _NO_NUMBER + data[at + 4 :]
    decoded = _decoded.__wrapped__ if kind is MetadataResponse else _decoded
    return decoded(kind, version, data, header)


decode = classmethod(_decode)


@lru_cache(None)
def _has_tags(kind: Any, version: int) -> bool:
    return bool(kind.flexible_version_q(version))


def encode_request(request: Any, version: int, correlation: int, client_id: str) -> bytes:
    """A frame without its size, with header v1 or v2."""
    request.API_VERSION = version
    kind: Any = type(request)
    name, tags = client_id.encode(), b"\0" if _has_tags(kind, version) else b""
    return _REQUEST_HEAD.pack(request.API_KEY, version, correlation, len(name)) + name + tags + bytes(request.encode())


def encode_answer(answer: Any, version: int, correlation: int) -> bytes:
    """A frame with its size, and header v0 or v1; that of ApiVersions is v0 always (KIP-511)."""
    answer.API_VERSION = version
    kind: Any = type(answer)
    tags = b"\0" if answer.API_KEY != _API_VERSIONS and _has_tags(kind, version) else b""
    body = bytes(answer.encode())
    return _SIZE.pack(4 + len(tags) + len(body)) + _CORRELATION.pack(correlation) + tags + body


def answer_to(correlation: int, frame: bytes) -> bytes:
    """The same answer to another question."""
    return frame[:4] + _CORRELATION.pack(correlation) + frame[8:]


def body_of(kind: Any, version: int, answer: bytes) -> bytes:
    """What follows the header in an answer's frame without its size."""
    return answer[5 if _has_tags(kind, version) else 4 :]
