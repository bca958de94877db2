"""The consumer groups of a flow on both clusters, with their offsets and the reasons why they are not synced; pure.

`operations.snapshots` reads them, `cli.listings` prints them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkmirror.clock import show_age, show_moment
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.telemetry.problems import plural
from sparkmirror.views.identical import count_identical
from sparkmirror.views.table import Page, make_table


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """One partition of one group. Offsets are the next to read; None where they are not known, or none is committed.

    `committed` and `end` are the group's offset and the high watermark on the source. `translated` is the offset on the
    target that corresponds to `committed` now; `exact` is False where it may lie before the corresponding record.
    `checkpoint_ms` is the time of the last checkpoint. `on_target` and `target_end` are the group's offset and the high
    watermark on the target. `is_identical` says that the target has the partition's records at their own offsets, up to
    the stored position; None where that is not known.
    """

    partition: TopicPartition
    remote: TopicPartition
    committed: int | None
    end: int | None
    translated: int | None
    exact: bool
    checkpoint_ms: int | None
    on_target: int | None
    target_end: int | None
    is_identical: bool | None = False

    @property
    def lag_records(self) -> int | None:
        """How many records the group is behind on the source."""
        return _lag(self.committed, self.end)

    @property
    def target_lag_records(self) -> int | None:
        """How many records a consumer on the target would have to read, from the offset that is committed there."""
        return _lag(self.on_target, self.target_end)

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "committed": self.committed,
            "lag": self.lag_records,
            "remote_topic": self.remote.topic,
            "translated": self.translated,
            "exact": self.exact,
            "identical_offsets": self.is_identical,
            "checkpoint_at": None if self.checkpoint_ms is None else show_moment(self.checkpoint_ms),
            "target_committed": self.on_target,
            "target_lag": self.target_lag_records,
        }


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One group. States are Kafka's; "" where the cluster has no such group, or does not answer.

    `notes` say why it is not synced, or only in part. `knows_ends` is False while brokers do not give the high
    watermarks of some of its partitions; then its lag is not known.
    """

    group: str
    state: str
    target_state: str
    places: tuple[GroupPlace, ...]
    notes: tuple[str, ...] = ()
    knows_ends: bool = True

    @property
    def lag_records(self) -> int | None:
        return _sum([place.lag_records for place in self.places]) if self.knows_ends else None

    @property
    def target_lag_records(self) -> int | None:
        return _sum([place.target_lag_records for place in self.places]) if self.knows_ends else None

    def checkpoint_age_seconds(self, at_ms: int) -> float | None:
        """Seconds since the last checkpoint of any partition. The mirror writes one when the group's offset moves."""
        times = [place.checkpoint_ms for place in self.places if place.checkpoint_ms is not None]
        return max(at_ms - max(times), 0) / 1000 if times else None

    def as_json(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "state": self.state,
            "target_state": self.target_state,
            "lag": self.lag_records,
            "target_lag": self.target_lag_records,
            "notes": list(self.notes),
            "partitions": [place.as_json() for place in self.places],
        }


def render_groups(flow: FlowName, lines: Sequence[GroupLine], at_ms: int, *, whole: bool) -> Page:
    """A line for the flow and a table with a row for each group; with `whole` a second table of their partitions."""
    kept = count_identical({place.partition: place.is_identical for line in lines for place in line.places}.values())
    page: Page = [", ".join(filter(None, (f"{flow}: {plural(len(lines), 'group')}", kept)))]
    if lines:
        source, target = (f"{what} {flow.source}" for what in ("on", "lag on")), f"lag on {flow.target}"
        titles = ("group", *source, f"on {flow.target}", "translated", target, "checkpoint", "notes")
        page.append(make_table(titles, [_row(line, at_ms) for line in lines], indent=2))
    if whole and any(line.places for line in lines):
        titles = ("group", "partition", "committed", "lag", "remote partition", "translated", "committed there", "lag")
        rows = [(line.group, *_place(place)) for line in lines for place in line.places]
        page.append(make_table(titles, rows, indent=2))
    return page


def _row(line: GroupLine, at_ms: int) -> tuple[object, ...]:
    translated = sum(place.translated is not None for place in line.places)
    age = line.checkpoint_age_seconds(at_ms)
    return (
        line.group, line.state or "-", _known(line.lag_records), line.target_state or "-",
        f"{translated} of {len(line.places)}", _known(line.target_lag_records),
        "-" if age is None else f"{show_age(age)} ago", "; ".join(line.notes),
    )  # fmt: skip


def _place(place: GroupPlace) -> tuple[object, ...]:
    how = "" if place.exact else " (not beyond)"
    how = " (identical)" if place.exact and place.is_identical else how
    translated = _known(place.translated) + ("" if place.translated is None else how)
    return (
        place.partition, _known(place.committed), _known(place.lag_records),
        place.remote, translated, _known(place.on_target), _known(place.target_lag_records),
    )  # fmt: skip


def _lag(offset: int | None, end: int | None) -> int | None:
    return None if offset is None or end is None else max(end - offset, 0)


def _sum(numbers: Sequence[int | None]) -> int | None:
    """The sum of the known lags; None where none is known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _known(number: int | None) -> str:
    return "-" if number is None else str(number)
