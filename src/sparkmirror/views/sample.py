"""A mirrored record as `sparkmirror tail` shows it: its source offset, its place on the target, and its content; pure.

A record may hold any bytes, so control characters are escaped before they reach a terminal, and long values are cut.
"""

import base64
from dataclasses import dataclass
from typing import Any

from sparkmirror.clock import show_moment
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.shown import show_text


@dataclass(frozen=True, slots=True)
class Sample:
    """A record that was read on the target. `source_offset` is None while the offset map does not reach the record, and
    where the map is not exact. `is_identical` says that the target keeps the offsets of the source's records."""

    flow: FlowName
    source: TopicPartition
    source_offset: int | None
    target: TopicPartition
    target_offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    is_identical: bool = False

    def as_json(self, bytes_max: int) -> dict[str, Any]:
        """Keys, values and headers as text where they are UTF-8, else in base64; cut to `bytes_max` bytes each."""
        return {
            "flow": str(self.flow),
            "topic": self.source.topic,
            "partition": self.source.partition,
            "offset": self.source_offset,
            "target_topic": self.target.topic,
            "target_offset": self.target_offset,
            "identical_offsets": self.is_identical,
            "timestamp": show_moment(self.timestamp_ms) if self.timestamp_ms >= 0 else None,
            "key": _data(self.key, bytes_max),
            "value": _data(self.value, bytes_max),
            "headers": [{"name": name, "value": _data(value, bytes_max)} for name, value in self.headers],
        }


def sample_lines(sample: Sample, bytes_max: int) -> list[str]:
    """One line with the offsets, the timestamp and the key, one with the value, and one for each header."""
    at = "?" if sample.source_offset is None else sample.source_offset
    moment = show_moment(sample.timestamp_ms) if sample.timestamp_ms >= 0 else "no timestamp"
    same = " (identical)" if sample.is_identical else ""
    where = f"{sample.source} {at} -> {sample.target} {sample.target_offset}{same}"
    lines = [f"{where}  {moment}  key {show_data(sample.key, bytes_max)}", f"  {show_data(sample.value, bytes_max)}"]
    return lines + [f"  {show_text(name)}: {show_data(value, bytes_max)}" for name, value in sample.headers]


def show_data(data: bytes | None, bytes_max: int) -> str:
    """Text where the data is UTF-8, with control characters escaped, else hexadecimal digits; `null` for None. Data
    longer than `bytes_max` is cut, and its length follows."""
    if data is None:
        return "null"
    text = _utf8(data[:bytes_max])
    shown = f"0x{data[:bytes_max].hex()}" if text is None else show_text(text)
    return shown if len(data) <= bytes_max else f"{shown}… ({len(data):,} bytes)"


def _utf8(data: bytes) -> str | None:
    """The bytes as text; None for bytes that are not UTF-8. A character that was cut at the end is left out."""
    for cut in range(4):
        try:
            return data[: len(data) - cut].decode()
        except UnicodeDecodeError as problem:
            if problem.reason != "unexpected end of data":
                return None
    return None


def _data(data: bytes | None, bytes_max: int) -> Any:
    if data is None:
        return None
    text = _utf8(data[:bytes_max])
    shown: dict[str, Any] = {"base64": base64.b64encode(data[:bytes_max]).decode()} if text is None else {"text": text}
    return shown if len(data) <= bytes_max else {**shown, "bytes": len(data)}
