"""Settings of offset syncs, checkpoints, group offsets and heartbeats, for `sync.offset_job` and `sync.heartbeat_job`.

Read by `config/flow/flows.py`. Names and meanings are MirrorMaker's, see `config/keys/offset_keys.py`.
"""

from dataclasses import dataclass, field

from sparkmirror.config.keys import offset_keys as keys
from sparkmirror.config.reading import Reader
from sparkmirror.model import Cluster, FlowName
from sparkmirror.policy.filters import NameFilter
from sparkmirror.policy.own import OwnClasses


@dataclass(frozen=True, slots=True)
class OffsetSettings:
    """Of one flow. Intervals say how old something may be at most."""

    emit_syncs: bool = keys.EMIT_OFFSET_SYNCS.default
    syncs_location: str = keys.OFFSET_SYNCS_LOCATION.default
    syncs_replication_factor: int = keys.OFFSET_SYNCS_REPLICATION.default
    lag_max: int = keys.OFFSET_LAG_MAX.default
    groups: NameFilter = field(default_factory=lambda: NameFilter(keys.GROUPS.default, keys.GROUPS_EXCLUDE.default))
    refresh_groups: bool = keys.REFRESH_GROUPS_ENABLED.default
    refresh_groups_interval_seconds: int = keys.REFRESH_GROUPS_INTERVAL.default
    emit_checkpoints: bool = keys.EMIT_CHECKPOINTS.default
    emit_checkpoints_interval_seconds: int = keys.EMIT_CHECKPOINTS_INTERVAL.default
    checkpoints_replication_factor: int = keys.CHECKPOINTS_REPLICATION.default
    sync_groups: bool = keys.SYNC_GROUP_OFFSETS.default
    sync_groups_interval_seconds: int = keys.SYNC_GROUP_OFFSETS_INTERVAL.default


def read_offsets(flow: Reader, own: OwnClasses) -> OffsetSettings:
    """The settings of a flow's layer; `own` makes classes of the user's."""
    listed = NameFilter(flow.read(keys.GROUPS), flow.read(keys.GROUPS_EXCLUDE))
    return OffsetSettings(
        emit_syncs=flow.read(keys.EMIT_OFFSET_SYNCS),
        syncs_location=flow.read(keys.OFFSET_SYNCS_LOCATION),
        syncs_replication_factor=flow.read(keys.OFFSET_SYNCS_REPLICATION),
        lag_max=flow.read(keys.OFFSET_LAG_MAX),
        groups=flow.load(keys.GROUP_FILTER_CLASS, own.groups) or listed,
        refresh_groups=flow.read(keys.REFRESH_GROUPS_ENABLED),
        refresh_groups_interval_seconds=flow.read(keys.REFRESH_GROUPS_INTERVAL),
        emit_checkpoints=flow.read(keys.EMIT_CHECKPOINTS),
        emit_checkpoints_interval_seconds=flow.read(keys.EMIT_CHECKPOINTS_INTERVAL),
        checkpoints_replication_factor=flow.read(keys.CHECKPOINTS_REPLICATION),
        sync_groups=flow.read(keys.SYNC_GROUP_OFFSETS),
        sync_groups_interval_seconds=flow.read(keys.SYNC_GROUP_OFFSETS_INTERVAL),
    )


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """Heartbeats of one ordered pair of clusters, whether or not it mirrors data."""

    flow: FlowName
    target: Cluster
    interval_seconds: int
    replication_factor: int


def read_heartbeats(flow: FlowName, target: Cluster, layer: Reader) -> HeartbeatSettings:
    """The settings of a pair's layer."""
    interval, replication = layer.read(keys.EMIT_HEARTBEATS_INTERVAL), layer.read(keys.HEARTBEATS_REPLICATION_FACTOR)
    return HeartbeatSettings(flow, target, interval, replication)
