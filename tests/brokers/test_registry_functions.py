"""Functions of schema registries in Spark's plans: what cannot be done for a record sets apart that record, and only
where an expression takes it.

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
DEAD = "transforms.deadletter.when = false\ntransforms.deadletter.topic = dead\n"
WHY = "to_avro_order fails for the record of orders-1 at offset 5: its data cannot be written as Avro: "


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


def reason_of(found: Any) -> str:
    """Why the writer is to fail the partition of a record."""
    assert found.kind == "misfit"
    return bytes(found.payload).decode()


def write_again(records: DataFrame) -> DataFrame:
    """Its UDFs are also called for what is no order."""
    data = F.when(F.col("topic") == "orders", F.struct(F.lit(5).alias("id")))
    misfit = F.struct(F.lit(5).alias("other"))
    right = F.call_function("to_avro_order", data, F.lit("s"))
    wrong = F.call_function("to_avro_order", misfit, F.lit("s"))
    chosen = F.when(F.col("topic") == "orders", right).when(F.col("topic") == "cards", wrong)
    return records.withColumn("value", F.coalesce(chosen, "value"))


def filter_by_size(records: DataFrame) -> DataFrame:
    """What it makes of the record at offset 5 cannot be done; a later filter would drop it."""
    misfit = F.when(F.col("offset") == 5, F.call_function("to_avro_order", F.struct(F.lit(5).alias("no")), F.lit("s")))
    sized = records.where(F.coalesce(F.octet_length(misfit), F.lit(9)) > 3)
    return sized.where("offset > 5").withColumn("value", F.lit("done"))


def explode_misfits(records: DataFrame) -> DataFrame:
    misfit = F.call_function("to_avro_order", F.struct(F.lit(5).alias("no")), F.lit("s"))
    made = F.when(F.col("offset") == 5, F.array(misfit)).otherwise(F.array(F.lit(b"a"), F.lit(b"b")))
    return records.withColumn("value", F.explode(made)).where("value <> 'a'")


STEPS = [
    f"set.headers = if(offset = 5, array(struct('x' AS key, {MISFIT} AS value)), headers)",
    f"set.value = if(offset = 5, base64({MISFIT}), 'done')",
    f"set.key = coalesce(if(offset = 5, substring({MISFIT}, 2, 5), null), key)",
    f"where = CASE WHEN offset = 5 THEN octet_length({MISFIT}) > 30 ELSE true END",
    f"where = offset = 6 OR {MISFIT} IS NULL",
    f"where = NOT (offset = 5 AND {MISFIT} IS NOT NULL)",
    f"explode = if(offset = 5, array({MISFIT}), array(value))",
    f"function = {__name__}:filter_by_size",
    f"function = {__name__}:explode_misfits",
]


@pytest.mark.parametrize("step", STEPS)
def test_a_record_whose_data_do_not_fit_is_set_apart_wherever_they_are_taken_and_all_others_go_on(
    spark: SparkSession, registries: Registries, step: str
) -> None:
    rows = [row("record"), row("run"), row("record", offset=6), row("run")]
    lines = f"{registries.lines}transforms.{step}\n"
    misfit, *others = outcome(spark, lines, *rows)
    assert reason_of(misfit).startswith(WHY)
    assert [(one.kind, one.offset) for one in others] == [("run", None), ("record", 6), ("run", None)]
    dead, *others = outcome(spark, lines + DEAD, *rows)
    headers = {str(one.key): bytes(one.value).decode() for one in dead.headers}
    assert (dead.kind, dead.key, dead.value, dead.target_topic) == ("dead", b"k", b"v", "dead")
    reason = headers.pop("__connect.errors.exception.message")
    assert reason.startswith(WHY)
    assert headers == {f"__connect.errors.{name}": said for name, said in
                       (("topic", "orders"), ("partition", "1"), ("offset", "5"))}  # fmt: skip
    assert [(one.kind, one.offset) for one in others] == [("run", None), ("record", 6), ("run", None)]


def test_a_dead_letter_step_that_cannot_be_done_has_a_dead_letter(spark: SparkSession, registries: Registries) -> None:
    step = f"transforms.deadletter.when = offset = 6 OR {MISFIT} IS NULL\ntransforms.deadletter.topic = dead\n"
    misfit, asked = outcome(spark, registries.lines + step, row("record"), row("record", offset=6))
    assert [(one.kind, len(one.headers)) for one in (misfit, asked)] == [("dead", 4), ("dead", 3)]


def test_of_a_record_that_became_several_each_misfit_is_a_dead_letter(
    spark: SparkSession, registries: Registries
) -> None:
    lines = f"{registries.lines}{DEAD}transforms.explode = array(1, 2, 3)\n"
    step = f"transforms.set.value = if(pos = 1, cast('two' AS binary), {MISFIT})\n"
    found = outcome(spark, lines + step, row("record"))
    assert [(one.kind, one.value, one.target_topic) for one in found] == [
        ("dead", b"v", "dead"), ("record", b"two", "A.orders"), ("dead", b"v", "dead"),
    ]  # fmt: skip


def test_data_that_fit_go_out_whatever_other_branches_give(spark: SparkSession, registries: Registries) -> None:
    lines = registries.lines
    step = f"transforms.set.value = if(topic = 'orders', to_avro_order(named_struct('id', 5), 's'), {MISFIT})\n"
    rows = [row("record"), row("record", topic="heartbeats", offset=6), row("run")]
    assert [one.value for one in outcome(spark, lines + step, *rows)] == [b"\0\0\0\0\x64\n", b"v", None]
    function = f"transforms.function = {__name__}:write_again\n"
    found = outcome(spark, lines + function, *rows, row("record", topic="other", offset=7))
    assert [one.value for one in found] == [b"\0\0\0\0\x64\n", b"v", None, b"v"]
    (card,) = outcome(spark, lines + function, row("record", topic="cards", offset=8))
    assert reason_of(card).startswith("to_avro_order fails for the record of cards-1 at offset 8: ")


CALLS = [
    ("value = if(topic = 'blobs', value, with_target_schema(value, {subject}))", "with_target_schema"),
    ("headers = if(topic = 'blobs', headers, with_target_schema_header(headers, '__value_schema_id', {subject}))",
     "with_target_schema_header"),
    ("value = if(topic = 'blobs', value, to_avro_order(from_avro_order(value), {subject}))", "to_avro_order"),
]  # fmt: skip
GIVEN: dict[str, Any] = {"value": VALUE, "headers": [("__value_schema_id", VALUE)]}


@pytest.mark.parametrize(("step", "name"), CALLS)
@pytest.mark.parametrize(
    ("subject", "status", "said"),
    [("'bad'", 409, "with status 409"), ("'bad'", 422, "with status 422"), ("cast(X'62FF' AS string)", 0, "no text")],
)
def test_one_subject_that_cannot_be_sets_apart_its_records_alone(
    spark: SparkSession, registries: Registries, step: str, name: str, subject: str, status: int, said: str
) -> None:
    registries.target.refused = {"bad": status} if status else {}
    chosen = f"if(offset = 5, {subject}, 'good')"
    lines = f"{registries.lines}transforms.set.{step.format(subject=chosen)}\n"
    (blob,) = outcome(spark, lines, row("record", topic="blobs", **GIVEN))
    assert (blob.value, [tuple(one) for one in blob.headers]) == (VALUE, GIVEN["headers"])
    rows = [row("record", **GIVEN), row("record", offset=6, **GIVEN)]
    misfit, fitting = outcome(spark, lines, *rows)
    reason = reason_of(misfit)
    assert reason.startswith(f"{name} fails for the record of orders-1 at offset 5: ") and said in reason
    carried = VALUE[:4] + b"\x64" + VALUE[5:]
    assert carried in (fitting.value, fitting.headers[0][1])
    dead, fitting = outcome(spark, lines + DEAD, *rows)
    assert (dead.kind, dead.value, dead.headers[-1].value.decode()) == ("dead", VALUE, reason)
    assert carried in (fitting.value, fitting.headers[0][1])


@pytest.mark.parametrize("status", [400, 403, 413])
def test_a_subject_that_needs_a_right_fails_its_partition_also_where_there_are_dead_letters(
    spark: SparkSession, registries: Registries, status: int
) -> None:
    registries.target.refused = {"bad": status}
    lines = f"{registries.lines}{DEAD}transforms.set.value = with_target_schema(value, 'bad')\n"
    (misfit,) = outcome(spark, lines, row("record", **GIVEN))
    assert f"with status {status}" in reason_of(misfit)
