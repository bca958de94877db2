"""Checks Spark's plan of a user's step: reports bad expressions, and refuses plans that move or group records.

Called by `spark.record_plan`. Records of a partition must stay in order and in their task, and progress must count
dropped records, so a plan may only have nodes that take one row after the other: projections, filters, samples, and
generators, which make several rows of one.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sparkmirror.config.flow.source_line import Source
from sparkmirror.errors import ConfigError
from sparkmirror.pipeline.relay.schema import HEADERS_DDL

TYPES: Final[Mapping[str, str]] = {
    "target_topic": "string",
    "target_partition": "int",
    "timestamp": "timestamp",
    "key": "binary",
    "value": "binary",
    "headers": HEADERS_DDL,
}
"""The columns of a record that a step may set, and their types."""
_FITTING = {
    "target_topic": ("string",),
    "target_partition": ("tinyint", "smallint", "int", "bigint", "void"),
    "timestamp": ("timestamp", "void"),
    "key": ("binary", "string", "void"),
    "value": ("binary", "string", "void"),
    "headers": ("array", "void"),
}
_PARTITIONS: Final = 1 << 31
_OWN_PROGRAM: Final = (
    "write a Spark program of your own for it, which reads the mirrored topic with "
    '`spark.readStream.format("kafka-records")` (docs/spark.md); the mirror copies records one by one'
)
_HINTS: Final[Mapping[str, str]] = {
    "Aggregate": f"records of a stream cannot be grouped here; {_OWN_PROGRAM}",
    "Window": f"records of a stream cannot be compared here; {_OWN_PROGRAM}",
    "Deduplicate": f"records of a stream cannot be compared here; {_OWN_PROGRAM}",
    "Join": (
        "to look a table up, name it by `transforms.table.<name>`, which is also reloaded, and write "
        f'`F.call_function("lookup_<name>", "key")` in the place of the join; to join streams, {_OWN_PROGRAM}'
    ),
}
_SPLITTING: Final = "`transforms.explode` makes several records of one; it takes an array, without `explode` around it"
_SPARK_HINTS: Final[Mapping[str, str]] = {
    "UNSUPPORTED_GENERATOR": _SPLITTING,
    "AVRO_NOT_LOADED": (
        f"run with `--conf spark.jars.packages=org.apache.spark:spark-avro_2.13:{pyspark.__version__}`, or with "
        "`--conf spark.jars=` and the path of that jar; for values of a schema registry use `from_avro_<name>`, which "
        "needs none (docs/transforms.md)"
    ),
}
"""What to do, by the beginning of the name that Spark gives an error."""
_ALLOWED = frozenset({"Project", "Filter", "SubqueryAlias", "Generate", "Sample"})
_GENERATORS: Final = ("Explode", "PosExplode", "Inline", "JsonTuple")
_PYTHON_NODES: Final = ("ArrowEvalPython", "BatchEvalPython")
_LEAVES = frozenset({"StreamingRelationV2", "LocalRelation", "LogicalRDD"})


@contextmanager
def explain(source: Source) -> Iterator[None]:
    """Turns Spark's error about an expression into a ConfigError with key and line."""
    try:
        yield
    except PySparkException as problem:
        condition = str(problem.getCondition())
        hint = next((hint for start, hint in _SPARK_HINTS.items() if condition.startswith(start)), "")
        raise refuse(source, f"is refused by Spark: {quote_first_line(problem)}", hint) from None


def refuse(source: Source, message: str, hint: str = "") -> ConfigError:
    return ConfigError(f"`{source.key}` {message}", hint, key=source.key, line=source.line, file=source.file)


def quote_first_line(problem: PySparkException) -> str:
    """Spark's message without the plan that it prints below, the SQLSTATE and the place."""
    lines = [line.strip() for line in str(problem).splitlines()]
    first = next((line for line in lines if line), type(problem).__name__)
    return first.partition(" SQLSTATE:")[0]


def check_type(column: str, kind: str, source: Source) -> None:
    """Raises ConfigError when `kind`, a Spark type, does not fit the column."""
    if not kind.startswith(_FITTING[column]):
        wanted = " or ".join(name for name in _FITTING[column] if name != "void")
        raise refuse(source, f"gives {kind}, where {wanted} is wanted", "put a cast around it")


def fit(made: Column, column: str, kind: str) -> Column:
    """What a step made of a column, in the column's type. A partition that no topic has is null, not another one."""
    if column == "target_partition" and kind == "bigint":
        made = F.when(made.between(-_PARTITIONS, _PARTITIONS - 1), made)
    return made.cast(TYPES[column])


def column_ids(frame: DataFrame) -> dict[str, str]:
    """Spark's ids of columns, by name: an id stays the same while its column only passes through."""
    output = frame._jdf.queryExecution().analyzed().output()
    attributes = [output.apply(at) for at in range(output.size())]
    return {str(attribute.name()): str(attribute.exprId().toString()) for attribute in attributes}


def check_shape(frame: DataFrame, source: Source) -> None:
    """Raises ConfigError for a plan that is more than a chain of nodes over its source that take row by row."""
    plan = frame._jdf.queryExecution().analyzed()
    for node in chain(plan):
        name = str(node.nodeName())
        if name not in _ALLOWED and name not in _LEAVES:
            what = f"makes Spark plan `{name}`, which does not work on one record at a time"
            raise refuse(source, what, _hint(name))
        if name == "Generate" and class_of(node.generator()) not in _GENERATORS:
            hint = "`explode`, `posexplode` and `inline` make several records out of the elements of an array"
            raise refuse(source, f"makes rows by `{node.generator().prettyName()}`, which is not supported", hint)
        if name == "Sample" and node.withReplacement():
            raise refuse(source, "takes a sample with replacement, which repeats records", "sample without it")
        if not node.subqueries().isEmpty():
            raise refuse(source, "holds a subquery, which does not work on one record at a time")


def class_of(node: Any) -> str:
    """The name of a JVM object's class."""
    return str(node.getClass().getSimpleName()).removesuffix("$")


def listed(sequence: Any) -> list[Any]:
    """A Scala sequence's elements."""
    return [sequence.apply(at) for at in range(sequence.size())]


def calls_python(node: Any) -> bool:
    """Whether a node of an optimized plan hands its rows to a Python process: Spark's optimizer has made a node of what
    such an expression calls."""
    return class_of(node).startswith(_PYTHON_NODES)


def _hint(node: str) -> str:
    return _HINTS.get(node, "a step may filter records and compute columns from the record itself")


def chain(plan: Any) -> Iterator[Any]:
    """The nodes of a logical plan from its top on, following the first child; a node with more children is the last."""
    node = plan
    while True:
        yield node
        children = node.children()
        if children.size() != 1:
            return
        node = children.head()
