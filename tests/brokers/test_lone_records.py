"""A record that comes alone: the reader pushes it through each Python stage of its flow's plan, which Spark counts."""

from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.flows import flow_between, flow_of

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.publish import publish
from sparkmirror.kafka.settings import client_settings
from sparkmirror.pipeline.fetch import flushes
from sparkmirror.pipeline.fetch.connection import FetchLimits
from sparkmirror.pipeline.fetch.reader import TaskReader
from sparkmirror.pipeline.fetch.reader_options import ReaderOptions
from sparkmirror.pipeline.relay.schema import FLUSH, RECORD_DDL, RUN, TRAIL
from sparkmirror.planning.planner import Planner
from sparkmirror.spark.record_plan import transform
from sparkmirror.testing.kafka import KafkaCluster

HERE = __name__


def python(records: DataFrame) -> DataFrame:
    kept = F.udf(lambda offset: offset is not None and offset > 5, "boolean", useArrow=False)
    return records.where(kept("offset"))


def arrow(records: DataFrame) -> DataFrame:
    same = F.arrow_udf(lambda values: values, "binary")
    return records.withColumn("value", same("value"))


def both(records: DataFrame) -> DataFrame:
    return arrow(python(records))


def twice(records: DataFrame) -> DataFrame:
    """Spark calls both UDFs in one Python process: neither needs what Spark makes of the other's answer."""
    same, other = (F.arrow_udf(lambda values: values, "binary") for _ in range(2))
    return records.withColumn("value", other(same("value")))


@pytest.mark.parametrize(
    ("lines", "stages"),
    [
        ("transforms.where = offset > 5\n", 1),
        (f"transforms.function = {HERE}:python\n", 2),
        (f"transforms.function = {HERE}:arrow\n", 2),
        (f"transforms.function = {HERE}:twice\n", 2),
        (f"transforms.function = {HERE}:both\n", 3),
        ("transforms.where = lookup_prices(key).price > 1\n", 2),
        (f"transforms.function = {HERE}:both\ntransforms.set.value = lookup_prices(key).price\n", 4),
    ],
)
def test_the_plan_says_how_many_python_stages_a_row_passes(
    spark: SparkSession, tmp_path: Path, lines: str, stages: int
) -> None:
    (tmp_path / "prices.csv").write_text("thing,price\ntea,4\n")
    table = f"transforms.table.prices.path = {tmp_path / 'prices.csv'}\ntransforms.table.prices.key = thing\n"
    flow = flow_of((table if "lookup" in lines else "") + lines)
    assert transform(spark.createDataFrame([], RECORD_DDL), flow).stages == stages


@pytest.fixture
def flow(source: Admin, source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> FlowConfig:
    alias, topic = f"A{uuid4().hex[:12]}", f"lone-{uuid4().hex[:12]}"
    source.create_topics([NewTopic(topic, 1, 1)])
    return flow_between(source_cluster, target_cluster, alias, f"topics = {topic}", "tasks.max = 1")


@pytest.mark.parametrize("stages", [1, 3])
def test_a_lone_record_is_followed_by_as_much_padding_as_there_are_stages(
    flow: FlowConfig, stages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushes, "SOON_SECONDS", 0.0)  # the row that opens a task's stream comes just before
    (topic,) = flow.topics.include
    planner = Planner(flow, "run", once=True)
    publish(flow.source, topic, [(b"key", b"lone")])
    with closing(planner):
        planner.ends()
        (plan,) = planner.begin_epoch(1)
    options = ReaderOptions(
        client_settings(flow.source, "test"), FetchLimits(), 0, flow.should_replicate, stages=stages
    )
    with closing(TaskReader(plan, options)) as reader:
        batches = list(reader.batches())
    (found,) = (batch for batch in batches if any(row.kind == RUN for row in batch))
    assert [row.kind for row in found][-1 - stages :] == [FLUSH, *[TRAIL] * stages]
