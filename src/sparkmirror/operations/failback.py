"""The way back to an old primary: what only it has, where groups return to, where the reverse flow starts. Called by
`cli.failback`.

Named after the flow that was failed over: its source is the old primary. `operations.divergence_export` writes records
that only the old primary has to files; `operations.reverse_start` has the steps.
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sparkmirror.clock import SYSTEM_CLOCK
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterError, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.kafka.groups import list_all_groups
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.ledger.checkpoints import is_forward
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.map_records import MapView
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.translate import TargetLogs, is_former
from sparkmirror.model import NO_TOPIC_ID, Topic, TopicPartition, is_another_topic, plain
from sparkmirror.operations.cluster_pair import mirrored_offsets, mirrored_partitions, whole_ledger
from sparkmirror.operations.failover_snapshot import read_groups
from sparkmirror.operations.kept_return import KeptReturn, look_at_kept, return_bounds
from sparkmirror.operations.reverse_ledger import ReverseLedger
from sparkmirror.sync.offset_state import OffsetState, target_logs

_MAPS_SECONDS_MAX, _MAPS_LOOK_SECONDS = 10.0, 0.5


@dataclass(frozen=True, slots=True)
class Divergence:
    """Records of a source partition that were never mirrored: offsets from `first` up to `end`."""

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
    """One partition of a group: on the target it stands at offset `stands` of `remote`, on the source it returns to
    `home`. `offset` is None where nothing is known. If not `exact`, it lies before the true place, never after it."""

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
    """The partitions whose source log reaches beyond `positions`, the ledger's next offsets to mirror."""
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
    """The places on the source to which groups return. `committed` are their offsets on the target, whose logs are
    `logs`; `home` gives the source partition of each remote one. A map of a former log of the target is not used,
    and no place lies beyond the end of the source's log."""
    places: list[HomePlace] = []
    for group, offsets in sorted(committed.items()):
        for remote, at in sorted(offsets.items()):
            if remote not in home:
                continue
            found = _current(maps, home[remote], remote, logs)
            back = None if found is None else found.translate_back(at.offset)
            end = source_ends.get(home[remote])
            offset = None if back is None or end is None else min(back.offset, end)
            exact = back is not None and back.exact and offset == back.offset
            places.append(HomePlace(group, remote, at.offset, home[remote], offset, exact, at.metadata))
    return tuple(places)


def _current(maps: MapView, source: TopicPartition, remote: TopicPartition, logs: TargetLogs) -> OffsetMap | None:
    """The partition's map, if it belongs to the present log of the target; else None."""
    found, log = maps.map_of(source), logs.get(remote)
    return None if found is None or log is None or is_former(found.topic_id, log) else found


def plan_home_moves(
    places: Sequence[HomePlace], on_source: Mapping[str, GroupOffsets], active: frozenset[str]
) -> dict[str, GroupOffsets]:
    """The offsets to commit on the source: only forward, never for a group that has members there (invariant 7)."""
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
    """The number of target offsets between mirrored records: transaction markers, or records that other producers
    wrote there. A reverse flow that starts after them would leave those records out. Only for flows in which topics
    keep their names."""
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
    """Positions at which the reverse flow starts: after all records that came from the old primary, so that it
    copies none back. Only for flows in which topics keep their names; otherwise the alias in a name tells where a
    topic came from. A log that was made again starts at its beginning, a truncated one at its end."""
    if not names_stay:
        return {}
    found = ((remote, _current(maps, where, remote, logs)) for remote, where in home.items())
    return {
        remote: min(one.end_target, logs[remote].end)
        for remote, one in found
        if one is not None and one.end_target >= 0
    }


def plan_unmapped(
    home: Mapping[TopicPartition, TopicPartition],
    maps: MapView,
    stored: Mapping[TopicPartition, int],
    records: Mapping[TopicPartition, PositionRecord],
    logs: TargetLogs,
) -> dict[TopicPartition, int | None]:
    """As `plan_reverse_start`, where something was mirrored and there is no map: the ledger knows how far the mirror
    had written. None where nobody knows: a MirrorMaker's `stored` position says nothing of the target's log, and what
    was committed may lie beyond its record's extent. What neither has an extent nor committed has mirrored nothing."""
    starts: dict[TopicPartition, int | None] = {}
    for remote, where in home.items():
        log, record, position = logs.get(remote), records.get(where), stored.get(where, 0)
        if maps.map_of(where) is not None or position == 0 or log is None or log.end == 0:
            continue
        if record is None or record.position.offset < position:
            starts[remote] = None
        elif (end := _written_end(record.extent, log)) > 0 or (record.extent is None and record.committed_end):
            starts[remote] = end if record.committed_end is None or end == log.end else None
    return starts


