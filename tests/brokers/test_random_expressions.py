"""Random expressions in a flow's transforms, against a model in Python: SQL's three-valued logic, nulls, strings,
records that become several, a table that is looked up, and Avro of a schema registry.

No broker takes part; the JVM is why this stands here.
"""

import io
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from pyspark.sql import SparkSession
from tests.brokers.test_record_plan import outcome, row
from tests.schema_registry import SchemaRegistry

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


_LENGTH_MAX, _LOOKUPS_MAX = 300, 4

WORDS = {"": "nothing", "a": "A1", "AB": None, "b%": "p", "aa_": "under"}
"""The table that is looked up; a key may be there without a word."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The lines of a file that has the table."""
    path = tmp_path_factory.mktemp("tables") / "words.parquet"
    parquet.write_table(pa.table({"id": list(WORDS), "word": list(WORDS.values())}), path)
    return f"transforms.table.words.path = {path}\ntransforms.table.words.key = id\n"


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


def _modest(expressions: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    """Each look-up is a function that Spark asks Python for: a few dozen of them, one in the other, take minutes."""
    return expressions.filter(lambda one: len(one.sql) <= _LENGTH_MAX and one.sql.count("lookup_") <= _LOOKUPS_MAX)


@settings(max_examples=10, deadline=None)
@given(content=RECORDS, where=_modest(CONDITIONS), key=_modest(STRINGS), value=_modest(STRINGS))
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


@settings(max_examples=8, deadline=None)
@given(
    content=RECORDS,
    where=_modest(CONDITIONS),
    explode=_modest(ARRAYS),
    key=_modest(OF_ELEMENTS),
    value=_modest(OF_ELEMENTS),
)
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


# Avro: the text that expressions read as the value's is a field of a record.

PLAIN_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=4),
    "string": TEXT,
}
RUBBISH = st.sampled_from([b"", b"rubbish", b"\0\0\0\0", b"\0\xff\xff\xff\xff12"])


class Kind(NamedTuple):
    """A type of Avro, and its data."""

    schema: Any
    data: st.SearchStrategy[Any]


KINDS: st.SearchStrategy[Kind] = st.recursive(
    st.sampled_from([Kind(name, data) for name, data in PLAIN_KINDS.items()]),
    lambda inner: st.one_of(
        inner.map(lambda one: Kind({"type": "array", "items": one.schema}, st.lists(one.data, max_size=2))),
        inner.map(lambda one: Kind({"type": "map", "values": one.schema}, st.dictionaries(TEXT, one.data, max_size=2))),
    ),
    max_leaves=3,
)


class Field(NamedTuple):
    """A field of the record; one that `may_lack` has null as default, and older records do not have it."""

    kind: Kind
    may_lack: bool


class Avro(NamedTuple):
    """What records have beside the text `s`, which is in `inner` where that is nested, and their data; `old` of them
    are written by the schema without the fields that may lack."""

    fields: list[Field]
    is_nested: bool
    data: list[tuple[Any, bool]]

    def schema(self, *, old: bool = False) -> dict[str, Any]:
        text = {"name": "s", "type": ["null", "string"], "default": None}
        inner = {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [text]}}
        kept = [(f"f{at}", one) for at, one in enumerate(self.fields) if not (old and one.may_lack)]
        fields = [
            {"name": name, "type": ["null", one.kind.schema], "default": None} if one.may_lack
            else {"name": name, "type": one.kind.schema}
            for name, one in kept
        ]  # fmt: skip
        return {"type": "record", "name": "R", "fields": [inner if self.is_nested else text, *fields]}

    def with_text(self, datum: dict[str, Any], text: str | None) -> dict[str, Any]:
        return datum | ({"inner": {"s": text}} if self.is_nested else {"s": text})

    def text_of(self, datum: Any) -> str | None:
        found = datum["inner"] if isinstance(datum, dict) and self.is_nested else datum
        return found["s"] if isinstance(found, dict) else None


