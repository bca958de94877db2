"""Functions for records that name their schemas by ids: these become the ids that the schemas have on the other side.

The wire formats are those of Confluent's serializers. In a value: a byte 0, the id in four bytes, and the content. In a
header (`HeaderSchemaIdSerializer`): a byte 1 and the schema's GUID in 16 bytes, or as in a value; Protobuf's have more
bytes behind. Registered for a flow's expressions by `spark.record_plan`; they run in Python workers, as Arrow UDFs.
"""

import logging
import uuid
from collections.abc import Callable
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.schema_registries import SchemaRegistries
from sparkmirror.errors import RegistryProblem
from sparkmirror.pipeline.relay.schema import HEADERS_DDL
from sparkmirror.spark.avro_schema import SchemaText
from sparkmirror.spark.marked_values import marked
from sparkmirror.spark.registry_client import (
    RegistryClient,
    RegistryRefusal,
    Schema,
    SchemaLacking,
    carry_over,
    texts_referred,
)

MAGIC: Final = b"\0"
MAGIC_GUID: Final = b"\1"
HEAD_BYTES: Final = 5
GUID_END: Final = 17
_ASK_AGAIN_SECONDS: Final = 30.0
"""After which an id that the source's registry did not have is asked for again."""
_REFUSED_SECONDS: Final = 2.0
"""For which a refusal is not asked about again: each record of a batch may meet it."""
_CONFIRM_SECONDS: Final = 300.0
"""After which the target's registry is asked again for an id: it may have been set up again, or restored."""
_SILENT_SECONDS: Final = 60.0
"""For which no id is confirmed after a registry has not answered: each try may take long."""
_KNOWN_MAX: Final = 10_000
"""Ids that are kept; a value that is no such record may begin with any, and a record may have a subject of its own."""
_SAID_MAX: Final = 600
"""Characters of a refusal before its hint: what is shown of both is limited (`spark.marked_values`)."""

log = logging.getLogger(__name__)

Subject = str | bytes | None
"""As an expression gives it: bytes where it is no text, which Spark's strings need not be."""


class _Carried(NamedTuple):
    number: int
    until: float
    """When it is to be confirmed."""


