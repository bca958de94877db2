"""The topology that one cluster's heartbeats show: pairs of clusters, hops and ages, as text, dot and SVG; pure.

A mirror writes heartbeats to its target, even where it mirrors no topic; their key names the pair. It also mirrors the
source's heartbeat topic like any other topic, which shows that records arrive: `A.Z.heartbeats` on B shows that Z is
mirrored to A, and A to B.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Final

from sparkmirror.clock import show_age, show_moment
from sparkmirror.ledger.mirror_records import Heartbeat
from sparkmirror.model import FlowName

SILENT_SECONDS: Final = 30.0
"""Mirrors write a heartbeat every second by default. After this time without one, a pair counts as silent."""


@dataclass(frozen=True, slots=True)
class Feed:
    """One pair of clusters.

    `hops` is the number of mirrors through which the source's records reach the cluster that was asked, 0 where none
    arrive there. `arrived_ms` is the time of the newest heartbeat that arrived through them, `announced_ms` that of the
    pair's own newest heartbeat; None where there is none.
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
    """The topology as seen from `cluster` at `at_ms`."""

    cluster: str
    at_ms: int
    feeds: tuple[Feed, ...]

    def age_seconds(self, feed: Feed) -> float:
        """The age of the newest heartbeat that arrived, or else of the pair's own newest one. 0.0 where the clocks
        make it negative."""
        youngest = feed.arrived_ms if feed.arrived_ms is not None else feed.announced_ms or 0
        return max(self.at_ms - youngest, 0) / 1000

    def is_silent(self, feed: Feed) -> bool:
        return self.age_seconds(feed) > SILENT_SECONDS

    def hops_from(self) -> dict[str, int]:
        """For each cluster the number of hops to the cluster that was asked; clusters whose records do not arrive get
        one more than the greatest number."""
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
    """The topology of heartbeats, given by the aliases in their topic's name: () for the cluster's own topic, ("A",
    "Z") for `A.Z.heartbeats`."""
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
    """Note that heartbeats arrived over the farthest pair of a way; the nearer pairs have heartbeats of their own."""
    flow = FlowName(way[-1], way[-2] if len(way) > 1 else cluster)
    feed = feeds.get(flow, Feed(flow))
    if feed.arrived_ms is None or len(way) < feed.hops or youngest_ms > feed.arrived_ms:
        feeds[flow] = replace(feed, hops=len(way), arrived_ms=youngest_ms)


# As pictures.

_BOX_WIDTH, _BOX_HEIGHT = 120, 44
_COLUMN, _ROW, _MARGIN = 260, 96, 40
_GREEN, _RED, _GREY = "#1a7f37", "#cf222e", "#6e7781"


def render_text(topology: Topology) -> list[str]:
    """Lines in two lists: pairs whose records arrive, then pairs of which only heartbeats announce the mirror."""
    lines = [f"{topology.cluster}, by its heartbeats at {show_moment(topology.at_ms // 1000 * 1000)}:"]
    arriving = [feed for feed in topology.feeds if feed.arrives]
    announced = [feed for feed in topology.feeds if not feed.arrives]
    if not topology.feeds:
        return [*lines, "  no heartbeats: nobody mirrors to here, or emit.heartbeats.enabled is false"]
    width = max(len(str(feed.flow)) for feed in topology.feeds)
    for feed in arriving:
        hops = "1 hop " if feed.hops == 1 else f"{feed.hops} hops"
        lines.append(f"  {feed.flow!s:{width}}  {hops}  {_last(topology, feed)}")
    if announced:
        lines.append(f"announced; whether records flow cannot be seen on {topology.cluster}:")
        lines += [f"  {feed.flow!s:{width}}          {_last(topology, feed)}" for feed in announced]
    return lines


