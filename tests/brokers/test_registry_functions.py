"""Functions of schema registries in Spark's plans: what cannot be done ends a flow only where an expression takes it.

No broker takes part; the JVM is why these stand here.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.brokers.test_record_plan import outcome, row
from tests.schema_registry import SchemaRegistry

ORDER = {"schema": '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'}
VALUE = b"\0\0\0\0\1\2"
"""An order with the id 1."""
MISFIT = "to_avro_order(named_struct('other', 5), 's')"


class Registries(NamedTuple):
    source: SchemaRegistry
    target: SchemaRegistry
    lines: str


@pytest.fixture
def registries() -> Iterator[Registries]:
    with SchemaRegistry(first=1) as source, SchemaRegistry(first=100) as target:
        source.register("orders-value", ORDER)
        lines = f"transforms.schemas.source.url = {source.url}\ntransforms.schemas.target.url = {target.url}\n"
        yield Registries(source, target, f"{lines}transforms.avro.order.subject = orders-value\n")


def write_again(records: DataFrame) -> DataFrame:
    """Its UDFs are also called for what is no order."""
    data = F.when(F.col("topic") == "orders", F.struct(F.lit(5).alias("id")))
    misfit = F.struct(F.lit(5).alias("other"))
    right = F.call_function("to_avro_order", data, F.lit("s"))
    wrong = F.call_function("to_avro_order", misfit, F.lit("s"))
    chosen = F.when(F.col("topic") == "orders", right).when(F.col("topic") == "cards", wrong)
    return records.withColumn("value", F.coalesce(chosen, "value"))


@pytest.mark.parametrize(
    "step",
    [
        f"set.headers = array(struct('x' AS key, {MISFIT} AS value))",
        f"set.value = base64({MISFIT})",
        f"set.key = substring({MISFIT}, 2, 5)",
        f"where = octet_length({MISFIT}) > 3",
        f"deadletter.when = {MISFIT} IS NULL\ntransforms.deadletter.topic = dead",
        f"explode = array({MISFIT})",
    ],
)
def test_data_that_do_not_fit_end_the_flow_wherever_they_are_taken(
    spark: SparkSession, registries: Registries, step: str
) -> None:
    with pytest.raises(Exception, match="to_avro_order fails for the record of orders-1 at offset 5: its data cannot"):
        outcome(spark, f"{registries.lines}transforms.{step}\n", row("record"))


def test_data_that_fit_go_out_whatever_other_branches_give(spark: SparkSession, registries: Registries) -> None:
    lines = registries.lines
    step = f"transforms.set.value = if(topic = 'orders', to_avro_order(named_struct('id', 5), 's'), {MISFIT})\n"
    rows = [row("record"), row("record", topic="heartbeats", offset=6), row("run")]
    assert [one.value for one in outcome(spark, lines + step, *rows)] == [b"\0\0\0\0\x64\n", b"v", None]
    function = f"transforms.function = {__name__}:write_again\n"
    found = outcome(spark, lines + function, *rows, row("record", topic="other", offset=7))
    assert [one.value for one in found] == [b"\0\0\0\0\x64\n", b"v", None, b"v"]
    with pytest.raises(Exception, match="to_avro_order fails for the record of cards-1 at offset 8"):
        outcome(spark, lines + function, row("record", topic="cards", offset=8))


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("value = if(topic = 'blobs', value, with_target_schema(value, 's'))", "with_target_schema"),
        ("headers = if(topic = 'blobs', headers, with_target_schema_header(headers, '__value_schema_id', 's'))",
         "with_target_schema_header"),
        ("value = if(topic = 'blobs', value, to_avro_order(from_avro_order(value), 's'))", "to_avro_order"),
    ],
)  # fmt: skip
def test_a_schema_that_is_refused_ends_the_flow_only_where_its_id_is_taken(
    spark: SparkSession, registries: Registries, step: str, name: str
) -> None:
    registries.target.refuses = True
    given: dict[str, Any] = {"value": VALUE, "headers": [("__value_schema_id", VALUE)]}
    lines = f"{registries.lines}transforms.set.{step}\n"
    (blob,) = outcome(spark, lines, row("record", topic="blobs", **given))
    assert (blob.value, [tuple(one) for one in blob.headers]) == (VALUE, given["headers"])
    with pytest.raises(Exception, match=rf"{name} fails for the record of orders-1 at offset 5: .* with status 409"):
        outcome(spark, lines, row("record", **given))
