"""The part of the table of keys (`config/keys/table.py`) on topics, ACLs, offsets, checkpoints, groups and
heartbeats."""

from typing import Any

from sparkmirror.config import types
from sparkmirror.config.keys.key import Key, Scope

SYNC_TOPIC_CONFIGS = Key(
    "sync.topic.configs.enabled",
    Scope.FLOW,
    types.BOOLEAN,
    True,
    "Whether remote topics follow their source's settings. A new remote topic gets them in any case.",
)
SYNC_TOPIC_CONFIGS_INTERVAL = Key(
    "sync.topic.configs.interval.seconds",
    Scope.FLOW,
    types.whole(1, unit="seconds"),
    600,
    "How long a changed setting may go unnoticed at most; every five seconds is usual.",
    "looks once in this time",
)
SYNC_TOPIC_CONFIGS_PROTECT = Key(
    "sync.topic.configs.protect",
    Scope.FLOW,
    types.PATTERNS,
    (),
    "Settings that belong to the target once a remote topic is created: `retention.ms` on all of them, "
    "or `A\\.orders/retention\\.ms` on one remote topic.",
    "no such key; removes what is set on a remote topic and not on its source",
)
USE_DEFAULTS_FROM = Key(
    "use.defaults.from",
    Scope.FLOW_ONLY,
    types.STRING,
    "target",
    "With `source`, settings that have their default on the source get this value on the remote topic; "
    "with anything else they get the target's default.",
)
CONFIG_PROPERTIES_EXCLUDE = Key(
    "config.properties.exclude",
    Scope.FLOW,
    types.PATTERNS,
    (
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.after.max.ms",
        "message.timestamp.type",
        "unclean.leader.election.enable",
        "min.insync.replicas",
    ),
    "Topic settings that are not copied.",
)
CONFIG_FILTER_CLASS = Key(
    "config.property.filter.class",
    Scope.FLOW,
    types.own_class({"org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter": ""}),
    "",
    "A Java class, or a Python one as `module:Class`, that says which settings to copy in place of "
    "`config.properties.exclude` and `use.defaults.from` (docs/policies.md).",
)
SYNC_TOPIC_ACLS = Key(
    "sync.topic.acls.enabled",
    Scope.FLOW,
    types.BOOLEAN,
    True,
    "Whether who may read a topic may read its remote topic: ALLOW READ, DESCRIBE and DESCRIBE_CONFIGS are copied, "
    "ALLOW ALL as ALLOW READ, and every DENY.",
    "copies every ALLOW but WRITE, no prefixed patterns, and `*` as the name of a topic",
)
SYNC_TOPIC_ACLS_OPERATIONS = Key(
    "sync.topic.acls.operations",
    Scope.FLOW,
    types.choice("read", "all-but-write"),
    "read",
    "With `all-but-write`, every ALLOW of a single topic but WRITE is copied, as MirrorMaker 2 does: who may delete or "
    "alter a topic may do so to its remote topic.",
    "no such key; copies all but WRITE",
)
SYNC_TOPIC_ACLS_INTERVAL = Key(
    "sync.topic.acls.interval.seconds",
    Scope.FLOW,
    types.whole(1, unit="seconds"),
    600,
    "How long a changed ACL may go unnoticed at most; every five seconds is usual.",
    "looks once in this time",
)
SYNC_TOPIC_ACLS_REVOKE = Key(
    "sync.topic.acls.revoke",
    Scope.FLOW,
    types.BOOLEAN,
    False,
    "Whether an ACL that the mirror created is removed when the source has it no more.",
    "no such key; never removes an ACL",
)

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
    "How long new groups may go unnoticed at most; every five seconds is usual.",
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

SYNC_KEYS: tuple[Key[Any], ...] = tuple(value for value in list(globals().values()) if isinstance(value, Key))
