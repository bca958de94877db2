"""The part of the table of keys (`config/keys/table.py`) on how a flow copies: transforms, tasks, rates and losses."""

from typing import Any

from sparkmirror.batch.unpacking import UNPACKED_BYTES_MAX as UNPACKED_BYTES
from sparkmirror.config import types
from sparkmirror.config.keys.key import Key, Scope
from sparkmirror.policy.fillers import FILLERS, MARKERS
from sparkmirror.policy.loss import CONTINUE, LOSS_ACTIONS

_NO_KEY = "no such key"

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
TRANSFORMS_EXPLODE = Key(
    "transforms.explode", Scope.FLOW, _EXPRESSION, "", "An array: one record becomes one for each element.", _NO_KEY
)
TRANSFORMS_TABLE_PATH = Key(
    "transforms.table.<name>.path",
    Scope.FLOW,
    types.STRING,
    "",
    "A file or directory with a table that expressions look up by `lookup_<name>(key)`.",
    _NO_KEY,
)
TRANSFORMS_TABLE_FUNCTION = Key(
    "transforms.table.<name>.function",
    Scope.FLOW,
    types.STRING,
    "",
    "`module:function`, which returns the table, instead of a path.",
    _NO_KEY,
)
TRANSFORMS_TABLE_JDBC_URL = Key(
    "transforms.table.<name>.jdbc.url",
    Scope.FLOW,
    types.STRING,
    "",
    "A database (`jdbc:…`) that has the table, instead of a path; the driver's jar is named by `--conf spark.jars`.",
    _NO_KEY,
)
TRANSFORMS_TABLE_JDBC_TABLE = Key(
    "transforms.table.<name>.jdbc.table", Scope.FLOW, types.STRING, "", "Its table, or view.", _NO_KEY
)
TRANSFORMS_TABLE_JDBC_QUERY = Key(
    "transforms.table.<name>.jdbc.query", Scope.FLOW, types.STRING, "", "A query, instead of a table.", _NO_KEY
)
TRANSFORMS_TABLE_JDBC_USER = Key(
    "transforms.table.<name>.jdbc.user", Scope.FLOW, types.STRING, "", "The name to log in there.", _NO_KEY
)
TRANSFORMS_TABLE_JDBC_PASSWORD = Key(
    "transforms.table.<name>.jdbc.password", Scope.FLOW, types.STRING, "", "The password to log in there.", _NO_KEY
)
TRANSFORMS_TABLE_JDBC_DRIVER = Key(
    "transforms.table.<name>.jdbc.driver",
    Scope.FLOW,
    types.STRING,
    "",
    "The driver's class. Those of PostgreSQL, MySQL, MariaDB, SQL Server, Oracle, Db2 and H2 are known.",
    _NO_KEY,
)
TRANSFORMS_TABLE_JDBC_OPTION = Key(
    "transforms.table.<name>.jdbc.option.<option>",
    Scope.FLOW,
    types.STRING,
    "",
    "A further option of Spark's JDBC source, or of the driver.",
    _NO_KEY,
)
TRANSFORMS_TABLE_FORMAT = Key(
    "transforms.table.<name>.format",
    Scope.FLOW,
    types.choice("parquet", "csv", "json", "arrow"),
    "parquet",
    "The format of its files, if their suffix does not tell.",
    _NO_KEY,
)
TRANSFORMS_TABLE_KEY = Key(
    "transforms.table.<name>.key", Scope.FLOW, types.STEPS, (), "The columns by which its rows are found.", _NO_KEY
)
TRANSFORMS_TABLE_RELOAD = Key(
    "transforms.table.<name>.reload.interval.ms",
    Scope.FLOW,
    types.whole(100),
    60_000,
    "How often to look for a newer version of the table.",
    _NO_KEY,
)
TRANSFORMS_SCHEMAS_URL = Key(
    "transforms.schemas.<side>.url",
    Scope.FLOW,
    types.STRING,
    "",
    "The schema registry of the `source` or `target`, for `with_target_schema(value, subject)`.",
    _NO_KEY,
)
TRANSFORMS_SCHEMAS_USER = Key(
    "transforms.schemas.<side>.user.info", Scope.FLOW, types.STRING, "", "`name:password` to log in there.", _NO_KEY
)
TRANSFORMS_AVRO_SUBJECT = Key(
    "transforms.avro.<name>.subject",
    Scope.FLOW,
    types.STRING,
    "",
    "A subject of the source's registry, for `from_avro_<name>(value)` and `to_avro_<name>(data, subject)`.",
    _NO_KEY,
)
TRANSFORMS_AVRO_VERSION = Key(
    "transforms.avro.<name>.version",
    Scope.FLOW,
    types.STRING,
    "latest",
    "Its version, a number, or the latest when the flow starts.",
    _NO_KEY,
)
TRANSFORMS_FUNCTION = Key(
    "transforms.function", Scope.FLOW, types.STRING, "", "`module:function`, from DataFrame to DataFrame.", _NO_KEY
)
_CONNECT = "runs any Java class; passes the names on from the top level, but not what they stand for"
TRANSFORMS = Key("transforms", Scope.FLOW, types.STEPS, (), "Names of Connect transformations, in order.", _CONNECT)
TRANSFORM = Key(
    "transforms.<name>", Scope.FLOW, types.TEXT, "", "Type and settings of one; see docs/transforms.md.", _CONNECT
)
PREDICATES = Key("predicates", Scope.FLOW, types.STEPS, (), "Names of Connect predicates.", _CONNECT)
PREDICATE = Key(
    "predicates.<name>", Scope.FLOW, types.TEXT, "", "Type and settings of one; see docs/transforms.md.", _CONNECT
)

