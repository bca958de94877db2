"""One flow as a Spark query: its decisions are columns of the DataFrame plan. Called by `runtime.run`."""

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.pipeline.relay.schema import BATCH_BYTES, FLUSH, ROW_SCHEMA, RUN
from sparkmirror.policy.naming import HEARTBEATS_TOPIC, IdentityReplicationPolicy, SameNamePolicy

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

OBSERVATION = "mirror"


def read_runs(spark: SparkSession, config: str, flow: FlowConfig, run: str, process: str = "") -> DataFrame:
    """The flow's source as a stream of runs; `config` is the text of its file."""
    options = {"config": config, "flow": str(flow.name), "run": run, "process": process}
    return spark.readStream.format("kafka-runs").options(**options).load()


def route(runs: DataFrame, flow: FlowConfig) -> DataFrame:
    """Add the target topic of each run, and observe records, bytes and age. Its columns are the writer's contract."""
    age_ms = F.when(F.col("max_timestamp") >= 0, F.col("fetched_at") - F.col("max_timestamp"))
    name = F.when(F.col("kind") == RUN, decided_name(flow))
    padding = F.when(F.col("kind") == FLUSH, F.repeat(F.lit(" "), BATCH_BYTES))
    return (
        runs.withColumn("target_topic", name)
        .observe(
            OBSERVATION,
            F.sum("records").alias("records"),
            F.sum("bytes").alias("bytes"),
            F.max(age_ms).alias("age_ms_max"),
        )
        .select(*ROW_SCHEMA.names, "target_topic", padding.alias("padding"))
    )


def write_runs(
    mirrored: DataFrame, config: str, flow: FlowConfig, run: str, checkpoint: str, process: str = ""
) -> "DataStreamWriter":
    """The writer, ready to be started."""
    return (
        mirrored.writeStream.format("kafka-runs")
        .queryName(f"{flow.name}")
        .options(config=config, flow=str(flow.name), run=run, checkpointLocation=checkpoint, process=process)
    )


def decided_name(flow: FlowConfig) -> Column:
    """The remote topic of a row's topic, by the plan or by the user's classes; null if it is not mirrored."""
    return F.col("proposed_topic") if flow.has_own_classes else F.when(_is_wanted(flow), _remote_name(flow))


def _is_wanted(flow: FlowConfig) -> Column:
    """Include and exclude lists as Java regular expressions, the whole name; heartbeats and the canary beside them."""
    topics = flow.topics
    wanted = (_matches(topics.include) & ~_matches(topics.exclude)) | is_canary(flow)
    return wanted | is_heartbeats(flow) if topics.heartbeats else wanted


def is_canary(flow: FlowConfig) -> Column:
    """Whether a row's topic is that of the flow's probes."""
    return F.col("topic") == flow.canary_topic if flow.canary_interval_seconds else F.lit(False)


def _matches(expressions: tuple[str, ...]) -> Column:
    return F.col("topic").rlike(f"^(?:{'|'.join(expressions)})$") if expressions else F.lit(False)


def _remote_name(flow: FlowConfig) -> Column:
    if isinstance(flow.policy, SameNamePolicy):
        return F.col("topic")
    prefixed = F.concat(F.lit(flow.policy.format_remote_topic(flow.name.source, "")), F.col("topic"))
    if isinstance(flow.policy, IdentityReplicationPolicy):
        looks_like_heartbeats = F.col("topic").endswith(HEARTBEATS_TOPIC)
        prefix = F.lit(f"{flow.name.source}{flow.policy.separator}")
        return F.when(looks_like_heartbeats, F.concat(prefix, F.col("topic"))).otherwise(F.col("topic"))
    return prefixed


def is_heartbeats(flow: FlowConfig) -> Column:
    topic = F.col("topic")
    separator = getattr(flow.policy, "separator", ".")
    if not separator:
        return F.lit(False)  # as the policy has it: no name tells that it was prefixed
    return (topic == HEARTBEATS_TOPIC) | topic.endswith(f"{separator}{HEARTBEATS_TOPIC}")