def render_dot(topology: Topology) -> list[str]:
    """The graph as lines for `dot -Tpng`; pairs whose records do not arrive are dashed."""
    lines = ["digraph mirrors {", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    lines += [f"  {_quoted(alias)};" for alias in topology.hops_from()]
    for feed in topology.feeds:
        style = "" if feed.arrives else ", style=dashed"
        label, color = _quoted(show_age(topology.age_seconds(feed))), _quoted(_color(topology, feed))
        lines.append(
            f"  {_quoted(feed.flow.source)} -> {_quoted(feed.flow.target)} [label={label}, color={color}{style}];"
        )
    return [*lines, "}"]


def render_svg(topology: Topology) -> list[str]:
    """An SVG picture: the cluster that was asked on the right, the others in columns by their hops; pairs whose records
    do not arrive are dashed."""
    places = _places(topology.hops_from())
    width = max(x for x, _ in places.values()) + _BOX_WIDTH + _MARGIN
    height = max(y for _, y in places.values()) + _BOX_HEIGHT + _MARGIN
    arrows = [line for feed in topology.feeds for line in _arrow(topology, feed, places)]
    boxes = [line for alias, place in places.items() for line in _box(alias, place, chosen=alias == topology.cluster)]
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="14">',
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 10 5 0 10z" fill="#24292f"/></marker></defs>',
        f"<title>Mirrors as seen from {escape(topology.cluster)}</title>",
        *arrows,
        *boxes,
        "</svg>",
    ]


def _places(hops: dict[str, int]) -> dict[str, tuple[int, int]]:
    columns: dict[int, list[str]] = defaultdict(list)
    for alias, number in sorted(hops.items()):
        columns[number].append(alias)
    last, most = max(columns), max(map(len, columns.values()))
    return {
        alias: (_MARGIN + (last - number) * _COLUMN, _MARGIN + at * _ROW + (most - len(column)) * _ROW // 2)
        for number, column in columns.items()
        for at, alias in enumerate(column)
    }


def _arrow(topology: Topology, feed: Feed, places: dict[str, tuple[int, int]]) -> list[str]:
    """A curve between two boxes: forward ones bend up, those that go back or stay in a column bend down."""
    (x1, y1), (x2, y2) = places[feed.flow.source], places[feed.flow.target]
    forward = x1 < x2
    start = (x1 + _BOX_WIDTH, y1 + _BOX_HEIGHT // 3) if forward else (x1 + _BOX_WIDTH // 2, y1 + _BOX_HEIGHT)
    end = (x2, y2 + _BOX_HEIGHT // 3) if forward else (x2 + _BOX_WIDTH // 2, y2 + _BOX_HEIGHT)
    middle = ((start[0] + end[0]) // 2, (start[1] + end[1]) // 2 + (-14 if forward else 44))
    dashed = "" if feed.arrives else ' stroke-dasharray="6 5"'
    color = _color(topology, feed)
    return [
        f'<path d="M{start[0]} {start[1]} Q{middle[0]} {middle[1]} {end[0]} {end[1]}" fill="none" '
        f'stroke="{color}" stroke-width="2"{dashed} marker-end="url(#tip)"/>',
        f'<text x="{middle[0]}" y="{middle[1] + (0 if forward else 2)}" text-anchor="middle" fill="{color}">'
        f"{show_age(topology.age_seconds(feed))}</text>",
    ]


def _box(alias: str, place: tuple[int, int], *, chosen: bool) -> list[str]:
    x, y = place
    fill = "#ddf4ff" if chosen else "#f6f8fa"
    return [
        f'<rect x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="8" fill="{fill}" stroke="#24292f"/>',
        f'<text x="{x + _BOX_WIDTH // 2}" y="{y + 27}" text-anchor="middle">{escape(alias)}</text>',
    ]


def _last(topology: Topology, feed: Feed) -> str:
    age = f"{show_age(topology.age_seconds(feed))} ago"
    return f"{age}, silent" if topology.is_silent(feed) else age


def _color(topology: Topology, feed: Feed) -> str:
    if topology.is_silent(feed):
        return _RED
    return _GREEN if feed.arrives else _GREY


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
