"""The steps of a failover: fence the source, drain, move the groups; and lifting the fence on the way back.

Applied by `operations.steps`, from `cli.failover`, `cli.failback` and `cli.migrate`.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterError, SparkMirrorError
from sparkmirror.kafka.acls import agreed_acls, await_acls, create_acls, delete_acls
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import AclBinding
from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.kafka.groups import GroupIsActive, GroupOffsetsClient, delete_group_offsets
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger.checkpoints import is_forward
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.ledger.setup import mirror_topics
from sparkmirror.model import TopicPartition, is_another_topic
from sparkmirror.operations.cluster_pair import known_partitions, mirrored_offsets, mirrored_partitions
from sparkmirror.operations.steps import Keep, Note
from sparkmirror.sync.acls import fence_of

log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.5
_SHOWN_MAX = 5


class Fence:
    """A step that denies all principals to write to the mirrored topics of the source, by ACL. It ends when all
    brokers refuse records, also where another program had created the denial: its own end may have been lost. Undone,
    it leaves what stood before."""

    name = "fence"

    def __init__(self, flow: FlowConfig, source: Admin, keep: Keep) -> None:
        self._flow = flow
        self._source = source
        self._keep = keep

    def prepare(self) -> Note:
        return self._note_of(_fences(self._flow, self._source))

    def apply(self, note: Note) -> str:
        return self.deny(self.grow(note))

    def grow(self, note: Note) -> Note:
        """The note with the topics that were made since it was written; stored before they are fenced."""
        more = _fences(self._flow, self._source) - {*_bindings(note), *_bindings(note, "stood")}
        if not more:
            return note
        grown = {which: [*note[which], *some] for which, some in self._note_of(more).items()}
        self._keep(grown)
        return grown

    def deny(self, note: Note) -> str:
        """Fences what the note has."""
        bindings = _bindings(note) + _bindings(note, "stood")
        _raise_first(create_acls(self._source, bindings))
        await_acls(self._source, there=bindings)
        return f"nobody but super users may write to {len(bindings)} topics of {self._source.alias}"

    def _note_of(self, wanted: set[AclBinding]) -> Note:
        there = agreed_acls(self._source, wanted)
        if there is None:
            raise SparkMirrorError(
                f"Cluster {self._source.alias} has no authorizer, so its writers cannot be fenced by ACL.",
                "Stop the producers yourself, and leave --fence out.",
            )
        return {
            "bindings": [list(one) for one in sorted(wanted - there)],
            "stood": [list(one) for one in sorted(there)],
        }

    def undo(self, note: Note) -> str:
        bindings = _bindings(note)
        _raise_first(delete_acls(self._source, bindings))
        await_acls(self._source, gone=bindings)
        return f"{len(bindings)} topics of {self._source.alias} may be written to as before"


class Unfence:
    """A step that removes the denial of writes to the mirrored topics of the source, whatever program created it."""

    name = "unfence"

    def __init__(self, flow: FlowConfig, source: Admin) -> None:
        self._flow = flow
        self._source = source

    def prepare(self) -> Note:
        there = agreed_acls(self._source, _fences(self._flow, self._source)) or set()
        return {"bindings": [list(one) for one in sorted(there)]}

    def apply(self, note: Note) -> str:
        bindings = _bindings(note)
        _raise_first(delete_acls(self._source, bindings))
        await_acls(self._source, gone=bindings)
        return f"{len(bindings)} topics of {self._source.alias} were fenced and may be written to again"

    def undo(self, note: Note) -> str:
        bindings = _bindings(note)
        _raise_first(create_acls(self._source, bindings))
        await_acls(self._source, there=bindings)
        return f"{len(bindings)} topics of {self._source.alias} are fenced again"


class Drain:
    """A step that waits until the running mirror has copied all records that the source had when the step began. Begun
    again, it waits for what has come since, too: what was to keep writers out may have been lifted meanwhile."""

    name = "drain"

    def __init__(self, flow: FlowConfig, source: Admin, seconds_max: float) -> None:
        self._flow = flow
        self._source = source
        self._seconds_max = seconds_max

    def prepare(self) -> Note:
        """The ends to reach. Raises OffsetsUnknown while the end of a partition is not known."""
        return note_ends(self._flow, self._source)

    def apply(self, note: Note) -> str:
        """Waits. Raises SparkMirrorError that names the missing records when the time is over, and OffsetsUnknown."""
        ends, now = noted_ends(note, self._source), find_ends(self._flow, self._source)
        ends |= {where: max(end, ends.get(where, 0)) for where, end in now.items()}
        ends_at = time.monotonic() + self._seconds_max
        while behind := plan_lacking(ends, mirrored_offsets(self._flow, self._source)):
            if time.monotonic() > ends_at:
                raise SparkMirrorError(
                    f"{self._flow.name}: not drained in {self._seconds_max:g} s: {name_lacking(behind)}.",
                    "Does the mirror run? `failover run` again goes on; --unplanned gives up what is missing. After a "
                    "topic was deleted here, --forget and begin again.",
                )
            self._source.connection.wait(_POLL_SECONDS)
        return f"all {len(ends)} partitions are mirrored up to where they ended when this step began"

    def undo(self, note: Note) -> str:
        return f"there is nothing to take back for {len(note['ends'])} partitions"


class Moves(NamedTuple):
    """The offsets to commit, by group, and the ids of the topics that they are of; `upstream` are the offsets on the
    source that they were translated from."""

    groups: Mapping[str, GroupOffsets]
    topic_ids: Mapping[str, UUID]
    upstream: Mapping[str, Mapping[TopicPartition, int]] = MappingProxyType({})


class MoveGroups:
    """A step that commits offsets for groups without members, only forward, and names the others. Its note has the
    offsets from before."""

    def __init__(
        self, cluster: Admin, moves: Callable[[], Moves], name: str = "groups", flow: FlowConfig | None = None
    ) -> None:
        """`moves` is called once, when the step begins. `flow` is the one whose mirror keeps the groups of `cluster` in
        step; it learns what is committed."""
        self.name = name
        self._flow = flow
        self._cluster = cluster
        self._moves = moves
        self._client = GroupOffsetsClient(cluster, _PATIENCE_SECONDS)

    def prepare(self) -> Note:
        moves, topic_ids, upstream = self._moves()
        before = self._read(moves)
        topics = {where.topic for offsets in moves.values() for where in offsets}
        return {
            "ids": {name: str(topic_ids[name]) for name in sorted(topics)},
            "groups": {
                group: [
                    note_move(where, before[group].get(where), after, upstream.get(group, {}).get(where))
                    for where, after in sorted(offsets.items())
                ]
                for group, offsets in moves.items()
            },
        }

    def apply(self, note: Note) -> str:
        """Commits. A group that has got members since the note is left to them, as one that had some before."""
        self._refuse_other_topics(note)
        now = self._read(note["groups"])
        forward = {
            group: [one for one in moves if is_forward(now[group].get(_where(one)), one["after"])]
            for group, moves in note["groups"].items()
        }
        self._write_checkpoints(forward)
        count, left = 0, []
        for group, moves in forward.items():
            if moves and not self._commit(group, {_where(one): Committed(one["after"], one["note"]) for one in moves}):
                left.append(group)
            else:
                count += len(note["groups"][group])
        stand = len(note["groups"]) - len(left)
        return f"{stand} groups stand on {self._cluster.alias} where they go on ({count} partitions){_name_left(left)}"

    def _write_checkpoints(self, forward: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Before the commits: by its checkpoint the mirror knows one as its own, and takes it back where the log is cut
        below it. The mirror's next checkpoint may come too late for that. Groups move without them, too."""
        flow = self._flow
        if flow is None or not (flow.offsets.emit_checkpoints and flow.offsets.sync_groups):
            return
        found = [
            Checkpoint(group, _where(one), one["upstream"], one["after"], one["note"])
            for group, moves in forward.items()
            for one in moves
            if one.get("upstream") is not None
        ]
        topic = mirror_topics(flow.name, flow.policy, flow.offsets.syncs_location).checkpoints
        try:
            if found and self._cluster.list_topics([topic]):
                publish(flow.target, topic, [(one.key(), one.value()) for one in found], _PATIENCE_SECONDS)
        except ClusterError as why:
            log.warning(
                "%s: groups are moved without checkpoints, so the mirror does not take them back should %s lose the "
                "records before their offsets: %s",
                flow.name, flow.name.target, why,
            )  # fmt: skip

    def undo(self, note: Note) -> str:
        """Takes commits back where the group has not moved since, has no members, and the topics are the same."""
        now = self._read(note["groups"])
        others_now = self._other_topics(note)
        undone = left = 0
        for group, noted in note["groups"].items():
            moves = [one for one in noted if one["topic"] not in others_now]
            left += len(noted) - len(moves)
            stands = {_where(one): _offset(now[group].get(_where(one))) for one in moves}
            mine = [one for one in moves if stands[_where(one)] == one["after"]]
            others = sum(stands[_where(one)] not in (one["before"], one["after"]) for one in moves)
            if not self._take_back(group, mine):
                others += len(mine)
            undone, left = undone + len(moves) - others, left + others
        also = f"; {left} were left, their groups or topics have moved on, or have members" if left else ""
        return f"{undone} offsets on {self._cluster.alias} are as before{also}"

    def _take_back(self, group: str, moves: Sequence[Mapping[str, Any]]) -> bool:
        back = {_where(one): Committed(one["before"], one["before_note"]) for one in moves if one["before"] is not None}
        if back and not self._commit(group, back):
            return False
        try:
            delete_group_offsets(self._cluster, group, [_where(one) for one in moves if one["before"] is None])
        except GroupIsActive:
            return False
        return True

    def _commit(self, group: str, offsets: GroupOffsets) -> bool:
        """Whether the group has no members, and takes the offsets. Raises ClusterError where they are refused."""
        try:
            _raise_any(self._client.commit(group, offsets))
        except GroupIsActive:
            return False
        return True

    def _topic_ids(self, names: Collection[str]) -> dict[str, str]:
        return {name: str(topic.topic_id) for name, topic in self._cluster.list_topics(names).items()}

    def _refuse_other_topics(self, note: Note) -> None:
        """Raises SparkMirrorError where a topic was made again since the note: the noted offsets do not apply to the
        new log."""
        if others := self._other_topics(note):
            raise SparkMirrorError(
                f"Topic {others[0]} on {self._cluster.alias} is not there, or was made again since this step began "
                f"({len(others)} topics in all): the offsets that it noted mean nothing there.",
                "Begin again with --forget.",
            )

    def _other_topics(self, note: Note) -> list[str]:
        there = self._topic_ids(note["ids"])
        return sorted(name for name, topic_id in note["ids"].items() if there.get(name) != topic_id)

    def _read(self, groups: Mapping[str, Any]) -> Mapping[str, GroupOffsets]:
        found, failed = self._client.committed(groups)
        for problem in failed.values():
            raise problem
        return found