def _refuse_unknown(flow: FlowConfig, source: Admin, unknown: Sequence[TopicPartition]) -> None:
    """Raises SparkMirrorError for partitions of which nobody knows where the reverse flow is to start, unless a person
    has set that."""
    there = ReverseLedger(flow, source).read().positions if unknown else {}
    if left := sorted(remote for remote in unknown if remote not in there):
        name, reverse = flow.name, f"{flow.name.target}->{flow.name.source}"
        raise SparkMirrorError(
            f"{name}: {left[0]} has a position and no offset map ({len(left)} partitions in all), so that nobody knows "
            f"which records of {name.target} came from {name.source}: {reverse} would copy them back.",
            "If nobody else has written there, `sparkmirror offsets rebuild FILE --execute` makes the map; else set "
            f"where {reverse} starts: `sparkmirror positions set`.",
        )


def mirrored_end(missing: Iterable[TailRecord], behind: Iterable[TailRecord]) -> int:
    """Where the records end on the target that the map does not know yet: behind the last of the records `behind` its
    end that are among those `missing` in it, in their order; -1 where none is. Records that others wrote between count
    for nothing."""
    order = [_content(record) for record in missing]
    known, at, end = frozenset(order), 0, -1
    for record in behind:
        if at == len(order):
            break
        content = _content(record)
        if content in known:
            with suppress(ValueError):  # it came before the last one found
                at, end = order.index(content, at) + 1, record.offset + 1
    return end


def _content(record: TailRecord) -> tuple[object, ...]:
    return record.timestamp_ms, record.key, record.value, record.headers


@dataclass(frozen=True, slots=True)
class WayBack:
    """The facts that a failback of one flow requires. `starts` are the positions of the reverse flow to set, without
    the partitions that are `kept` at their offsets. `topic_ids` say of which topics of the source the moves are,
    `away_ids` of which of the target the starts."""

    divergence: tuple[Divergence, ...]
    places: tuple[HomePlace, ...]
    moves: Mapping[str, GroupOffsets]
    starts: Mapping[TopicPartition, int]
    interleaved: Mapping[TopicPartition, int]
    names_stay: bool
    kept: tuple[KeptReturn, ...] = ()
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    away_ids: Mapping[str, UUID] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "only_on_source": [one.as_json() for one in self.divergence],
            "groups": [one.as_json() for one in self.places],
            "reverse_flow_starts": [[where.topic, where.partition, at] for where, at in sorted(self.starts.items())],
            "interleaved": [[where.topic, where.partition, count] for where, count in sorted(self.interleaved.items())],
            "kept_offsets": [one.as_json() for one in self.kept],
        }


def look_back(flow: FlowConfig, source: Admin, target: Admin, *, awaits_maps: bool = False) -> WayBack:
    """Raises ClusterError if either cluster does not answer, or a leader of a partition that is there, and
    SparkMirrorError where nobody knows how far a partition was mirrored whose name stays. What the source
    alone has gives the reverse flow nothing to begin behind. With `awaits_maps` it waits some seconds until the maps
    reach the positions: a mirror that runs stores them later. How far groups may return is `return_bounds`."""
    partitions = mirrored_partitions(flow, source, by_any=True)
    ledger = whole_ledger(flow, target)
    positions = mirrored_offsets(flow, source, ledger)
    stored = {where: position.offset for where, position in ledger.positions.items()}
    former = stored.keys() - positions.keys()
    source_begins, source_ends = source.await_earliest_offsets(partitions), source.await_newest_ends(partitions)
    divergence = plan_divergence(positions, source_begins, source_ends)
    home = {TopicPartition(flow.remote_topic(where.topic), where.partition): where for where in partitions}
    listed = {name: group for name, group in list_all_groups(target).items() if group.is_consumer}
    groups = [name for name in listed if flow.offsets.groups.accepts(name)]
    active = frozenset(name for name, group in list_all_groups(source).items() if group.is_active)
    names_stay = all(remote.topic == where.topic for remote, where in home.items())
    for where in sorted(ledger.problems.keys() & home.values()) if names_stay else ():
        raise SparkMirrorError(f"{flow.name}, {where}: {ledger.problems[where]}")
    with OffsetState(flow, source, target) as state:
        state.follow()
        of_map = {
            remote: where for remote, where in home.items() if not (names_stay and flow.keeps_offsets(where.topic))
        }
        topics = source.list_topics({where.topic for where in partitions})
        if names_stay and awaits_maps:
            _await_maps(state, of_map.values(), positions, topics)
        logs = _read_logs(target, home, names_stay=names_stay)
        outdated = {where for where in partitions if _is_of_former(state.maps, where, positions, topics)}
        kept = tuple(look_at_kept(flow, source, target, sorted(home.keys() - of_map.keys())))
        bounds = return_bounds(source, source_ends, positions, outdated, kept)
        reached = {where: end for where, end in bounds.items() if where not in former}
        alike = {remote: where for remote, where in home.items() if where.topic not in state.scattered}
        places = plan_home(read_groups(target, groups), alike, state.maps, logs, reached)
        lost = {*outdated, *former, *(where for where in partitions if _has_lost(state.maps, where, source_begins))}
        records = ledger.records if names_stay else {}
        written = {where: record.extent for where, record in records.items() if where in lost}
        starts = {
            remote: max(
                start,
                _behind_map(flow, (home[remote], remote), state.maps, positions, outdated, logs[remote].end),
                _written_end(written.get(home[remote]), logs[remote]),
            )
            for remote, start in plan_reverse_start(of_map, state.maps, logs, names_stay).items()
        }
        unmapped = plan_unmapped(of_map, state.maps, stored, records, logs) if names_stay else {}
        _refuse_unknown(flow, source, [remote for remote, start in unmapped.items() if start is None])
        starts |= {remote: start for remote, start in unmapped.items() if start is not None}
        interleaved = plan_interleaved(of_map, state.maps, names_stay)
    on_source = read_groups(source, groups)
    again = source.list_topics(topics)
    moves = plan_home_moves([one for one in places if _is_same(one.home, topics, again)], on_source, active)
    ids = {name: topic.topic_id for name, topic in topics.items()}
    away_ids = {remote.topic: log.topic_id for remote, log in logs.items()}
    return WayBack(divergence, places, moves, starts, interleaved, names_stay, kept, ids, away_ids)


