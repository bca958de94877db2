"""A broker's answer as bytes, which the asking module decodes only if it differs from the last one.

Decoding the answer about ten thousand partitions takes 50 ms, about the settings of a thousand topics half a second,
and both are asked for at each look. Used by `kafka.admin`.
"""

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.answers import ConfigEntry
from sparkmirror.kafka.errors import NO_ERROR

_THROTTLE = struct.Struct(">i")


class RawRequest:
    """Stands for a request of kafka-python's, to be sent in its place; the answer is a `RawAnswer`."""

    def __init__(self, request: Any) -> None:
        self._request = request

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)

    @property
    def API_VERSION(self) -> Any:
        return self._request.API_VERSION

    @API_VERSION.setter
    def API_VERSION(self, version: int) -> None:
        self._request.API_VERSION = version

    @property
    def header(self) -> "_Header":
        return _Header(self._request.header)


class RawAnswer:
    """The bytes of an answer, after its header. Its version is one that begins with the broker's throttle time."""

    def __init__(self, data: bytes, kind: Any) -> None:
        self.data = data
        self._kind = kind

    @property
    def throttle_time_ms(self) -> int:
        return int(_THROTTLE.unpack_from(self.data)[0]) if len(self.data) >= _THROTTLE.size else 0

    def decode(self) -> Any:
        """The answer as kafka-python has it. Raises ProtocolError."""
        try:
            return self._kind.decode(self.data)
        except (ValueError, IndexError, struct.error) as strange:
            raise ProtocolError(f"A broker sent what cannot be read as {self._kind.__name__}: {strange}.") from strange


class SettingsAnswer:
    """The settings of topics, as brokers reported them."""

    def __init__(self, answers: Sequence[RawAnswer]) -> None:
        self._answers = answers
        self.refused: dict[str, int] = {}
        """The topics that were left out when this was read, each with the error code."""

    @property
    def digest(self) -> bytes:
        """Equal for answers with equal content."""
        digest = blake2b(digest_size=16)
        for answer in self._answers:
            digest.update(answer.data[_THROTTLE.size :])
        return digest.digest()

    def read(self) -> dict[str, dict[str, ConfigEntry]]:
        """Settings by topic; topics that cannot be read are left out, and noted. Raises ProtocolError."""
        found: dict[str, dict[str, ConfigEntry]] = {}
        for result in (result for answer in self._answers for result in answer.decode().results):
            if result.error_code == NO_ERROR:
                found[result.resource_name] = {
                    entry.name: ConfigEntry(
                        entry.value, entry.config_source, bool(entry.read_only), bool(entry.is_sensitive)
                    )
                    for entry in result.configs
                }
            else:
                self.refused[result.resource_name] = result.error_code
        return found


class _Header:
    """A request's header, as long as its answer is awaited."""

    def __init__(self, header: Any) -> None:
        self._header = header

    def __getattr__(self, name: str) -> Any:
        return getattr(self._header, name)

    def get_response_class(self) -> "_Kind":
        return _Kind(self._header.get_response_class())


class _Kind:
    """Stands for the class of an answer."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    def parse_header(self, data: Any) -> Any:
        return self._kind.parse_header(data)

    def decode(self, data: Any) -> RawAnswer:
        return RawAnswer(data.read(), self._kind)
