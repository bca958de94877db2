"""Compares how often a source ends transactions with what can be filled on the target, where offsets are kept: each
marker is an offset without a record. Called by `operations.cluster_checks`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.wire.batch_owners import OwnedBatch, read_owners
from sparkmirror.model import TopicPartition
from sparkmirror.operations.cluster_pair import mirrored_partitions, target_replicas
from sparkmirror.policy.fillers import LONE, MARKERS, RATES
from sparkmirror.sync.topics import BROKER_DEFAULT
from sparkmirror.views.findings import Finding, Level

_WHAT: Final = "transaction markers"
_PARTITIONS_MAX: Final = 20
_OFFSETS: Final = 2_000
_BYTES_MAX: Final = 16 << 20
_MARKERS_MIN: Final = 10
"""Fewer say nothing of how often they come."""
_SHARE_MAX: Final = 0.5
"""Of what can be filled."""


class MarkerRate(NamedTuple):
    """`markers` of a partition in so many seconds of its log."""

    partition: TopicPartition
    markers: int
    seconds: float

    @property
    def a_second(self) -> float:
        return self.markers / max(self.seconds, 0.001)


def check_markers(flow: FlowConfig, source: Admin, target: Admin) -> Iterator[Finding]:
    """A finding where offsets of some topics are kept that have records. Raises ClusterError."""
    if not flow.preserves_offsets:
        return
    kept = [where for where in mirrored_partitions(flow, source) if flow.keeps_offsets(where.topic)]
    begins, ends = source.earliest_offsets(kept).known, source.latest_offsets(kept).known
    filled = [where for where in kept if where in begins and begins[where] < ends.get(where, 0)]
    if filled:
        chosen = filled[:: -(-len(filled) // _PARTITIONS_MAX)]
        looked = [(where, max(begins[where], ends[where] - _OFFSETS), ends[where]) for where in chosen]
        if rates := [rate for one in looked if (rate := _rate(source, *one)) is not None]:
            replicas = target_replicas(flow, target, {rate.partition.topic for rate in rates})
            yield judge_markers(source.alias, rates, len(filled), replicas)


def _rate(source: Admin, where: TopicPartition, first: int, stop: int) -> MarkerRate | None:
    """None where the end of the log cannot be read: other checks say why."""
    try:
        return count_markers(where, _bounded(read_owners(source.connection.settings, where, first, stop)))
    except ClusterError:
        return None


def _bounded(batches: Iterable[OwnedBatch]) -> Iterator[OwnedBatch]:
    read_bytes = 0
    for batch in batches:
        yield batch
        read_bytes += len(batch.data)
        if read_bytes > _BYTES_MAX:
            return


def count_markers(where: TopicPartition, batches: Iterable[OwnedBatch]) -> MarkerRate:
    """By the times that producers and coordinators have written."""
    markers, times_ms = 0, []
    for batch in batches:
        markers += batch.header.is_control
        times_ms.append(batch.header.max_timestamp)
    seconds = (max(times_ms) - min(times_ms)) / 1000 if times_ms else 0.0
    return MarkerRate(where, markers, seconds)


def judge_markers(alias: str, rates: Sequence[MarkerRate], partitions: int, replicas: Mapping[str, int]) -> Finding:
    """`rates` are of some of the flow's partitions, at the ends of their logs; `replicas` are those on the target, by
    the source's topic. Either one partition has more than it can take, or all of them together have."""
    looked = f"at the ends of {len(rates)} of {partitions} partitions"
    often = [one for one in rates if one.markers >= _MARKERS_MIN]
    if not often:
        return Finding(Level.OK, alias, _WHAT, f"keeping offsets: few or none {looked}")
    alone = max((_load_of(one, replicas[one.partition.topic]) for one in often), key=lambda load: load.share)
    load = max(alone, _sum_of(often, replicas), key=lambda load: load.share)
    said = f"keeping offsets: {load.said}, {looked}; of such, {load.can}"
    if load.share <= _SHARE_MAX:
        return Finding(Level.OK, alias, _WHAT, said)
    hint = "if they come so often for long, the mirror falls behind: let producers put more records into a transaction"
    return Finding(Level.WARN, alias, _WHAT, said, hint)


class _Load(NamedTuple):
    """How much of what can be filled comes, in clauses too."""

    share: float
    said: str
    can: str


def _load_of(rate: MarkerRate, replicas: int) -> _Load:
    can = LONE.with_replicas(replicas)
    said = f"up to {rate.a_second:,.0f} a second in {rate.partition}"
    return _Load(rate.a_second / can, said, f"some {can:,.0f} are filled in one partition, {_where(replicas)}")


def _sum_of(rates: Sequence[MarkerRate], replicas: Mapping[str, int]) -> _Load:
    """All partitions together fill no more than one does of markers in a row, where little CPU time is left."""
    markers, copies = RATES[MARKERS], {replicas[one.partition.topic] for one in rates}
    most = min(copies, key=markers.with_replicas)
    can, a_second = markers.with_replicas(most), sum(one.a_second for one in rates)
    said = f"{a_second:,.0f} a second in {len(rates)} partitions together"
    return _Load(a_second / can, said, f"some {can:,.0f} are filled in all, {_where(most)}")


def _where(replicas: int) -> str:
    copies = {1: "one replica", BROKER_DEFAULT: "as many replicas as the brokers choose"}
    known = copies.get(replicas, f"{replicas} replicas")
    return f"with {known}, where both clusters and the mirror share two busy cores"
