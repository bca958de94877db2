"""Avro values are read by the schemas that their ids name, resolved to one schema, and written again."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.manual_clock import ManualClock
from tests.schema_registry import SchemaRegistry

from sparkmirror.config.flow.schema_registries import Registry, SchemaRegistries
from sparkmirror.config.flow.source_line import Source
from sparkmirror.errors import RegistryProblem
from sparkmirror.spark.avro_schema import SchemaText, Unfit
from sparkmirror.spark.avro_values import AvroValues, write
from sparkmirror.spark.marked_values import MISFIT, marked
from sparkmirror.spark.schema_ids import SchemaIds, Subject

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}, {"name": "gone", "type": "string"}]}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}, "default": {}},
    ],
}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as found:
        yield found


def ids_of(registry: SchemaRegistry) -> SchemaIds:
    side = Registry(registry.url)
    return SchemaIds(SchemaRegistries(side, side, Source("transforms.schemas.source.url", 1, "mm2")))


def value(registry: SchemaRegistry, schema: Any, datum: Any, subject: str = "orders-value", **more: Any) -> bytes:
    """As a producer's serializer writes it."""
    number = registry.register(subject, {"schema": json.dumps(schema)} | more)
    content = io.BytesIO()
    fastavro.schemaless_writer(content, schema, datum)
    return b"\0" + number.to_bytes(4, "big") + content.getvalue()


def read(registry: SchemaRegistry, reader: Any, *values: bytes | None) -> list[Any]:
    text = None if reader is None else SchemaText(json.dumps(reader))
    found = AvroValues(ids_of(registry), text).read(pa.array(values, pa.binary()))
    found.validate(full=True)
    return [_with_dicts(one) for one in found.to_pylist()]


def _with_dicts(datum: Any) -> Any:
    """A row of NEW as Python has it."""
    return datum | {"tags": dict(datum["tags"])} if isinstance(datum, dict) and "tags" in datum else datum


def test_values_of_several_schemas_have_the_reader_s(registry: SchemaRegistry) -> None:
    old = value(registry, OLD, {"id": 1, "gone": "x"})
    new = value(registry, NEW, {"id": 1 << 40, "note": "n", "tags": {"a": [1, 2]}})
    assert read(registry, NEW, old, None, new) == [
        {"id": 1, "note": None, "tags": {}}, None, {"id": 1 << 40, "note": "n", "tags": {"a": [1, 2]}},
    ]  # fmt: skip


def test_what_cannot_be_read_is_null_and_said_once(registry: SchemaRegistry, caplog: pytest.LogCaptureFixture) -> None:
    other = value(registry, {"type": "record", "name": "Other", "fields": []}, {}, "others-value")
    cut = value(registry, NEW, {"id": 5, "note": "note", "tags": {}})[:-4]
    unknown = b"\0\0\0\xff\xff12"
    with caplog.at_level(logging.WARNING):
        assert read(registry, NEW, other, other, cut, unknown, b"plain", b"") == [None] * 6
    assert caplog.text.count("is read as null") == 2 and "has no schema 65535" in caplog.text


def test_times_are_those_of_the_reader_s_logical_types(registry: SchemaRegistry) -> None:
    def schema(*kinds: Any) -> dict[str, Any]:
        return times(**{f"f{at}": kind for at, kind in enumerate(kinds)})

    decimal = logical("bytes", "decimal", precision=6, scale=2)
    zoned, local = (logical("long", name) for name in ("timestamp-millis", "local-timestamp-millis"))
    kinds = [zoned, logical("long", "timestamp-micros"), logical("int", "date"), decimal, logical("string", "uuid")]
    kinds += [logical("int", "time-millis"), local]
    plain = ["long", "long", "int", decimal, "string", "int", "long"]
    day, amount = date(2020, 2, 29), Decimal("-12.34")
    stored = [1_500, 1_500_000, (day - date(1970, 1, 1)).days, amount, "u", 7, 1_500]
    wanted = [datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)] * 2 + [day, amount, "u", 7]
    wanted.append(datetime(1970, 1, 1, 0, 0, 1, 500_000))
    datum = {f"f{at}": one for at, one in enumerate(stored)}
    for writer in (schema(*plain), schema(*kinds)):
        (found,) = read(registry, schema(*kinds), value(registry, writer, datum, "times-value"))
        assert list(found.values()) == wanted


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name} | more


