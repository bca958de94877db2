"""THE table of configuration keys: names, places, types, defaults and what they mean. The keys of flows stand here.

Its other parts are `config/keys/sync_keys.py`, `config/keys/client_keys.py`, `config/keys/status_keys.py` and, for what
has no effect, `config/keys/unused.py`. `config/flow/flows.py` reads values through the table, `config/recognise.py`
judges every line of a file by it, and `python -m sparkmirror.config.keys.table > docs/configuration.md` writes the
manual from it. A new key is a new entry here.
"""

from typing import Any

from sparkmirror.batch.unpacking import UNPACKED_BYTES_MAX as UNPACKED_BYTES
from sparkmirror.config import types
from sparkmirror.config.keys import client_keys, status_keys, sync_keys
from sparkmirror.config.keys.key import Key, Scope
from sparkmirror.policy.filters import MIRRORS_INTERNAL
from sparkmirror.policy.loss import CONTINUE, LOSS_ACTIONS

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
    "tasks.max", Scope.FLOW, types.whole(1), 1, "Spark tasks of the flow: how many partitions move at a time."
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
    "How often positions are stored: what may be repeated after a crash.",
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
_EXPRESSION = types.Type("Spark SQL", str.strip)
TRANSFORMS_WHERE = Key(
    "transforms.where", Scope.FLOW, _EXPRESSION, "", "Only records for which this is true are mirrored.", _NO_KEY
)
TRANSFORMS_SET = Key(
    "transforms.set.<column>",
    Scope.FLOW,
    _EXPRESSION,
    "",
    "What the target gets as topic, partition, timestamp, key, value or headers.",
    _NO_KEY,
)
TRANSFORMS_DEADLETTER_WHEN = Key(
    "transforms.deadletter.when", Scope.FLOW, _EXPRESSION, "", "Records for which this is true go elsewhere.", _NO_KEY
)
TRANSFORMS_DEADLETTER_TOPIC = Key(
    "transforms.deadletter.topic", Scope.FLOW, types.STRING, "", "The topic on the target that they go to.", _NO_KEY
)
TRANSFORMS_FUNCTION = Key(
    "transforms.function", Scope.FLOW, types.STRING, "", "`module:function`, from DataFrame to DataFrame.", _NO_KEY
)
_CONNECT = "runs any Java class; passes the names on from the top level, but not what they stand for"
TRANSFORMS = Key("transforms", Scope.FLOW, types.LIST, (), "Names of Connect transformations, in order.", _CONNECT)
TRANSFORM = Key(
    "transforms.<name>", Scope.FLOW, types.STRING, "", "Type and settings of one; see docs/transforms.md.", _CONNECT
)
PREDICATES = Key("predicates", Scope.FLOW, types.LIST, (), "Names of Connect predicates.", _CONNECT)
PREDICATE = Key(
    "predicates.<name>", Scope.FLOW, types.STRING, "", "Type and settings of one; see docs/transforms.md.", _CONNECT
)

