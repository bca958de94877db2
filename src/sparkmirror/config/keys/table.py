"""THE table of configuration keys: names, places, types, defaults and meanings; here MirrorMaker's of files and flows.

Its other parts are `flow_keys.py`, `sync_keys.py`, `client_keys.py`, `status_keys.py` and, for what has no effect,
`unused.py`. A field of a configuration that is declared as `setting(KEY)` (`config/reading.py`) is filled by its row;
`config/recognise.py` judges every line of a file by the table, and `python -m sparkmirror.config.keys.table >
docs/keys.md` writes the manual from it. A new key is a new row here and a field where it takes effect.
"""

from typing import Any

from sparkmirror.config import types
from sparkmirror.config.keys import client_keys, flow_keys, status_keys, sync_keys
from sparkmirror.config.keys.key import Key, Scope
from sparkmirror.policy.filters import MIRRORS_INTERNAL

DEFAULT_POLICY = "DefaultReplicationPolicy"
IDENTITY_POLICY = "IdentityReplicationPolicy"
SAME_NAME_POLICY = "SameNamePolicy"
_MIRROR = "org.apache.kafka.connect.mirror"
_POLICIES = types.own_class(
    {f"{_MIRROR}.{name}": name for name in (DEFAULT_POLICY, IDENTITY_POLICY)}
    | {"io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy": IDENTITY_POLICY}
    | {"sparkmirror.policy.naming:SameNamePolicy": SAME_NAME_POLICY}
)
_NO_KEY = "no such key"

CLUSTERS = Key("clusters", Scope.FILE, types.LIST, (), "The aliases of all clusters. Required.")
FILE_PROVIDER, DIRECTORY_PROVIDER, ENVIRONMENT_PROVIDER = "file", "directory", "environment"
PROVIDER_CLASSES = {
    f"org.apache.kafka.common.config.provider.{name}ConfigProvider": kind
    for name, kind in (("File", FILE_PROVIDER), ("Directory", DIRECTORY_PROVIDER), ("EnvVar", ENVIRONMENT_PROVIDER))
}
CONFIG_PROVIDERS = Key(
    "config.providers",
    Scope.FILE,
    types.LIST,
    (),
    "Names of what resolves `${name:path:key}` in values, when the file is read. Only the reference is ever shown.",
    "resolves what connectors read later, on its workers",
)
CONFIG_PROVIDER_CLASS = Key(
    "config.providers.<name>.class",
    Scope.FILE,
    types.java_class(PROVIDER_CLASSES),
    "",
    "FileConfigProvider: `${name:file:key}`, a key of a properties file. DirectoryConfigProvider: "
    "`${name:directory:file}`, the content of a file. EnvVarConfigProvider: `${name:VARIABLE}`. Another Java class is "
    "loaded from `plugin.path` (docs/policies.md).",
    "takes a reference that leads nowhere as it stands",
)
CONFIG_PROVIDER_PARAMETER = Key(
    "config.providers.<name>.param.<parameter>",
    Scope.FILE,
    types.STRING,
    "",
    "`allowed.paths` of files and directories, `allowlist.pattern` of the environment; what another class takes.",
)
PLUGIN_PATH = Key(
    "plugin.path",
    Scope.STORAGE,
    types.LIST,
    (),
    "Jars, and directories of jars and classes, where the Java classes that the file names are (docs/policies.md). "
    "Both levels count; --jars and the environment's CLASSPATH add to them.",
    "each jar and directory is a plugin apart from the others",
)
ENABLED = Key(
    "enabled",
    Scope.FLOW,
    types.SWITCH,
    False,
    "Whether the flow mirrors data. `enabled = true` at the top level turns on every pair that does not set it.",
)

TOPICS = Key("topics", Scope.FLOW, types.PATTERNS, (".*",), "The topics to mirror; an expression matches whole names.")
TOPICS_EXCLUDE = Key(
    "topics.exclude",
    Scope.FLOW,
    types.PATTERNS,
    (MIRRORS_INTERNAL, r".*\.replica", "__.*"),
    "Topics to leave out, whatever `topics` says.",
    r"same from 4.0 on; its documentation has `.*[\-\.]internal, .*\.replica, __.*`, the default up to 3.9",
)
TASKS_MAX = Key(
    "tasks.max",
    Scope.FLOW,
    types.whole(1),
    1,
    "The most Spark tasks of the flow; how many run depends on the load (docs/processes.md).",
)
TASKS_MIN = Key(
    "tasks.min",
    Scope.FLOW,
    types.whole(1),
    1,
    "Tasks that run however little there is to do; as many as `tasks.max` pins the number (docs/processes.md).",
    _NO_KEY,
)
REPLICATION_FACTOR = Key(
    "replication.factor",
    Scope.FLOW,
    types.whole(1, 32767, also=-1),
    2,
    "Of remote topics; -1 takes the broker's default.",
)
POLICY_CLASS = Key(
    "replication.policy.class",
    Scope.FLOW,
    _POLICIES,
    DEFAULT_POLICY,
    "How remote topics are called. IdentityReplicationPolicy keeps names, under Strimzi's former class name too; flows "
    "in a circle are then refused. Another Java class is loaded from `plugin.path`, a Python class is named "
    "`module:Class` (docs/policies.md).",
)
POLICY_SEPARATOR = Key(
    "replication.policy.separator",
    Scope.FLOW,
    types.SEPARATOR,
    ".",
    "Stands between alias and topic in a remote name. Empty only where names are kept.",
)
POLICY_INTERNAL_SEPARATOR = Key(
    "replication.policy.internal.topic.separator.enabled",
    Scope.FLOW,
    types.BOOLEAN,
    True,
    "Whether internal topics use the separator too; with false they use dots.",
)
REFRESH_TOPICS_ENABLED = Key(
    "refresh.topics.enabled", Scope.FLOW, types.BOOLEAN, True, "Whether to look for new topics and partitions."
)
REFRESH_TOPICS_INTERVAL = Key(
    "refresh.topics.interval.seconds",
    Scope.FLOW,
    types.whole(1, unit="seconds"),
    600,
    "How long new topics and partitions may go unnoticed at most; every few seconds is usual.",
    "looks once in this time",
)
HEARTBEATS_REPLICATION = Key(
    "heartbeats.replication.enabled",
    Scope.FLOW,
    types.BOOLEAN,
    True,
    "Whether heartbeats topics are mirrored whatever `topics` says.",
)

