"""Transforms in Spark itself: what expressions and functions do to rows, and what is refused in Spark's own words.

No broker takes part; the JVM is why these stand here.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from tests.flows import flow_of
from tests.schema_registry import SchemaRegistry

from sparkmirror.errors import ConfigError
from sparkmirror.pipeline.relay.options import CARRIED_COLUMNS, RETURNED_COLUMNS
from sparkmirror.pipeline.relay.schema import RECORD_DDL, RECORD_SCHEMA, WRITTEN_COLUMNS, record_ddl, record_schema
from sparkmirror.spark.record_plan import transform
from sparkmirror.spark.session import open_flow_sessions

HERE = __name__
LONG_AGO = 1_000_000_000_123


def row(kind: str, **values: Any) -> tuple[Any, ...]:
    usual = {
        "kind": kind,
        "topic": "orders",
        "partition": 1,
    }
    record = {"offset": 5, "timestamp": LONG_AGO, "key": b"k", "value": b"v", "headers": []} if kind == "record" else {}
    given = usual | record | values
    return tuple(given.get(name) for name in RECORD_SCHEMA.names)


def outcome(spark: SparkSession, lines: str, *rows: tuple[Any, ...]) -> list[Any]:
    """The rows that the writer gets, with what it has from elsewhere."""
    given = spark.createDataFrame(list(rows), RECORD_DDL)
    made = transform(given, flow_of(lines))
    found = made.written.collect()
    if made.stages == 1 and "rand()" not in lines and "sample" not in lines:
        assert transform(given, flow_of(lines), is_guarded=False).written.collect() == found
    return [_fill(one, made.returned, rows) for one in found]


def _fill(found: Any, returned: frozenset[str], rows: tuple[tuple[Any, ...], ...]) -> Any:
    """As the writer does, by the record's offset."""
    values = dict.fromkeys(WRITTEN_COLUMNS) | found.asDict()
    for given in (dict(zip(RECORD_SCHEMA.names, one, strict=True)) for one in rows):
        if found.kind in ("record", "dead") and given["offset"] == found.offset:
            home = {"target_topic": f"A.{given['topic']}", "target_partition": given["partition"]}
            from_elsewhere = RETURNED_COLUMNS.difference(returned)
            if values["payload"] == b"":
                from_elsewhere |= CARRIED_COLUMNS
                values["payload"] = None
            values |= {name: (home | given)[name] for name in from_elsewhere}
    return Row(**values)


def kept_offsets(rows: list[Any]) -> list[int]:
    return [row.offset for row in rows if row.kind == "record"]


def clean(records: DataFrame) -> DataFrame:
    big = records.filter("offset > 5").withColumn("key", F.upper(F.col("value").cast("string")))
    return (
        big.where(F.col("key") != "DROP").withColumn("target_topic", F.concat("topic", F.lit("-clean"))).drop("headers")
    )


def lose_offset(records: DataFrame) -> DataFrame:
    return records.drop("offset")


def fake_offset(records: DataFrame) -> DataFrame:
    return records.withColumn("offset", F.col("offset") + 1)


def add_column(records: DataFrame) -> DataFrame:
    return records.withColumn("extra", F.lit(1))


def count_up(records: DataFrame) -> DataFrame:
    return records.groupBy("topic", "partition", "offset").count()


def give_numbers(records: DataFrame) -> DataFrame:
    return records.withColumn("value", F.lit(5))


def misspell(records: DataFrame) -> DataFrame:
    return records.where("offst > 5")


def give_nothing(records: DataFrame) -> None:
    del records


def start_anew(records: DataFrame) -> DataFrame:
    return records.sparkSession.range(3).select(*(F.lit(None).alias(name) for name in records.columns))


def join_tables(records: DataFrame) -> DataFrame:
    names = records.sparkSession.createDataFrame([(b"k", "kay")], "key binary, name string")
    return records.join(F.broadcast(names), "key").withColumn("value", F.col("name"))


def explode_words(records: DataFrame) -> DataFrame:
    return records.withColumn("value", F.explode(F.split(F.col("value").cast("string"), " "))).where("value <> ''")


def number_words(records: DataFrame) -> DataFrame:
    words = F.split(F.nullif(F.col("value").cast("string"), F.lit("")), " ")
    numbered = records.select("*", F.posexplode_outer(words).alias("at", "word"))
    return numbered.withColumns({"key": F.col("at").cast("string"), "value": F.col("word")}).drop("at", "word")


