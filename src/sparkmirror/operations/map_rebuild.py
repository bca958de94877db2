"""Rebuilds lost parts of a flow's offset map from both clusters' logs and from known pairs of offsets. Called by
`cli.offsets`.

It serves offsets that no running mirror has in memory (`sync.offset_job`); existing parts of the map stay unchanged.
Between two known pairs the records correspond one to one if both clusters have equally many with equal content: then
every offset is exact. Otherwise records were sent again or other producers wrote too, and offsets translate to the pair
before them (invariant 7).
"""

import logging
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ConfigError, ProtocolError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger.map_records import ChunkName, MapView, encode_chunk, encode_key
from sparkmirror.ledger.map_segments import Chunk, Segment
from sparkmirror.ledger.mirror_records import OffsetSync
from sparkmirror.ledger.offset_map import WEIGHT_MAX, OffsetMap
from sparkmirror.ledger.setup import mirror_topics
from sparkmirror.ledger.translate import is_former
from sparkmirror.model import Cluster, TopicPartition, plain
from sparkmirror.operations.cluster_pair import ledger_gaps, ledger_offsets, mirrored_partitions
from sparkmirror.sync.offset_state import OffsetState, read_target_logs

log = logging.getLogger(__name__)

_READ_SECONDS_MAX = 600.0
_TOLD_EVERY = 1000
_OLDEST = ChunkName(0, 0, 0)
"""A chunk name that precedes all names that writers give."""


class Anchor(NamedTuple):
    """A known pair of offsets: the record at or after `source` lies at or after `target`, and all records before it
    lie before."""

    source: int
    target: int


@dataclass(slots=True)
class LogPart:
    """The records of one partition in order: their offsets, and for each a fingerprint of key, value and timestamp."""

    offsets: list[int] = field(default_factory=list)
    prints: list[int] = field(default_factory=list)

    def add(self, offset: int, content: object) -> None:
        self.offsets.append(offset)
        self.prints.append(hash(content))

    def between(self, first: int, end: int) -> "LogPart":
        """The records at offsets from `first` up to `end`."""
        start, stop = bisect_left(self.offsets, first), bisect_left(self.offsets, end)
        return LogPart(self.offsets[start:stop], self.prints[start:stop])


def choose_anchors(syncs: Iterable[Anchor], first: Anchor | None, last: Anchor) -> list[Anchor]:
    """The anchors that rise on both clusters, up to `last`. An offset sync that goes back shows that the log began
    again, so anchors before it do not count."""
    found: list[Anchor] = [] if first is None else [first]
    for sync in syncs:
        while found and (found[-1].source >= sync.source or found[-1].target >= sync.target):
            found.pop()
        found.append(sync)
    while found and (found[-1].source >= last.source or found[-1].target >= last.target):
        found.pop()
    return [*found, last]


def rebuild_map(anchors: Sequence[Anchor], source: LogPart, target: LogPart) -> OffsetMap | None:
    """The map from the first anchor to the last; None with fewer than two anchors."""
    if len(anchors) < 2:
        return None
    found = OffsetMap(anchors[0].source)
    for here, there in pairwise(anchors):
        ours, theirs = source.between(here.source, there.source), target.between(here.target, there.target)
        if ours.prints == theirs.prints:
            _append_pairs(found, ours.offsets, theirs.offsets)
            found.advance(there.source)
        else:
            flat = Segment(here.source, here.target, here.target - there.source, exact=False)
            found.extend(Chunk((flat,), there.source, there.target))
    return found


