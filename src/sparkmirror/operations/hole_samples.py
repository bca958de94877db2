"""How many of the offsets that a flow still has to mirror have no record on the source, about, where offsets are kept:
compaction, transaction markers and aborted records leave such. Reads headers of batches in a few places of some
partitions. Called by `operations.kept_starts`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sparkmirror.batch.header import MAGIC, BatchHeader
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.wire.batch_owners import OwnedBatch, OwnerReader
from sparkmirror.model import TopicPartition
from sparkmirror.policy.fillers import ABORTED, FILLERS, MARKERS, WRITE_MARKERS, Cost, Hole, hole_cost, sum_costs
from sparkmirror.views.findings import show_cost

PARTITIONS_MAX: Final = 20
_BYTES: Final = 1 << 20
"""Of one reading."""
_LAST_OFFSETS: Final = 2_000
_LONG_SECONDS: Final = 600.0
_MUCH: Final = 10
_SETTING: Final = "preserve.offsets.filler"
_PRICES: Final = {
    MARKERS: "which no consumer sees",
    ABORTED: "which read_uncommitted consumers, as Java's are by default, see as empty records",
    WRITE_MARKERS: "for which the target's brokers ask CLUSTER_ACTION",
}


class Holes(NamedTuple):
    """So many holes, which have so many offsets together."""

    number: int
    offsets: int


class Reading(NamedTuple):
    """`offsets` whose batches were looked at, and the holes among them."""

    offsets: int = 0
    holes: tuple[Holes, ...] = ()


@dataclass(frozen=True, slots=True)
class HoleSample:
    """A partition with the offsets that are `left` to mirror, and what was read of them, None where that was not
    answered; `replicas` are those on the target."""

    partition: TopicPartition
    remote: TopicPartition
    left: Hole
    replicas: int
    reading: Reading | None

    @property
    def left_count(self) -> int:
        return self.left.stop - self.left.first

    @property
    def read(self) -> int:
        return min(self.reading.offsets, self.left_count) if self.reading else 0

    @property
    def missing(self) -> int:
        """How many offsets have no record, if all are as those that were read."""
        return round(self._scale * sum(one.offsets for one in self._holes))

    def cost(self, filler: str) -> Cost:
        costs = [(one.number, hole_cost(round(one.offsets / one.number), filler, self.replicas)) for one in self._holes]
        seconds = sum(count * cost.seconds for count, cost in costs)
        size_bytes = sum(count * cost.size_bytes for count, cost in costs)
        return Cost(self._scale * seconds, round(self._scale * size_bytes))

    @property
    def _holes(self) -> tuple[Holes, ...]:
        return self.reading.holes if self.reading else ()

    @property
    def _scale(self) -> float:
        return self.left_count / self.reading.offsets if self.reading and self.reading.offsets else 0.0

    @property
    def sentence(self) -> str:
        """Without what it costs."""
        return (
            f"fill about {self.missing:,} of {self.left_count:,} offsets of {self.remote}, {self.left.first} to "
            f"{self.left.stop - 1}, which have no record on the source, by {self.read:,} that were read"
        )

    def as_json(self, filler: str) -> dict[str, Any]:
        """Of what was not answered nothing is known: null, not zero."""
        cost = self.cost(filler) if self.reading else None
        return {
            "topic": self.partition.topic, "partition": self.partition.partition, "remote_topic": self.remote.topic,
            "first": self.left.first, "stop": self.left.stop, "read": self.read,
            "missing": self.missing if self.reading else None,
            "seconds": round(cost.seconds, 3) if cost else None, "bytes": cost.size_bytes if cost else None,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class HoleSamples:
    """Of `partitions` that have something left to mirror, or of which that is not known, those that were read."""

    filler: str
    partitions: int
    samples: tuple[HoleSample, ...] = ()

    @property
    def cost(self) -> Cost:
        return self.cost_with(self.filler)

    def cost_with(self, filler: str) -> Cost:
        return sum_costs(one.cost(filler) for one in self.samples)

    def as_json(self) -> dict[str, Any]:
        return {"holes": [one.as_json(self.filler) for one in self.samples], "holes_unknown": self._unknown}

    def lines(self) -> Iterator[str]:
        """The most expensive holes come first. What was not read is unknown, and is said to be."""
        found = [one for one in self.samples if one.missing]
        found.sort(key=lambda one: (-one.cost(self.filler).seconds, one.partition))
        yield from (f"{one.sentence}: {show_cost(*one.cost(self.filler))}" for one in found)
        if read := [one for one in self.samples if one.read]:
            what = "no offset without a record was found"
            if found:
                what = f"about {sum(one.missing for one in found):,} have no record: {show_cost(*self.cost)}"
            left, count = sum(one.left_count for one in read), sum(one.read for one in read)
            yield f"of {left:,} offsets to mirror in {len(read)} partitions {count:,} were read: {what}"
        if self._unknown:
            why = f"{PARTITIONS_MAX} are read at most" if self._unknown > self._silent else "no answer came"
            yield f"of {self._unknown} more partitions it is not known how many offsets have no record: {why}"

    @property
    def _silent(self) -> int:
        return sum(one.reading is None for one in self.samples)

    @property
    def _unknown(self) -> int:
        return self.partitions - len(self.samples) + self._silent


def advise_filler(filler: str, seconds: Mapping[str, float]) -> Iterator[str]:
    """A sentence where the flow's filler takes long by `seconds`, which are by filler, and another one does not."""
    faster = [one for one in FILLERS if seconds[filler] > _LONG_SECONDS and seconds[one] * _MUCH < seconds[filler]]
    if faster:
        ways = " or ".join(f"{one} in about {seconds[one]:,.0f} s, {_PRICES[one]}" for one in faster)
        yield (
            f"`{_SETTING} = {filler}` fills the holes in about {seconds[filler]:,.0f} s, {ways}: choose by `{_SETTING}`"
        )