class SchemaIds:
    """The ids that this worker knows of two registries. Every method raises RegistryProblem; a schema that cannot be
    registered gives a marked value instead (`spark.marked_values`), and `target_id` raises RegistryRefusal."""

    def __init__(self, registries: SchemaRegistries, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._source, self._target = RegistryClient(registries.source), RegistryClient(registries.target)
        self._source_url = registries.source.url
        self._schemas: dict[int | str, Schema] = {}
        self._unknown: dict[int | str, float] = {}
        self._carried: dict[tuple[int | str, str | None], _Carried] = {}
        self._silent_until = 0.0
        self._refused: dict[tuple[int | str, str | None], tuple[float, str, str, bool]] = {}
        self._guids: dict[int, bytes] = {}

    def schema_of(self, number: int) -> Schema | None:
        """What the source's registry has under the id."""
        return self._schema(number)

    def text_of(self, schema: Schema) -> SchemaText:
        """A schema of the source's registry, with those that it refers to."""
        return SchemaText(str(schema["schema"]), texts_referred(self._source, schema))

    def target_id(self, schema: Schema, subject: Subject) -> int:
        """The id of a schema of the source's registry on the target's side, where it is registered under `subject`."""
        if not subject:
            raise RegistryRefusal("its subject is empty")
        key = f"{schema['schema']}\0{schema.get('references', '')}"
        return self._registered(key, schema, subject)

    def are_known(self, values: pa.Array) -> pa.Array:
        """Whether each value names a schema that the source's registry has; null for null."""
        numbers = [None if value is None else number_of(value) for value in _bytes(values)]
        known = [number is not None and self._schema(number) is not None for number in numbers]
        return pa.array(known, pa.bool_(), mask=values.is_null().to_numpy(zero_copy_only=False))

    def carry(self, values: pa.Array, subjects: pa.Array) -> pa.Array:
        """The values with the target's ids; what names no schema stays as it is."""
        pairs = zip(_bytes(values), texts_of(subjects), strict=True)
        carried = [None if value is None else _marking(self._carry, value, subject) for value, subject in pairs]
        return pa.array(carried, pa.binary())

    def carry_header(self, headers: pa.Array, names: pa.Array, subjects: pa.Array) -> pa.Array:
        """The headers with what the last one of each name says of a schema as the target has it. An older one of the
        name stays: clients read the last. Names are taken as bytes, which need not be text."""
        ends, content = headers.offsets.to_pylist(), headers.values
        keys, values = (part.cast(pa.binary()).to_pylist() for part in content.flatten())
        rows = zip(headers.is_valid().to_pylist(), _bytes(names), texts_of(subjects), strict=True)
        for row, (is_there, name, subject) in enumerate(rows):
            wanted = name if is_there else None
            places = (at for at in range(ends[row + 1] - 1, ends[row] - 1, -1) if keys[at] == wanted)
            at = next((at for at in places if wanted is not None and values[at] is not None), None)
            if at is not None:
                values[at] = _marking(self._carry_guid, values[at], subject)
        fields = list(content.type)
        parts = [content.field("key"), pa.array(values, fields[1].type)]
        made = pa.StructArray.from_arrays(parts, fields=fields, mask=content.is_null())
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), made, headers.type, mask=headers.is_null())

    def _carry(self, value: bytes, subject: Subject) -> bytes:
        number = number_of(value)
        if number is None or (schema := self._schema(number)) is None:
            return value
        return MAGIC + self._registered(number, schema, subject).to_bytes(4, "big") + value[HEAD_BYTES:]

    def _carry_guid(self, value: bytes, subject: Subject) -> bytes:
        if len(value) < GUID_END or value[:1] != MAGIC_GUID:
            return self._carry(value, subject)
        guid = str(uuid.UUID(bytes=value[1:GUID_END]))
        if (schema := self._schema(guid)) is None:
            return value
        number = self._registered(guid, schema, subject)
        if number not in self._guids:
            self._guids[number] = uuid.UUID(self._target.guid_of(number)).bytes
        return MAGIC_GUID + self._guids[number] + value[GUID_END:]

    def _registered(self, named: int | str, schema: Schema, subject: Subject) -> int:
        """The target's id of the schema. While the registry does not answer, one that is known counts."""
        if isinstance(subject, bytes):
            raise RegistryRefusal(f"its subject is no text: {subject!r}")
        known = self._carried.get((named, subject))
        if known is not None and self._clock.monotonic() < max(known.until, self._silent_until):
            return known.number
        self._heed_refusal(named, subject)
        try:
            number = self._register(named, schema, subject)
        except RegistryRefusal as refusal:
            if known is None or not isinstance(refusal, SchemaLacking):
                self._note_refusal(named, subject, refusal)
                raise
        except RegistryProblem:
            if known is None:
                raise
        else:
            self._carried[named, subject] = _Carried(number, self._clock.monotonic() + _CONFIRM_SECONDS)
            return number
        self._silent_until = self._clock.monotonic() + _SILENT_SECONDS
        return known.number

    def _register(self, named: int | str, schema: Schema, subject: str | None) -> int:
        known = self._carried.get((named, subject))
        where = subject or self._subject_of(named)
        number = int(carry_over(self._source, self._target, schema, where)["id"])
        if known is None or known.number != number:
            log.info("a schema of %s is %d in the target's registry.", where, number)
        self._guids.pop(number, None)  # another schema may have had it
        for kept in (self._carried, self._refused, self._guids):
            if len(kept) >= _KNOWN_MAX:
                kept.clear()
        return number

    def _note_refusal(self, named: int | str, subject: str | None, refusal: RegistryRefusal) -> None:
        self._carried.pop((named, subject), None)
        until = self._clock.monotonic() + _REFUSED_SECONDS
        self._refused[named, subject] = until, str(refusal.args[0]), refusal.hint, refusal.is_awaited

    def _heed_refusal(self, named: int | str, subject: str | None) -> None:
        """Raises what was refused a moment ago as an error of its own: one that is kept and raised again keeps the
        frames of each time, with their values."""
        known = self._refused.get((named, subject))
        if known is None:
            return
        until, message, hint, is_awaited = known
        if self._clock.monotonic() < until:
            raise RegistryRefusal(message, hint, is_awaited=is_awaited)
        del self._refused[named, subject]

    def _subject_of(self, named: int | str) -> str:
        numbers = [named] if isinstance(named, int) else self._source.ids_of_guid(named)
        subjects = [subject for number in numbers for subject in self._source.subjects_of(number)]
        if not subjects:
            raise SchemaLacking(f"The schema registry {self._source_url} has schema {named} under no subject.",
                                "give a subject instead of null")  # fmt: skip
        return subjects[0]

    def _schema(self, named: int | str) -> Schema | None:
        """By id or GUID. What the registry does not have is asked for again later: it may follow another one."""
        found = self._schemas.get(named)
        if found is None and self._unknown.get(named, 0.0) <= self._clock.monotonic():
            for known in (self._schemas, self._unknown):
                if len(known) >= _KNOWN_MAX:
                    known.clear()
            found = self._source.schema_of(named) if isinstance(named, int) else self._source.schema_by_guid(named)
            if found is None:
                self._unknown[named] = self._clock.monotonic() + _ASK_AGAIN_SECONDS
                log.warning(
                    "the schema registry %s has no schema %s: records that name it are as they were.",
                    self._source_url, named, extra={"event": "schema-unknown"},
                )  # fmt: skip
            else:
                self._schemas[named] = found
        return found


