"""The lag of a consumer group, partition by partition, as Kafka's ConsumerOffsetChecker printed it; pure.

Called by `cli.lag`, which asks the cluster.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sparkmirror.model import TopicPartition, plain
from sparkmirror.views.identical import count_identical
from sparkmirror.views.table import Page, make_table

_TITLES = ("Group", "Topic", "Pid", "Offset", "logSize", "Lag")
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of one group. `offset` is the committed offset (the next to read), None where there is none;
    `log_size` is the partition's high watermark, None where it is not known.

    `lag_records` is None where either is None; transaction markers count as records. `identical_offsets` says that the
    cluster's records are at the offsets that they have on the cluster that they are mirrored from; None where that is
    not known.
    """

    cluster: str
    group: str
    topic: str
    partition: int
    offset: int | None
    log_size: int | None
    identical_offsets: bool | None = False

    @property
    def lag_records(self) -> int | None:
        if self.offset is None or self.log_size is None:
            return None
        return max(self.log_size - self.offset, 0)

    def as_json(self) -> dict[str, Any]:
        return plain(self) | {"lag": self.lag_records}


def list_lags(
    cluster: str,
    group: str,
    offsets: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    unknown: Collection[TopicPartition] = (),
    identical: Mapping[TopicPartition, bool | None] = MappingProxyType({}),
) -> list[PartitionLag]:
    """An entry for each partition that any argument names, in order. `unknown` are partitions without a known end."""
    return [
        PartitionLag(
            cluster,
            group,
            where.topic,
            where.partition,
            offsets.get(where),
            ends.get(where),
            identical.get(where, False),
        )
        for where in sorted({*offsets, *ends, *unknown})
    ]


def render_lags(lags: Sequence[PartitionLag]) -> Page:
    """A table, with a column for the cluster where there are several, and a line where offsets are kept."""
    several = len({lag.cluster for lag in lags}) > 1
    titles = (*(("Cluster",) if several else ()), *_TITLES)
    rows = []
    for lag in lags:
        numbers = (lag.offset, lag.log_size, lag.lag_records)
        cells = (lag.group, lag.topic, lag.partition, *(_UNKNOWN if one is None else one for one in numbers))
        rows.append((*((lag.cluster,) if several else ()), *cells))
    kept = count_identical(lag.identical_offsets for lag in lags)
    return [make_table(titles, rows), *([kept] if kept else ())]
