"""JSON values of which the reader hands on some members: Spark says of these what it says of the whole.

No broker takes part; the JVM is why this stands here.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.flows import SMALLEST, flow_of

from sparkmirror.batch.header import Codec
from sparkmirror.batch.records import encode_batch
from sparkmirror.pipeline.fetch.record_rows import Decoding
from sparkmirror.pipeline.relay.options import CARRIED_COLUMNS
from sparkmirror.pipeline.relay.schema import RECORD_DDL, RUN, Row
from sparkmirror.spark.record_plan import query_records, transform
from sparkmirror.spark.session import open_flow_sessions

VALUES_MAX = 30
PATHS = ("$.region", "$.region.a", "$.region[0]", "$.region[*].a", "$.id", "$.no", "$.region.*")
NAMES = st.sampled_from(["region", "id", "a", "regions", "", "ä", "region.a"]) | st.text(max_size=3)
ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
JSON = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=5)


@st.composite
def _damaged(draw: st.DrawFn) -> bytes:
    """JSON of which some bytes are others: what one parser takes, another may not."""
    text = json.dumps(draw(OBJECTS), ensure_ascii=draw(st.booleans()))
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        put = draw(st.sampled_from([*b'{}[]",:\\ \n\0-+.e019', 0x80, 0xC3, 0xE2, 0xF0, 0xFF]).map(lambda byte: [byte]))
        data[at : at + draw(st.integers(0, 2))] = bytes(draw(st.sampled_from([put, [], [*b'"region":1,']])))
    return bytes(data)


ANY = st.one_of(
    OBJECTS.map(lambda value: json.dumps(value).encode()),
    OBJECTS.map(lambda value: json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")),
    JSON.map(lambda value: json.dumps(value).encode()),
    _damaged(),
    _damaged(),
    st.binary(max_size=12),
)


def _of_values(values: list[bytes], members: frozenset[str]) -> list[bytes]:
    payload = encode_batch([(None, value) for value in values], Codec.NONE)
    run = Row(RUN, "orders", 1, 0, len(values), bytes=len(payload), payload=payload)
    rows = Decoding(CARRIED_COLUMNS, members=members).records(run, memoryview(payload))
    found: list[bytes] = pa.concat_arrays([batch.column("value") for batch in rows]).drop_null().to_pylist()
    return found


@settings(max_examples=30, deadline=None)
@given(values=st.lists(ANY, min_size=1, max_size=VALUES_MAX))
def test_spark_reads_of_some_members_what_it_reads_of_all(spark: SparkSession, values: list[bytes]) -> None:
    left = _of_values(values, frozenset({"region", "id", "no"}))
    given = spark.createDataFrame(list(zip(values, left, strict=True)), "whole binary, left binary")
    read = [
        F.get_json_object(F.col(name).cast("string"), path).alias(f"{name} {path}")
        for path in PATHS
        for name in ("whole", "left")
    ]
    for value, row in zip(values, given.select(*read).collect(), strict=True):
        assert row[::2] == row[1::2], value


IN_JSON = "get_json_object(cast(value AS string), '$.{}')"


@pytest.mark.parametrize(
    ("lines", "members"),
    [
        (f"transforms.where = {IN_JSON.format('a')} = 'x'", {"a"}),
        (f"transforms.where = {IN_JSON.format('a.b')} = 'x' OR {IN_JSON.format('c[0]')} > 1", {"a", "c"}),
        (f"transforms.where = {IN_JSON.format('a')} = 'x' OR value IS NULL", {"a"}),
        (f"transforms.set.key = {IN_JSON.format('a-1')}\ntransforms.set.topic = {IN_JSON.format('b')}", {"a-1", "b"}),
        (f"transforms.explode = split({IN_JSON.format('a')}, ',')", {"a"}),
        (f"transforms.where = if(offset > 5, {IN_JSON.format('a')}, topic) = 'x'", {"a"}),
        (f"transforms.deadletter.when = {IN_JSON.format('a')} IS NULL\ntransforms.deadletter.topic = dead", {"a"}),
        (f"transforms.where = {IN_JSON.format('a')} = 'x' AND length(value) > 3", set()),
        (f"transforms.where = {IN_JSON.format('a')} = 'x'\ntransforms.set.key = value", set()),
        (f"transforms.where = {IN_JSON.format('a')} = 'x'\ntransforms.set.value = upper(cast(value AS string))", set()),
        (f"transforms.where = {IN_JSON.format('*')} = 'x'", set()),
        (f"transforms.where = {IN_JSON.format('a')} = {IN_JSON.format('')}", set()),
        ("transforms.where = get_json_object(cast(value AS string), '$[0]') = 'x'", set()),
        ("transforms.where = get_json_object(cast(value AS string), cast(key AS string)) = 'x'", set()),
        ("transforms.where = get_json_object(upper(cast(value AS string)), '$.A') = 'x'", set()),
        ("transforms.where = get_json_object(cast(key AS string), '$.a') = 'x' AND value > 'b'", set()),
        ("transforms.where = get_json_object(coalesce(cast(value AS string), '{}'), '$.a') = 'x'", set()),
        (f"transforms.where = length({IN_JSON.format('a')}) > (value IS NULL)::int", {"a"}),
        ("transforms.where = " + " OR ".join(IN_JSON.format(f"a{at}") + " = 'x'" for at in range(17)), set()),
    ],
)
def test_steps_that_read_json_by_paths_get_the_members(spark: SparkSession, lines: str, members: set[str]) -> None:
    made = transform(spark.createDataFrame([], RECORD_DDL), flow_of(lines))
    assert made.members == members


def test_the_source_of_a_flow_knows_the_members(spark: SparkSession, tmp_path: Path) -> None:
    text = f"{SMALLEST}transforms.where = {IN_JSON.format('a')} = {IN_JSON.format('b')}\n"
    flow = flow_of(text)
    (session,) = open_flow_sessions(spark, [flow])
    query: Any = query_records(session, text, flow, "run", str(tmp_path))
    leaf = query._df._jdf.queryExecution().analyzed().collectLeaves().head()
    assert leaf.extraOptions().get("members") == "a,b"


def test_a_lookup_by_a_member_gets_it(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "words.parquet"
    parquet.write_table(pa.table({"id": ["a"], "word": ["A"]}), path)
    table = f"transforms.table.words.path = {path}\ntransforms.table.words.key = id\n"
    whole, of_member = "lookup_words(value).word = 'A'", f"lookup_words({IN_JSON.format('a')}).word = 'A'"
    for condition, members in ((whole, set()), (of_member, {"a"})):
        made = transform(spark.createDataFrame([], RECORD_DDL), flow_of(f"{table}transforms.where = {condition}"))
        assert made.members == members
