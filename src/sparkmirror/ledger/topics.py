"""The internal topics of one flow on its target: their names, and which are to be created. Pure; `ledger.setup` applies
it.

Connect's offsets topic is MirrorMaker's own and made as Connect makes it; the rest are ours and named
`mm2-sparkmirror-….internal`, which every MirrorMaker's topic filter leaves alone. Ours have small segments: compaction
never touches the active one. Brokers stamp them with their own time: what they take does not depend on our clocks, nor
do the ages of records on which of them wrote.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from sparkmirror.kafka.answers import NewTopic
from sparkmirror.model import Topic

OFFSETS_PARTITIONS = 25
INTERNAL_REPLICATION_FACTOR = 3
SHARING_GROUP = "__sparkmirror"
"""The group, on each target, of the processes that share its flows. No rule of group syncing copies such names."""

_OURS = {
    "message.timestamp.type": "LogAppendTime",
    # 1 MiB is the least that Kafka 4 accepts (KIP-1030).
    "segment.bytes": str(1 << 20),
    "segment.ms": str(3_600_000),
    "min.cleanable.dirty.ratio": "0.1",
    "max.compaction.lag.ms": str(3_600_000),
}
_COMPACT = {"cleanup.policy": "compact"}
_COMMAND_RETENTION_MS = 7 * 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class LedgerTopics:
    """Names of a flow's internal topics, all on the target cluster, and how they are made where they are missing.

    A `replication_factor` of -1 takes the broker's default.
    """

    offsets: str
    positions: str
    commands: str
    status: str
    offset_map: str
    gaps: str
    replication_factor: int = INTERNAL_REPLICATION_FACTOR
    offsets_partitions: int = OFFSETS_PARTITIONS

    def __iter__(self) -> Iterator[str]:
        return iter((self.offsets, self.positions, self.commands, self.status, self.offset_map, self.gaps))


@dataclass(frozen=True, slots=True)
class LedgerPlan:
    """The topics to create, and sentences about wrong settings of existing ones."""

    missing: tuple[NewTopic, ...]
    warnings: tuple[str, ...]


def ledger_topics(
    source_alias: str,
    offsets_topic: str = "",
    *,
    replication_factor: int = INTERNAL_REPLICATION_FACTOR,
    offsets_partitions: int = OFFSETS_PARTITIONS,
) -> LedgerTopics:
    """The names for flows from `source_alias`; `offsets_topic` is the user's `offset.storage.topic`, if set."""
    return LedgerTopics(
        offsets=offsets_topic or f"mm2-offsets.{source_alias}.internal",
        positions=f"mm2-sparkmirror-positions.{source_alias}.internal",
        commands=f"mm2-sparkmirror-commands.{source_alias}.internal",
        status=f"mm2-sparkmirror-status.{source_alias}.internal",
        offset_map=f"mm2-sparkmirror-offset-map.{source_alias}.internal",
        gaps=f"mm2-sparkmirror-gaps.{source_alias}.internal",
        replication_factor=replication_factor,
        offsets_partitions=offsets_partitions,
    )


def plan_ledger_topics(
    topics: LedgerTopics,
    existing: Mapping[str, Topic],
    brokers: int,
    *,
    unreadable: Collection[str] = (),
) -> LedgerPlan:
    """Which of `topics` to create on a target with `brokers` live brokers.

    `existing` holds the target's topics, with explicit configs for those named here, but for `unreadable` ones. A
    replication factor above the number of brokers is lowered with a warning: MirrorMaker's worker would not start.
    """
    factor = topics.replication_factor
    possible = min(factor, brokers) if factor > 0 else factor
    wanted = (
        NewTopic(topics.offsets, topics.offsets_partitions, possible, _COMPACT),
        NewTopic(topics.positions, 1, possible, _COMPACT | _OURS),
        NewTopic(topics.commands, 1, possible, _command_configs()),
        NewTopic(topics.status, 1, possible, _COMPACT | _OURS),
        NewTopic(topics.offset_map, 1, possible, _COMPACT | _OURS),
        NewTopic(topics.gaps, 1, possible, _COMPACT | _OURS),
    )
    missing = tuple(topic for topic in wanted if topic.name not in existing)
    warnings = [*_policy_warnings(topics, {name: existing[name] for name in existing.keys() - set(unreadable)})]
    if missing and possible != factor:
        warnings.append(
            f"The target has {brokers} broker(s): internal topics get replication factor {possible} "
            f"instead of {factor}."
        )
    return LedgerPlan(missing, tuple(warnings))


def _policy_warnings(topics: LedgerTopics, existing: Mapping[str, Topic]) -> list[str]:
    found = ((name, existing[name].configs) for name in (topics.offsets, topics.positions) if name in existing)
    return [
        f"Topic {name} has cleanup.policy={policy}: stored positions may be deleted. Set it to compact."
        for name, configs in found
        if (policy := configs.get("cleanup.policy", "delete")) != "compact"
    ]


def _command_configs() -> dict[str, str]:
    policy = {"cleanup.policy": "compact,delete", "retention.ms": str(_COMMAND_RETENTION_MS)}
    return policy | _OURS
