"""Random expressions in a flow's transforms, against a model in Python: SQL's three-valued logic, nulls, strings,
records that become several, and a table that is looked up.

No broker takes part; the JVM is why this stands here.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from pyspark.sql import SparkSession
from tests.brokers.test_record_plan import outcome, row

from sparkmirror.spark.session import launch_context, open_record_session, open_session

ROWS = 12


class Expression(NamedTuple):
    """SQL, and what it gives for a record (offset, key, value)."""

    sql: str
    of: Callable[[Any], Any]


class Record(NamedTuple):
    offset: int
    key: str | None
    value: str | None
    pos: int = -1
    col: str | None = None
    """The element that the record stands for, and its number."""


WORDS = {"": "nothing", "a": "A1", "AB": None, "b%": "p", "aa_": "under"}
"""The table that is looked up; a key may be there without a word."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The lines of a file that has the table."""
    path = tmp_path_factory.mktemp("tables") / "words.parquet"
    parquet.write_table(pa.table({"id": list(WORDS), "word": list(WORDS.values())}), path)
    return f"transforms.table.words.path = {path}\ntransforms.table.words.key = id\n"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    context = launch_context(1, tmp_path_factory.mktemp("spark"))
    try:
        yield open_record_session(open_session(context))
    finally:
        context.stop()


def _known(function: Callable[..., Any]) -> Callable[..., Any]:
    """Null where an argument is null."""
    return lambda *values: None if None in values else function(*values)


def _apply(sql: str, function: Callable[..., Any], *parts: Expression) -> Expression:
    return Expression(
        sql.format(*(part.sql for part in parts)), lambda record: function(*(part.of(record) for part in parts))
    )


def _first_known(left: str | None, right: str | None) -> str | None:
    return right if left is None else left


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


TEXT = st.text("abAB%_ ", max_size=4)
NUMBERS: st.SearchStrategy[Expression] = st.deferred(
    lambda: st.one_of(
        st.just(Expression("offset", lambda record: record.offset)),
        st.integers(-5, 20).map(lambda number: Expression(f"({number}L)", lambda _: number)),
        st.builds(lambda a: _apply("cast(length({0}) AS bigint)", _known(len), a), STRINGS),
        st.builds(lambda a, b: _apply("({0} + {1})", _known(lambda x, y: x + y), a, b), NUMBERS, NUMBERS),
        st.builds(lambda a, b: _apply("({0} - {1})", _known(lambda x, y: x - y), a, b), NUMBERS, NUMBERS),
        st.builds(
            lambda a, b, c: _apply("if({0}, {1}, {2})", lambda x, y, z: y if x else z, a, b, c),
            CONDITIONS, NUMBERS, NUMBERS,
        ),
    )
)  # fmt: skip
STRINGS: st.SearchStrategy[Expression] = st.deferred(
    lambda: st.one_of(
        st.just(Expression("cast(value AS string)", lambda record: record.value)),
        st.just(Expression("cast(key AS string)", lambda record: record.key)),
        TEXT.map(lambda text: Expression(f"'{text}'", lambda _: text)),
        st.builds(lambda a, b: _apply("concat({0}, {1})", _known(lambda x, y: x + y), a, b), STRINGS, STRINGS),
        st.builds(lambda a, b: _apply("coalesce({0}, {1})", _first_known, a, b), STRINGS, STRINGS),
        st.builds(lambda a: _apply("reverse({0})", _known(lambda x: x[::-1]), a), STRINGS),
        st.builds(lambda a: _apply("upper({0})", _known(str.upper), a), STRINGS),
        st.builds(lambda a: _apply("lookup_words({0}).word", _known(WORDS.get), a), STRINGS),
    )
)
CONDITIONS: st.SearchStrategy[Expression] = st.deferred(
    lambda: st.one_of(
        st.builds(lambda a, b: _apply("({0} < {1})", _known(lambda x, y: x < y), a, b), NUMBERS, NUMBERS),
        st.builds(lambda a, b: _apply("({0} = {1})", _known(lambda x, y: x == y), a, b), STRINGS, STRINGS),
        st.builds(lambda a, b: _apply("({0} <=> {1})", lambda x, y: x == y, a, b), STRINGS, STRINGS),
        st.builds(lambda a: _apply("({0} IS NULL)", lambda x: x is None, a), STRINGS),
        st.builds(lambda a, b: _apply("contains({0}, {1})", _known(lambda x, y: y in x), a, b), STRINGS, STRINGS),
        st.builds(lambda a: _apply("(NOT {0})", _known(lambda x: not x), a), CONDITIONS),
        st.builds(lambda a, b: _apply("({0} AND {1})", _and, a, b), CONDITIONS, CONDITIONS),
        st.builds(lambda a, b: _apply("({0} OR {1})", _or, a, b), CONDITIONS, CONDITIONS),
    )
)
ARRAYS: st.SearchStrategy[Expression] = st.deferred(
    lambda: st.one_of(
        st.builds(lambda a: _apply("split({0}, 'a')", _known(lambda x: x.split("a")), a), STRINGS),
        st.builds(lambda a, b: _apply("array({0}, {1})", lambda x, y: [x, y], a, b), STRINGS, STRINGS),
        st.just(Expression("cast(null AS array<string>)", lambda _: None)),
        st.builds(
            lambda a: _apply("filter({0}, x -> x <> '')", _known(lambda x: [one for one in x if one]), a), ARRAYS
        ),
        st.builds(lambda a, b, c: _apply("if({0}, {1}, {2})", lambda x, y, z: y if x else z, a, b, c),
                  CONDITIONS, ARRAYS, ARRAYS),
    )
)  # fmt: skip
ELEMENT = Expression("col", lambda record: record.col)
OF_ELEMENTS = st.one_of(
    st.just(ELEMENT),
    st.just(Expression("cast(pos AS string)", lambda record: str(record.pos))),
    st.builds(lambda a: _apply("coalesce({0}, {1})", _first_known, ELEMENT, a), STRINGS),
    st.just(_apply("lookup_words({0}).word", _known(WORDS.get), ELEMENT)),
    STRINGS,
)
RECORDS = st.lists(st.tuples(st.none() | TEXT, st.none() | TEXT), min_size=ROWS, max_size=ROWS)