def _await_maps(
    state: OffsetState,
    partitions: Collection[TopicPartition],
    positions: Mapping[TopicPartition, int],
    topics: Mapping[str, Topic],
) -> None:
    """Waits until the maps reach `positions`: a mirror that runs stores them some seconds later. Of one that was killed
    they stay as they are, and the logs say the rest, but for what was compacted on the source since."""
    until = SYSTEM_CLOCK.monotonic() + _MAPS_SECONDS_MAX
    while SYSTEM_CLOCK.monotonic() < until:
        known = ((where, state.maps.map_of(where)) for where in partitions)
        late = [where for where, one in known if one is not None and one.end_source < positions.get(where, 0)]
        if all(_is_of_former(state.maps, where, positions, topics) for where in late):
            return
        SYSTEM_CLOCK.sleep(_MAPS_LOOK_SECONDS)
        state.follow()


def _read_logs(target: Admin, home: Collection[TopicPartition], *, names_stay: bool) -> TargetLogs:
    ends = target.await_newest_ends(home)
    logs = target_logs(target, ends)
    if names_stay and (gone := sorted(ends.keys() - logs.keys())):
        raise ClusterError(
            f"{gone[0].topic} was deleted on {target.alias} just now.",
            "The reverse flow must begin behind what was mirrored: run it again when nobody makes topics again.",
        )
    return logs


def _is_same(where: TopicPartition, before: Mapping[str, Topic], now: Mapping[str, Topic]) -> bool:
    """Whether the topic is there, and was not made again: a group has read nothing of the next one, and what does not
    answer while there is none may have taken long."""
    one, other = before.get(where.topic), now.get(where.topic)
    return one is not None and other is not None and not is_another_topic(one.topic_id, other.topic_id)


def _is_of_former(
    maps: MapView, where: TopicPartition, positions: Mapping[TopicPartition, int], topics: Mapping[str, Topic]
) -> bool:
    """Whether the map is of the source's former log, of which a group may have read all, and nothing of this one.
    Where it does not say of which log it is, one that ends behind the position counts as such: the position was
    reset, or has yet to follow."""
    known, position, topic = maps.map_of(where), positions.get(where), topics.get(where.topic)
    if known is None or position is None:
        return False
    if topic is not None and known.source_id != NO_TOPIC_ID:
        return is_another_topic(known.source_id, topic.topic_id)
    return known.end_source > position


def _has_lost(maps: MapView, where: TopicPartition, source_begins: Mapping[TopicPartition, int]) -> bool:
    """Whether the source has lost records that the map does not have yet."""
    known = maps.map_of(where)
    return known is not None and known.end_source < source_begins.get(where, 0)


def _written_end(written: Extent | None, log: Extent) -> int:
    """Where the mirror's records in the log end, by the ledger; -1 where it has none. It is asked where the source has
    lost what the map lacks, or its topic was made again, so that neither the map nor the logs say more: of a cut of the
    target's log it learns last."""
    if written is None or written.topic != log.topic or is_former(written.topic_id, log):
        return -1
    return min(written.end, log.end)


def _behind_map(
    flow: FlowConfig,
    pair: tuple[TopicPartition, TopicPartition],
    maps: MapView,
    positions: Mapping[TopicPartition, int],
    outdated: Container[TopicPartition],
    target_end: int,
) -> int:
    """Where the mirrored records of a `pair` of partitions, on the source and on the target, end that the map lacks, -1
    where it lacks none. Writers store the map after the positions: of a mirror that was killed, or still runs, it ends
    before them; an `outdated` one is of the source's former log. Reads both logs from there on, as the flow reads them,
    the target's until all are found: any number of aborted transactions may lie between."""
    where, remote = pair
    known, position = maps.map_of(where), positions.get(where, 0)
    if known is None or (known.end_source >= position and where not in outdated):
        return -1
    first = 0 if where in outdated else known.end_source
    committed = flow.consumer.isolation_level == "read_committed"
    with open_tail(flow.source, "failback", [where], is_internal=False, read_committed=committed) as tail:
        missing = list(tail.read_between(where, first, position))
    with open_tail(flow.target, "failback", [remote], is_internal=False) as tail:
        return mirrored_end(missing, tail.read_between(remote, known.end_target, target_end))