NO_HOLES: Final = HoleSamples(MARKERS, 0)


def choose_partitions(left: Mapping[TopicPartition, Hole]) -> list[TopicPartition]:
    """Those to read: of each topic the one with most left, then each one's next, as partitions of a topic are alike."""
    by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
    for where in sorted(left, key=lambda one: (left[one].first - left[one].stop, one)):
        by_topic[where.topic].append(where)
    ranked = [(rank, where) for some in by_topic.values() for rank, where in enumerate(some)]
    ranked.sort(key=lambda one: (one[0], left[one[1]].first - left[one[1]].stop, one[1]))
    return sorted(where for _, where in ranked[:PARTITIONS_MAX])


def sample_holes(
    flow: FlowConfig, source: Admin, left: Mapping[TopicPartition, Hole | None], replicas: Mapping[str, int]
) -> HoleSamples:
    """Of some of the partitions; `left` is None where it is not known. `replicas` are by the source's topic."""
    known = {where: one for where, one in left.items() if one is not None and one.first < one.stop}
    unknown = sum(one is None for one in left.values())
    is_committed = flow.consumer.isolation_level == "read_committed"
    samples = []
    for where in choose_partitions(known):
        remote = TopicPartition(flow.remote_topic(where.topic), where.partition)
        with closing(OwnerReader(source.connection.settings, where)) as reader:
            reading = read_places(reader, known[where], is_committed)
        samples.append(HoleSample(where, remote, known[where], replicas[where.topic], reading))
    return HoleSamples(flow.offsets_filler, len(known) + unknown, tuple(samples))


def read_places(reader: OwnerReader, left: Hole, is_committed: bool) -> Reading | None:
    """At the beginning, in the middle and at the end, or all of it where that is not more; None without an answer."""
    read, at = 0, left.first
    holes: tuple[Holes, ...] = ()
    for start in places(left):
        start = max(start, at)
        if start >= left.stop:
            break
        try:
            batches = reader.look(start, is_committed=is_committed, bytes_max=_BYTES)
        except SparkMirrorError:  # who does not answer once may keep us waiting again
            break
        if batches:
            found = count_holes(start, left.stop, batches)
            read, holes, at = read + found.offsets, holes + found.holes, batches[-1].stop
    return Reading(read, merge(holes)) if read else None


def merge(holes: Iterable[Holes]) -> tuple[Holes, ...]:
    """Those of one size as one: of lone markers there may be thousands."""
    found: dict[float, Holes] = {}
    for one in holes:
        size = one.offsets / one.number
        known = found.get(size, Holes(0, 0))
        found[size] = Holes(known.number + one.number, known.offsets + one.offsets)
    return tuple(found.values())


def places(left: Hole) -> tuple[int, ...]:
    """Where to read."""
    middle = (left.first + left.stop) // 2
    return left.first, middle, max(middle, left.stop - _LAST_OFFSETS)


def count_holes(first: int, stop: int, batches: Iterable[OwnedBatch]) -> Reading:
    """By the headers alone of the batches that follow each other from `first` on, up to `stop`. What lies between them
    has no record either; but before a message of the formats before v2 there may be others, packed into it."""
    at, read, open_offsets, holes = first, 0, 0, []
    for batch in batches:
        before = max(0, min(batch.first, stop) - at) if batch.header.magic == MAGIC else 0
        read, open_offsets = read + before, open_offsets + before
        if batch.first >= stop:
            break
        at, span, records = batch.stop, batch.stop - batch.first, _visible(batch)
        read += span
        if not records:
            open_offsets += span
            continue
        if open_offsets:
            holes.append(Holes(1, open_offsets))
        open_offsets = 0
        if lost := span - records:
            holes.append(Holes(_runs(lost, records), lost))
    if open_offsets:
        holes.append(Holes(1, open_offsets))
    return Reading(read, tuple(holes))


def _visible(batch: OwnedBatch) -> int:
    """How many records a consumer sees."""
    header: BatchHeader = batch.header
    if header.is_control or batch.is_aborted:
        return 0
    return max(0, min(header.records_count, batch.stop - batch.first))


def _runs(lost: int, records: int) -> int:
    """How many holes `lost` offsets are that lie anywhere between so many records."""
    return max(1, round(lost * (records + 1) / (lost + records)))