CLAMP_TIMESTAMPS = Key(
    "timestamps.clamp",
    Scope.FLOW,
    types.BOOLEAN,
    False,
    "Records from further in the future than the target topic allows (`message.timestamp.after.max.ms`) get the latest "
    "time that it does. Otherwise such a record fails its partition, and is tried again until its time has come near.",
    _NO_KEY,
)
EPOCH_SECONDS = Key(
    "epoch.seconds",
    Scope.FLOW,
    types.whole(1, unit="seconds"),
    600,
    "How long one micro-batch of the streaming query lasts; its end holds a flow up for a moment.",
    _NO_KEY,
)
BALANCE_INTERVAL = Key(
    "balance.interval.seconds",
    Scope.FLOW,
    types.whole(0, unit="seconds"),
    30,
    "How often to look whether partitions should change their task, by the bytes that they carry and whether they are "
    "behind, and whether more tasks are needed (docs/processes.md). 0: no partition changes its task, and whether more "
    "tasks are needed is looked at every 30 s.",
    _NO_KEY,
)
LEASE_RING_BYTES = Key(
    "lease.ring.bytes",
    Scope.FLOW,
    types.whole(1 << 20, unit="bytes", also=0),
    32 << 20,
    "Shared memory between a task's reading and writing end: bounds what is in flight. 0 passes all payload by Spark.",
    _NO_KEY,
)
UNPACKED_BYTES_MAX = Key(
    "unpacked.bytes.max",
    Scope.FLOW,
    types.whole(1 << 20, 1 << 30, unit="bytes"),
    UNPACKED_BYTES,
    "How much a task's process holds of decompressed batches at a time, where batches cannot pass as they are; others "
    "wait for their turn. A batch that would take more by itself, or more than an eighth of it and 100 times its own "
    "size, is not decompressed: its partition is FAILED (docs/security.md).",
    _NO_KEY,
)
CONNECTIONS_PER_BROKER = Key(
    "connections.per.broker",
    Scope.FLOW,
    types.whole(1, 64),
    2,
    "Connections of a task to each target broker; a broker serves one request of a connection at a time.",
    _NO_KEY,
)
RATE_LIMIT = Key(
    "rate.limit.bytes.per.second",
    Scope.FLOW,
    types.whole(0, 10**15, unit="bytes"),
    0,
    "Most bytes a second that the flow reads, by all of its tasks together; 0 sets no limit. Batches count as they are "
    "stored, compressed. `sparkmirror throttle` changes it while the mirror runs.",
    _NO_KEY,
)
RATE_LIMIT_TOPICS = Key(
    "rate.limit.topics",
    Scope.FLOW,
    types.RATES,
    (),
    "Limits for topics by name, as in `audit.*:500kB, logs:2MB`: bytes a second for all topics together that match an "
    "expression; the first that matches counts, and the flow's own limit holds beside it.",
    _NO_KEY,
)
CANARY_INTERVAL = Key(
    "canary.interval.seconds",
    Scope.FLOW,
    types.whole(0),
    0,
    "How often to send a probe record through the mirror, which tells true latency and loss (docs/metrics.md): it goes "
    "to the topic `sparkmirror-canary-<target>` of the source, which is then mirrored too. 0: none.",
    _NO_KEY,
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
    _NO_KEY,
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
    _NO_KEY,
)
PARTITIONING = Key(
    "partitioning",
    Scope.FLOW,
    types.choice("source", "key"),
    "source",
    "Where records go in a remote topic that has another number of partitions than its source: `source` keeps the "
    "partition number, `key` does as Java's partitioner, by the record's key.",
    _NO_KEY,
)
PRESERVE_OFFSETS = Key(
    "preserve.offsets.enabled",
    Scope.FLOW,
    types.BOOLEAN,
    False,
    "Each record gets the offset on the target that it has on the source (docs/identical-offsets.md). Refused with "
    "exactly-once, `transforms` and `partitioning = key`.",
    _NO_KEY,
)
PRESERVE_OFFSETS_TOPICS = Key(
    "preserve.offsets.topics",
    Scope.FLOW,
    types.PATTERNS,
    (".*",),
    "With `preserve.offsets.enabled`, the topics of the flow whose offsets are kept; an expression matches whole "
    "names. The others are mirrored at least once.",
    _NO_KEY,
)
PRESERVE_OFFSETS_ADOPT = Key(
    "preserve.offsets.adopt",
    Scope.FLOW,
    types.PATTERNS,
    (),
    "With `preserve.offsets.enabled`, topics of the flow that something else has mirrored with the same offsets, such "
    "as a cluster link: where the target has records, and the flow has written none, both logs are compared by "
    "samples, and the flow goes on at the end. A difference makes the partition FAILED.",
    _NO_KEY,
)
PRESERVE_OFFSETS_START = Key(
    "preserve.offsets.start",
    Scope.FLOW,
    types.KEPT_START,
    "",
    "Where a topic whose offsets are kept begins, in place of `auto.offset.reset`: at its first record, behind its "
    "last one, with `by_duration:P7D` at the first record of the last seven days, or at the first record since "
    "2026-11-20T11:00 (UTC, or with a zone; also in ms since 1970). What lies before stays empty on the target.",
    _NO_KEY,
)
PRESERVE_OFFSETS_FILLER = Key(
    "preserve.offsets.filler",
    Scope.FLOW,
    types.choice(*FILLERS),
    MARKERS,
    "What takes up offsets without a record (compaction, transaction markers, gaps): `markers` are invisible to every "
    "consumer, and some hundred a second fill a partition; `aborted` takes up a million in a second or two, but "
    "read_uncommitted consumers, which Java's are by default, see empty records there. `write-markers` are `markers`, "
    "in large holes many times as fast, for which brokers ask CLUSTER_ACTION on the cluster.",
    _NO_KEY,
)
PROGRESS_GROUP = Key(
    "progress.group.id",
    Scope.FLOW,
    types.STRING,
    "",
    "Commit progress on the source as this consumer group, so that lag tools show it, and start from its offsets.",
    _NO_KEY,
)
PROGRESS_GROUP_COMMIT_INTERVAL = Key(
    "progress.group.commit.interval.ms",
    Scope.FLOW,
    types.whole(1, unit="ms"),
    60_000,
    "How often progress is committed to that group.",
    _NO_KEY,
)

FLOW_KEYS: tuple[Key[Any], ...] = tuple(value for value in list(globals().values()) if isinstance(value, Key))
