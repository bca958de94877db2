"""Whether the reverse flow can go on at the end of an old primary's logs, at the same offsets: where the logs of both
clusters part. Called by `operations.failback`, for topics whose offsets are kept and whose names stay.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterError, ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.wire.batch_owners import read_owners
from sparkmirror.ledger.positions import PositionRecord, is_of_this_log
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.model import Topic, TopicPartition, is_another_topic
from sparkmirror.planning.log_alignment import PROVED_MAX
from sparkmirror.planning.log_comparison import Common, first_parting
from sparkmirror.policy.fillers import Hole

_LOOK_BACK: Final = 1_000
"""So many offsets before those that the ledger vouches for are compared too: of a log that was cut, and written again
since, the ledger knows nothing."""
_FURTHER: Final = 4
"""So many times as far it is looked back where none of them is the same."""


@dataclass(frozen=True, slots=True)
class KeptReturn:
    """A partition, with the ids of its topic on the old primary and on the other cluster. The reverse flow starts at
    `start`, the end of the old primary's log; `parted` says in a clause why it does not, "" where it does, and
    `parts_at` the offset from which on the logs differ, None where they do not, or that is not known. The other
    cluster's log ends at `away_end`, and the old primary's begins at `home_begin`. `is_strange` says that nothing shows
    that what the latter has was ever mirrored: no position, and no record that is the same."""

    partition: TopicPartition
    start: int
    home_id: UUID
    away_id: UUID
    parted: str = ""
    parts_at: int | None = None
    away_end: int = 0
    home_begin: int = 0
    is_strange: bool = False

    def as_json(self) -> dict[str, Any]:
        where = {"topic": self.partition.topic, "partition": self.partition.partition}
        return {**where, "start": self.start, "parted": self.parted, "parts_at": self.parts_at}


class Ends(NamedTuple):
    """Where a partition's log begins and ends, on the old primary (`home`) and on the other cluster (`away`)."""

    home_begins: int
    home: int
    away_begins: int
    away: int

    @property
    def common(self) -> int:
        return min(self.home, self.away)


def offsets_to_compare(ends: Ends, stored: int | None, back: int = _LOOK_BACK) -> Hole:
    """Up to its `stored` position, None without one, the flow had both logs the same; so many offsets `back` are
    compared of that."""
    known = min(stored or 0, ends.common) - back
    return Hole(min(max(known, ends.home_begins, ends.away_begins), ends.common), ends.common)


def is_new_home(ends: Ends) -> bool:
    """Whether the old primary's log is new, and the other one begins behind that: nothing parts there, and the reverse
    flow has a start to fill."""
    return ends.home == 0 < ends.away_begins


def why_unknown(home: str, away: str, ends: Ends, stored: int | None) -> str:
    """Why nobody knows whether the logs were the same up to the end of the old primary's, "" where they have offsets in
    common, or the flow had come so far."""
    is_empty = ends.home == ends.home_begins and ends.home >= ends.away_begins
    if ends.home > ends.away_begins or is_empty or (stored is not None and stored >= ends.home):
        return ""
    why = f"{home}'s log ends at offset {ends.home}, and {away}'s begins at {ends.away_begins}"
    return f"{why}: nobody knows whether they were the same"


def why_parted(home: str, away: str, ends: Ends, differs_at: int | None) -> tuple[str, int | None]:
    """As `KeptReturn.parted` and `KeptReturn.parts_at`, of the clusters `home` and `away`."""
    if differs_at is not None:
        return f"the logs part at offset {differs_at}, where {home} has something else than {away}", differs_at
    if ends.home > ends.away:
        only = ends.home - ends.away
        why = f"the logs part at offset {ends.away}: the {only} offsets from there on are on {home} alone"
        return why, ends.away
    return "", None