def _bytes(values: pa.Array) -> list[bytes | None]:
    found: list[bytes | None] = values.cast(pa.binary()).to_pylist()
    return found


def texts_of(column: pa.Array) -> list[Subject]:
    """What a column of strings holds."""
    try:
        found: list[Subject] = column.to_pylist()
    except UnicodeDecodeError:
        found = [_text(one) for one in _bytes(column)]
    return found


def _text(content: bytes | None) -> Subject:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return content


def mark_of(refusal: RegistryRefusal) -> bytes:
    """What stands for a value whose schema was refused."""
    hint = f" ({refusal.hint})" if refusal.hint else ""
    return marked(f"{refusal.args[0][:_SAID_MAX]}{hint}", is_awaited=refusal.is_awaited)


def _marking(carry: Callable[[bytes, Subject], bytes], value: bytes, subject: Subject) -> bytes:
    try:
        return carry(value, subject)
    except RegistryRefusal as refusal:
        return mark_of(refusal)


def number_of(value: bytes) -> int | None:
    """The id in a value; None for one in another format."""
    if len(value) < HEAD_BYTES or value[:1] != MAGIC:
        return None
    return int.from_bytes(value[1:HEAD_BYTES], "big")


_IDS: dict[tuple[SchemaRegistries, str], SchemaIds] = {}


def ids_of(registries: SchemaRegistries, flow: str) -> SchemaIds:
    """What this worker knows, over all tasks that it runs one after the other."""
    from sparkmirror.logs.handlers import log_to_driver

    found = _IDS.get((registries, flow))
    if found is None:
        log_to_driver(flow)
        found = _IDS[registries, flow] = SchemaIds(registries)
    return found


def register_schema_functions(spark: SparkSession, flow: FlowConfig) -> None:
    """Make `has_schema(value)`, `with_target_schema(value, subject)` and `with_target_schema_header(headers, name,
    subject)` known to the flow's expressions, if its file names registries."""
    if (registries := flow.transforms.schemas) is None:
        return
    for function, kind in _functions(registries, str(flow.name)):
        spark.udf.register(function.__name__, arrow_udf(function, kind))


def _functions(registries: SchemaRegistries, flow: str) -> tuple[tuple[Callable[..., pa.Array], str], ...]:
    def has_schema(values: pa.Array) -> pa.Array:
        return ids_of(registries, flow).are_known(values)

    def with_target_schema(values: pa.Array, subjects: pa.Array) -> pa.Array:
        return ids_of(registries, flow).carry(values, subjects)

    def with_target_schema_header(headers: pa.Array, names: pa.Array, subjects: pa.Array) -> pa.Array:
        return ids_of(registries, flow).carry_header(headers, names, subjects)

    return (has_schema, "boolean"), (with_target_schema, "binary"), (with_target_schema_header, HEADERS_DDL)
