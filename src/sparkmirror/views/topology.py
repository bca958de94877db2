"""Who feeds whom, as one cluster's heartbeats tell: pairs of clusters, hops and ages; pure. Asked by `cli.topology`.

A heartbeat is written to a mirror's target, whether or not it mirrors anything: its key announces the pair. That
records arrive is shown by heartbeats of the source that were mirrored like any topic: `A.Z.heartbeats` on B says that
Z feeds A, and A feeds B.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sparkmirror.ledger.mirror_records import Heartbeat
from sparkmirror.model import FlowName

SILENT_SECONDS: Final = 30.0
"""Heartbeats come once a second: after so long something is wrong."""


@dataclass(frozen=True, slots=True)
class Feed:
    """One pair of clusters.

    `hops` is how many mirrorings the source's records take to the cluster that was asked, 0 where none arrive there.
    `arrived_ms` is the time of the youngest heartbeat that came over this way, `announced_ms` of the pair's own one.
    """

    flow: FlowName
    hops: int = 0
    arrived_ms: int | None = None
    announced_ms: int | None = None

    @property
    def arrives(self) -> bool:
        """Whether records of the source reach the cluster that was asked."""
        return self.arrived_ms is not None


@dataclass(frozen=True, slots=True)
class Topology:
    """As seen from `cluster` at `at_ms`."""

    cluster: str
    at_ms: int
    feeds: tuple[Feed, ...]

    def age_seconds(self, feed: Feed) -> float:
        """Of the youngest heartbeat that arrived, else of the youngest announcement. Clocks differ: never negative."""
        youngest = feed.arrived_ms if feed.arrived_ms is not None else feed.announced_ms or 0
        return max(self.at_ms - youngest, 0) / 1000

    def is_silent(self, feed: Feed) -> bool:
        return self.age_seconds(feed) > SILENT_SECONDS

    def hops_from(self) -> dict[str, int]:
        """Every cluster, with the mirrorings from there to here; clusters whose records do not arrive come last."""
        found = {self.cluster: 0} | {feed.flow.source: feed.hops for feed in self.feeds if feed.arrives}
        beyond = max(found.values()) + 1
        for feed in self.feeds:
            for alias in (feed.flow.source, feed.flow.target):
                found.setdefault(alias, beyond)
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "at_ms": self.at_ms,
            "feeds": [
                {
                    "source": feed.flow.source,
                    "target": feed.flow.target,
                    "records_arrive": feed.arrives,
                    "hops": feed.hops or None,
                    "age_seconds": self.age_seconds(feed),
                    "silent": self.is_silent(feed),
                }
                for feed in self.feeds
            ],
        }


def read_topology(cluster: str, at_ms: int, beats: Mapping[tuple[str, ...], Iterable[Heartbeat]]) -> Topology:
    """From heartbeats by the way they came: () for the cluster's own topic, ("A", "Z") for `A.Z.heartbeats`."""
    feeds: dict[FlowName, Feed] = {}
    for way, found in beats.items():
        some = list(found)
        for beat in some:
            _announce(feeds, beat)
        if way and some:
            _arrive(feeds, cluster, way, max(beat.timestamp_ms for beat in some))
    ordered = sorted(feeds.values(), key=lambda feed: (not feed.arrives, feed.hops, feed.flow))
    return Topology(cluster, at_ms, tuple(ordered))


def _announce(feeds: dict[FlowName, Feed], beat: Heartbeat) -> None:
    feed = feeds.get(beat.flow, Feed(beat.flow))
    feeds[beat.flow] = replace(feed, announced_ms=max(beat.timestamp_ms, feed.announced_ms or 0))


def _arrive(feeds: dict[FlowName, Feed], cluster: str, way: Sequence[str], youngest_ms: int) -> None:
    """The last stretch of a way; the stretches before it have heartbeats of their own."""
    flow = FlowName(way[-1], way[-2] if len(way) > 1 else cluster)
    feed = feeds.get(flow, Feed(flow))
    if feed.arrived_ms is None or len(way) < feed.hops or youngest_ms > feed.arrived_ms:
        feeds[flow] = replace(feed, hops=len(way), arrived_ms=youngest_ms)
