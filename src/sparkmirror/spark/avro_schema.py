"""Avro schemas of a registry, and the types that their data have in Spark. Called by `spark.avro_values`.

Types are those of Spark's own `from_avro`. Source: https://avro.apache.org/docs/1.12.0/specification/ and
https://spark.apache.org/docs/latest/sql-data-sources-avro.html
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

_PLAIN: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Final[Mapping[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_DECIMAL_DIGITS_MAX: Final = 38


class Unfit(Exception):
    """Why a schema has no type of Spark's, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema as its registry has it; `referred` are those that it refers to, each before what refers to it."""

    text: str
    referred: tuple[str, ...] = ()

    def parse(self, *, stored: bool = False) -> Any:
        """As fastavro reads and writes by it; `stored` for data as they are stored, where a time is a number: fastavro
        goes by the writer's logical types, and the reader's count. Raises fastavro's errors for what is no schema."""
        from fastavro import parse_schema

        named: dict[str, Any] = {}
        schemas = [json.loads(text) for text in (*self.referred, self.text)]
        return [parse_schema(_as_stored(one) if stored else one, named) for one in schemas][-1]

    def types(self) -> tuple[pa.DataType, pa.DataType]:
        """The Arrow type of stored data, and that of the Spark column. Raises Unfit."""
        parsed = self.parse()
        kind = _type(parsed, _names_of(parsed), ())
        return kind, _in_microseconds(kind)


def _as_stored(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_as_stored(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = ("logicalType",) if schema.get("logicalType") not in (None, "decimal") else ()
    inner = ("type", "items", "values", "fields")
    return {name: _as_stored(one) if name in inner else one for name, one in schema.items() if name not in left_out}


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if types.is_struct(kind):
        return pa.struct([one.with_type(_in_microseconds(one.type)) for one in kind])
    if types.is_list(kind):
        return pa.list_(_in_microseconds(kind.value_type))
    return pa.map_(kind.key_type, _in_microseconds(kind.item_type)) if types.is_map(kind) else kind


def _names_of(schema: Any) -> dict[str, Any]:
    parts = [one for one in (schema if isinstance(schema, list) else [schema]) if isinstance(one, dict)]
    return {name: one for part in parts for name, one in part.get("__named_schemas", {}).items()}


def _type(schema: Any, names: Mapping[str, Any], inside: Sequence[str]) -> pa.DataType:
    if isinstance(schema, list):
        return _union(schema, names, inside)
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema]
        if schema not in names:
            raise Unfit(f"names {schema}, which it does not define")
        schema = names[schema]
    kind = schema["type"]
    if isinstance(kind, (dict, list)):
        return _type(kind, names, inside)
    if kind in ("record", "error"):
        return _record(schema, names, inside)
    if kind == "array":
        return pa.list_(_type(schema["items"], names, inside))
    if kind == "map":
        return pa.map_(pa.string(), _type(schema["values"], names, inside))
    if schema.get("logicalType") == "decimal" and kind in ("bytes", "fixed"):
        if schema["precision"] > _DECIMAL_DIGITS_MAX:
            raise Unfit(f"has a decimal of {schema['precision']} digits, where Spark has {_DECIMAL_DIGITS_MAX}")
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if kind == "enum":
        return pa.string()
    if kind == "fixed":
        return pa.binary()
    if kind not in _PLAIN:
        return _type(kind, names, inside)
    return _LOGICAL.get((kind, schema.get("logicalType", "")), _PLAIN[kind])


def _record(schema: Any, names: Mapping[str, Any], inside: Sequence[str]) -> pa.DataType:
    name = schema["name"]
    if name in inside:
        raise Unfit(f"is recursive: {name} holds itself, and no type of Spark's does")
    return pa.struct([(one["name"], _type(one["type"], names, (*inside, name))) for one in schema["fields"]])


def _union(branches: Sequence[Any], names: Mapping[str, Any], inside: Sequence[str]) -> pa.DataType:
    known = [_type(one, names, inside) for one in branches if one != "null"]
    if len(known) == 1:
        return known[0]
    if set(known) == {pa.int32(), pa.int64()}:
        return pa.int64()
    if set(known) == {pa.float32(), pa.float64()}:
        return pa.float64()
    if not known:
        return pa.null()
    raise Unfit(f"has a union of {len(known)} types: `from_registry(value)` gives its data as JSON")