def explode_twice(records: DataFrame) -> DataFrame:
    sides = F.array(
        F.struct(F.lit("l").alias("side"), F.lit(1).alias("n")), F.struct(F.lit("r").alias("side"), F.lit(2).alias("n"))
    )
    both = records.select("*", F.inline(sides)).withColumn("value", F.concat("value", F.lit(" "), "side"))
    return explode_words(both).withColumn("key", F.col("side")).drop("side", "n")


def explode_fields(records: DataFrame) -> DataFrame:
    fields = F.from_json(F.col("value").cast("string"), "map<string, string>")
    made = records.select("*", F.explode(fields).alias("name", "content"))
    return made.withColumns({"key": F.col("name"), "value": F.col("content")}).drop("name", "content")


def explode_by_a_udf(records: DataFrame) -> DataFrame:
    parts = F.udf(lambda value: [] if value is None else [value[:1], value[1:]], "array<binary>", useArrow=False)
    return records.withColumn("value", F.explode(parts("value")))


def stack_up(records: DataFrame) -> DataFrame:
    return records.select("*", F.stack(F.lit(2), F.lit("a"), F.lit("b")).alias("x")).withColumn("value", F.col("x"))


def drop_duplicates(records: DataFrame) -> DataFrame:
    return records.dropDuplicates(["key"])


def take_a_sample(records: DataFrame) -> DataFrame:
    return records.sample(0.1, seed=7)


def repeat_at_random(records: DataFrame) -> DataFrame:
    return records.sample(True, 0.5)


def split_at_random(records: DataFrame) -> DataFrame:
    return records.randomSplit([0.5, 0.5])[0]


NAMES = {b"k": "kay", b"l": "ell"}


def look_up(records: DataFrame) -> DataFrame:
    """A small table, by a UDF that has it and by a map in the plan."""
    broadcast = records.sparkSession.sparkContext.broadcast(NAMES)
    name = F.udf(lambda key: None if key is None else broadcast.value.get(bytes(key)), "string", useArrow=False)
    table = F.create_map(*(F.lit(text) for pair in NAMES.items() for text in (pair[0].decode(), pair[1])))
    return records.withColumns({"value": name("key"), "target_topic": table[F.col("key").cast("string")]})


def give_regions() -> list[dict[str, Any]]:
    return [{"id": "k", "region": "eu", "rate": 7}, {"id": "l", "region": "us", "rate": None}]


REGIONS = f"transforms.table.regions.function = {HERE}:give_regions\ntransforms.table.regions.key = id\n"


def keep_known(records: DataFrame) -> DataFrame:
    region = F.call_function("lookup_regions", F.col("key"))
    return records.where(region.isNotNull()).withColumn("value", region["region"])


def read_json(records: DataFrame) -> DataFrame:
    order = F.from_json(F.col("value").cast("string"), "id bigint, tags array<string>")
    return records.where(order.id > 1).withColumn("key", F.array_join(order.tags, "+"))


def shout(records: DataFrame) -> DataFrame:
    upper = F.udf(lambda value: None if value is None else bytes(value).upper(), "binary", useArrow=False)
    return records.withColumn("value", upper("value"))


def tell_of_orders(records: DataFrame) -> DataFrame:
    """A UDF that stands rubbish no better than `json.loads` does."""
    upper = F.udf(lambda *given: None if None in given else json.dumps(json.loads(bytes(given[0]))), "string")
    tidy = upper("value", "key", "headers", "target_topic")
    return records.where("topic = 'orders'").withColumn("value", tidy)


def test_rows_that_are_no_records_pass_every_step_untouched(spark: SparkSession) -> None:
    lines = "transforms.where = false\ntransforms.set.value = 'x'\ntransforms.set.topic = 'y'\n"
    lines += f"transforms.function = {HERE}:clean\n"
    plain = [row("run", fields="[0, 9, 3]"), row("plan", payload=b"{}"), row("flush", topic=None)]
    found = outcome(spark, lines, row("record"), *plain)
    assert [one.kind for one in found] == ["run", "plan", "flush"]
    assert found[0].fields == "[0, 9, 3]"
    assert found[1].payload == b"{}"
    assert all(one.value is None and one.target_topic is None for one in found)


def test_a_function_does_not_see_to_dead_letters(spark: SparkSession) -> None:
    lines = (
        f"transforms.deadletter.when = true\ntransforms.deadletter.topic = dead\ntransforms.function = {HERE}:clean\n"
    )
    (found,) = outcome(spark, lines, row("record", offset=1))
    assert (found.kind, found.key, found.target_topic) == ("dead", b"k", "dead")