OFFSET_STORAGE_TOPIC = Key(
    "offset.storage.topic",
    Scope.STORAGE,
    types.STRING,
    "",
    "The topic on the target that keeps positions, in Kafka Connect's format; `mm2-offsets.S.internal` when not set. "
    "The top level wins over `T.`, as in MirrorMaker.",
)
OFFSET_STORAGE_PARTITIONS = Key(
    "offset.storage.partitions", Scope.STORAGE, types.whole(1, also=-1), 25, "Its partitions, when it is created."
)
OFFSET_STORAGE_REPLICATION = Key(
    "offset.storage.replication.factor",
    Scope.STORAGE,
    types.whole(1, 32767, also=-1),
    3,
    "Its replication factor, when it is created; -1 takes the broker's default.",
)
OFFSET_FLUSH_INTERVAL = Key(
    "offset.flush.interval.ms",
    Scope.WORKER,
    types.whole(1, unit="ms"),
    1000,
    "How often positions are stored: what may be repeated after a crash. Those of heartbeats wait for five "
    "seconds while nothing else moves.",
    "60000",
)
EXACTLY_ONCE = Key(
    "exactly.once.source.support",
    Scope.WORKER,
    types.choice("disabled", "preparing", "enabled"),
    "disabled",
    "With `enabled`, records and positions are committed to the target in transactions: a consumer that reads with "
    "`isolation.level = read_committed` sees each record once. `preparing` is `disabled`: predecessors are always "
    "fenced, so nothing is to be prepared.",
)
TRANSACTION_BOUNDARY = Key(
    "transaction.boundary",
    Scope.FLOW_ONLY,
    types.choice("poll", "interval"),
    "poll",
    "Both commit by `transaction.boundary.interval.ms`; there are no polls here.",
    "`poll` commits after each poll of the source; `connector` is not supported by its connectors either",
)
TRANSACTION_INTERVAL = Key(
    "transaction.boundary.interval.ms",
    Scope.FLOW_ONLY,
    types.whole(1, unit="ms"),
    200,
    "With exactly-once: least time between two commits of a task; the first record after a pause is committed at once.",
    "`offset.flush.interval.ms`",
)

GROUP_ID = Key(
    "group.id",
    Scope.WORKER,
    types.STRING,
    "",
    "The Connect group of the MirrorMaker that is taken over; `S-mm2` when not set. While it has members, nothing "
    "starts; and transactional ids are named by it, `GROUP-CONNECTOR-TASK`.",
)
SESSION_TIMEOUT = Key(
    "session.timeout.ms",
    Scope.WORKER,
    types.whole(1000, unit="ms"),
    10_000,
    "After so long without a sign of life a process that shares flows into T is taken for dead, and the others go on "
    "with its tasks. Brokers allow 6000 to 1800000 (`group.min.session.timeout.ms` and `…max…`).",
)
PROGRESS_CONNECTOR = Key(
    "progress.connector",
    Scope.FLOW_ONLY,
    types.STRING,
    "",
    "The connector under whose name positions are kept and taken over; `MirrorSourceConnector` when not set. Where "
    "Strimzi runs MirrorMaker, it is `S->T.MirrorSourceConnector`, which a Strimzi resource sets by itself.",
    _NO_KEY,
)
OFFSETS_STORAGE_TOPIC = Key(
    "offsets.storage.topic",
    Scope.FLOW_ONLY,
    types.STRING,
    "",
    "As `offset.storage.topic`, for one flow; counts before it.",
    "looks into `offset.storage.topic` too, for positions that are not there yet",
)

TOPIC_FILTER_CLASS = Key(
    "topic.filter.class",
    Scope.FLOW,
    types.own_class({f"{_MIRROR}.DefaultTopicFilter": ""}),
    "",
    "A Java class, or a Python one as `module:Class`, that says which topics to mirror in place of `topics` and "
    "`topics.exclude` (docs/policies.md).",
)
FORWARDING_ADMIN_CLASS = Key(
    "forwarding.admin.class",
    Scope.FLOW,
    types.class_name({"org.apache.kafka.clients.admin.ForwardingAdmin": ""}),
    "",
    "What creates topics; the default may be named, another one is refused.",
    "loads any Java class",
)

KEYS: tuple[Key[Any], ...] = (
    *(value for value in list(globals().values()) if isinstance(value, Key)),
    *flow_keys.FLOW_KEYS,
    *sync_keys.SYNC_KEYS,
    *client_keys.CLIENT_KEYS,
    *status_keys.STATUS_KEYS,
)


def keys_of(*scopes: Scope) -> tuple[Key[Any], ...]:
    """The keys of `scopes`, in the table's order."""
    return tuple(key for key in KEYS if key.scope in scopes)


if __name__ == "__main__":
    from sparkmirror.config.reference import render_reference

    print(render_reference(), end="")
