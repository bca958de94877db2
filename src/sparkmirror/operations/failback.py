"""What the way back to an old primary means: what only it has, where groups return to, where the reverse flow starts.

Pure. Observed by `operations.failback_run`, applied by `operations.failback_run`. Named after the flow that was
failed over: its source is the old primary.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.ledger.checkpoints import is_forward
from sparkmirror.ledger.map_records import MapView
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.ledger.translate import TargetLogs, is_former
from sparkmirror.model import TopicPartition, plain


@dataclass(frozen=True, slots=True)
class Divergence:
    """Records that a source partition has and that were never mirrored: offsets from `first` up to `end`."""

    partition: TopicPartition
    first: int
    end: int

    @property
    def records(self) -> int:
        return self.end - self.first

    def as_json(self) -> dict[str, Any]:
        return plain(self) | {"records": self.records}


@dataclass(frozen=True, slots=True)
class HomePlace:
    """One partition of a group: on the target it stands at `stands` of `remote`, on the source it returns to `home`.

    `offset` is None where nothing is known. If not `exact` it lies before the true place, never beyond.
    """

    group: str
    remote: TopicPartition
    stands: int
    home: TopicPartition
    offset: int | None
    exact: bool
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "group": self.group, "topic": self.remote.topic, "partition": self.remote.partition, "stands": self.stands,
            "home_topic": self.home.topic, "home_offset": self.offset, "exact": self.exact,
        }  # fmt: skip


def plan_divergence(
    positions: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> tuple[Divergence, ...]:
    """`positions` is the ledger: the next offset to mirror."""
    found = (
        Divergence(where, max(positions.get(where, 0), starts.get(where, 0)), end)
        for where, end in sorted(ends.items())
    )
    return tuple(one for one in found if one.records > 0)


def plan_home(
    committed: Mapping[str, GroupOffsets],
    home: Mapping[TopicPartition, TopicPartition],
    maps: MapView,
    logs: TargetLogs,
    source_ends: Mapping[TopicPartition, int],
) -> tuple[HomePlace, ...]:
    """`committed` on the target, whose `logs` these are; `home` names the source partition of each remote one.

    A map of a former log of the target tells nothing, and no place lies beyond the end of the source's log.
    """
    places: list[HomePlace] = []
    for group, offsets in sorted(committed.items()):
        for remote, at in sorted(offsets.items()):
            if remote not in home:
                continue
            found = _current(maps, home[remote], remote, logs)
            back = None if found is None else found.translate_back(at.offset)
            end = source_ends.get(home[remote])
            offset, exact = (None, False) if back is None or end is None else (min(back.offset, end), back.exact)
            places.append(HomePlace(group, remote, at.offset, home[remote], offset, exact, at.metadata))
    return tuple(places)


def _current(maps: MapView, source: TopicPartition, remote: TopicPartition, logs: TargetLogs) -> OffsetMap | None:
    """The map, if it is of the log that the target has now."""
    found, log = maps.map_of(source), logs.get(remote)
    return None if found is None or log is None or is_former(found.topic_id, log) else found


def plan_home_moves(
    places: Sequence[HomePlace], on_source: Mapping[str, GroupOffsets], active: frozenset[str]
) -> dict[str, GroupOffsets]:
    """What to commit on the source: only forward, never for a group that has members there (invariant 7)."""
    moves: dict[str, dict[TopicPartition, Committed]] = defaultdict(dict)
    for place in places:
        if place.offset is None or place.group in active:
            continue
        if is_forward(on_source.get(place.group, {}).get(place.home), place.offset):
            moves[place.group][place.home] = Committed(place.offset, place.note)
    return dict(moves)


def plan_interleaved(
    home: Mapping[TopicPartition, TopicPartition], maps: MapView, names_stay: bool
) -> dict[TopicPartition, int]:
    """Target offsets that lie between what was mirrored: of transaction markers, or of records that others wrote there
    meanwhile, which a reverse flow that starts behind them would leave out. Only where topics keep their names."""
    holes: dict[TopicPartition, int] = {}
    for remote, where in home.items() if names_stay else ():
        found = maps.map_of(where)
        if found is not None and found.segments:
            covered = sum(records for _, records, _ in found.stretches())
            holes[remote] = found.end_target - found.segments[0].target - covered
    return {remote: count for remote, count in holes.items() if count > 0}


def plan_reverse_start(
    home: Mapping[TopicPartition, TopicPartition], maps: MapView, logs: TargetLogs, names_stay: bool
) -> dict[TopicPartition, int]:
    """Positions of the reverse flow behind all that came from the old primary, so that nothing is copied back to it.

    Only where topics keep their names; names with an alias in front say themselves where a topic came from. A log that
    was made again is mirrored from its beginning, one that was cut from its end on.
    """
    if not names_stay:
        return {}
    found = ((remote, _current(maps, where, remote, logs)) for remote, where in home.items())
    return {
        remote: min(one.end_target, logs[remote].end)
        for remote, one in found
        if one is not None and one.end_target >= 0
    }