def test_a_record_that_nobody_touches_is_as_it_was(spark: SparkSession) -> None:
    odd = {"timestamp": 1 << 62, "key": None, "value": b"\xff", "headers": [("a", None), ("a", b"")]}
    (found,) = outcome(spark, "transforms.where = true\n", row("record", **odd))
    assert (found.timestamp, found.key, found.value) == (1 << 62, None, b"\xff")
    assert [tuple(header) for header in found.headers] == [("a", None), ("a", b"")]
    assert (found.target_topic, found.target_partition) == ("A.orders", 1)


def test_a_timestamp_that_spark_s_type_does_not_hold_is_null_to_steps(spark: SparkSession) -> None:
    lines = "transforms.where = timestamp IS NULL OR timestamp > timestamp '2001-01-01'\n"
    lines += "transforms.set.key = cast(timestamp AS string)\n"
    times = [-(1 << 63), (1 << 63) - 1, -(1 << 52) - 1]
    found = outcome(spark, lines, *(row("record", offset=at, timestamp=time) for at, time in enumerate(times)))
    assert [(one.key, one.timestamp) for one in found] == [(None, time) for time in times]


def test_the_earliest_timestamp_that_steps_see_is_the_record_s(spark: SparkSession) -> None:
    lines = "transforms.set.timestamp = timestamp + interval 1 hour\n"
    (found,) = outcome(spark, lines, row("record", timestamp=-(1 << 52)))
    assert found.timestamp == -(1 << 52) + 3_600_000


def test_where_is_as_in_sql_null_is_not_true(spark: SparkSession) -> None:
    rows = [row("record", offset=at, value=value) for at, value in enumerate((b"7", b"x", None, b"3"))]
    assert kept_offsets(outcome(spark, "transforms.where = cast(string(value) AS int) > 5\n", *rows)) == [0]


def test_settings_see_the_record_as_it_was(spark: SparkSession) -> None:
    lines = "transforms.set.key = value\ntransforms.set.value = key\n"
    lines += "transforms.set.timestamp = timestamp + interval 1 hour\n"
    (found,) = outcome(spark, lines, row("record"))
    assert (found.key, found.value, found.timestamp) == (b"v", b"k", LONG_AGO + 3_600_000)


def to_far_partition(records: DataFrame) -> DataFrame:
    return records.withColumn("target_partition", F.col("offset"))


@pytest.mark.parametrize("step", ["set.partition = offset", f"function = {HERE}:to_far_partition"])
def test_a_partition_beyond_all_numbers_is_left_to_the_partitioner(spark: SparkSession, step: str) -> None:
    places = [5, (1 << 31) - 1, 1 << 31, (1 << 32) + 1, -(1 << 31) - 1]
    found = outcome(spark, f"transforms.{step}\n", *(row("record", offset=at) for at in places))
    assert [one.target_partition for one in found] == [5, (1 << 31) - 1, None, None, None]


def test_dead_letters_are_marked_and_left_alone_by_later_steps(spark: SparkSession) -> None:
    lines = (
        "transforms.deadletter.when = value = 'bad'\ntransforms.deadletter.topic = dead\ntransforms.set.value = 'x'\n"
    )
    good, bad = outcome(spark, lines, row("record"), row("record", value=b"bad", timestamp=1 << 60))
    assert (good.kind, good.value, good.target_topic) == ("record", b"x", "A.orders")
    assert (bad.kind, bad.value, bad.target_topic, bad.timestamp) == ("dead", b"bad", "dead", 1 << 60)
    assert [tuple(header) for header in bad.headers] == [
        ("__connect.errors.topic", b"orders"),
        ("__connect.errors.partition", b"1"),
        ("__connect.errors.offset", b"5"),
    ]


def test_heartbeats_are_left_alone(spark: SparkSession) -> None:
    found = outcome(spark, "transforms.where = false\n", row("record", topic="heartbeats"))
    assert [one.target_topic for one in found] == ["A.heartbeats"]


HEARTBEAT = {"topic": "heartbeats", "offset": 7, "key": b"\0\x01A", "value": b"\0\0\0\0\1\x7f", "headers": [("h", b"")]}
DEAD = "transforms.deadletter.when = key = 'bad'\ntransforms.deadletter.topic = dead\n"