def times(**kinds: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    return {"type": "record", "name": "Times", "fields": fields}


def test_a_time_or_a_decimal_beyond_its_type_is_null_for_its_record_alone(
    registry: SchemaRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    amount = logical("bytes", "decimal", precision=4, scale=2)
    schema = times(at=logical("long", "timestamp-millis"), amount=amount)
    stored = [(1_500, b"\1"), (1 << 62, b"\1"), (-(1 << 62), b"\1"), (1_500, b"\x7f\xff"), (2_500, b"\2")]
    values = [value(registry, schema, {"at": at, "amount": of}, "bounds-value") for at, of in stored]
    with caplog.at_level(logging.WARNING):
        found = read(registry, schema, *values)
    second = datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    assert found == [
        {"at": second, "amount": Decimal("0.01")}, None, None, None,
        {"at": second.replace(second=2), "amount": Decimal("0.02")},
    ]  # fmt: skip
    assert caplog.text.count("is read as null") == 1 and "ArrowInvalid" in caplog.text


def test_json_is_what_was_written(registry: SchemaRegistry) -> None:
    new = value(registry, NEW, {"id": 1, "note": None, "tags": {"a": [1]}})
    number = registry.register("j-value", {"schema": "{}", "schemaType": "JSON"})
    other = registry.register("p-value", {"schema": "p", "schemaType": "PROTOBUF"})
    texts = [b"\0" + one.to_bytes(4, "big") + b'{"a": 1}' for one in (number, other)]
    assert read(registry, None, new, *texts, b"x") == [
        '{"id":1,"note":null,"tags":{"a":[1]}}', '{"a": 1}', None, None,
    ]  # fmt: skip


def test_a_schema_may_refer_to_others(registry: SchemaRegistry) -> None:
    money = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}
    registry.register("money", {"schema": json.dumps(money)})
    cart = {"type": "record", "name": "Cart", "fields": [{"name": "sum", "type": "shop.Money"}]}
    references = [{"name": "shop.Money", "subject": "money", "version": 1}]
    number = registry.register("carts-value", {"schema": json.dumps(cart), "references": references})
    text = SchemaText(json.dumps(cart), (json.dumps(money),))
    assert text.types()[1] == pa.struct([("sum", pa.struct([("cents", pa.int64())]))])
    values = pa.array([b"\0" + number.to_bytes(4, "big") + b"\x0e"])
    assert AvroValues(ids_of(registry), text).read(values).to_pylist() == [{"sum": {"cents": 7}}]
    assert AvroValues(ids_of(registry)).read(values).to_pylist() == ['{"sum":{"cents":7}}']


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ({"type": "array", "items": "Tree"}, "is recursive: Tree"),
        (["int", "string"], "has a union of 2 types"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 40}, "a decimal of 40 digits"),
    ],
)
def test_a_schema_without_a_type_of_spark_s_is_unfit(field: Any, why: str) -> None:
    schema = {"type": "record", "name": "Tree", "fields": [{"name": "f", "type": field}]}
    with pytest.raises(Unfit, match=why):
        SchemaText(json.dumps(schema)).types()


def test_an_unreadable_registry_is_no_null(registry: SchemaRegistry) -> None:
    new = value(registry, NEW, {"id": 1, "note": None, "tags": {}})
    registry.broken = 503, ""
    try:
        with pytest.raises(RegistryProblem, match="status 503"):
            read(registry, NEW, new)
    finally:
        registry.broken = None


def test_a_schema_that_cannot_be_read_makes_null_of_its_values_alone(caplog: pytest.LogCaptureFixture) -> None:
    with SchemaRegistry() as own:
        good = value(own, NEW, {"id": 1, "note": None, "tags": {}})
        odd = [own.register("odd-value", {"schema": text}) for text in ('{"type": "recrod", "name": "O"}', "no json")]
        lacking = own.register("cart-value", {"schema": '"Money"', "references": [
            {"name": "Money", "subject": "money-value", "version": 1}]})  # fmt: skip
        clock = ManualClock()
        values = AvroValues(ids_of(own), SchemaText(json.dumps(NEW)), clock)
        bad = [b"\0" + number.to_bytes(4, "big") + b"\2" for number in (*odd, lacking)]
        for _ in range(2):
            found = values.read(pa.array([*bad, good], pa.binary())).to_pylist()
            assert found[:3] == [None] * 3 and found[3]["id"] == 1
        assert len(own.asked) == 5, "each schema once, and what one refers to"
        assert caplog.text.count("is read as null: its schema cannot be read") == 2
        assert caplog.text.count("has no version 1 of money-value") == 1
        money = {"type": "record", "name": "Money", "fields": [{"name": "id", "type": "long"}]}
        own.register("money-value", {"schema": json.dumps(money)})
        clock.now += 31
        values.read(pa.array([bad[2]], pa.binary()))
        assert own.asked[-1] == "GET /subjects/money-value/versions/1", "it may be there by now"


