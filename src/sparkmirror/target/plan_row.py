"""The plan row as the writing end reads it; the counterpart of `source.partitions.plan_row`."""

import json
from dataclasses import dataclass
from typing import Self

from sparkmirror.relay.lease import RingAddress
from sparkmirror.source.commands import assigned_from_json
from sparkmirror.source.plan import Assigned


@dataclass(frozen=True, slots=True)
class PlanRow:
    """Who the task is, where its reader's ring lies, and the partitions that are new, each with its slot."""

    task: int
    run: str
    epoch: int
    generation: int
    producer_id: int
    producer_epoch: int
    ring: RingAddress
    offsets_partitions: int
    partitions: tuple[tuple[Assigned, int], ...]

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        fields = json.loads(payload)
        producer_id, producer_epoch = fields["producer"]
        return cls(
            fields["task"],
            fields["run"],
            fields["epoch"],
            fields["generation"],
            producer_id,
            producer_epoch,
            RingAddress(*fields["ring"]),
            fields["offsets_partitions"],
            tuple((assigned_from_json(item), item["slot"]) for item in fields["partitions"]),
        )
