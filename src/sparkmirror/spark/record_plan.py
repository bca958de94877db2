"""A flow with transforms as a Spark query: its steps are columns and filters of the plan. Called by `runtime.run`.

The stream carries rows that are no records (`pipeline.relay.schema`): no step of a user may drop or change them. They
are in the same DataFrame, so each condition and each new column is wrapped: it applies only where `__active` is true.
Steps see the columns of VIEW; the names of all others begin with two underscores. Spark calls a Python UDF for each row
whatever condition stands around it, so what is of a record alone is null to steps in all other rows (`_GUARDED`).
"""

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.source_line import Source
from sparkmirror.config.flow.transforms import CallFunction, DeadLetter, Explode, Keep, SetColumns
from sparkmirror.pipeline.relay.options import CARRIED_COLUMNS, CONTENT_COLUMNS, RETURNED_COLUMNS
from sparkmirror.pipeline.relay.schema import RECORD, RECORD_KINDS, RECORD_SCHEMA, written_columns
from sparkmirror.spark.avro_functions import register_avro_functions
from sparkmirror.spark.dead_letters import WHY, computed, dead_letters, set_apart, why_of
from sparkmirror.spark.flow_plan import decided_name, is_canary, is_heartbeats
from sparkmirror.spark.json_reads import members_read
from sparkmirror.spark.lookup import check_lookups, register_tables
from sparkmirror.spark.marked_values import Parted, parted
from sparkmirror.spark.plan_check import calls_python, check_shape, check_type, column_ids, explain, fit, refuse
from sparkmirror.spark.record_function import apply_function
from sparkmirror.spark.schema_ids import register_schema_functions

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter


VIEW = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "target_topic", "target_partition")
_SEEN = ("topic", "partition", "offset", "key", "value", "headers")
_GUARDED = ("key", "value", "headers", "target_topic")
"""Columns that steps see where `__active` is true, and as null elsewhere. What they are there is in `__own_<name>`, and
comes back in `_finish`."""
_HIDDEN = tuple(name for name in RECORD_SCHEMA.names if name not in _SEEN)
_CONTENT_BYTES = "64m"
_UNCOUNTED = "2147483647"
"""Of the rows that Spark hands to the writer at once. Below this one it adds up the bytes of all columns for each row;
rows without key, value and headers are small."""
_TIMESTAMP_MS_MAX = 1 << 52
"""Beyond it Spark's timestamps, in microseconds, do not reach; the record's own is kept as it is."""


class Transformed(NamedTuple):
    """The writer's rows; `carried` are the columns of a record that the steps read, `returned` those that they set.
    No others of a record are in `written`: the writer has them from the run's batches. `members` are those of JSON
    objects that the steps read of values (`spark.json_reads`). `stages` counts the Python
    processes that a row passes, the writer's included."""

    written: DataFrame
    carried: frozenset[str]
    returned: frozenset[str]
    members: frozenset[str]
    stages: int


def query_records(
    spark: SparkSession, config: str, flow: FlowConfig, run: str, checkpoint: str, process: str = ""
) -> "DataStreamWriter":
    """The flow as a query, ready to be started; `config` is the text of its file, `spark` a record session.

    It is made twice: only Spark's plan of its steps tells which columns they read, and how many Python stages there
    are, and a source must know that when it is loaded.
    """
    options = {"config": config, "flow": str(flow.name), "run": run, "process": process}
    source = spark.readStream.format("flow-records").options(**options)
    made = transform(source.load(), flow)
    told = {"carried": ",".join(sorted(made.carried)), "stages": str(made.stages)}
    told["members"] = ",".join(sorted(made.members))
    made = transform(source.options(**told).load(), flow, is_guarded=made.stages > 1)
    has_content = not made.returned.isdisjoint(CONTENT_COLUMNS)
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", _CONTENT_BYTES if has_content else _UNCOUNTED)
    return (
        made.written.writeStream.format("flow-records")
        .queryName(f"{flow.name}")
        .options(**options, checkpointLocation=checkpoint, returned=",".join(sorted(made.returned)))
    )