def look_at_kept(
    flow: FlowConfig, source: Admin, target: Admin, partitions: Collection[TopicPartition]
) -> Iterator[KeptReturn]:
    """One for each of the partitions, which have the same name on both clusters, by the newest leaders that several
    brokers know: a former one may lack what one cluster alone has. Raises ClusterError."""
    if not partitions:
        return
    names = {where.topic for where in partitions}
    here, there = source.list_topics(names), target.list_topics(names)
    home_begins, away_begins = source.earliest_offsets(partitions).all(), target.earliest_offsets(partitions).all()
    home_ends, away_ends = (admin.log_ends(partitions, by_newest=True).all() for admin in (source, target))
    with LedgerReader(flow.target, flow.ledger_topics, flow.connector) as ledger:
        ledger.read_through(target)
        for where in sorted(partitions):
            if where not in home_ends or where not in away_ends:
                continue
            if where not in home_begins or where not in away_begins or not {where.topic} <= here.keys() & there.keys():
                message = f"{where}: some brokers of {source.alias} or of {target.alias} do not know of it yet."
                raise ClusterUnreachable(message, "Try again when they do.")
            ends = Ends(home_begins[where], home_ends[where], away_begins[where], away_ends[where])
            if is_new_home(ends):
                continue
            home, away = here[where.topic], there[where.topic]
            stored = _stored(ledger.view.records.get(where), home, away)
            common = Common()
            parted, parts_at = _compare(flow, source, target, where, ends, stored, common)
            is_compared = not parted or parts_at is not None
            is_strange = is_compared and ends.home > ends.home_begins and not (common.count or stored)
            ids = home.topic_id, away.topic_id
            yield KeptReturn(where, ends.home, *ids, parted, parts_at, ends.away, ends.home_begins, is_strange)


def _stored(record: PositionRecord | None, home: Topic, away: Topic) -> int | None:
    """The position that the flow has stored in the topics that both clusters have now."""
    if record is None or not is_of_this_log(record, away) or is_another_topic(record.position.topic_id, home.topic_id):
        return None
    return record.position.offset


def _compare(
    flow: FlowConfig,
    source: Admin,
    target: Admin,
    where: TopicPartition,
    ends: Ends,
    stored: int | None,
    common: Common,
) -> tuple[str, int | None]:
    """Where they differ within what the flow had the same, one of them was cut and written again: then more and more
    before that is compared, until a part of it is the same. What is, is counted in `common`."""
    is_committed, back = flow.consumer.isolation_level == "read_committed", _LOOK_BACK
    if why := why_unknown(source.alias, target.alias, ends, stored):
        return why, ends.home
    while True:
        offsets = offsets_to_compare(ends, stored, back)
        if offsets.stop - offsets.first > PROVED_MAX:
            return f"no position tells whether the logs are the same up to {offsets.stop}, and they are long", None
        if offsets.first == offsets.stop:
            return why_parted(source.alias, target.alias, ends, None)
        try:
            logs = [
                read_owners(admin.connection.settings, where, *offsets, is_committed=is_committed)
                for admin in (source, target)
            ]
            differs_at = first_parting(*logs, is_committed=is_committed, common=common, begins=offsets.first)
        except ClusterError as problem:
            return f"the logs could not be compared from offset {offsets.first} on: {problem}", None
        is_whole = offsets.first == max(ends.home_begins, ends.away_begins)
        if differs_at is None or common.count or is_whole:
            return why_parted(source.alias, target.alias, ends, differs_at)
        back *= _FURTHER


def return_bounds(
    source: Admin,
    ends: Mapping[TopicPartition, int],
    positions: Mapping[TopicPartition, int],
    outdated: Collection[TopicPartition],
    kept: Sequence[KeptReturn],
) -> dict[TopicPartition, int]:
    """As far as a group may return: to no place beyond the mirrored records of the topic that the source has now, as
    what the map knows may be of a former one; nor behind where kept logs part. Of a log that is another one, or strange
    to its copy, to the beginning. Partitions of which nobody knows are left out."""
    strange = {one.partition: one.home_begin for one in kept if one.is_strange}
    bounds = {**ends, **{one.partition: one.parts_at for one in kept if one.parted}, **strange}
    known = {where: min(positions.get(where, end), end) for where, end in bounds.items() if end is not None}
    begins = source.await_earliest_offsets(sorted(outdated)) if outdated else {}
    return known | {where: begins[where] for where in known.keys() & set(outdated)}
