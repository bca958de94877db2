"""The part of the table of keys (`config/keys/table.py`) about offsets: syncs, checkpoints, groups, heartbeats."""

from typing import Any

from sparkmirror.config import types
from sparkmirror.config.keys.key import Key, Scope

_INTERNAL_REPLICATION = types.whole(1, 32767, also=-1)
_USUAL = "every second is usual"

EMIT_OFFSET_SYNCS = Key(
    "emit.offset-syncs.enabled",
    Scope.FLOW,
    types.BOOLEAN,
    True,
    "Whether to write offset syncs, for MirrorMaker and Java's client. Our own translation does without.",
)
OFFSET_SYNCS_LOCATION = Key(
    "offset-syncs.topic.location",
    Scope.FLOW,
    types.choice("source", "target"),
    "source",
    "The cluster of the offset-syncs topic. With `target`, nothing is ever written to the source (KIP-716).",
)
OFFSET_SYNCS_REPLICATION = Key(
    "offset-syncs.topic.replication.factor",
    Scope.FLOW,
    _INTERNAL_REPLICATION,
    3,
    "Of the offset-syncs topic, when it is created; lowered where there are fewer brokers.",
)
OFFSET_LAG_MAX = Key(
    "offset.lag.max",
    Scope.FLOW,
    types.whole(0, 2**63 - 1),
    100,
    "How many records may pass without an offset sync.",
)
GROUPS = Key("groups", Scope.FLOW, types.PATTERNS, (".*",), "The groups to write checkpoints of.")
GROUPS_EXCLUDE = Key(
    "groups.exclude",
    Scope.FLOW,
    types.PATTERNS,
    ("console-consumer-.*", "connect-.*", "__.*"),
    "Groups to leave out, whatever `groups` says.",
)
GROUP_FILTER_CLASS = Key(
    "group.filter.class",
    Scope.FLOW,
    types.own_class({"org.apache.kafka.connect.mirror.DefaultGroupFilter": ""}),
    "",
    "A Java class, or a Python one as `module:Class`, that says which groups take part in place of `groups` and "
    "`groups.exclude` (docs/policies.md).",
)
REFRESH_GROUPS_ENABLED = Key(
    "refresh.groups.enabled", Scope.FLOW, types.BOOLEAN, True, "Whether to look for new groups after the start."
)
REFRESH_GROUPS_INTERVAL = Key(
    "refresh.groups.interval.seconds",
    Scope.FLOW,
    types.whole(1, unit="seconds"),
    600,
    f"How long new groups may go unnoticed at most; {_USUAL}.",
    "looks once in this time",
)
EMIT_CHECKPOINTS = Key(
    "emit.checkpoints.enabled",
    Scope.FLOW,
    types.BOOLEAN,
    True,
    "Whether to translate groups' offsets into checkpoints, and to sync them where `sync.group.offsets.enabled` is on.",
)
CHECKPOINTS_ALONE = Key(
    "emit.checkpoints.alone",
    Scope.FLOW_ONLY,
    types.BOOLEAN,
    False,
    "Whether to write checkpoints, and to sync groups where `sync.group.offsets.enabled` is on, though the flow is not "
    "enabled: another MirrorMaker mirrors the topics and writes the offset syncs. A MirrorCheckpointConnector without "
    "its MirrorSourceConnector is read so.",
    "no such key",
)
EMIT_CHECKPOINTS_INTERVAL = Key(
    "emit.checkpoints.interval.seconds",
    Scope.FLOW,
    types.whole(1, unit="seconds"),
    60,
    f"How old checkpoints may be at most; {_USUAL}.",
    "writes once in this time",
)
CHECKPOINTS_REPLICATION = Key(
    "checkpoints.topic.replication.factor",
    Scope.FLOW,
    _INTERNAL_REPLICATION,
    3,
    "Of the checkpoints topic, when it is created; lowered where there are fewer brokers.",
)
SYNC_GROUP_OFFSETS = Key(
    "sync.group.offsets.enabled",
    Scope.FLOW,
    types.BOOLEAN,
    False,
    "Whether to commit translated offsets for the groups of the target that have no members there. "
    "No group is ever moved backwards.",
    "may move a group backwards",
)
SYNC_GROUP_OFFSETS_INTERVAL = Key(
    "sync.group.offsets.interval.seconds",
    Scope.FLOW,
    types.whole(1, unit="seconds"),
    60,
    f"How old synced offsets may be at most; {_USUAL}.",
    "commits once in this time",
)
EMIT_HEARTBEATS = Key(
    "emit.heartbeats.enabled",
    Scope.FLOW,
    types.SWITCH,
    True,
    "Whether to write heartbeats to the target: also for pairs of clusters that mirror nothing.",
)
EMIT_HEARTBEATS_INTERVAL = Key(
    "emit.heartbeats.interval.seconds", Scope.FLOW, types.whole(1, unit="seconds"), 1, "How often."
)
HEARTBEATS_REPLICATION_FACTOR = Key(
    "heartbeats.topic.replication.factor",
    Scope.FLOW,
    _INTERNAL_REPLICATION,
    3,
    "Of the heartbeats topic, when it is created; lowered where there are fewer brokers.",
)

OFFSET_KEYS: tuple[Key[Any], ...] = tuple(value for value in list(globals().values()) if isinstance(value, Key))
