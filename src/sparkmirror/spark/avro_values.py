"""Avro in the wire format of a schema registry, as columns: each value is read by the schema that its id names, and
resolved to one reader's schema. Called by `spark.avro_functions`, in Python workers.
"""

import io
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import RegistryProblem
from sparkmirror.spark.avro_schema import SchemaText
from sparkmirror.spark.marked_values import marked
from sparkmirror.spark.registry_client import RegistryRefusal, Schema, SchemaLacking
from sparkmirror.spark.schema_ids import HEAD_BYTES, SchemaIds, Subject, mark_of, number_of

_AVRO: Final = "AVRO"
_TO_JSON: Final = msgspec.json.Encoder(decimal_format="number")
_ASK_AGAIN_SECONDS: Final = 30.0
"""After which it is asked again for what the source's registry lacked of a schema."""

Turn = Callable[[Any], Any]

log = logging.getLogger(__name__)


class AvroValues:
    """What this worker knows of the schemas of values; `reader` is the schema to which data are resolved, None where
    they become JSON as they were written."""

    def __init__(self, ids: SchemaIds, reader: SchemaText | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._ids = ids
        self._reader = reader.parse(stored=True) if reader is not None else None
        self._stored, self._kind = (pa.string(), pa.string()) if reader is None else reader.types()
        self._turn = turn_of(self._stored, _pairs) or _same
        self._writers: dict[int, Callable[[bytes], Any] | None] = {}
        self._lacking: dict[int, float] = {}
        self._said: set[tuple[int, str]] = set()

    def read(self, values: pa.Array) -> pa.Array:
        """Data of the reader's schema, or the text of JSON without one; null for what is no such value, or cannot be
        resolved."""
        written = values.cast(pa.binary()).to_pylist()
        found = [self._datum(value) for value in written]
        try:
            return self._column(found)
        except Exception:  # Arrow's, for one datum that its type does not hold
            return self._column([self._fitting(*pair) for pair in zip(written, found, strict=True)])

    def _column(self, found: Sequence[Any]) -> pa.Array:
        return pa.array(found, self._stored).cast(self._kind)

    def _fitting(self, value: bytes | None, datum: Any) -> Any:
        """The datum, or null for one that the column's type does not hold: a time, or a decimal of too many digits."""
        try:
            self._column([datum])
        except Exception as problem:
            self._say(number_of(value or b"") or 0, f"{type(problem).__name__}: {problem}")
            return None
        return datum

    def _datum(self, value: bytes | None) -> Any:
        number = None if value is None else number_of(value)
        if value is None or number is None:
            return None
        decode = self._writers[number] if number in self._writers else self._look_up(number)
        if decode is None:
            return None
        try:
            return decode(value[HEAD_BYTES:])
        except RegistryProblem:
            raise
        except Exception as problem:  # fastavro raises what its reader meets
            self._say(number, f"{type(problem).__name__}: {problem}")
            return None

    def _look_up(self, number: int) -> Callable[[bytes], Any] | None:
        """What decodes values of the schema; None where nothing does, also for one that may be known later."""
        if self._lacking.get(number, 0.0) > self._clock.monotonic():
            return None
        schema = self._ids.schema_of(number)
        if schema is None:
            return None
        decode = None
        try:
            decode = self._decoder(number, schema)
        except SchemaLacking as problem:
            self._say(number, f"{type(problem).__name__}: {problem.args[0]}")
            self._lacking[number] = self._clock.monotonic() + _ASK_AGAIN_SECONDS
            return None
        except RegistryProblem:
            raise
        except Exception as problem:  # fastavro's, or that of JSON, for what is no schema
            self._say(number, f"its schema cannot be read, {type(problem).__name__}: {problem}")
        self._writers[number] = decode
        return decode

    def _decoder(self, number: int, schema: Schema) -> Callable[[bytes], Any] | None:
        kind = schema.get("schemaType", _AVRO)
        if self._reader is None and kind == "JSON":
            return lambda content: content.decode()
        if kind != _AVRO:
            self._say(number, f"its schema is of type {kind}")
            return None
        from fastavro import schemaless_reader

        writer = self._ids.text_of(schema).parse(stored=self._reader is not None)
        if self._reader is None:
            return lambda content: _TO_JSON.encode(schemaless_reader(io.BytesIO(content), writer)).decode()
        reader, turn = self._reader, self._turn
        return lambda content: turn(schemaless_reader(io.BytesIO(content), writer, reader))

    def _say(self, number: int, reason: str) -> None:
        """Once for each schema and kind of reason: a value is not a reason to fill a log."""
        what = number, reason.partition(":")[0]
        if what not in self._said:
            self._said.add(what)
            log.warning("a value of schema %d is read as null: %s.", number, reason, extra={"event": "avro-not-read"})


def turn_of(kind: pa.DataType, of_map: Callable[[Any, Turn], Any]) -> Turn | None:
    """What makes another value of a datum of Arrow's `kind`: of its maps, by `of_map`. None where it has no map."""
    types = pa.types
    if types.is_struct(kind):
        parts = [(one.name, turn) for one in kind if (turn := turn_of(one.type, of_map)) is not None]
        if not parts:
            return None
        return lambda datum: None if datum is None else datum | {name: turn(datum[name]) for name, turn in parts}
    if types.is_list(kind):
        of_element = turn_of(kind.value_type, of_map)
        return of_element and (lambda datum: None if datum is None else [of_element(one) for one in datum])
    if types.is_map(kind):
        of_item = turn_of(kind.item_type, of_map) or _same
        return lambda datum: None if datum is None else of_map(datum, of_item)
    return None


def _pairs(datum: dict[str, Any], of_item: Turn) -> list[tuple[str, Any]]:
    """As Arrow takes a map."""
    return [(key, of_item(one)) for key, one in datum.items()]


def _dict(datum: list[tuple[str, Any]], of_item: Turn) -> dict[str, Any]:
    """As fastavro takes a map."""
    return {key: of_item(one) for key, one in datum}


def _same(datum: Any) -> Any:
    return datum


def write(
    schema: Any, data: pa.Array, subjects: Sequence[Subject], head_of: Callable[[Subject], bytes]
) -> list[bytes | None]:
    """Each datum by the schema, behind the head that its subject has; null for null. A marked value for one that does
    not fit, or whose schema cannot be registered under its subject: whether that counts is not known here
    (`spark.marked_values`). `head_of` is asked only for what fits, since it registers the schema."""
    turn = turn_of(data.type, _dict) or _same
    return [
        _encoded(schema, one, turn, subject, head_of) if one.is_valid else None
        for one, subject in zip(data, subjects, strict=True)
    ]


def _encoded(schema: Any, one: pa.Scalar, turn: Turn, subject: Subject, head_of: Callable[[Subject], bytes]) -> bytes:
    from fastavro import schemaless_writer

    content = io.BytesIO()
    try:
        schemaless_writer(content, schema, turn(one.as_py()), strict_allow_default=True)
    except Exception as problem:  # fastavro's, or Python's for a time that its types do not hold
        return marked(f"its data cannot be written as Avro: {type(problem).__name__}: {problem}")
    if subject is None:
        return marked("its subject is null")
    try:
        return head_of(subject) + content.getvalue()
    except RegistryRefusal as refusal:
        return mark_of(refusal)