def test_a_udf_gets_nulls_for_heartbeats_and_dead_letters_which_stay_as_they_are(spark: SparkSession) -> None:
    rows = [
        row("record", value=b"{}"),
        row("record", offset=6, key=b"bad", value=b"rubbish"),
        row("record", **HEARTBEAT),
    ]
    tidy, dead, beat = outcome(spark, f"{DEAD}transforms.function = {HERE}:tell_of_orders\n", *rows, row("run"))[:3]
    assert (tidy.value, tidy.target_topic, dead.value, dead.target_topic) == (b"{}", "A.orders", b"rubbish", "dead")
    assert (beat.key, beat.value, beat.target_topic) == (HEARTBEAT["key"], HEARTBEAT["value"], "A.heartbeats")
    assert [tuple(header) for header in beat.headers] == HEARTBEAT["headers"]


def test_only_schemas_of_records_are_registered_and_of_those_that_an_argument_s_condition_names(
    spark: SparkSession,
) -> None:
    value = b"\0\0\0\0\1\0"
    rows = [
        row("record", value=value), row("record", offset=6, topic="blobs", value=value),
        row("record", **(HEARTBEAT | {"value": value})),
        row("record", offset=8, topic="cards", key=b"bad", value=value),
    ]  # fmt: skip
    with SchemaRegistry(first=1) as ours, SchemaRegistry(first=100) as theirs:
        ours.register("orders-value", {"schema": '{"type": "record", "name": "Order", "fields": []}'})
        lines = f"{DEAD}transforms.schemas.source.url = {ours.url}\ntransforms.schemas.target.url = {theirs.url}\n"
        lines += "transforms.set.value = CASE WHEN topic = 'blobs' THEN value ELSE with_target_schema("
        lines += "CASE WHEN topic <> 'blobs' THEN value END, concat(topic, '-value')) END\n"
        found = outcome(spark, lines, *rows)
        assert [one.value for one in found] == [b"\0\0\0\0\x64\0", value, value, value]
        assert set(theirs.subjects) == {"orders-value"}


def test_connect_s_steps_do_in_order_what_they_do_there(spark: SparkSession) -> None:
    names = "org.apache.kafka.connect.transforms"
    lines = (
        "transforms = route, stamp, drop, quiet\n"
        f"transforms.route.type = {names}.RegexRouter\ntransforms.route.regex = A\\\\.(or)(.*)\n"
        "transforms.route.replacement = eu-$2-$1\n"
        f"transforms.stamp.type = {names}.InsertHeader\ntransforms.stamp.header = h\n"
        "transforms.stamp.value.literal = 1\n"
        f"transforms.drop.type = {names}.DropHeaders\ntransforms.drop.headers = a\n"
        f"transforms.quiet.type = {names}.Filter\ntransforms.quiet.predicate = p\ntransforms.quiet.negate = true\n"
        f"predicates = p\npredicates.p.type = {names}.predicates.TopicNameMatches\npredicates.p.pattern = eu-.*\n"
    )
    (found,) = outcome(spark, lines, row("record", headers=[("a", b"x"), ("b", None)]), row("record", topic="other"))
    assert found.target_topic == "eu-ders-or"
    assert [tuple(header) for header in found.headers] == [("b", None), ("h", b"1")]


def test_a_function_filters_and_changes_records(spark: SparkSession) -> None:
    values = (b"a", b"drop", b"c")
    rows = [row("record", offset=5 + at, value=value, headers=[("a", b"")]) for at, value in enumerate(values)]
    (found,) = outcome(spark, f"transforms.function = {HERE}:clean\n", *rows)
    assert (found.offset, found.key, found.value, found.target_topic) == (7, b"C", b"c", "orders-clean")
    assert [tuple(header) for header in found.headers] == [("a", b"")], "what it leaves out is as it was"


def test_a_function_may_use_python_udfs_which_see_nulls_for_rows_that_are_no_records(spark: SparkSession) -> None:
    found = outcome(spark, f"transforms.function = {HERE}:shout\n", row("record"), row("run"))
    assert [one.value for one in found] == [b"V", None]


def test_json_is_read_by_its_schema(spark: SparkSession) -> None:
    values = (b'{"id": 1}', b'{"id": 2, "tags": ["a", "b"]}', b"rubbish")
    rows = [row("record", offset=5 + at, value=value) for at, value in enumerate(values)]
    (found,) = outcome(spark, f"transforms.function = {HERE}:read_json\n", *rows, row("run"))[:-1]
    assert (found.offset, found.key, found.value) == (6, b"a+b", values[1])


def test_a_small_table_is_looked_up_by_a_udf_and_by_a_map(spark: SparkSession) -> None:
    found = outcome(spark, f"transforms.function = {HERE}:look_up\n", row("record"), row("record", offset=6, key=b"x"))
    assert [(one.value, one.target_topic) for one in found] == [(b"kay", "kay"), (None, None)]


