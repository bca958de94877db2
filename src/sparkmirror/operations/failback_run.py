"""A failback's observation of both clusters, and its own step: where the reverse flow starts. Called by `cli.failback`.

`operations.failback` judges what is observed here; records of the old primary are written to files. `operations.steps`
applies the step.
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterError, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.group_answers import GroupOffsets
from sparkmirror.kafka.groups import list_groups
from sparkmirror.kafka.publish import publish
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.ledger import connect
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster, Connector, TopicPartition
from sparkmirror.operations.cluster_pair import ledger_offsets, mirrored_partitions
from sparkmirror.operations.failback import (
    Divergence,
    HomePlace,
    plan_divergence,
    plan_home,
    plan_home_moves,
    plan_interleaved,
    plan_reverse_start,
)
from sparkmirror.operations.failover_snapshot import read_groups
from sparkmirror.operations.steps import Note
from sparkmirror.policy.partitioner import murmur2_partition
from sparkmirror.sync.offset_state import OffsetState, read_target_logs


class StartReverse:
    """Sets positions of the flow from the target back to the source, as Connect's own tools alter offsets."""

    name = "positions"

    def __init__(self, flow: FlowConfig, source: Admin, starts: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """`starts` is asked once, when the step begins."""
        self._cluster = Cluster(flow.source.alias, flow.source.client)
        self._source = source
        self._starts = starts
        self._topics = ledger_topics(flow.name.target, replication_factor=flow.offset_storage_replication_factor)
        self._connector = Connector.of_dedicated_mode(flow.name.target)

    def prepare(self) -> Note:
        starts = self._starts()
        before = self._read() if self._source.list_topics([self._topics.offsets]) else {}
        return {
            "positions": [
                {"topic": where.topic, "partition": where.partition, "before": before.get(where), "after": at}
                for where, at in sorted(starts.items())
                if at > before.get(where, 0)
            ]
        }

    def apply(self, note: Note) -> str:
        if not note["positions"]:
            return "the reverse flow does not need positions: names show origins, or it stands further already"
        self._write(note["positions"], "after")
        return f"the reverse flow starts behind what came from here in {len(note['positions'])} partitions"

    def undo(self, note: Note) -> str:
        if note["positions"]:
            self._write(note["positions"], "before")
        return f"{len(note['positions'])} positions of the reverse flow are as before"

    def _read(self) -> dict[TopicPartition, int]:
        if not self._source.list_topics([self._topics.positions]):
            return {}
        with LedgerReader(self._cluster, self._topics, self._connector) as ledger:
            found = {where: position.offset for where, position in ledger.read_to_end().items()}
            for where, problem in ledger.view.problems.items():
                raise SparkMirrorError(f"The reverse flow's start is not known, {where}: {problem}")
        return found

    def _write(self, moves: list[Mapping[str, Any]], which: str) -> None:
        ensure_ledger_topics(self._source, self._topics)
        partitions = self._source.list_topics([self._topics.offsets])[self._topics.offsets].partitions
        records = [
            (
                connect.encode_key(self._connector, TopicPartition(one["topic"], one["partition"])),
                None if one[which] is None else connect.encode_value(one[which]),
            )
            for one in moves
        ]
        publish(self._cluster, self._topics.offsets, records, place=lambda key: murmur2_partition(key, partitions))


@dataclass(frozen=True, slots=True)
class WayBack:
    """All that the way back of one flow needs. `starts` are positions of the reverse flow that must be set."""

    divergence: tuple[Divergence, ...]
    places: tuple[HomePlace, ...]
    moves: Mapping[str, GroupOffsets]
    starts: Mapping[TopicPartition, int]
    interleaved: Mapping[TopicPartition, int]
    names_stay: bool

    def as_json(self) -> dict[str, Any]:
        return {
            "only_on_source": [one.as_json() for one in self.divergence],
            "groups": [one.as_json() for one in self.places],
            "reverse_flow_starts": [[where.topic, where.partition, at] for where, at in sorted(self.starts.items())],
            "interleaved": [[where.topic, where.partition, count] for where, count in sorted(self.interleaved.items())],
        }


def look_back(flow: FlowConfig, source: Admin, target: Admin) -> WayBack:
    """Raises ClusterError if either cluster does not answer."""
    partitions = mirrored_partitions(flow, source)
    positions = ledger_offsets(flow)
    source_ends = source.await_latest_offsets(partitions)
    divergence = plan_divergence(positions, source.await_earliest_offsets(partitions), source_ends)
    home = {TopicPartition(flow.remote_topic(where.topic), where.partition): where for where in partitions}
    listed = {name: group for name, group in list_groups(target).items() if group.is_consumer}
    groups = [name for name in listed if flow.offsets.groups.accepts(name)]
    active = frozenset(name for name, group in list_groups(source).items() if group.is_active)
    names_stay = all(remote.topic == where.topic for remote, where in home.items())
    with OffsetState(flow, source, target) as state:
        state.follow()
        logs = read_target_logs(target, home)
        if names_stay and (unknown := sorted(home.keys() - logs.keys())):
            raise ClusterError(
                f"{flow.name}: {target.alias} does not say where {unknown[0]} ends ({len(unknown)} partitions in all).",
                "The reverse flow must begin behind what was mirrored: run it again when all leaders answer.",
            )
        places = plan_home(read_groups(target, groups), home, state.maps, logs, source_ends)
        starts = plan_reverse_start(home, state.maps, logs, names_stay)
        interleaved = plan_interleaved(home, state.maps, names_stay)
    moves = plan_home_moves(places, read_groups(source, groups), active)
    return WayBack(divergence, places, moves, starts, interleaved, names_stay)


def export(
    flow: FlowConfig, divergence: Sequence[Divergence], directory: Path, tell: Callable[[str, int, int], None]
) -> int:
    """Writes each partition's records to `TOPIC-N.jsonl`: offset, timestamp and, in base64, key, value and headers.

    Returns how many records; markers and records of aborted transactions are none. Raises ClusterUnreachable when the
    source falls silent. `tell(what, done, total)` hears how far it has come.
    """
    directory.mkdir(parents=True, exist_ok=True)
    return sum(_export(flow, one, directory / f"{one.partition}.jsonl", tell) for one in divergence)


def _export(flow: FlowConfig, one: Divergence, file: Path, tell: Callable[[str, int, int], None]) -> int:
    count = 0
    with open_tail(flow.source, "failback", [one.partition], is_internal=False) as tail, file.open("w") as out:
        for record in tail.read_between(one.partition, one.first, one.end):
            out.write(json.dumps(_as_json(record)) + "\n")
            count += 1
            tell(str(one.partition), record.offset + 1 - one.first, one.end - one.first)
    return count


def _as_json(record: TailRecord) -> dict[str, Any]:
    headers = [[name, _text(value)] for name, value in record.headers]
    return {"offset": record.offset, "timestamp": record.timestamp_ms, "key": _text(record.key),
            "value": _text(record.value), "headers": headers}  # fmt: skip


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
