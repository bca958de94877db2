"""What a function of a schema registry could not do, as a value that counts only where an expression takes it.

Spark calls Python for rows whose result nobody takes: a branch of a condition, a record that is dropped. So such a
function gives a value that begins with MISFIT, and `parted` finds out which records take one, and why: each of them is
set apart (`spark.dead_letters`), all others go on. Called by `spark.record_plan` and `spark.record_function`; the
values are made by `spark.avro_values` and `spark.schema_ids`.
"""

import re
from collections.abc import Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sparkmirror.spark.plan_check import class_of, listed

MISFIT: Final = bytes.fromhex("01d35a7be2c84f0e9a1c6b8f20e7d4439b")
"""What begins such a value. No value of a serializer's begins so."""
_OF_RECORD: Final = b"\0"
_AWAITED: Final = b"\1"
_REASON_AT: Final = len(MISFIT) + 2
"""The place of the reason in the value, counted from 1."""
_MARKING: Final = re.compile(r"to_avro_\w+|with_target_schema(_header)?")
_SHOWN_BYTES: Final = 1000


def marked(reason: str, *, is_awaited: bool = False) -> bytes:
    """A value for a record for which there is none. `is_awaited` where not the record is to blame, and somebody has to
    do something elsewhere, such as to give a right."""
    return MISFIT + (_AWAITED if is_awaited else _OF_RECORD) + reason.encode(errors="backslashreplace")


class Parted(NamedTuple):
    """An expression with null in place of marked values, and why a record takes one of them: null for all others, and
    None where no record can. It has the fields `text` and `is_awaited`."""

    value: Column
    why: Column | None = None


def parted(frame: DataFrame, column: Column) -> Parted:
    """A column of `frame` that is not resolved yet, as such a pair."""
    plan: Any = frame.select(column.alias("x"))._jdf.queryExecution().analyzed()
    if class_of(plan) != "Project" or class_of(named := listed(plan.projectList())[-1]) != "Alias":
        return Parted(column)
    found = parted_resolved(frame, named.child())
    return Parted(column) if found.why is None else found


def parted_resolved(frame: DataFrame, expression: Any) -> Parted:
    """As `parted`, of a resolved JVM expression."""
    if not _calls_python(frame, expression):
        return Parted(_column(frame, expression))
    parts = [parted_resolved(frame, part) for part in listed(expression.children())]
    if all(part.why is None for part in parts) and not _may_mark(expression):
        return Parted(_column(frame, expression))
    made = _column(frame, _with_children(frame, expression, [_expression(frame, part.value) for part in parts]))
    why = _why_taken(class_of(expression), parts)
    if not _may_mark(expression):
        return Parted(made, why)
    mark = _mark_of(made, expression)
    is_marked = F.startswith(mark, F.lit(MISFIT))
    is_awaited = F.substring(mark, _REASON_AT - 1, 1) == F.lit(_AWAITED)
    message = _message(mark, str(expression.name())).alias("text")
    own = F.when(is_marked, F.struct(message, is_awaited.alias("is_awaited")))
    return Parted(F.when(is_marked, F.lit(None)).otherwise(made), first_of(why, own))


def _why_taken(node: str, parts: Sequence[Parted]) -> Column | None:
    """Of a node's parts, as far as the node takes them for a record."""
    if all(part.why is None for part in parts):
        return None
    match node:
        case "If":
            condition, yes, no = parts
            return first_of(condition.why, _either(condition.value, yes.why, no.why))
        case "CaseWhen":
            pairs = [(parts[at], parts[at + 1]) for at in range(0, len(parts) - 1, 2)]
            last = parts[-1].why if len(parts) % 2 else None
            return reduce(_or_else, reversed(pairs), last)
        case "Coalesce":
            later = parts[-1].why
            for part in reversed(parts[:-1]):
                later = first_of(part.why, _either(part.value.isNull(), later, None))
            return later
        case "And":
            left, right = parts
            return first_of(left.why, _either(F.coalesce(left.value, F.lit(True)), right.why, None))
        case "Or":
            left, right = parts
            return first_of(left.why, _either(F.coalesce(left.value, F.lit(False)), None, right.why))
        case _:
            return first_of(*(part.why for part in parts))


def _or_else(otherwise: Column | None, pair: tuple[Parted, Parted]) -> Column | None:
    condition, value = pair
    return first_of(condition.why, _either(condition.value, value.why, otherwise))


def _either(condition: Column, yes: Column | None, no: Column | None) -> Column | None:
    if yes is None and no is None:
        return None
    nothing = F.lit(None)
    return F.when(condition, nothing if yes is None else yes).otherwise(nothing if no is None else no)


def first_of(*whys: Column | None) -> Column | None:
    """What the first of them that is there says, for each record; None where none is there."""
    known = [why for why in whys if why is not None]
    return F.coalesce(*known) if known else None


def _calls_python(frame: DataFrame, expression: Any) -> bool:
    jvm: Any = frame.sparkSession.sparkContext._jvm
    return bool(expression.containsPattern(jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()))


def _may_mark(expression: Any) -> bool:
    return class_of(expression) == "PythonUDF" and _MARKING.fullmatch(str(expression.name())) is not None


def _mark_of(made: Column, expression: Any) -> Column:
    """The marked value in what a call made, if there is one."""
    if class_of(expression.dataType()) != "ArrayType":
        return made
    headers = F.filter(made, lambda one: F.startswith(one["value"], F.lit(MISFIT)))
    return F.get(headers, F.lit(0))["value"]


def _message(mark: Column, name: str) -> Column:
    place = F.concat_ws("-", "topic", F.col("partition").cast("string"))
    why = F.substring(mark, _REASON_AT, _SHOWN_BYTES).cast("string")  # `decode` refuses half a character
    return F.concat(
        F.lit(f"{name} fails for the record of "), place, F.lit(" at offset "), F.col("offset").cast("string"),
        F.lit(": "), why,
    )  # fmt: skip


def _with_children(frame: DataFrame, expression: Any, children: Sequence[Any]) -> Any:
    jvm: Any = frame.sparkSession.sparkContext._jvm
    return expression.withNewChildren(jvm.org.apache.spark.api.python.PythonUtils.toSeq(children))


def _column(frame: DataFrame, expression: Any) -> Column:
    jvm: Any = frame.sparkSession.sparkContext._jvm
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def _expression(frame: DataFrame, column: Column) -> Any:
    jvm: Any = frame.sparkSession.sparkContext._jvm
    return jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(column._jc)
