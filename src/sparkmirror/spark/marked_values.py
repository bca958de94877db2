"""What a function of a schema registry could not do, as a value that ends the query only where an expression takes it.

Spark calls Python for rows whose result nobody takes: a branch of a condition, a record that is dropped. So such a
function gives a value that begins with MISFIT, and the check of it stands around each call in the plan. Called by
`spark.record_plan` and `spark.record_function`; the values are made by `spark.avro_values` and `spark.schema_ids`.
"""

import re
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sparkmirror.spark.plan_check import class_of, listed

MISFIT: Final = bytes.fromhex("01d35a7be2c84f0e9a1c6b8f20e7d4439b")
"""What begins such a value; the reason follows. No value of a serializer's begins so."""
_MARKING: Final = re.compile(r"to_avro_\w+|with_target_schema(_header)?")
_SHOWN_BYTES: Final = 1000


def refuse_marked(frame: DataFrame, expression: Any) -> Any:
    """The resolved JVM `expression` of `frame` with a check around each call that may give a marked value: it ends the
    query, with the record's place and the reason, where the value is taken for a record that is the steps' business."""
    jvm: Any = frame.sparkSession.sparkContext._jvm
    if not expression.containsPattern(jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()):
        return expression
    parts = [refuse_marked(frame, part) for part in listed(expression.children())]
    checked = expression.withNewChildren(jvm.org.apache.spark.api.python.PythonUtils.toSeq(parts))
    if class_of(checked) != "PythonUDF" or not _MARKING.fullmatch(checked.name()):
        return checked
    expressions = jvm.org.apache.spark.sql.classic.ExpressionUtils
    made = Column(expressions.column(checked))
    is_list = class_of(checked.dataType()) == "ArrayType"
    return expressions.expression(_checked(made, str(checked.name()), is_list=is_list)._jc)


def refusing(frame: DataFrame, column: Column) -> Column:
    """As `refuse_marked`, of a column that is not resolved yet."""
    plan: Any = frame.select(column.alias("x"))._jdf.queryExecution().analyzed()
    if class_of(plan) != "Project" or class_of(named := listed(plan.projectList())[-1]) != "Alias":
        return column
    jvm: Any = frame.sparkSession.sparkContext._jvm
    found, checked = named.child(), refuse_marked(frame, named.child())
    is_same = found.equals(checked)
    return column if is_same else Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(checked))


def _checked(made: Column, name: str, *, is_list: bool) -> Column:
    mark = made
    if is_list:  # of headers
        mark = F.get(F.filter(made, lambda one: F.startswith(one["value"], F.lit(MISFIT))), F.lit(0))["value"]
    place = F.concat_ws("-", "topic", F.col("partition").cast("string"))
    why = F.substring(mark, len(MISFIT) + 1, _SHOWN_BYTES).cast("string")  # `decode` refuses half a character
    message = F.concat(
        F.lit(f"{name} fails for the record of "), place, F.lit(" at offset "), F.col("offset").cast("string"),
        F.lit(": "), why,
    )  # fmt: skip
    return F.when(F.col("__active") & F.startswith(mark, F.lit(MISFIT)), F.raise_error(message)).otherwise(made)
