"""A flow's state as the bus tells it, partition by partition; pure. Fed and printed by `cli.status`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sparkmirror.clock import show_age, show_moment
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.status.board import FlowStatus
from sparkmirror.status.records import PartitionState
from sparkmirror.status.table import Page, make_table


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """One source partition: `offset` is the next one to mirror, `end` the source's; None where nobody could tell."""

    partition: TopicPartition
    state: PartitionState
    offset: int | None
    end: int | None
    reason: str = ""
    retry_at_ms: int | None = None

    @property
    def lag_records(self) -> int | None:
        return None if self.offset is None or self.end is None else max(self.end - self.offset, 0)

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "state": self.state.value,
            "offset": self.offset,
            "end": self.end,
            "lag": self.lag_records,
            "reason": self.reason,
            "retry_at": None if self.retry_at_ms is None else show_moment(self.retry_at_ms),
        }


class ProcessShown(Protocol):
    """A process that runs the flow (`engine.processes`)."""

    @property
    def sentence(self) -> str:
        """What it runs, for a person."""

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""


@dataclass(frozen=True, slots=True)
class FlowPage:
    """One flow. `status` is what its latest run reported last, at `reported_at_ms`; None if none ever did.

    `source_problem` says why the ends of the source are not known. `processes` are those that run the flow now.
    """

    flow: FlowName
    at_ms: int
    status: FlowStatus | None
    reported_at_ms: int
    places: tuple[PartitionPlace, ...]
    source_problem: str = ""
    processes: tuple[ProcessShown, ...] = ()

    @property
    def lag_records(self) -> int | None:
        known = [place.lag_records for place in self.places if place.lag_records is not None]
        return sum(known) if len(known) == len(self.places) else None

    def as_json(self) -> dict[str, Any]:
        status = self.status
        return {
            "flow": str(self.flow),
            "reported_at": None if status is None else show_moment(self.reported_at_ms),
            "lag": self.lag_records,
            "records": None if status is None else status.records,
            "bytes": None if status is None else status.bytes,
            "gaps": None if status is None else status.gaps,
            "lost_records": None if status is None else status.lost_records,
            "problem": self.source_problem or ("" if status is None else status.problem),
            "processes": [process.as_json() for process in self.processes],
            "partitions": [place.as_json() for place in self.places],
        }


def list_places(
    status: FlowStatus, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> tuple[PartitionPlace, ...]:
    """All partitions that have a position or an end, with what the run says of each."""
    return tuple(_place(where, status, offsets, ends) for where in sorted(offsets.keys() | ends.keys()))


def _place(
    where: TopicPartition,
    status: FlowStatus,
    offsets: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> PartitionPlace:
    name = str(where)
    state, reason = PartitionState.RUNNING, ""
    if name in status.failed:
        state, reason = PartitionState.FAILED, status.failed[name]
    elif name in status.faults:
        state, reason = PartitionState.WAITING, status.faults[name]
    elif name in status.paused:
        state = PartitionState.PAUSED
    return PartitionPlace(where, state, offsets.get(where), ends.get(where), reason, status.retry_at_ms.get(name))


def render_page(page: FlowPage, *, whole: bool) -> Page:
    """A line for the flow, and a table of its partitions: all of them with `whole`, else those that do not run."""
    if page.status is None:
        return [f"{page.flow}: no run has reported"]
    shown = [place for place in page.places if whole or place.state is not PartitionState.RUNNING]
    parts: Page = [_headline(page, page.status), *(f"  {process.sentence}" for process in page.processes)]
    if page.source_problem:
        parts.append(f"  {page.source_problem}")
    if shown:
        titles = ("topic", "partition", "state", "offset", "end", "lag", "reason")
        parts.append(make_table(titles, [_row(place, page.at_ms) for place in shown], indent=2))
    return parts


def _headline(page: FlowPage, status: FlowStatus) -> str:
    lag = "unknown" if page.lag_records is None else f"{page.lag_records:,}"
    parts = [f"{page.flow}: {len(page.places)} partitions", f"lag {lag}"]
    for state in (PartitionState.FAILED, PartitionState.WAITING, PartitionState.PAUSED):
        count = sum(place.state is state for place in page.places)
        if count:
            parts.append(f"{count} {state.value}")
    if status.gaps:
        parts.append(f"{status.gaps} gaps, {status.lost_records:,} offsets gone")
    age = show_age(max(page.at_ms - page.reported_at_ms, 0) / 1000)
    return ", ".join(parts) + f"; its tasks last had something to report {age} ago"


def _row(place: PartitionPlace, at_ms: int) -> tuple[object, ...]:
    reason = place.reason
    if place.retry_at_ms is not None and place.retry_at_ms > at_ms:
        reason += f" (next try in {show_age((place.retry_at_ms - at_ms) / 1000)})"
    numbers = (_known(place.offset), _known(place.end), _known(place.lag_records))
    return (place.partition.topic, place.partition.partition, place.state.value, *numbers, reason)


def _known(number: int | None) -> str:
    return "-" if number is None else str(number)