@st.composite
def avro(draw: Callable[..., Any]) -> Avro:
    fields = draw(st.lists(st.builds(Field, KINDS, st.booleans()), max_size=3))
    made = Avro(fields, draw(st.booleans()), [])
    for _ in range(ROWS):
        if draw(st.integers(0, 3)) == 0:
            made.data.append((draw(st.none() | RUBBISH), False))
            continue
        old = draw(st.booleans())
        datum = {
            f"f{at}": None if one.may_lack and (old or draw(st.booleans())) else draw(one.kind.data)
            for at, one in enumerate(fields)
        }
        made.data.append((made.with_text(datum, draw(st.none() | TEXT)), old))
    return made


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as found:
        yield found


SUBJECTS = (f"r{number}-value" for number in itertools.count())


@settings(max_examples=6, deadline=None)
@given(made=avro(), where=_modest(CONDITIONS), key=_modest(STRINGS), text=_modest(STRINGS))
def test_a_flow_reads_and_writes_avro_as_the_model_says(
    spark: SparkSession,
    table: str,
    registry: SchemaRegistry,
    made: Avro,
    where: Expression,
    key: Expression,
    text: Expression,
) -> None:
    subject = next(SUBJECTS)
    written = {old: fastavro.parse_schema(made.schema(old=old)) for old in (True, False)}
    numbers = {old: registry.register(subject, {"schema": json.dumps(made.schema(old=old))}) for old in (True, False)}

    def stored(datum: Any, old: bool) -> bytes | None:
        return datum if not isinstance(datum, dict) else _avro(numbers[old], written[old], datum)

    value = "from_avro_r(value)"
    place = "inner.s" if made.is_nested else "s"
    fields = [f"'f{at}', {value}.f{at}" for at in range(len(made.fields))]
    given_text = f"named_struct('s', {text.sql})" if made.is_nested else text.sql
    struct = ", ".join([f"'{place.partition('.')[0]}', {given_text}", *fields])
    steps = {
        "where": where,
        "set.key": key,
        "set.value": Expression(f"to_avro_r(if({value} IS NULL, NULL, named_struct({struct})), '{subject}-2')", repr),
        "set.topic": Expression(f"coalesce(get_json_object(from_registry(value), '$.{place}'), 'none')", repr),
    }
    named = f"transforms.schemas.source.url = {registry.url}\ntransforms.avro.r.subject = {subject}\n"
    lines = _lines(steps).replace("cast(value AS string)", f"{value}.{place}")
    rows = [row("record", offset=at, key=b"k", value=stored(datum, old)) for at, (datum, old) in enumerate(made.data)]
    found = outcome(spark, table + named + lines, *rows, row("run"))

    records = [(Record(at, "k", made.text_of(datum)), datum) for at, (datum, _) in enumerate(made.data)]
    wanted = [
        (
            one.offset,
            _bytes(key.of(one)),
            "none" if one.value is None else one.value,
            made.with_text(datum, text.of(one)) if isinstance(datum, dict) else None,
        )
        for one, datum in records
        if where.of(one)
    ]
    assert [
        (one.offset, one.key, one.target_topic, _read(numbers[False], written[False], one.value))
        for one in found
        if one.kind == "record"
    ] == wanted
    assert [one.kind for one in found if one.kind != "record"] == ["run"], "what is no record passes"
    is_written = any(datum is not None for *_, datum in wanted)
    assert registry.subjects.get(f"{subject}-2", []) == ([numbers[False]] if is_written else [])


def _avro(number: int, schema: Any, datum: Any) -> bytes:
    content = io.BytesIO()
    fastavro.schemaless_writer(content, schema, datum)
    return b"\0" + number.to_bytes(4, "big") + content.getvalue()


def _read(number: int, schema: Any, value: bytes | None) -> Any:
    """What a consumer makes of it, by the schema that its id names."""
    if value is None:
        return None
    assert value[:5] == b"\0" + number.to_bytes(4, "big")
    return fastavro.schemaless_reader(io.BytesIO(value[5:]), schema)


def _lines(steps: dict[str, Expression]) -> str:
    return "".join(f"transforms.{step} = {_escaped(one.sql)}\n" for step, one in steps.items())


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _escaped(sql: str) -> str:
    """As a line of a properties file has it."""
    return sql.replace("\\", "\\\\")