def _append_pairs(found: OffsetMap, ours: Sequence[int], theirs: Sequence[int]) -> None:
    """Appends runs of pairs with a constant distance as single entries."""
    start = 0
    for at in range(1, len(ours) + 1):
        length = at - start
        if at < len(ours) and (ours[at] - ours[start], theirs[at] - theirs[start]) == (length, length):
            continue
        found.append(ours[start], length, theirs[start])
        start = at


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result for one partition: the source offsets that can be translated now and could not before, and how many
    of them exactly."""

    partition: TopicPartition
    first: int
    end: int
    exact: int

    def as_json(self) -> dict[str, Any]:
        return plain(self)


def rebuild(
    flow: FlowConfig, wanted: Callable[[str], bool], *, write: bool, tell: Callable[[str, int, int], None]
) -> Iterator[Rebuilt]:
    """Rebuilds the maps partition by partition and, with `write`, stores each. One client on either cluster reads
    the records, some 20,000 a second; the function calls `tell(what, done, total)` to report its progress. Raises
    ConfigError for flows with transforms, ClusterError if a cluster does not answer."""
    if flow.transforms.steps:
        hint = "their groups keep their checkpoints; new records are in the map as they are mirrored"
        raise ConfigError(f"{flow.name} has transforms: its two logs cannot be compared", hint)
    with (
        open_admin(flow.source, "rebuild") as source,
        open_admin(flow.target, "rebuild") as target,
        OffsetState(flow, source, target) as state,
    ):
        state.follow()
        partitions = [where for where in mirrored_partitions(flow, source) if wanted(where.topic)]
        syncs, positions = _read_syncs(flow, source, target, _cut_at_ms(flow)), ledger_offsets(flow)
        for where in partitions:
            if where in positions:
                yield from _rebuild_one(
                    flow, (source, target), where, state.maps, syncs[where], positions[where], write, tell
                )


def _rebuild_one(
    flow: FlowConfig,
    admins: tuple[Admin, Admin],
    where: TopicPartition,
    maps: MapView,
    syncs: Sequence[Anchor],
    position: int,
    write: bool,
    tell: Callable[[str, int, int], None],
) -> Iterator[Rebuilt]:
    source, target = admins
    remote = TopicPartition(flow.remote_topic(where.topic), where.partition)
    source_start = source.await_earliest_offsets([where]).get(where)
    target_start = target.await_earliest_offsets([remote]).get(remote)
    there = read_target_logs(target, [remote]).get(remote)
    known = maps.map_of(where)
    if source_start is None or target_start is None or there is None:
        log.warning("%s: %s is left out: a cluster does not say where its log begins and ends.", flow.name, where)
        return
    if known is not None and is_former(known.topic_id, there):
        log.warning("%s: %s is left out: %s was made again, nothing is mirrored to it yet.", flow.name, where, remote)
        return
    last = _begin_of(known) or Anchor(position, there.end)
    first = Anchor(0, 0) if source_start == target_start == 0 else None
    anchors = [one for one in choose_anchors(syncs, first, last) if one.source >= source_start]
    if len(anchors) < 2 or anchors[0].target < target_start:
        return
    ours = _read(flow.source, where, anchors[0].source, last.source, tell)
    theirs = _read(flow.target, remote, anchors[0].target, last.target, tell)
    found = rebuild_map(anchors, ours, theirs)
    if found is None or not found.segments:
        return
    found.topic_id = there.topic_id
    exact = sum(records for _, records, _ in found.stretches())
    found.shrink(WEIGHT_MAX)
    if write:
        key = encode_key(flow.name.source, where, _OLDEST)
        publish(flow.target, flow.ledger_topics.offset_map, [(key, encode_chunk(found.as_chunk()))])
    yield Rebuilt(where, anchors[0].source, last.source, exact)


def _begin_of(found: OffsetMap | None) -> Anchor | None:
    return Anchor(found.segments[0].first, found.segments[0].target) if found is not None and found.segments else None


def _cut_at_ms(flow: FlowConfig) -> dict[TopicPartition, int]:
    """For each partition the time at which its log on the target was last found to be another one, or shorter;
    offset syncs from before that time do not apply to the present log."""
    found: dict[TopicPartition, int] = {}
    for gap in ledger_gaps(flow):
        if gap.is_on_target:
            found[gap.partition] = max(gap.at_ms, found.get(gap.partition, 0))
    return found


def _read(
    cluster: Cluster, where: TopicPartition, first: int, end: int, tell: Callable[[str, int, int], None]
) -> LogPart:
    found = LogPart()
    what = f"{cluster.alias} {where}"
    with open_tail(cluster, "rebuild", [where], is_internal=False) as tail:
        for record in tail.read_between(where, first, end):
            found.add(record.offset, (record.key, record.value, record.headers))
            if record.offset % _TOLD_EVERY == 0:
                tell(what, record.offset - first, end - first)
    tell(what, end - first, end - first)
    return found


def _read_syncs(
    flow: FlowConfig, source: Admin, target: Admin, cut_at_ms: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, list[Anchor]]:
    found: dict[TopicPartition, list[Anchor]] = defaultdict(list)
    names = mirror_topics(flow.name, flow.policy, flow.offsets.syncs_location)
    cluster, admin = (flow.source, source) if names.syncs_on_source else (flow.target, target)
    if not admin.list_topics([names.syncs]):
        return found
    with open_tail(cluster, "rebuild", [TopicPartition(names.syncs, 0)]) as tail:
        for record in tail.read_to_end(_READ_SECONDS_MAX):
            try:
                sync = OffsetSync.parse(record.key, record.value)
            except ProtocolError:
                continue  # Others may have written there.
            if record.timestamp_ms >= cut_at_ms.get(sync.partition, 0):
                found[sync.partition].append(Anchor(sync.upstream, sync.downstream))
    return found