@settings(max_examples=25, deadline=None)
@given(content=RECORDS, where=CONDITIONS, key=STRINGS, value=STRINGS)
def test_a_flow_keeps_and_sets_what_the_model_says(
    spark: SparkSession,
    table: str,
    content: list[tuple[str | None, str | None]],
    where: Expression,
    key: Expression,
    value: Expression,
) -> None:
    records = [Record(at, *pair) for at, pair in enumerate(content)]
    lines = table + _lines({"where": where, "set.key": key, "set.value": value})
    rows = [row("record", offset=one.offset, key=_bytes(one.key), value=_bytes(one.value)) for one in records]
    found = outcome(spark, lines, *rows, row("run"))
    wanted = [(one.offset, _bytes(key.of(one)), _bytes(value.of(one))) for one in records if where.of(one)]
    assert [(one.offset, one.key, one.value) for one in found if one.kind == "record"] == wanted
    assert [one.kind for one in found if one.kind != "record"] == ["run"], "what is no record passes"


@settings(max_examples=20, deadline=None)
@given(content=RECORDS, where=CONDITIONS, explode=ARRAYS, key=OF_ELEMENTS, value=OF_ELEMENTS)
def test_a_flow_makes_of_each_record_as_many_as_the_model_says(
    spark: SparkSession,
    table: str,
    content: list[tuple[str | None, str | None]],
    where: Expression,
    explode: Expression,
    key: Expression,
    value: Expression,
) -> None:
    records = [Record(at, *pair) for at, pair in enumerate(content)]
    lines = table + _lines({"where": where, "explode": explode, "set.key": key, "set.value": value})
    rows = [row("record", offset=one.offset, key=_bytes(one.key), value=_bytes(one.value)) for one in records]
    found = outcome(spark, lines, row("run"), *rows, row("run"))
    pieces = [
        one._replace(pos=pos, col=col)
        for one in records
        if where.of(one)
        for pos, col in enumerate(explode.of(one) or ())
    ]
    wanted = [(one.offset, _bytes(key.of(one)), _bytes(value.of(one))) for one in pieces]
    assert [(one.offset, one.key, one.value) for one in found if one.kind == "record"] == wanted
    assert [one.kind for one in found if one.kind != "record"] == ["run", "run"], "what is no record passes once"


def _lines(steps: dict[str, Expression]) -> str:
    return "".join(f"transforms.{step} = {_escaped(one.sql)}\n" for step, one in steps.items())


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _escaped(sql: str) -> str:
    """As a line of a properties file has it."""
    return sql.replace("\\", "\\\\")