def transform(rows: DataFrame, flow: FlowConfig, *, is_guarded: bool = True) -> Transformed:
    """Apply the flow's steps to `rows` (columns of `pipeline.relay.schema`). Steps that call no Python need not be
    guarded, which costs each record.

    Raises ConfigError for a step that Spark cannot carry out record by record, in Spark's words, with key and line.
    """
    register_tables(rows.sparkSession, flow)
    register_schema_functions(rows.sparkSession, flow)
    register_avro_functions(rows.sparkSession, flow)
    frame = begin = _guard(_show(_completed(rows), flow), is_guarded=is_guarded)
    returned: frozenset[str] = frozenset()
    dead = next((step for step in flow.transforms.steps if isinstance(step, DeadLetter)), None)
    for step in flow.transforms.steps:
        match step:
            case Keep():
                frame = _keep(frame, step, dead)
            case DeadLetter():
                frame = begin = _guard(_send_to_dead_letters(frame, step), is_guarded=is_guarded)
                returned |= {"headers", "target_topic"}
            case Explode():
                frame = _explode(frame, step, dead)
            case SetColumns():
                frame = _set_columns(frame, step, dead)
            case CallFunction():
                frame = apply_function(frame, step, VIEW, _GUARDED, dead)
    check_lookups(frame, flow)
    before, after = column_ids(begin), column_ids(frame)
    changed = frozenset(name for name in RETURNED_COLUMNS if after[name] != before[name])
    returned |= changed
    written = _finish(frame, returned, changed)
    carried, members, python_nodes = _needs_of(written, rows)
    return Transformed(written, carried, returned, members, python_nodes + 1)


def _needs_of(written: DataFrame, rows: DataFrame) -> tuple[frozenset[str], frozenset[str], int]:
    """The columns of a record that Spark needs of `rows` for `written`, the members that it reads of values, and how
    many nodes call Python, by its optimized plan.

    The optimizer is called by itself: a query execution gives no optimized plan of a stream that has not begun.
    """
    optimizer = rows.sparkSession._jsparkSession.sessionState().optimizer()
    python_nodes = 0
    ids = {identity: name for name, identity in column_ids(rows).items() if name in CARRIED_COLUMNS}
    found: set[str] = set()
    plan = optimizer.execute(written._jdf.queryExecution().analyzed())
    nodes = [plan]
    while nodes:
        node = nodes.pop()
        python_nodes += calls_python(node)
        children = node.children()
        nodes += [children.apply(at) for at in range(children.size())]
        references = node.references().toSeq()
        for at in range(references.size()):
            found.add(ids.get(str(references.apply(at).exprId().toString()), ""))
    members = members_read(plan, column_ids(rows)["value"]) if "value" in found else frozenset()
    return frozenset(found - {""}), members, python_nodes


def _completed(rows: DataFrame) -> DataFrame:
    """With the columns of a record that are not there, since no step reads them, as nulls."""
    lacking = {name: F.lit(None).cast(kind) for name, kind in RECORD_KINDS.items() if name not in rows.columns}
    return rows.withColumns(lacking) if lacking else rows


def _show(rows: DataFrame, flow: FlowConfig) -> DataFrame:
    """The columns that steps see, and the hidden ones."""
    is_record = F.col("kind") == RECORD
    is_within = F.col("timestamp").between(-_TIMESTAMP_MS_MAX, _TIMESTAMP_MS_MAX)  # `abs` leaves -2^63 as it is
    moment = F.when(is_within, F.timestamp_millis("timestamp"))
    own = {name: F.when(is_record, decided_name(flow)) if name == "target_topic" else F.col(name) for name in _GUARDED}
    return rows.select(
        *(F.col(name).alias(f"__{name}") for name in _HIDDEN),
        (is_record & ~F.coalesce(is_heartbeats(flow), F.lit(False)) & ~is_canary(flow)).alias("__active"),
        *(F.col(name) for name in _SEEN if name not in _GUARDED),
        *(column.alias(f"__own_{name}") for name, column in own.items()),
        moment.alias("timestamp"),
        F.col("partition").alias("target_partition"),
    )


def _guard(frame: DataFrame, *, is_guarded: bool) -> DataFrame:
    """With the columns that steps see only where it is their business; no step has changed them yet."""
    own = {name: F.col(f"__own_{name}") for name in _GUARDED}
    return frame.withColumns({name: F.when(F.col("__active"), one) if is_guarded else one for name, one in own.items()})


def _keep(frame: DataFrame, step: Keep, dead: DeadLetter | None) -> DataFrame:
    """Only records for which the condition is true."""
    with explain(step.source):
        frame, condition = _decide(frame, step.condition, step.source, dead)
        kept = frame.filter(F.when(F.col("__active"), condition).otherwise(True))
    check_shape(kept, step.source)
    return kept


def _decide(frame: DataFrame, text: str, source: Source, dead: DeadLetter | None) -> tuple[DataFrame, Column]:
    """The condition, over the frame that is given with it."""
    kind = frame.select(F.expr(text).alias("x")).schema["x"].dataType.simpleString()
    if kind not in ("boolean", "void"):
        raise refuse(source, f"gives {kind}, where true or false is wanted", "compare it with something")
    found = parted(frame, F.expr(text))
    return computed(frame, "__is", found._replace(value=F.coalesce(found.value.cast("boolean"), F.lit(False))), dead)