def test_a_table_is_looked_up_in_any_expression(spark: SparkSession) -> None:
    lines = f"{REGIONS}transforms.where = lookup_regions(key).rate IS NOT NULL OR key = 'x'\n"
    lines += "transforms.set.value = concat_ws(' ', lookup_regions(key).region, lookup_regions(key).rate)\n"
    lines += "transforms.set.topic = coalesce(lookup_regions(key).region, target_topic)\n"
    rows = [row("record", offset=at, key=key) for at, key in enumerate((b"k", b"l", b"x", None))]
    found = outcome(spark, lines, *rows, row("run"))
    assert [(one.offset, one.value, one.target_topic) for one in found] == [
        (0, b"eu 7", "eu"), (2, b"", "A.orders"), (None, None, None),
    ]  # fmt: skip


def test_a_function_looks_a_table_up(spark: SparkSession) -> None:
    rows = [row("record", offset=at, key=key) for at, key in enumerate((b"k", b"x", b"l"))]
    found = outcome(spark, f"{REGIONS}transforms.function = {HERE}:keep_known\n", *rows, row("run"))
    assert [(one.offset, one.value) for one in found] == [(0, b"eu"), (2, b"us"), (None, None)]


def test_each_flow_of_a_session_has_its_own_tables(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("name,region\nk,mars\n")
    other = f"transforms.table.regions.path = {tmp_path}/other.csv\ntransforms.table.regions.key = name\n"
    value = "transforms.set.value = lookup_regions(key).region\n"
    assert [outcome(spark, lines + value, row("record"))[0].value for lines in (REGIONS, other, REGIONS)] == [
        b"eu", b"mars", b"eu",
    ]  # fmt: skip


def test_a_flow_does_not_know_the_tables_of_another_one_in_the_same_file(spark: SparkSession) -> None:
    step = "transforms.where = lookup_regions(key).region = 'eu'\n"
    flows = [flow_of(REGIONS + step), flow_of(""), flow_of(step)]
    first, plain, last = open_flow_sessions(spark, flows)
    assert plain is spark and transform(first.createDataFrame([row("record")], RECORD_DDL), flows[0])
    with pytest.raises(ConfigError, match=r"`transforms.where` is refused by Spark: \[UNRESOLVED_ROUTINE\]"):
        transform(last.createDataFrame([row("record")], RECORD_DDL), flows[2])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (f"{REGIONS}transforms.where = lookup_regions(offset / 2) IS NULL", "looks up by double, in lookup_regions"),
        (f"{REGIONS}transforms.where = lookup_regions(key, key) IS NULL", "has 1 columns, and an expression gives 2"),
        (f"{REGIONS}transforms.where = lookup_regions(key).nosuch = 1", r"is refused by Spark: \[FIELD_NOT_FOUND\]"),
        (
            "transforms.table.lost.path = /no/such.parquet\ntransforms.table.lost.key = id\n"
            "transforms.where = lookup_lost(key) IS NULL",
            r"mm2:6: `transforms.table.lost.key` names a key, but the table lost \(/no/such.parquet\) cannot be read",
        ),
    ],
)
def test_a_lookup_that_cannot_be_is_refused(spark: SparkSession, lines: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        transform(spark.createDataFrame([row("record")], RECORD_DDL), flow_of(lines + "\n"))


@pytest.mark.parametrize(
    "line",
    [
        "transforms.where = rand() < 0.1",
        "transforms.where = pmod(xxhash64(offset), 10) = 0",
        f"transforms.function = {HERE}:take_a_sample",
    ],
)
def test_a_sample_loses_no_row_that_is_no_record(spark: SparkSession, line: str) -> None:
    rows = [row("record", offset=at) for at in range(2000)] + [row("run")] * 50
    found = outcome(spark, f"{line}\n", *rows)
    assert len(found) - len(kept_offsets(found)) == 50
    assert 100 < len(kept_offsets(found)) < 350


def exploded(found: list[Any]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(one.offset, one.key, one.value) for one in found if one.kind == "record"]


def test_one_record_becomes_one_for_each_element_of_an_array(spark: SparkSession) -> None:
    values = (b"a b", b"", None, b"c")
    rows = [row("record", offset=at, value=value) for at, value in enumerate(values)]
    lines = "transforms.where = value IS NULL OR value <> 'x'\n"
    lines += "transforms.explode = split(cast(value AS string), ' ')\n"
    lines += "transforms.set.value = concat(col, '!')\ntransforms.set.key = cast(pos AS string)\n"
    plain = [row("run", fields="[0, 9]"), row("plan", payload=b"{}"), row("flush", topic=None)]
    found = outcome(spark, lines, *rows, row("record", value=b"x"), *plain)
    assert exploded(found) == [(0, b"0", b"a!"), (0, b"1", b"b!"), (1, b"0", b"!"), (3, b"0", b"c!")]
    assert [(one.kind, one.key, one.value) for one in found[4:]] == [
        (kind, None, None) for kind in ("run", "plan", "flush")
    ]
    assert {one.timestamp for one in found[:4]} == {LONG_AGO}
    assert found[4].fields == "[0, 9]"


def test_records_that_nobody_sets_come_as_often_as_the_array_has_elements(spark: SparkSession) -> None:
    found = outcome(spark, "transforms.explode = sequence(1, offset)\n", *(row("record", offset=at) for at in (2, 3)))
    assert exploded(found) == [(at, b"k", b"v") for at in (2, 2, 3, 3, 3)]


def test_dead_letters_and_heartbeats_do_not_become_several(spark: SparkSession) -> None:
    lines = "transforms.deadletter.when = value = 'bad'\ntransforms.deadletter.topic = dead\n"
    lines += "transforms.explode = array(1, 2)\n"
    bad, heartbeat = row("record", offset=6, value=b"bad"), row("record", offset=7, topic="heartbeats")
    found = outcome(spark, lines, row("record"), bad, heartbeat)
    assert [(one.kind, one.offset) for one in found] == [("record", 5), ("record", 5), ("dead", 6), ("record", 7)]


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        ("explode_words", [(5, b"k", b"a"), (5, b"k", b"b"), (7, b"k", b"c")]),
        ("number_words", [(5, b"0", b"a"), (5, b"1", b"b"), (6, None, None), (7, b"0", b"c")]),
        (
            "explode_twice",
            [(5, side, word) for side in (b"l", b"r") for word in (b"a", b"b", side)]
            + [(6, side, side) for side in (b"l", b"r")]
            + [(7, side, word) for side in (b"l", b"r") for word in (b"c", side)],
        ),
        ("explode_by_a_udf", [(5, b"k", b"a"), (5, b"k", b" b"), (6, b"k", b""), (6, b"k", b""), (7, b"k", b"c"),
                              (7, b"k", b"")]),
    ],
)  # fmt: skip
def test_a_function_makes_several_records_of_one(spark: SparkSession, function: str, wanted: list[Any]) -> None:
    rows = [row("record", offset=5 + at, value=value) for at, value in enumerate((b"a b", b"", b"c"))]
    found = outcome(spark, f"transforms.function = {HERE}:{function}\n", row("run"), *rows, row("run"), row("plan"))
    assert exploded(found) == wanted
    assert [one.kind for one in found if one.kind != "record"] == ["run", "run", "plan"]
    assert all(one.key is None and one.value is None for one in found if one.kind != "record")


