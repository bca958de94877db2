"""The examples of docs/transforms.md do what the page says of them, as they are printed there.

No broker takes part; the JVM is why this stands here.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from tests.brokers.test_record_plan import LONG_AGO, exploded, outcome, row
from tests.schema_registry import SchemaRegistry

from sparkmirror.spark.session import launch_context, open_record_session, open_session

PAGE = (Path(__file__).parents[2] / "docs" / "transforms.md").read_text()
LINES = re.findall(r"```properties\n(.*?)```", PAGE, re.DOTALL)
FUNCTIONS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
FIRST, EXPLODE, TABLE, SCHEMAS, CLEAN, *SAMPLES = LINES
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
    assert (len(LINES), len(FUNCTIONS), len(SAMPLES)) == (8, 3, 3)


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


def test_a_function_cleans(spark: SparkSession) -> None:
    (found,) = found_by(spark, CLEAN.replace("shop:", "page_0:"), *records((b"k", b"v"), (b"k", None)))
    assert (found.offset, found.target_topic) == (0, "orders-clean")


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
