"""Whether two clusters hold the same: record by record, by a client of the demo. Called by `demo`."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sparkmirror.errors import SparkMirrorError
from sparkmirror.model import TopicPartition

if TYPE_CHECKING:
    from sparkmirror.testing.demo_client import Client, Received

READ_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.5
_SHOWN_BYTES = 60


def read_to_ends(client: "Client", ends: Mapping[TopicPartition, int]) -> "dict[TopicPartition, list[Received]]":
    """All records of these partitions, in order, up to their end offsets. Raises SparkMirrorError after 60 s."""
    records: dict[TopicPartition, list[Received]] = {partition: [] for partition in ends}
    missing = {partition for partition, end in ends.items() if end > 0}
    reader = client.reader()
    deadline = time.monotonic() + READ_SECONDS_MAX
    try:
        reader.add(dict.fromkeys(sorted(missing), 0))
        while missing:
            for record in reader.poll(_POLL_SECONDS):
                records[record.at].append(record)
            missing = {partition for partition in missing if not _is_whole(records[partition], ends[partition])}
            if missing and time.monotonic() > deadline:
                raise SparkMirrorError(f"{min(missing)} could not be read to its end within {READ_SECONDS_MAX:.0f} s.")
    finally:
        reader.close()
    return records


def find_difference(source: "Sequence[Received]", target: "Sequence[Received]") -> str | None:
    """The first difference of a partition and its copy in words; None when key, value, headers, time and order agree.

    Offsets are not compared: a copy may have others.
    """
    for ours, theirs in zip(source, target, strict=False):
        if ours[2:] != theirs[2:]:
            return _describe(ours, theirs)
    if len(source) != len(target):
        return f"{len(source):,} records at the source, {len(target):,} at the target"
    return None


def _describe(ours: "Received", theirs: "Received") -> str:
    for name in ("key", "value", "headers", "timestamp_ms"):
        there, here = getattr(ours, name), getattr(theirs, name)
        if there != here:
            return (
                f"offset {ours.offset} at the source and {theirs.offset} at the target differ in {name}: "
                f"{_short(there)} and {_short(here)}"
            )
    raise AssertionError("the records are equal")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_BYTES else f"{text[:_SHOWN_BYTES]}…"


def _is_whole(records: "Sequence[Received]", end: int) -> bool:
    return bool(records) and records[-1].offset >= end - 1