def _send_to_dead_letters(frame: DataFrame, step: DeadLetter) -> DataFrame:
    """Records for which the condition is true leave the steps as they came."""
    with explain(step.source):
        frame, condition = _decide(frame, step.condition, step.source, step)
        marked = frame.withColumn("__dead", F.when(F.col("__active"), condition).otherwise(False))
    done = marked.withColumns(dead_letters(F.col("__dead"), step.topic)).drop("__dead")
    check_shape(done, step.source)
    return done


def _explode(frame: DataFrame, step: Explode, dead: DeadLetter | None) -> DataFrame:
    """A row for each element of the array, with its number and itself as `pos` and `col`; one row of what is no
    record."""
    with explain(step.source):
        kind = frame.select(F.expr(step.expression).alias("x")).schema["x"].dataType
        if not isinstance(kind, ArrayType):
            hint = "`split` makes an array of text, `map_entries` of a map, `from_json` of JSON"
            raise refuse(step.source, f"gives {kind.simpleString()}, where an array is wanted", hint)
        frame, array = computed(frame, "__array", parted(frame, F.expr(step.expression)), dead)
        elements = F.when(F.col("__active"), array).otherwise(F.array(F.lit(None)))
        exploded = frame.select("*", F.posexplode(elements).alias("pos", "col"))
    check_shape(exploded, step.source)
    return exploded


def _set_columns(frame: DataFrame, step: SetColumns, dead: DeadLetter | None) -> DataFrame:
    """All expressions of a step see the record as it was before the step."""
    found: dict[str, Parted] = {}
    for setting in step.columns:
        with explain(setting.source):
            kind = frame.select(F.expr(setting.expression).alias("x")).schema["x"].dataType.simpleString()
            check_type(setting.column, kind, setting.source)
            made = parted(frame, F.expr(setting.expression))
            found[setting.column] = made._replace(value=fit(made.value, setting.column, kind))
            check_shape(frame.select(found[setting.column].value), setting.source)
    may_fail = any(one.why is not None for one in found.values())
    why = why_of(*found.values())
    is_done = F.col("__active") & why.isNull() if may_fail else F.col("__active")
    changed = {name: F.when(is_done, one.value) for name, one in found.items()}
    changed |= {name: made.otherwise(F.col(name)) for name, made in changed.items() if name not in _GUARDED}
    columns = [changed[name].alias(name) if name in changed else F.col(name) for name in frame.columns]
    return set_apart(frame.select(*columns, why.alias(WHY)), dead) if may_fail else frame.select(*columns)


def _finish(frame: DataFrame, returned: frozenset[str], changed: frozenset[str]) -> DataFrame:
    """The writer's columns; `changed` are those that steps set of records that are their business. A timestamp that no
    step set is the record's to the bit. Nothing is observed: that would cost each record, and cut the code that Spark
    generates in two."""
    hidden = {name: F.col(f"__{name}") for name in _HIDDEN}
    hidden |= {name: F.when(F.col("__active"), F.col(name)).otherwise(F.col(f"__own_{name}")) for name in _GUARDED}
    if "timestamp" in returned:
        hidden["timestamp"] = _milliseconds()
    if not returned.isdisjoint(CARRIED_COLUMNS):
        frame = frame.withColumn("__same", _is_same(changed))
        hidden["payload"] = F.when(F.col("__same"), F.lit(b"")).otherwise(F.col("__payload"))
        if not returned >= CONTENT_COLUMNS:
            hidden |= {name: F.when(~F.col("__same"), hidden[name]) for name in CONTENT_COLUMNS}
    return frame.select(*(hidden.get(name, F.col(name)).alias(name) for name in written_columns(returned)))


def _milliseconds() -> Column:
    return F.coalesce(F.unix_millis("timestamp"), F.lit(-1))


def _is_same(changed: frozenset[str]) -> Column:
    """Whether the steps have changed nothing of a record but where it goes: most have a condition that few meet, and a
    batch of such records need not be encoded again."""
    pairs = [(F.col(name), F.col(f"__own_{name}")) for name in sorted(CONTENT_COLUMNS & changed)]
    pairs += [(_milliseconds(), F.col("__timestamp"))] if "timestamp" in changed else []
    are_alike = reduce(and_, (made.eqNullSafe(own) for made, own in pairs), F.lit(True))
    return (F.col("__kind") == RECORD) & (~F.col("__active") | are_alike)