def test_a_function_makes_a_record_of_each_entry_of_a_map(spark: SparkSession) -> None:
    rows = [row("record", offset=at, value=value) for at, value in enumerate((b'{"a": "1", "b": null}', b"{}"))]
    found = outcome(spark, f"transforms.function = {HERE}:explode_fields\n", *rows, row("run"))
    assert (exploded(found), len(found)) == ([(0, b"a", b"1"), (0, b"b", None)], 3)


@pytest.mark.parametrize(
    ("node", "way"),
    [
        ("count_up", "a Spark program of your own.*kafka-records"),
        ("join_tables", "transforms.table.<name>.*lookup_<name>"),
        ("stack_up", "posexplode"),
    ],
)
def test_a_refusal_says_how_it_is_done_instead(spark: SparkSession, node: str, way: str) -> None:
    with pytest.raises(ConfigError) as caught:
        transform(spark.createDataFrame([row("record")], RECORD_DDL), flow_of(f"transforms.function = {HERE}:{node}\n"))
    assert re.search(way, caught.value.hint or "")


def test_avro_s_functions_without_their_jar_say_how_to_bring_it(spark: SparkSession) -> None:
    line = """transforms.set.value = from_avro(value, '"string"')\n"""
    with pytest.raises(ConfigError, match=r"is refused by Spark: \[AVRO_NOT_LOADED") as caught:
        transform(spark.createDataFrame([row("record")], RECORD_DDL), flow_of(line))
    assert re.search(r"spark\.jars\.packages=org\.apache\.spark:spark-avro_2\.13:\d", caught.value.hint or "")