def test_data_that_do_not_fit_are_not_written() -> None:
    schema = SchemaText(json.dumps(NEW)).parse()
    data = pa.array([{"id": 1, "note": "x", "tags": None}, None], SchemaText(json.dumps(NEW)).types()[1])
    asked: list[str] = []

    def head_of(subject: Subject) -> bytes:
        asked.append(str(subject))
        return b"head"

    misfit, none = write(schema, data, ["s", None], head_of)
    assert none is None and misfit is not None and misfit.startswith(MISFIT) and b"tags" in misfit
    fitting = pa.array([{"id": 1, "note": "x", "tags": {}}], SchemaText(json.dumps(NEW)).types()[1])
    assert write(schema, fitting, [None], head_of) == [marked("its subject is null")]
    assert not asked, "nothing is registered for what is not written"


def test_a_time_that_python_does_not_hold_is_no_reason_not_to_write_the_others() -> None:
    schema = times(at=["null", logical("long", "timestamp-millis")])
    data = pa.array([{"at": 0}, {"at": 1 << 60}, {"at": None}, None], SchemaText(json.dumps(schema)).types()[1])
    first, misfit, third, none = write(SchemaText(json.dumps(schema)).parse(), data, ["s"] * 4, lambda _: b"head")
    assert (first, third, none) == (b"head\2\0", b"head\0", None)
    assert misfit is not None and misfit.startswith(MISFIT) and b"OverflowError" in misfit


LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
INTS = st.integers(-(1 << 31), (1 << 31) - 1)
LOGICAL: dict[str, tuple[dict[str, Any], st.SearchStrategy[Any], Callable[[Any], bool]]] = {
    "millis": (logical("long", "timestamp-millis"), LONGS, lambda one: abs(one * 1000) < 1 << 63),
    "local": (logical("long", "local-timestamp-millis"), LONGS, lambda one: abs(one * 1000) < 1 << 63),
    "micros": (logical("long", "timestamp-micros"), LONGS, lambda _: True),
    "day": (logical("int", "date"), INTS, lambda _: True),
    "amount": (
        logical("bytes", "decimal", precision=4, scale=2),
        st.integers(-(1 << 15), (1 << 15) - 1).map(lambda one: one.to_bytes(2, "big", signed=True)),
        lambda one: abs(int.from_bytes(one, "big", signed=True)) < 10_000,
    ),
}
"""A schema, what is stored by it, and whether Spark's type holds that."""


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(sorted(LOGICAL)), rows=st.data())
def test_each_value_of_a_logical_type_is_read_as_it_is_or_as_null(
    registry: SchemaRegistry, kind: str, rows: st.DataObject
) -> None:
    schema, stored, is_held = LOGICAL[kind]
    near = stored if kind == "amount" else st.one_of(stored, st.integers(-(1 << 31), (1 << 31) - 1))
    given_rows = rows.draw(st.lists(near, max_size=5))
    values = [value(registry, times(f=schema), {"f": one}, f"{kind}-value") for one in given_rows]
    text = SchemaText(json.dumps(times(f=schema)))
    found = AvroValues(ids_of(registry), text).read(pa.array(values, pa.binary()))
    assert found.is_valid().to_pylist() == [is_held(one) for one in given_rows]
    for before, after in zip(values, write(text.parse(), found, ["s"] * len(values), lambda _: b"head"), strict=True):
        if after is not None and not after.startswith(MISFIT) and kind != "amount":  # which has several forms
            assert after[4:] == before[5:]


DATA = st.fixed_dictionaries(
    {
        "id": st.integers(-(1 << 63), (1 << 63) - 1),
        "note": st.none() | st.text(max_size=5),
        "tags": st.dictionaries(st.text(max_size=3), st.lists(st.integers(-(1 << 31), (1 << 31) - 1)), max_size=3),
    }
)


@settings(max_examples=60, deadline=None)
@given(data=st.lists(st.none() | DATA, max_size=6))
def test_what_is_read_and_written_again_is_the_same(registry: SchemaRegistry, data: list[Any]) -> None:
    values = [None if datum is None else value(registry, NEW, datum) for datum in data]
    text = SchemaText(json.dumps(NEW))
    found = AvroValues(ids_of(registry), text).read(pa.array(values, pa.binary()))
    assert [_with_dicts(one) for one in found.to_pylist()] == data
    head = next((one[:5] for one in values if one is not None), b"")
    assert write(text.parse(), found, ["s"] * len(data), lambda _: head) == values