CLAMP_TIMESTAMPS = Key(
    "timestamps.clamp",
    Scope.FLOW,
    types.BOOLEAN,
    False,
    "Records from further in the future than the target topic allows (`message.timestamp.after.max.ms`) get the latest "
    "time that it does. Otherwise such a record fails its partition, and is tried again until its time has come near.",
    "no such key",
)
EPOCH_SECONDS = Key(
    "epoch.seconds",
    Scope.FLOW,
    types.whole(1, unit="seconds"),
    600,
    "How long one micro-batch of the streaming query lasts; its end holds a flow up for a moment.",
    "no such key",
)
BALANCE_INTERVAL = Key(
    "balance.interval.seconds",
    Scope.FLOW,
    types.whole(0, unit="seconds"),
    30,
    "How often to look whether partitions should change their task, by the bytes that they carry and whether they are "
    "behind (docs/processes.md). 0: never.",
    "no such key",
)
LEASE_RING_BYTES = Key(
    "lease.ring.bytes",
    Scope.FLOW,
    types.whole(1 << 20, unit="bytes", also=0),
    32 << 20,
    "Shared memory between a task's reading and writing end: bounds what is in flight. 0 passes all payload by Spark.",
    "no such key",
)
UNPACKED_BYTES_MAX = Key(
    "unpacked.bytes.max",
    Scope.FLOW,
    types.whole(1 << 20, 1 << 30, unit="bytes"),
    UNPACKED_BYTES,
    "How much a task's process holds of decompressed batches at a time, where batches cannot pass as they are; others "
    "wait for their turn. A batch that would take more by itself, or more than an eighth of it and 100 times its own "
    "size, is not decompressed: its partition is FAILED (docs/security.md).",
    "no such key",
)
CONNECTIONS_PER_BROKER = Key(
    "connections.per.broker",
    Scope.FLOW,
    types.whole(1, 64),
    2,
    "Connections of a task to each target broker; a broker serves one request of a connection at a time.",
    "no such key",
)
RATE_LIMIT = Key(
    "rate.limit.bytes.per.second",
    Scope.FLOW,
    types.whole(0, 10**15, unit="bytes"),
    0,
    "Most bytes a second that the flow reads, by all of its tasks together; 0 sets no limit. Batches count as they are "
    "stored, compressed. `sparkmirror throttle` changes it while the mirror runs.",
    "no such key",
)
RATE_LIMIT_TOPICS = Key(
    "rate.limit.topics",
    Scope.FLOW,
    types.RATES,
    (),
    "Limits for topics by name, as in `audit.*:500kB, logs:2MB`: bytes a second for all topics together that match an "
    "expression; the first that matches counts, and the flow's own limit holds beside it.",
    "no such key",
)
CANARY_INTERVAL = Key(
    "canary.interval.seconds",
    Scope.FLOW,
    types.whole(0),
    0,
    "How often to send a probe record through the mirror, which tells true latency and loss (docs/metrics.md): it goes "
    "to the topic `sparkmirror-canary-<target>` of the source, which is then mirrored too. 0: none.",
    "no such key",
)
ON_DATA_LOSS = Key(
    "on.data.loss",
    Scope.FLOW,
    types.choice(*LOSS_ACTIONS),
    CONTINUE,
    "What to do with a partition whose source lost records before they were mirrored, or whose target lost them after: "
    "go on behind them, leave the partition where it stands until this says `continue`, or end the mirror. The gap is "
    "recorded in any case: `sparkmirror gaps`, docs/lost-records.md.",
    "goes on in silence",
)
ON_DATA_LOSS_TOPICS = Key(
    "on.data.loss.topics",
    Scope.FLOW,
    types.LOSS_RULES,
    (),
    "The same for topics by name, as in `payments.*:fail, audit:pause`; the first expression that matches counts.",
    "no such key",
)
ON_SEND_FAILURE = Key(
    "on.send.failure",
    Scope.FLOW,
    types.choice("retry", "fail"),
    "retry",
    "What to do when the target refuses a record for good. `retry` holds that partition alone and tries again; `fail` "
    "ends the mirror, as MirrorMaker 1 does.",
    "fails the task",
)
TOPIC_CREATION = Key(
    "topic.creation",
    Scope.FLOW,
    types.choice("mirror", "broker"),
    "mirror",
    "Who creates remote topics: `mirror` makes them like their source, `broker` leaves it to the target's "
    "`auto.create.topics.enable`, as MirrorMaker 1 does.",
    "no such key",
)
PARTITIONING = Key(
    "partitioning",
    Scope.FLOW,
    types.choice("source", "key"),
    "source",
    "Where records go in a remote topic that has another number of partitions than its source: `source` keeps the "
    "partition number, `key` does as Java's partitioner, by the record's key; that is refused with exactly-once.",
    "no such key",
)
PROGRESS_GROUP = Key(
    "progress.group.id",
    Scope.FLOW,
    types.STRING,
    "",
    "Commit progress on the source as this consumer group, so that lag tools show it, and start from its offsets.",
    "no such key",
)
PROGRESS_GROUP_COMMIT_INTERVAL = Key(
    "progress.group.commit.interval.ms",
    Scope.FLOW,
    types.whole(1, unit="ms"),
    60_000,
    "How often progress is committed to that group.",
    "no such key",
)

KEYS: tuple[Key[Any], ...] = (
    *(value for value in list(globals().values()) if isinstance(value, Key)),
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
