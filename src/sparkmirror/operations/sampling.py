"""Reads samples of the records that a flow mirrors now: the remote topics from their ends on, a few records a second.
For `cli.tail`.

It reads only the newest records of each round, so a fast flow costs no more than a slow one. Changes nothing.
"""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.commands import Selection
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.ledger.map_records import MapView
from sparkmirror.ledger.positions import is_of_this_log
from sparkmirror.model import Topic, TopicPartition
from sparkmirror.operations.cluster_pair import ledger_offsets
from sparkmirror.sync.offset_state import OffsetState
from sparkmirror.views.sample import Sample

LOOK_SECONDS = 0.5
_READ_SECONDS_MAX = 2.0
_POLL_SECONDS_MAX = 0.1
_MAP_SECONDS_MAX = 3.0
"""How long a record waits for the offset map, which a mirror stores once a second."""


class Sampler:
    """Samples one flow. A context manager, for one thread."""

    def __init__(self, flow: FlowConfig, chosen: Selection, records_per_look: int) -> None:
        """Raises ClusterError, and SparkMirrorError where no partition that is `chosen` was ever mirrored."""
        self._flow = flow
        self._records_per_look = records_per_look
        self._open = ExitStack()
        try:
            self._target = self._open.enter_context(open_admin(flow.target, "tail"))
            self._there: Mapping[str, Topic] = {}
            self._origins = self._find(chosen)
            self._tail = self._open.enter_context(
                open_tail(flow.target, "tail", sorted(self._origins), is_internal=False)
            )
            self._state = self._open.enter_context(OffsetState(flow, None, self._target))
            self._at = self._ends()
            for where in self._origins:
                self._tail.seek(where, self._at.get(where, 0))
        except BaseException:
            self._open.close()
            raise
        self._waiting: deque[tuple[float, Sample]] = deque()
        self.passed_by = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _find(self, chosen: Selection) -> dict[TopicPartition, TopicPartition]:
        """The partitions of the target that have been written to, with the source's."""
        remotes = {
            TopicPartition(self._flow.remote_topic(where.topic), where.partition): where
            for where in ledger_offsets(self._flow)
            if chosen.covers(where)
        }
        self._there = there = self._target.list_topics({where.topic for where in remotes})
        found = {
            remote: where
            for remote, where in remotes.items()
            if remote.topic in there and remote.partition < there[remote.topic].partitions
        }
        if not found:
            raise SparkMirrorError(
                f"{self._flow.name}: nothing that matches was ever mirrored.", "See `sparkmirror topics` and --topic."
            )
        return found

    def _ends(self) -> dict[TopicPartition, int]:
        """The ends of partitions whose leaders answer; the others have no records to show now."""
        return dict(self._target.latest_offsets(self._origins, read_committed=True).known)

    def look(self) -> list[Sample]:
        """Some of the records that have arrived since the last call, once their source offsets are known.
        `passed_by` counts the records that the call did not read. Raises ClusterError."""
        ends = self._ends()
        moved = {where: end for where, end in ends.items() if end > self._at.get(where, end)}
        for record in self._read(moved):
            self._waiting.append((time.monotonic() + _MAP_SECONDS_MAX, self._sample(record)))
        self._at |= ends
        if self._flow.preserves_offsets:
            self._there = self._target.list_topics({where.topic for where in self._origins})
        self._state.follow()
        return list(self._ready())

    def _read(self, ends: Mapping[TopicPartition, int]) -> list[TailRecord]:
        """The newest records before `ends`, spread evenly over the partitions."""
        share = max(self._records_per_look // max(len(ends), 1), 1)
        chosen = list(ends)[: self._records_per_look]
        firsts = {where: max(self._at[where], ends[where] - share) for where in chosen}
        for where, end in ends.items():
            self._tail.seek(where, firsts.get(where, end))
        self.passed_by += sum(end - self._at[where] for where, end in ends.items())
        found: list[TailRecord] = []
        late_at = time.monotonic() + _READ_SECONDS_MAX
        while not self._tail.has_reached({where: ends[where] for where in chosen}) and time.monotonic() < late_at:
            found += self._tail.poll(_POLL_SECONDS_MAX)
        found = [record for record in found if record.offset < ends.get(record.partition, 0)]
        self.passed_by -= len(found)
        return found

    def _sample(self, record: TailRecord) -> Sample:
        return Sample(
            self._flow.name, self._origins[record.partition], None, record.partition, record.offset,
            record.timestamp_ms, record.key, record.value, record.headers,
        )  # fmt: skip

    def _ready(self) -> Iterator[Sample]:
        while self._waiting:
            late_at, sample = self._waiting[0]
            offset = self._source_offset(sample)
            if offset is None and time.monotonic() < late_at:
                return
            self._waiting.popleft()
            yield replace(sample, source_offset=offset, is_identical=offset is not None and self._is_kept(sample))

    def _is_kept(self, sample: Sample) -> bool:
        """Whether the flow keeps offsets in the log that the sample is from."""
        topic = self._there.get(sample.target.topic)
        record = self._state.records.get(sample.source)
        return self._flow.keeps_offsets(sample.source.topic) and record is not None and is_of_this_log(record, topic)

    def _source_offset(self, sample: Sample) -> int | None:
        if self._is_kept(sample):
            reached = self._state.records[sample.source].position.offset
            return sample.target_offset if sample.target_offset < reached else None
        return source_offset(self._state.maps, sample)


def source_offset(maps: MapView, sample: Sample) -> int | None:
    """The record's offset on the source; None while the map does not reach the record, and where the map is not
    exact."""
    found = maps.map_of(sample.source)
    if found is None or found.end_target <= sample.target_offset:
        return None
    translated = found.translate_back(sample.target_offset)
    return translated.offset if translated is not None and translated.exact else None
