"""The part of the table of keys (`config/keys/table.py`) that keeps remote topics in step: their settings and ACLs."""

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

SYNC_KEYS: tuple[Key[Any], ...] = tuple(value for value in list(globals().values()) if isinstance(value, Key))
