"""Where groups and single offsets of one flow's source lie on its target, now. Asked by `cli.offsets`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sparkmirror.config.flows import FlowConfig
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.groups import read_group_offsets
from sparkmirror.ledger.translate import Translated, Translator
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.sync.offset_state import OffsetState


@dataclass(frozen=True, slots=True)
class Answer:
    """One offset of the source and its place on the target; None where nothing is known of it."""

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


@contextmanager
def translation_of(flow: FlowConfig) -> Iterator[tuple[Translator, Admin | None]]:
    """Translates by what the flow's topics say now; with it the source's admin, None if the source does not answer.

    Raises ClusterError if the target does not answer.
    """
    with (
        open_admin(flow.target, "offsets") as target,
        _reachable(flow) as source,
        OffsetState(flow, source, target) as state,
    ):
        state.follow()
        yield state.translator, source


def translate_group(flow: FlowConfig, group: str) -> list[Answer]:
    """Where the group stands on the source, translated. Raises ClusterError, also when the source does not answer."""
    with open_admin(flow.source, "offsets") as source:
        committed = read_group_offsets(source, group)
    return translate_offsets(flow, sorted((where, one.offset) for where, one in committed.items()))


def translate_offsets(flow: FlowConfig, offsets: Sequence[tuple[TopicPartition, int]]) -> list[Answer]:
    """Single offsets, translated; the source need not answer."""
    with translation_of(flow) as (translator, _):
        return [Answer(flow.name, where, offset, translator.translate(where, offset)) for where, offset in offsets]


@contextmanager
def _reachable(flow: FlowConfig) -> Iterator[Admin | None]:
    try:
        opened = open_admin(flow.source, "offsets")
    except ClusterUnreachable:
        yield None
        return
    with opened:
        yield opened
