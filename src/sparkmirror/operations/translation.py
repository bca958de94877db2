"""Translates offsets and groups of a flow's source to its target, by the present map. Called by `cli.offsets`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.kafka.groups import read_group_offsets
from sparkmirror.ledger.translate import Translated
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.operations.cluster_pair import open_sides
from sparkmirror.policy.filters import name_matcher
from sparkmirror.sync.offset_state import OffsetState, read_target_logs, target_logs


@dataclass(frozen=True, slots=True)
class Answer:
    """One offset of the source and the corresponding one on the target; None where the map does not know it."""

    flow: FlowName
    partition: TopicPartition
    offset: int
    found: Translated | None

    def as_json(self) -> dict[str, Any]:
        return {
            "flow": str(self.flow),
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "offset": self.offset,
            "target_topic": self.found and self.found.partition.topic,
            "target_offset": self.found and self.found.offset,
            "exact": self.found and self.found.exact,
        }


def translate_group(flow: FlowConfig, group: str) -> list[Answer]:
    """The group's committed offsets on the source, translated. Raises ClusterError, also when the source does not
    answer."""
    with open_admin(flow.source, "offsets") as source:
        committed = read_group_offsets(source, group)
    return translate_offsets(flow, sorted((where, one.offset) for where, one in committed.items()))


def group_checkpoints(flow: FlowConfig, group: str, topics: str = "") -> GroupOffsets:
    """The group's offsets by the last checkpoints, in the target's present logs; the source is not asked. With the
    expression `topics` those of target topics whose whole name matches. Leaders are waited for: raises ClusterError,
    and OffsetsUnknown."""
    is_chosen = name_matcher(topics)
    with open_admin(flow.target, "offsets") as target, OffsetState(flow, None, target) as state:
        state.follow()
        mine = [one for (name, at), one in state.checkpoints.items() if name == group and is_chosen(at.topic)]
        ends = target.await_latest_offsets({one.partition for one in mine})
        logs, sources = target_logs(target, ends), state.sources()
        places = [(one, state.now(one, sources, logs)) for one in mine]
        return {one.partition: Committed(at, one.metadata) for one, at in places if at is not None}


def translate_offsets(flow: FlowConfig, offsets: Sequence[tuple[TopicPartition, int]]) -> list[Answer]:
    """Translates single offsets into the present logs of the target; the source need not answer."""
    with (
        open_sides(flow, "offsets") as cluster_pair,
        OffsetState(flow, cluster_pair.source, cluster_pair.target) as state,
    ):
        state.follow()
        logs = read_target_logs(cluster_pair.target, {state.translator.remote(where) for where, _ in offsets})
        return [Answer(flow.name, where, offset, state.settled(where, offset, logs)) for where, offset in offsets]
