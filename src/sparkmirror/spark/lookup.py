"""Makes a Spark function of each table of a flow: `lookup_<name>(key)` gives the row, null without one. Called by
`spark.record_plan`.

It is an Arrow UDF: Spark gives it the keys of many rows at once, and it answers from the worker's copy of the table
(`spark.live_table`).
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.lookup_tables import LookupTable
from sparkmirror.errors import TableProblem
from sparkmirror.spark.live_table import LiveTable, read_version
from sparkmirror.spark.plan_check import chain, class_of, listed, quote_first_line, refuse

_PREFIX: Final = "lookup_"
_KEY_TYPES: Final = ("binary", "string", "tinyint", "smallint", "int", "bigint", "date", "boolean", "void")
_LIVE: dict[tuple[LookupTable, str, str], LiveTable] = {}


def register_tables(spark: SparkSession, flow: FlowConfig) -> None:
    """Make the flow's tables known to its expressions.

    Raises ConfigError for a table that cannot be read, or whose types Spark does not have.
    """
    for table in flow.transforms.tables:
        kind = _row_type(table)
        function = _lookup(table, to_arrow_schema(kind, timezone="UTC"), str(flow.name))
        spark.udf.register(f"{_PREFIX}{table.name}", arrow_udf(function, kind))


def _row_type(table: LookupTable) -> StructType:
    try:
        rows = read_version(table).rows
        return from_arrow_schema(pa.schema(list(rows.type)))
    except TableProblem as problem:
        raise refuse(table.source, f"names a key, but {problem.args[0]}") from None
    except PySparkException as problem:
        reason = quote_first_line(problem)
        raise refuse(table.source, f"is of a table with types that Spark does not have: {reason}") from None


def _lookup(table: LookupTable, schema: pa.Schema, flow: str) -> Callable[..., pa.Array]:
    def look_up(*keys: pa.Array) -> pa.Array:
        return live_table(table, schema, flow).look_up(keys)

    return look_up


def live_table(table: LookupTable, schema: pa.Schema, flow: str) -> LiveTable:
    """This worker's copy, which all tasks that it runs one after the other share."""
    from sparkmirror.logs.handlers import log_to_driver

    identity = (table, str(schema), flow)
    found = _LIVE.get(identity)
    if found is None:
        log_to_driver(flow)
        found = _LIVE[identity] = LiveTable(table, schema)
    return found


def check_lookups(frame: DataFrame, flow: FlowConfig) -> None:
    """Raises ConfigError for a lookup by a key that the table cannot have."""
    tables = {f"{_PREFIX}{table.name}": table for table in flow.transforms.tables}
    for node in chain(frame._jdf.queryExecution().analyzed()) if tables else ():
        for name, kinds in _calls(node):
            if (table := tables.get(name)) is not None:
                _check_call(table, name, kinds)


def _check_call(table: LookupTable, name: str, kinds: list[str]) -> None:
    if len(kinds) != len(table.keys):
        raise refuse(table.source, f"has {len(table.keys)} columns, and an expression gives {len(kinds)} to {name}")
    for kind in kinds:
        if kind not in _KEY_TYPES:
            hint = "a key is a string, bytes, a whole number or a date: put a cast around it"
            raise refuse(table.source, f"is of a table that an expression looks up by {kind}, in {name}", hint)


def _calls(node: Any) -> Iterator[tuple[str, list[str]]]:
    """Python functions in a plan node's expressions, with the types of what they are given."""
    pending = listed(node.expressions())
    while pending:
        expression = pending.pop()
        parts = listed(expression.children())
        if class_of(expression) == "PythonUDF":
            yield str(expression.name()), [str(part.dataType().simpleString()) for part in parts]
        pending += parts
