"""Functions for Avro in the wire format of a schema registry: `from_registry(value)`, and for each schema of the file
`from_avro_<name>(value)` and `to_avro_<name>(data, subject)`. Called by `spark.record_plan`.

Values are read by the schemas that their ids name and resolved to one version of a subject, whose type the column has;
that version is looked up when the flow starts, since Spark must know the type. The functions are Arrow UDFs. What
cannot be written is a marked value (`spark.marked_values`).
"""

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.schema_registries import AvroSchema, SchemaRegistries
from sparkmirror.errors import RegistryProblem
from sparkmirror.spark.avro_schema import SchemaText, Unfit
from sparkmirror.spark.avro_values import AvroValues, write
from sparkmirror.spark.plan_check import refuse
from sparkmirror.spark.registry_client import RegistryClient, Schema, texts_referred
from sparkmirror.spark.schema_ids import MAGIC, Subject, ids_of, texts_of

_PARSED_MAX: Final = 100
_EXTRA = "pip install 'sparkmirror[avro]', also where Spark's executors run"


def register_avro_functions(spark: SparkSession, flow: FlowConfig) -> None:
    """Make the functions known to the flow's expressions.

    Raises ConfigError for a subject that the registry does not have, or whose schema has no type of Spark's, and where
    fastavro is not installed.
    """
    registries = flow.transforms.schemas
    if registries is None or (find_spec("fastavro") is None and not registries.avro):
        return
    name = str(flow.name)
    spark.udf.register("from_registry", arrow_udf(_reader(registries, name, None), "string"))
    for one in registries.avro:
        if find_spec("fastavro") is None:
            raise refuse(one.source, "needs the package fastavro, which is not installed", _EXTRA)
        schema, text = _look_up(registries, one)
        kind = from_arrow_type(_type_of(one, text))
        reader, writer = _reader(registries, name, text), _writer(registries, name, schema, text)
        spark.udf.register(f"from_avro_{one.name}", arrow_udf(reader, kind))
        spark.udf.register(f"to_avro_{one.name}", arrow_udf(writer, "binary"))


def _look_up(registries: SchemaRegistries, one: AvroSchema) -> tuple[Schema, SchemaText]:
    client = RegistryClient(registries.source)
    try:
        schema = client.version(one.subject, one.version)
        if schema.get("schemaType", "AVRO") != "AVRO":
            raise refuse(one.source, f"names {one.subject}, whose schema is of type {schema['schemaType']}, not Avro")
        return schema, SchemaText(str(schema["schema"]), texts_referred(client, schema))
    except RegistryProblem as problem:
        raise refuse(one.source, f"names {one.subject}, but: {problem.args[0]}", problem.hint or "") from None


def _type_of(one: AvroSchema, text: SchemaText) -> pa.DataType:
    try:
        return text.types()[1]
    except Unfit as unfit:
        raise refuse(one.source, f"names {one.subject}, whose schema {unfit}") from None
    except Exception as problem:  # fastavro's own, for what is no schema
        raise refuse(one.source, f"names {one.subject}, whose schema cannot be read: {problem}") from None


_VALUES: dict[tuple[SchemaRegistries, str, SchemaText | None], AvroValues] = {}


def _values(registries: SchemaRegistries, flow: str, reader: SchemaText | None) -> AvroValues:
    """This worker's, over all tasks that it runs one after the other."""
    key = registries, flow, reader
    if key not in _VALUES:
        _VALUES[key] = AvroValues(ids_of(registries, flow), reader)
    return _VALUES[key]


def _reader(registries: SchemaRegistries, flow: str, reader: SchemaText | None) -> Callable[..., pa.Array]:
    def read(values: pa.Array) -> pa.Array:
        return _values(registries, flow, reader).read(values)

    return read


@lru_cache(maxsize=_PARSED_MAX)
def _parsed(text: SchemaText) -> Any:
    return text.parse()


def _writer(registries: SchemaRegistries, flow: str, schema: Schema, text: SchemaText) -> Callable[..., pa.Array]:
    """`text` is that of the schema: no registry is asked for it again."""

    def to_avro(data: pa.Array, subjects: pa.Array) -> pa.Array:
        ids = ids_of(registries, flow)

        def head_of(subject: Subject) -> bytes:
            return MAGIC + ids.target_id(schema, subject).to_bytes(4, "big")

        return pa.array(write(_parsed(text), data, texts_of(subjects), head_of), pa.binary())

    return to_avro
