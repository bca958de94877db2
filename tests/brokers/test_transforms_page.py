"""The examples of docs/transforms.md do what the page says of them, as they are printed there.

No broker takes part; the JVM is why this stands here.
"""

import io
import json
import os
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from tests.brokers.test_record_plan import LONG_AGO, exploded, outcome, row
from tests.flows import flow_of
from tests.schema_registry import SchemaRegistry, guid_of

from sparkmirror.errors import ConfigError
from sparkmirror.spark.session import launch_context, open_record_session, open_session

PAGE = (Path(__file__).parents[2] / "docs" / "transforms.md").read_text()
LINES = re.findall(r"```properties\n(.*?)```", PAGE, re.DOTALL)
FUNCTIONS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
FIRST, EXPLODE, TABLE, DATABASE, SCHEMAS, HEADER, AVRO, CLEAN, *SAMPLES = LINES
CUSTOMERS = [
    {"id": 17, "region": "eu", "blocked": False},
    {"id": 18, "region": "us", "blocked": True},
    {"id": 19, "region": None, "blocked": None},
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the page's functions and table are; Python finds modules there, also in Spark's workers."""
    found = tmp_path_factory.mktemp("page")
    for number, text in enumerate(FUNCTIONS):
        (found / f"page_{number}.py").write_text(text)
    parquet.write_table(pa.Table.from_pylist(CUSTOMERS), found / "customers.parquet")
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(found), before]))
    sys.path.insert(0, str(found))
    yield found
    sys.path.remove(str(found))
    os.environ.pop("PYTHONPATH")
    if before is not None:
        os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="module")
def spark(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    context = launch_context(1, tmp_path_factory.mktemp("spark"))
    try:
        yield open_record_session(open_session(context))
    finally:
        context.stop()


def records(*pairs: tuple[bytes | None, bytes | None]) -> list[tuple[Any, ...]]:
    return [row("record", offset=at, key=key, value=value) for at, (key, value) in enumerate(pairs)]


def found_by(spark: SparkSession, lines: str, *rows: tuple[Any, ...]) -> list[Any]:
    found = outcome(spark, lines, *rows, row("run"))
    assert found.pop().kind == "run"
    return found


def test_every_example_is_looked_at() -> None:
    assert (len(LINES), len(FUNCTIONS), len(SAMPLES)) == (11, 3, 3)


def test_records_are_dropped_masked_rekeyed_and_set_aside(spark: SparkSession) -> None:
    card = b'{"id": 1, "customer": "c", "card": "4111111111111111"}'
    rows = [row("record", topic="orders", key=b"k", value=value) for value in (card, None, b"rubbish")]
    good, dead = found_by(spark, FIRST, *rows)
    assert (good.key, good.value, good.target_topic) == (b"c", card.replace(b"4111111111111111", b"****"), "A.orders")
    assert (dead.kind, dead.value, dead.target_topic) == ("dead", b"rubbish", "orders-dead")


def test_an_array_of_json_becomes_records(spark: SparkSession) -> None:
    pairs = [(b"k", b'[{"id": 1, "price": 2.5}, {"id": 2, "price": 3.0}]'), (b"k", b"[]"), (b"k", None)]
    found = found_by(spark, EXPLODE, *records(*pairs))
    assert exploded(found) == [(0, b"1", b'{"id":1,"price":2.5}'), (0, b"2", b'{"id":2,"price":3.0}')]
    assert {one.timestamp for one in found} == {LONG_AGO}


def test_customers_are_looked_up(spark: SparkSession, directory: Path) -> None:
    lines = TABLE.replace("/data", str(directory))
    found = found_by(spark, lines, *records(*((key, b"v") for key in (b"17", b"18", b"19", b"20", None))))
    assert [(one.key, one.target_topic) for one in found] == [
        (b"17", "A.orders-eu"), (b"19", "A.orders-unknown"), (b"20", "A.orders-unknown"), (None, "A.orders-unknown"),
    ]  # fmt: skip


def test_a_database_is_named_with_its_table() -> None:
    """`tests/brokers/test_config_check.py` and `tests/scenarios/test_transforms.py` read one."""
    (table,) = flow_of(DATABASE + "transforms.where = lookup_customers(key).id > 0\n").transforms.databases
    assert table.jdbc is not None and (table.name, table.keys) == ("customers", ("id",))
    assert dict(table.jdbc.options).keys() == {"url", "dbtable", "user", "password", "fetchsize", "driver"}


def test_schemas_get_the_ids_that_they_have_on_the_target(spark: SparkSession) -> None:
    with SchemaRegistry() as source, SchemaRegistry(first=100) as target:
        number = source.register("orders-value", {"schema": '"string"'})
        lines = SCHEMAS.replace("http://registry.a:8081", source.url).replace("http://registry.b:8081", target.url)
        known, unknown = (b"\0" + one.to_bytes(4, "big") + b"order" for one in (number, 9))
        rows = [
            row("record", topic="orders", offset=at, value=value) for at, value in enumerate((known, unknown, None))
        ]
        found = found_by(spark, lines, *rows)
        assert [(one.kind, one.value, one.target_topic) for one in found] == [
            ("record", b"\0\0\0\0\x64order", "A.orders"),
            ("dead", unknown, "orders-without-schema"),
            ("record", None, "A.orders"),
        ]
        assert target.subjects == {"A.orders-value": [100]}


def at_registries(lines: str, source: SchemaRegistry, target: SchemaRegistry) -> str:
    return lines.replace("http://registry.a:8081", source.url).replace("http://registry.b:8081", target.url)


def test_a_header_names_the_schema_of_the_target(spark: SparkSession) -> None:
    with SchemaRegistry() as source, SchemaRegistry(first=100) as target:
        schema = {"schema": '"string"'}
        source.register("orders-value", schema)
        headers = [("trace", b"1"), ("__value_schema_id", b"\1" + uuid.UUID(guid_of(schema)).bytes)]
        rows = [row("record", topic="orders", headers=one) for one in (headers, [])]
        found = found_by(spark, at_registries(HEADER, source, target), rows[0])
        assert [[tuple(one) for one in row.headers] for row in found] == [headers]
        assert target.subjects == {"A.orders-value": [100]}
        assert found_by(spark, at_registries(HEADER, source, target), rows[1])[0].headers == []


def order_schema(*names: str) -> dict[str, Any]:
    kinds = {"id": "long", "card": "string", "test": "boolean"}
    return {"type": "record", "name": "Order", "fields": [{"name": one, "type": kinds[one]} for one in names]}


def serialized(registry: SchemaRegistry, schema: dict[str, Any], datum: dict[str, Any]) -> bytes:
    number = registry.register("orders-value", {"schema": json.dumps(schema)})
    content = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
    content.seek(5)
    fastavro.schemaless_writer(content, schema, datum)
    return content.getvalue()


def test_avro_of_several_schemas_is_masked_and_written_with_the_target_s_id(spark: SparkSession) -> None:
    old, new = order_schema("test", "card", "id"), order_schema("id", "card")
    with SchemaRegistry() as source, SchemaRegistry(first=100) as target:
        values = [
            serialized(source, old, {"id": 1, "card": "4111", "test": True}),
            serialized(source, {**old, "fields": old["fields"][1:]}, {"id": 2, "card": "4222"}),
            serialized(source, new, {"id": 3, "card": "4333"}),
            b"rubbish",
            None,
        ]
        rows = [row("record", topic="orders", offset=at, value=value) for at, value in enumerate(values)]
        found = found_by(spark, at_registries(AVRO, source, target), *rows)
        assert target.subjects == {"A.orders-value": [100]}
        assert [(one.kind, one.offset, one.target_topic) for one in found] == [
            ("record", 1, "A.orders"), ("record", 2, "A.orders"), ("dead", 3, "orders-unreadable"),
            ("record", 4, "A.orders"),
        ]  # fmt: skip
        head = b"\0\0\0\0\x64"
        assert [one.value for one in found] == [head + b"\4\x08****", head + b"\6\x08****", b"rubbish", None]


def test_what_does_not_fit_the_schema_is_a_dead_letter_and_only_where_it_would_be_written(spark: SparkSession) -> None:
    with SchemaRegistry() as source, SchemaRegistry(first=100) as target:
        good = serialized(source, order_schema("id", "card"), {"id": 3, "card": "4333"})
        kept = [line for line in AVRO.splitlines() if ".schemas." in line or ".subject" in line]
        kept += [
            "A->B.transforms.deadletter.when = value = 'rubbish'",
            "A->B.transforms.deadletter.topic = dead",
            "A->B.transforms.set.value = "
            "to_avro_order(named_struct('id', from_avro_order(value).id, 'card', '*'), 's')\n",
        ]
        lines = at_registries("\n".join(kept), source, target)
        rows = [row("record", offset=at, value=value) for at, value in enumerate((good, b"rubbish"))]
        assert [one.kind for one in found_by(spark, lines, *rows)] == ["record", "dead"]
        why = "to_avro_order fails for the record of orders-1 at offset 7: its data cannot be written as Avro: "
        (misfit,) = found_by(spark, lines, row("record", offset=7, value=b"other"))
        assert (misfit.kind, misfit.value) == ("dead", b"other")
        assert misfit.headers[-1].key == "__connect.errors.exception.message"
        assert misfit.headers[-1].value.decode().startswith(why)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (None, "transforms.avro.order.subject` names orders-value, but: The schema registry .* has no version latest"),
        ({"schema": "p", "schemaType": "PROTOBUF"}, "names orders-value, whose schema is of type PROTOBUF, not Avro"),
        ({"schema": '["int", "string"]'}, "names orders-value, whose schema has a union of 2 types"),
        ({"schema": '{"type": "nosuch"}'}, "names orders-value, whose schema cannot be read"),
    ],
)
def test_a_subject_that_expressions_cannot_read_by_is_refused(
    spark: SparkSession, schema: dict[str, Any] | None, message: str
) -> None:
    with SchemaRegistry() as source:
        if schema is not None:
            source.register("orders-value", schema)
        with pytest.raises(ConfigError, match=message):
            found_by(spark, at_registries(AVRO, source, source), row("record"))


def test_a_function_cleans(spark: SparkSession) -> None:
    (found,) = found_by(spark, CLEAN.replace("shop:", "page_0:"), *records((b"k", b"v"), (b"k", None)))
    assert (found.offset, found.target_topic) == (0, "orders-clean")


@pytest.mark.filterwarnings("error::UserWarning", "error::RuntimeWarning")
def test_udfs_mask(spark: SparkSession) -> None:
    order = b'{"id": 7, "name": "Ada King", "card": "4111111111111234"}'
    (found,) = found_by(spark, "transforms.function = page_1:mask\n", *records((b"k", order), (b"k", b"rubbish")))
    assert found.value == b'{"id":7,"name":"AK","card":"************1234"}'


def test_a_function_makes_several_and_looks_up(spark: SparkSession, directory: Path) -> None:
    table = "".join(line for line in TABLE.replace("/data", str(directory)).splitlines(True) if ".table." in line)
    found = found_by(spark, f"{table}A->B.transforms.function = page_2:lines\n", *records((b"17", b"a\n\nb")))
    assert [(one.offset, one.value, one.target_topic) for one in found] == [
        (0, b"a", "A.orders-eu"), (0, b"b", "A.orders-eu"),
    ]  # fmt: skip


@pytest.mark.parametrize("line", SAMPLES)
def test_a_sample_keeps_about_a_tenth(spark: SparkSession, line: str) -> None:
    rows = records(*((b"%d" % at, b"v") for at in range(2000)))
    kept, again = ([one.offset for one in found_by(spark, line, *rows)] for _ in range(2))
    assert 100 < len(kept) < 350
    assert kept == again or "rand()" in line