def test_topics_by_the_time_of_a_record_as_java_writes_it(spark: SparkSession) -> None:
    lines = "transforms = t\ntransforms.t.type = org.apache.kafka.connect.transforms.TimestampRouter\n"
    dates = {"yyyyMMdd": "20010909", "yy_MMM-d-H.m.ssSSS": "01_Sep-9-1.46.40123", "MMMM'at'HH": "Septemberat01"}
    for pattern, date in dates.items():
        (found,) = outcome(spark, f"{lines}transforms.t.timestamp.format = {pattern}\n", row("record"))
        assert found.target_topic == f"A.orders-{date}"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "transforms.where = offst > 5\n",
            r"mm2:5: `transforms.where` is refused by Spark: \[UNRESOLVED_COLUMN.WITH_SUGGESTION\] A column.* `offst`",
        ),
        ("transforms.where = offset >\n", r"is refused by Spark: \[PARSE_SYNTAX_ERROR\]"),
        (
            "transforms.set.value = nosuch(value)\n",
            r"`transforms.set.value` is refused by Spark: \[UNRESOLVED_ROUTINE\]",
        ),
        ("transforms.where = offset + 1\n", "gives bigint, where true or false is wanted"),
        ("transforms.set.value = offset\n", "`transforms.set.value` gives bigint, where binary or string is wanted"),
        ("transforms.set.headers = array(1)\n", r"`transforms.set.headers` is refused by Spark: \[DATATYPE_MISMATCH"),
        ("transforms.set.value = string(row_number() over (order by offset))\n", "makes Spark plan `Window`"),
        ("transforms.where = offset > (select 5)\n", "holds a subquery"),
        ("transforms.function = no_such_module:f\n", "cannot be loaded: ModuleNotFoundError"),
        (f"transforms.function = {HERE}:nothing\n", "cannot be loaded: AttributeError"),
        (f"transforms.function = {HERE}:lose_offset\n", "leaves out the column offset"),
        (f"transforms.function = {HERE}:fake_offset\n", "changes the column offset"),
        (f"transforms.function = {HERE}:add_column\n", "adds the column extra"),
        (f"transforms.function = {HERE}:count_up\n", "makes Spark plan `Aggregate`"),
        (f"transforms.function = {HERE}:join_tables\n", "makes Spark plan `Join`"),
        (f"transforms.function = {HERE}:stack_up\n", "makes rows by `stack`"),
        ("transforms.explode = value\n", "`transforms.explode` gives binary, where an array is wanted"),
        ("transforms.explode = explode(array(1))\n", "`transforms.explode` gives int, where an array is wanted"),
        ("transforms.set.value = explode(array('a'))\n", r"is refused by Spark: \[UNSUPPORTED_GENERATOR"),
        (f"transforms.function = {HERE}:repeat_at_random\n", "takes a sample with replacement"),
        (f"transforms.function = {HERE}:split_at_random\n", "makes Spark plan `Sort`"),
        (f"transforms.function = {HERE}:drop_duplicates\n", "makes Spark plan `Deduplicate`"),
        (f"transforms.function = {HERE}:give_numbers\n", "gives int, where binary or string is wanted"),
        (f"transforms.function = {HERE}:misspell\n", r"fails in .*:misspell: \[UNRESOLVED_COLUMN"),
        (f"transforms.function = {HERE}:give_nothing\n", "got NoneType"),
        (f"transforms.function = {HERE}:start_anew\n", "Range|another one"),
    ],
)
def test_what_does_not_work_on_one_record_at_a_time_is_refused(spark: SparkSession, lines: str, message: str) -> None:
    frame = spark.createDataFrame([row("record")], RECORD_DDL)
    with pytest.raises(ConfigError, match=message) as caught:
        transform(frame, flow_of(lines))
    assert caught.value.line == 5


