"""A user's Python function, from DataFrame to DataFrame, as steps that leave the stream's own rows alone.

Called by `spark.record_plan`. The function gets a DataFrame of records and returns another. The filters and projections
of its plan are then applied, one by one, to the DataFrame that has the hidden columns too. Its expressions are used as
they are: Spark knows columns by ids, not by names.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sparkmirror.config.flow.transforms import CallFunction, Source
from sparkmirror.spark.plan_check import (
    TYPES,
    chain,
    check_shape,
    check_type,
    column_ids,
    explain,
    quote_first_line,
    refuse,
)

_KEPT = ("topic", "partition", "offset")
_SAVED = "__saved_"


def load_function(step: CallFunction) -> Callable[[DataFrame], object]:
    """The function that `module:function` names. Raises ConfigError when there is none."""
    module, _, name = step.name.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as problem:
        hint = "the module must be importable: put its directory on PYTHONPATH"
        raise refuse(step.source, f"cannot be loaded: {type(problem).__name__}: {problem}", hint) from None
    if not callable(found):
        raise refuse(step.source, f"names {step.name}, which is not a function")
    function: Callable[[DataFrame], object] = found
    return function


def apply_function(frame: DataFrame, step: CallFunction, view: Sequence[str]) -> DataFrame:
    """`frame` with the function's changes to its columns `view`; columns that it left out are unchanged.

    Raises ConfigError when it fails, changes topic, partition or offset, adds a column, or moves records about.
    """
    hidden = [name for name in frame.columns if name not in view]
    saved = frame.select("*", *(F.col(name).alias(f"{_SAVED}{name}") for name in view))
    given = saved.select(*view)
    made = _call(load_function(step), given, step)
    with explain(step.source):
        check_shape(made, step.source)
        _check_columns(made, given, step.source, view)
        done = _redo(saved, _steps_of(made, given, step.source), [*hidden, *(f"{_SAVED}{name}" for name in view)])
        return done.select(*hidden, *(_settle(done, made, given, name, step.source) for name in view))


def _settle(done: DataFrame, made: DataFrame, given: DataFrame, name: str, source: Source) -> Column:
    """A column as the function made it, in its type, for the rows that are the function's business."""
    saved = F.col(f"{_SAVED}{name}")
    found = next((attribute for attribute in _output(made) if attribute.name() == name), None)
    if found is None:
        return saved.alias(name)
    if found.exprId().toString() == column_ids(given)[name]:
        return _column(done, found)
    check_type(name, made.schema[name].dataType.simpleString(), source)
    return F.when(F.col("__active"), _column(done, found).cast(TYPES[name])).otherwise(saved).alias(name)


def _call(function: Callable[[DataFrame], object], given: DataFrame, step: CallFunction) -> DataFrame:
    try:
        made = function(given)
    except PySparkException as problem:
        raise refuse(step.source, f"fails in {step.name}: {quote_first_line(problem)}") from None
    except Exception as problem:
        raise refuse(step.source, f"fails in {step.name}: {type(problem).__name__}: {problem}") from None
    if not isinstance(made, DataFrame):
        raise refuse(step.source, f"got {type(made).__name__} from {step.name}, where a DataFrame is wanted")
    return made


def _output(frame: DataFrame) -> list[Any]:
    output = frame._jdf.queryExecution().analyzed().output()
    return [output.apply(at) for at in range(output.size())]


def _check_columns(made: DataFrame, given: DataFrame, source: Source, view: Sequence[str]) -> None:
    before, after = column_ids(given), column_ids(made)
    for name in _KEPT:
        if after.get(name) != before[name]:
            what = "changes" if name in after else "leaves out"
            hint = "to send a record elsewhere, set target_topic or target_partition"
            raise refuse(source, f"{what} the column {name}, which says where a record comes from", hint)
    for name in after:
        if name not in view:
            raise refuse(source, f"adds the column {name}, which records do not have", "drop it before returning")
    if len(after) < len(made.columns):
        raise refuse(source, "gives a column twice")


def _steps_of(made: DataFrame, given: DataFrame, source: Source) -> list[Any]:
    """The plan's nodes above the DataFrame that was given, the first one done first."""
    base = given._jdf.queryExecution().analyzed()
    nodes: list[Any] = []
    for node in chain(made._jdf.queryExecution().analyzed()):
        if node.equals(base):
            return nodes[::-1]
        nodes.append(node)
    raise refuse(source, "does not give the DataFrame that it got, filtered and with new columns, but another one")


def _redo(frame: DataFrame, nodes: Sequence[Any], hidden: Sequence[str]) -> DataFrame:
    for node in nodes:
        if node.nodeName() == "Filter":
            condition = F.coalesce(_column(frame, node.condition()), F.lit(False))
            frame = frame.filter(F.when(F.col("__active"), condition).otherwise(True))
        elif node.nodeName() == "Project":
            listed = node.projectList()
            columns = [_column(frame, listed.apply(at)) for at in range(listed.size())]
            frame = frame.select(*columns, *hidden)
    return frame


def _column(frame: DataFrame, expression: Any) -> Column:
    jvm: Any = frame.sparkSession.sparkContext._jvm
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))
