"""Functions for values that name their schema by an id: it becomes the id that the schema has on the target's side.

The wire format is that of Confluent's serializers: a byte 0, the id in four bytes, and the value. Registered for a
flow's expressions by `spark.record_plan`; the functions run in Python workers, as Arrow UDFs.
"""

import logging
from collections.abc import Callable
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import ArrowUDFType, arrow_udf

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.schema_registries import SchemaRegistries
from sparkmirror.spark.registry_client import RegistryClient, Schema, carry_over

MAGIC: Final = b"\0"
HEAD_BYTES: Final = 5
_KNOWN_MAX: Final = 10_000
"""Ids that are kept; a value that is no such record may begin with any."""

log = logging.getLogger(__name__)


class SchemaIds:
    """The ids that this worker knows of two registries. Every method raises RegistryProblem."""

    def __init__(self, registries: SchemaRegistries) -> None:
        self._source, self._target = RegistryClient(registries.source), RegistryClient(registries.target)
        self._source_url = registries.source.url
        self._schemas: dict[int, Schema | None] = {}
        self._carried: dict[tuple[int, str | None], int] = {}

    def are_known(self, values: pa.Array) -> pa.Array:
        """Whether each value names a schema that the source's registry has; null for null."""
        numbers = [None if value is None else number_of(value) for value in _bytes(values)]
        known = [number is not None and self._schema(number) is not None for number in numbers]
        return pa.array(known, pa.bool_(), mask=values.is_null().to_numpy(zero_copy_only=False))

    def carry(self, values: pa.Array, subjects: pa.Array) -> pa.Array:
        """The values with the target's ids; what names no schema stays as it is."""
        pairs = zip(_bytes(values), subjects.to_pylist(), strict=True)
        carried = [None if value is None else self._carry(value, subject) for value, subject in pairs]
        return pa.array(carried, pa.binary())

    def _carry(self, value: bytes, subject: str | None) -> bytes:
        number = number_of(value)
        if number is None or (schema := self._schema(number)) is None:
            return value
        found = self._carried.get((number, subject))
        if found is None:
            where = subject or self._subject_of(number)
            found = self._carried[number, subject] = int(carry_over(self._source, self._target, schema, where)["id"])
            log.info("schema %d is %d in the target's registry, as %s.", number, found, where)
        return MAGIC + found.to_bytes(4, "big") + value[HEAD_BYTES:]

    def _subject_of(self, number: int) -> str:
        subjects = self._source.subjects_of(number)
        return subjects[0] if subjects else f"schema-{number}"

    def _schema(self, number: int) -> Schema | None:
        if number not in self._schemas:
            if len(self._schemas) >= _KNOWN_MAX:
                self._schemas.clear()
            found = self._schemas[number] = self._source.schema_of(number)
            if found is None:
                log.warning(
                    "the schema registry %s has no schema %d: values that name it are as they were.",
                    self._source_url, number, extra={"event": "schema-unknown"},
                )  # fmt: skip
        return self._schemas[number]


def _bytes(values: pa.Array) -> list[bytes | None]:
    found: list[bytes | None] = values.cast(pa.binary()).to_pylist()
    return found


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
    """Make `has_schema(value)` and `with_target_schema(value, subject)` known to the flow's expressions, if its file
    names registries."""
    if (registries := flow.transforms.schemas) is None:
        return
    has_schema, with_target_schema = _functions(registries, str(flow.name))
    spark.udf.register("has_schema", arrow_udf(has_schema, "boolean", ArrowUDFType.SCALAR))
    spark.udf.register("with_target_schema", arrow_udf(with_target_schema, "binary", ArrowUDFType.SCALAR))


def _functions(registries: SchemaRegistries, flow: str) -> tuple[Callable[..., pa.Array], Callable[..., pa.Array]]:
    def has_schema(values: pa.Array) -> pa.Array:
        return ids_of(registries, flow).are_known(values)

    def with_target_schema(values: pa.Array, subjects: pa.Array) -> pa.Array:
        return ids_of(registries, flow).carry(values, subjects)

    return has_schema, with_target_schema