@pytest.mark.parametrize(
    ("lines", "carried", "returned"),
    [
        ("transforms.where = offset >= 0 AND partition < 9 AND topic <> 'x'", "", ""),
        ("transforms.where = timestamp > '2001-01-01'", "timestamp", ""),
        ("transforms.where = key IS NOT NULL", "key", ""),
        ("transforms.where = exists(headers, one -> one.key = 'a')", "headers", ""),
        ("transforms.where = get_json_object(cast(value AS string), '$.id') > 5", "value", ""),
        ("transforms.set.value = regexp_replace(cast(value AS string), '4', '*')", "value", "value"),
        (
            "transforms.set.key = get_json_object(cast(value AS string), '$.id')\n"
            "transforms.set.topic = concat(target_topic, '-x')",
            "key value",
            "key target_topic",
        ),
        ("transforms.set.timestamp = timestamp + interval 1 day", "timestamp", "timestamp"),
        ("transforms.deadletter.when = value IS NULL\ntransforms.deadletter.topic = dead", "headers value",
         "headers target_topic"),
        (f"transforms.function = {HERE}:clean", "key value", "key target_topic"),  # it drops headers
        (f"transforms.function = {HERE}:shout", "value", "value"),
        ("transforms.explode = sequence(1, 3)", "", ""),
        ("transforms.explode = split(value, ',')\ntransforms.set.key = col", "key value", "key"),
        (f"transforms.function = {HERE}:explode_words", "value", "value"),
    ],
)  # fmt: skip
def test_columns_that_no_step_reads_or_sets_do_not_pass(
    spark: SparkSession, lines: str, carried: str, returned: str
) -> None:
    made = transform(spark.createDataFrame([row("record")], RECORD_DDL), flow_of(lines + "\n"))
    assert (made.carried, made.returned) == (set(carried.split()), set(returned.split()))
    assert set(made.written.columns).intersection(RETURNED_COLUMNS) == made.returned
    rows = spark.createDataFrame([row("record")], RECORD_DDL).select(*record_schema(made.carried).names)
    again = transform(rows, flow_of(lines + "\n"))
    assert (again.written.schema, again.written.collect()) == (made.written.schema, made.written.collect())
    assert record_ddl(made.carried) == ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in rows.schema)


def came_back(spark: SparkSession, lines: str, *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """What the writer gets of each record: whether it is as it came, and its columns."""
    made = transform(spark.createDataFrame(list(rows), RECORD_DDL), flow_of(lines))
    found = made.written.collect()
    return [(one.payload is not None, *(one[name] for name in sorted(made.returned))) for one in found]


def test_a_record_that_no_step_changes_says_so_and_has_no_content(spark: SparkSession) -> None:
    """The writer has it from the batch that it came in."""
    rows = [row("record", value=b"card-4", offset=1), row("record", value=b"x", offset=2), row("run")]
    mask = "transforms.set.value = regexp_replace(cast(value AS string), '[0-9]', '*')\n"
    assert came_back(spark, mask, *rows) == [(False, b"card-*"), (True, None), (False, None)]
    odd = [row("record", value=None, key=None), row("record", value=None, topic="heartbeats")]
    assert came_back(spark, mask, *odd) == [(True, None), (True, None)]
    sent = "transforms.set.topic = 'x'\ntransforms.set.key = if(value = 'x', null, key)\n"
    assert came_back(spark, sent, *rows[:2]) == [(True, None, "x"), (False, None, "x")]


def test_dead_letters_alone_bring_headers_back(spark: SparkSession) -> None:
    headers = [("h", b"1"), ("h", None)]
    rows = [row("record", value=value, headers=headers) for value in (b"bad", b"good")]
    bad, good = came_back(spark, "transforms.deadletter.when = value = 'bad'\n"
                                 "transforms.deadletter.topic = dead\n", *rows)  # fmt: skip
    assert (bad[0], len(bad[1]), bad[2]) == (False, 5, "dead")
    assert good == (True, None, "A.orders")


def test_times_and_headers_count_as_changes_to_the_bit(spark: SparkSession) -> None:
    far = 1 << 53
    rows = [row("record", timestamp=LONG_AGO), row("record", timestamp=far), row("record", timestamp=LONG_AGO + 1)]
    later = f"if(unix_millis(timestamp) = {LONG_AGO}, timestamp + interval 1 millisecond, timestamp)"
    found = came_back(spark, f"transforms.set.timestamp = {later}\n", *rows)
    assert found == [(False, LONG_AGO + 1), (False, -1), (True, LONG_AGO + 1)]
    drop = "transforms.set.headers = filter(headers, one -> one.key <> 'secret')\n"
    given = [row("record", headers=headers) for headers in ([("a", b"1")], [("a", None), ("secret", b"2")], [])]
    assert came_back(spark, drop, *given) == [(True, None), (False, [Row(key="a", value=None)]), (True, None)]


def test_where_all_columns_come_back_they_come_with_their_content(spark: SparkSession) -> None:
    """The writer then has no need of batches of which some record changed."""
    lines = "transforms.set.key = key\ntransforms.set.value = trim(cast(value AS string))\n"
    both = came_back(spark, f"{lines}transforms.set.headers = headers\n",
                     row("record", value=b" v"), row("record", value=b"v"))  # fmt: skip
    assert both == [(False, [], b"k", b"v"), (True, [], b"k", b"v")]