def note_move(
    where: TopicPartition, before: Committed | None, after: Committed, upstream: int | None = None
) -> dict[str, Any]:
    """The note with which a move can be repeated and taken back, as JSON."""
    return {
        "topic": where.topic,
        "partition": where.partition,
        "before": _offset(before),
        "before_note": "" if before is None else before.metadata,
        "after": after.offset,
        "note": after.metadata,
        "upstream": upstream,
    }


def _name_left(groups: Sequence[str]) -> str:
    if not groups:
        return ""
    shown, more = ", ".join(groups[:_SHOWN_MAX]), len(groups) - _SHOWN_MAX
    return f"; left alone, since they have members there: {shown}{f' and {more} more' if more > 0 else ''}"


def _where(move: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(move["topic"], move["partition"])


def _offset(committed: Committed | None) -> int | None:
    return None if committed is None else committed.offset


def _fences(flow: FlowConfig, source: Admin) -> set[AclBinding]:
    """Of the topics that are there, and of those that were mirrored: one that is deleted at this moment may be made
    again."""
    there = mirrored_partitions(flow, source, by_any=True)
    names = {where.topic for where in (*there, *known_partitions(flow))}
    chosen = (name for name in names if flow.should_replicate(name) and not flow.policy.is_heartbeats_topic(name))
    return {fence_of(name) for name in chosen}


def _bindings(note: Note, which: str = "bindings") -> list[AclBinding]:
    return [AclBinding(*fields) for fields in note[which]]


def find_ends(flow: FlowConfig, source: Admin) -> dict[TopicPartition, int]:
    """Where the mirrored partitions of the source that hold anything end now. Raises OffsetsUnknown while the end of
    one is not known."""
    partitions = mirrored_partitions(flow, source, by_any=True)
    starts, ends = source.await_earliest_offsets(partitions), source.await_newest_ends(partitions)
    return {where: end for where, end in ends.items() if end > starts.get(where, 0)}


def note_ends(flow: FlowConfig, source: Admin) -> Note:
    """The ends to reach, and the ids of the topics that they are of. Raises OffsetsUnknown."""
    before = source.list_topics()  # before the ends: a topic that is made again in between is not held to the former's
    ends = find_ends(flow, source)
    names = sorted({where.topic for where in ends} & before.keys())
    return {"ends": store_offsets(ends), "ids": {name: str(before[name].topic_id) for name in names}}


def noted_ends(note: Note, source: Admin) -> dict[TopicPartition, int]:
    """The ends of the note, without those of topics that were made again since: what such a one lacks never comes."""
    now = source.list_topics(note["ids"])
    other = {
        name for name, noted in note["ids"].items() if name in now and is_another_topic(UUID(noted), now[name].topic_id)
    }
    return {where: end for where, end in restore_offsets(note["ends"]).items() if where.topic not in other}


def store_offsets(offsets: Mapping[TopicPartition, int]) -> list[list[Any]]:
    """Encodes offsets for a step's note."""
    return [[where.topic, where.partition, offset] for where, offset in sorted(offsets.items())]


def restore_offsets(stored: list[list[Any]]) -> dict[TopicPartition, int]:
    """Decodes offsets from a step's note."""
    return {TopicPartition(topic, partition): offset for topic, partition, offset in stored}


def plan_lacking(
    ends: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """For each partition the number of offsets from its position to its end; only partitions that lack any."""
    return {where: end - positions.get(where, 0) for where, end in ends.items() if positions.get(where, 0) < end}


def name_lacking(behind: Mapping[TopicPartition, int]) -> str:
    """The first few of these partitions, for a sentence."""
    shown = [f"{where} lacks {records}" for where, records in sorted(behind.items())[:_SHOWN_MAX]]
    more = f" and {len(behind) - len(shown)} more" if len(behind) > len(shown) else ""
    return ", ".join(shown) + more


def _raise_first(outcome: Mapping[AclBinding, SparkMirrorError | None]) -> None:
    for problem in outcome.values():
        if problem is not None:
            raise problem


def _raise_any(refused: Mapping[TopicPartition, SparkMirrorError]) -> None:
    for problem in refused.values():
        raise problem
