"""The way back of a person who has failed the flow over: the product's steps of `cli/failback.py`, and their judge."""

from typing import TYPE_CHECKING

from tests.simulation.kept_moves import judge_kept_way_back, keeping_steps

from sparkmirror.clock import SYSTEM_CLOCK
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Connector, TopicPartition
from sparkmirror.operations.cluster_pair import ClusterPair
from sparkmirror.operations.failback import WayBack, look_back
from sparkmirror.operations.failover_run import MoveGroups, Moves, Unfence
from sparkmirror.operations.reverse_start import StartReverse
from sparkmirror.operations.steps import Journal, Note, Step

if TYPE_CHECKING:
    from tests.simulation.history import Scene


def steps_back(scene: "Scene", pair: ClusterPair) -> list[Step]:
    source, flow = pair.source, scene.flow
    assert source is not None

    def moves() -> Moves:
        found = look_back(flow, source, pair.target)
        return Moves(found.moves, found.topic_ids)

    start = StartReverse(flow, source, lambda: _judged_starts(scene, pair))
    home = MoveGroups(source, moves)
    return [_JudgedUnfence(scene, pair), start, *keeping_steps(scene, pair), home]


class _JudgedUnfence(Unfence):
    """At its end every broker takes writes."""

    def __init__(self, scene: "Scene", pair: ClusterPair) -> None:
        assert pair.source is not None
        super().__init__(scene.flow, pair.source)
        self._scene = scene

    def apply(self, note: Note) -> str:
        sentence = super().apply(note)
        acls = self._scene.source.acls
        live = [number for number, node in self._scene.source.nodes.items() if node.is_up]
        if denying := [number for number in live if acls.denies_writes(number, "orders")]:
            self._scene.checker.fail(f"the fence is said to be lifted, and broker {denying[0]} refuses records")
        return sentence


def _is_behind_compaction(scene: "Scene", where: TopicPartition) -> bool:
    """Whether the map does not reach the position after all that waiting, and the source lacks records in between."""
    known, position = scene.checker.maps().map_of(where), scene.checker.view().position(where)
    is_behind = known is not None and position is not None and known.end_source < position.offset
    return is_behind and scene.has_struck("compact source", "compact unread")


def _judged_starts(scene: "Scene", pair: ClusterPair) -> WayBack:
    """Behind all that the ledger said was mirrored when this began, so that none of it is copied back, and not beyond
    the end of the log, where records of others would be left out."""
    assert pair.source is not None
    began, mirrored = SYSTEM_CLOCK.monotonic(), _mirrored(scene)
    before = {name: topic.topic_id for name, topic in scene.source.topics.items()}
    found = look_back(scene.flow, pair.source, pair.target, awaits_maps=True)
    for remote, at in found.starts.items():
        where = TopicPartition("orders", remote.partition)
        partition, truth = scene.target.partition(remote), scene.truth.of(where)
        if partition is None or truth.target_losses or scene.target.topics[remote.topic].made_at > began:
            continue
        there, known = scene.source.topics.get(where.topic), scene.checker.maps().map_of(where)
        if there is None or there.topic_id != before.get(where.topic):
            continue  # what was mirrored last is neither in the map nor on the source
        if known is not None and there.partitions[where.partition].log.start > known.end_source:
            continue  # as above
        if _is_behind_compaction(scene, where):
            continue
        if at > partition.log.high_watermark:
            scene.checker.fail(f"the reverse flow starts at {at} of {remote}, beyond {partition.log.high_watermark}")
        if at <= mirrored.get(where, -1):
            scene.checker.fail(f"the reverse flow starts at {at} of {remote}, and copies {mirrored[where]} back")
    return found


def _mirrored(scene: "Scene") -> dict[TopicPartition, int]:
    """The last offset on the target of a record that lies below the ledger's position, also of positions behind a
    transaction that is open."""
    found: dict[TopicPartition, int] = {}
    view = scene.checker.view()
    for partition in scene.sources():
        where, records = partition.where, scene.truth.of(partition.where).records
        position, topic_id = view.position(where), scene.source.topics[where.topic].topic_id
        if position is None or position.topic_id != topic_id or scene.truth.of(where).truncations:
            continue
        stored = [
            offset
            for value, offset in scene.checker.arrived(where)
            if value in records and records[value].topic_id == topic_id and records[value].offset < position.offset
        ]
        found[where] = max(stored, default=-1)
    return found


def judge_way_back(scene: "Scene", journal: Journal) -> None:
    """Once all steps are taken the reverse flow has its positions."""
    judge_kept_way_back(scene, journal)
    noted = journal.steps["positions"].note["positions"]
    if not noted:
        return
    view = LedgerView(Connector.of_dedicated_mode("B"))
    for partition in scene.source.topics["mm2-offsets.B.internal"].partitions:
        for one in partition.log.batches:
            for record in one.records:
                view.take_connect(record.key, record.value, "")
    for one in noted:
        where = TopicPartition(one["topic"], one["partition"])
        position = view.position(where)
        if position is None or position.offset != one["after"]:
            scene.checker.fail(f"the reverse flow is said to start at {one['after']} of {where}, and has {position}")
