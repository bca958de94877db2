"""Observes a flow's partitions before they are compared: logs, ledger, offset map, settings. Called by `verify.job`;
judged by `verify.plan`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ConfigError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import ConfigEntry
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.log_offsets import LogOffsets
from sparkmirror.ledger.gaps import LEFT_OUT, Gap
from sparkmirror.model import Topic, TopicPartition, is_another_topic
from sparkmirror.operations.cluster_pair import ledger_gaps, ledger_offsets, mirrored_partitions
from sparkmirror.operations.identical_offsets import NONE_IDENTICAL, Identical, look_at_identical
from sparkmirror.sync.offset_state import OffsetState
from sparkmirror.verify.plan import Standing

_POLICY = "cleanup.policy"
_TIMES = "message.timestamp.type"


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed partitions. `behind` counts the source offsets that are not mirrored yet; `skipped` gives
    partitions that are not compared, with the reason. `chosen` are the wanted partitions that are mirrored. `identical`
    says where offsets were said to be so before the comparison."""

    standings: tuple[Standing, ...]
    gaps: tuple[Gap, ...]
    behind: int
    skipped: Mapping[str, str]
    chosen: int
    identical: Identical = NONE_IDENTICAL


def observe(flow: FlowConfig, wanted: Callable[[TopicPartition], bool]) -> Observed:
    """Observes the source partitions that are `wanted`. Raises ClusterError, also where the flow has never run.

    Raises ConfigError for a flow that changes its records.
    """
    if flow.transforms.steps:
        raise ConfigError(
            f"{flow.name} changes records on their way (transforms), so there is nothing to compare them with.",
            "Name the other flows: --flow.",
        )
    with open_admin(flow.source, "verify") as source, open_admin(flow.target, "verify") as target:
        partitions = [where for where in mirrored_partitions(flow, source) if wanted(where)]
        chosen = len(partitions)
        skipped = _skipped(flow, source, target, partitions)
        partitions = [where for where in partitions if where.topic not in skipped]
        standings, unknown, identical = _standings(flow, source, target, partitions)
        there = target.list_topics({one.target.topic for one in standings}) if standings else {}
    skipped |= {str(where): reason for where, reason in sorted(unknown.items())}
    behind = sum(max(one.source_end - max(one.position, one.source_start), 0) for one in standings)
    gaps = tuple(gap for gap in ledger_gaps(flow) if wanted(gap.partition))
    return Observed(tuple(_with_gaps(standings, gaps, there)), gaps, behind, skipped, chosen, identical)


def _skipped(flow: FlowConfig, source: Admin, target: Admin, partitions: Iterable[TopicPartition]) -> dict[str, str]:
    counts = {name: topic.partitions for name, topic in source.list_topics({one.topic for one in partitions}).items()}
    remote = {name: flow.remote_topic(name) for name in counts}
    there = target.list_topics(set(remote.values())) if remote else {}
    skipped = {}
    for name, count in counts.items():
        if remote[name] not in there:
            skipped[name] = f"the target has no topic {remote[name]}"
        elif flow.partitioning == "key" and there[remote[name]].partitions != count:
            skipped[name] = "its records are put by key into another number of partitions"
        elif there[remote[name]].partitions < count:
            skipped[name] = f"{remote[name]} has {there[remote[name]].partitions} partitions, the source's {count}"
    return skipped


def _standings(
    flow: FlowConfig, source: Admin, target: Admin, partitions: Iterable[TopicPartition]
) -> tuple[list[Standing], dict[TopicPartition, str], Identical]:
    """The standings, the partitions that cannot be compared because a log's start or end is not known, with the
    reason, and what is said of offsets. The order of the requests matters: see `Standing`."""
    remote = {where: TopicPartition(flow.remote_topic(where.topic), where.partition) for where in partitions}
    positions = ledger_offsets(flow)
    with OffsetState(flow, source, target) as state:
        state.follow()
        maps = {where: state.maps.map_of(where) for where in remote}
        kept = {where for where in remote if state.keeps_offsets(where)}
        identical = look_at_identical(flow, target, {where: state.records[where] for where in kept})
    target_ends = target.latest_offsets(remote.values(), read_committed=True)
    starts, target_starts = source.earliest_offsets(remote), target.earliest_offsets(remote.values())
    ends = source.latest_offsets(remote)
    settings = source.describe_configs({where.topic for where in remote}, [_POLICY])
    remote_settings = target.describe_configs({where.topic for where in remote.values()}, [_POLICY, _TIMES])
    unknown = {
        where: reason
        for where, there in remote.items()
        if (reason := _why_unknown(where, (starts, ends)) or _why_unknown(there, (target_starts, target_ends)))
    }
    standings = [
        Standing(
            where, there, maps[where], positions.get(where, 0),
            starts.known[where], ends.known[where], target_starts.known[there], target_ends.known[there], (),
            _is_compacted(settings, where.topic), _is_compacted(remote_settings, there.topic),
            _value(remote_settings, there.topic, _TIMES) != "LogAppendTime", flow.clamp_timestamps,
            where in kept,
        )
        for where, there in remote.items() if where not in unknown
    ]  # fmt: skip
    return standings, unknown, identical


def _why_unknown(where: TopicPartition, bounds: tuple[LogOffsets, LogOffsets]) -> str:
    """Why the start or the end of a partition's log is not known; "" if both are."""
    for one in bounds:
        if where not in one.known:
            reason = one.unknown.get(where, "it does not exist any more")
            return f"{one.alias} does not say where it begins and ends: {reason}"
    return ""


def _with_gaps(standings: Iterable[Standing], gaps: Iterable[Gap], there: Mapping[str, Topic]) -> Iterable[Standing]:
    for one in standings:
        remote = there.get(one.target.topic)
        yield replace(one, gaps=tuple(gap for gap in gaps if gap.partition == one.source and _counts(gap, remote)))


def _counts(gap: Gap, remote: Topic | None) -> bool:
    """What was left out is so in one topic of the target: the flow mirrors it to another one of that name."""
    return gap.cause != LEFT_OUT or remote is None or not is_another_topic(gap.topic_id, remote.topic_id)


def _is_compacted(settings: Mapping[str, Mapping[str, ConfigEntry]], topic: str) -> bool:
    return "compact" in _value(settings, topic, _POLICY)


def _value(settings: Mapping[str, Mapping[str, ConfigEntry]], topic: str, key: str) -> str:
    entry = settings.get(topic, {}).get(key)
    return (entry.value if entry is not None else None) or ""
