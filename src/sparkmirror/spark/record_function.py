"""A user's function from DataFrame to DataFrame as a step of a flow. Called by `spark.record_plan`.

What the function makes is looked at as a plan, and done again over a DataFrame that has the stream's other rows and
columns too: a filter keeps rows that are no records (`__active` is not true), and a generator makes one row of each.
"""

import importlib
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sparkmirror.config.flow.source_line import Source
from sparkmirror.config.flow.transforms import CallFunction, DeadLetter
from sparkmirror.spark.dead_letters import WHY, computed, set_apart, why_of
from sparkmirror.spark.marked_values import parted_resolved
from sparkmirror.spark.plan_check import (
    chain,
    check_shape,
    check_type,
    class_of,
    column_ids,
    explain,
    fit,
    listed,
    quote_first_line,
    refuse,
)

_KEPT: Final = ("topic", "partition", "offset")


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


def apply_function(
    frame: DataFrame, step: CallFunction, view: Sequence[str], guarded: Sequence[str], dead: DeadLetter | None
) -> DataFrame:
    """`frame` with the function's changes to its columns `view`; columns that it left out are unchanged. The `guarded`
    ones are null in rows that are not the function's business. Records for which it cannot be done go to `dead`.

    Raises ConfigError when it fails, changes topic, partition or offset, adds a column, or moves records about.
    """
    hidden = [name for name in frame.columns if name not in view]
    given = frame.select(*view)
    made = _call(load_function(step), given, step)
    with explain(step.source):
        check_shape(made, step.source)
        _check_columns(made, given, step.source, view)
        done = _redo(frame, _steps_of(made, given, step.source), _output(frame), dead)
        return done.select(*hidden, *(_settle(done, made, kept, step.source, guarded) for kept in _output(given)))


def _settle(done: DataFrame, made: DataFrame, kept: Any, source: Source, guarded: Sequence[str]) -> Column:
    """A column as the function made it, in its type, for the rows that are the function's business; `kept` is what it
    was. One that the function drops or passes on keeps its id, so that the writer need not be given it."""
    name = str(kept.name())
    found = next((attribute for attribute in _output(made) if attribute.name() == name), kept)
    if found.exprId().equals(kept.exprId()):
        return _column(done, kept)
    kind = made.schema[name].dataType.simpleString()
    check_type(name, kind, source)
    made_so = F.when(F.col("__active"), fit(_column(done, found), name, kind))
    return (made_so if name in guarded else made_so.otherwise(_column(done, kept))).alias(name)


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


def _redo(frame: DataFrame, nodes: Sequence[Any], kept: Sequence[Any], dead: DeadLetter | None) -> DataFrame:
    """The nodes again over `frame`, whose own columns `kept` stay beside those that they make."""
    for node in nodes:
        if node.nodeName() == "Filter":
            found = parted_resolved(frame, node.condition())
            wanted = found._replace(value=F.coalesce(found.value, F.lit(False)))
            frame, condition = computed(frame, "__is", wanted, dead)
            frame = frame.filter(F.when(F.col("__active"), condition).otherwise(True))
        elif node.nodeName() == "Project":
            frame = _project(frame, listed(node.projectList()), kept, dead)
        elif node.nodeName() == "Generate":
            frame = _generate(frame, node, dead)
        elif node.nodeName() == "Sample":
            frame = frame.filter(F.when(F.col("__active"), _is_drawn(node)).otherwise(True))
    return frame


def _project(frame: DataFrame, named: Sequence[Any], kept: Sequence[Any], dead: DeadLetter | None) -> DataFrame:
    there = {str(one.exprId().toString()) for one in named}
    made = [parted_resolved(frame, one) for one in named]
    beside = [one for one in _as_they_are(frame, kept) if str(one.exprId().toString()) not in there]
    columns = [*(one.value for one in made), *(_column(frame, one) for one in beside)]
    if all(one.why is None for one in made):
        return frame.select(*columns)
    return set_apart(frame.select(*columns, why_of(*made).alias(WHY)), dead)


def _as_they_are(frame: DataFrame, kept: Sequence[Any]) -> list[Any]:
    """The columns of the frame that these are by now: where misfits were set apart, some are others by that name."""
    output = _output(frame)
    there = {str(one.exprId().toString()) for one in output}
    by_name = {str(one.name()): one for one in output}
    return [one if str(one.exprId().toString()) in there else by_name[str(one.name())] for one in kept]


def _is_drawn(sample: Any) -> Column:
    seed = sample.seed()
    drawn = F.rand(seed.get()) if seed.isDefined() else F.rand()
    return drawn < sample.upperBound() - sample.lowerBound()


def _generate(frame: DataFrame, node: Any, dead: DeadLetter | None) -> DataFrame:
    """The generator's rows of each record, and one row of nulls for what is none."""
    jvm: Any = frame.sparkSession.sparkContext._jvm
    generator = node.generator()
    if class_of(generator) in _COLLECTIONS:
        generator, frame = _guard(frame, generator, dead)
    output = node.generatorOutput()
    nullable = [output.apply(at).withNullability(True) for at in range(output.size())]
    analyzed = frame._jdf.queryExecution().analyzed()
    as_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    made = node.copy(generator, node.unrequiredChildIndex(), node.outer(), node.qualifier(), as_seq(nullable), analyzed)
    session = frame.sparkSession
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, made), session)


_COLLECTIONS: Final = ("Explode", "PosExplode", "Inline")


def _guard(frame: DataFrame, generator: Any, dead: DeadLetter | None) -> tuple[Any, DataFrame]:
    """The generator over a column of the frame, which has one element where the row is no record."""
    collection = generator.children().head()
    frame, found = computed(frame, "__array", parted_resolved(frame, collection), dead)
    name = next(name for at in count() if (name := f"__elements_{at}") not in frame.columns)
    elements = F.when(F.col("__active"), found).otherwise(_one_element(frame, collection))
    wider = frame.withColumn(name, elements)
    jvm: Any = frame.sparkSession.sparkContext._jvm
    (attribute,) = (one for one in _output(wider) if one.name() == name)
    return generator.withNewChildren(jvm.org.apache.spark.api.python.PythonUtils.toSeq([attribute])), wider


def _one_element(frame: DataFrame, collection: Any) -> Column:
    kind = collection.dataType()
    if class_of(kind) != "MapType":
        return F.array(F.lit(None))
    jvm: Any = frame.sparkSession.sparkContext._jvm
    key = jvm.org.apache.spark.sql.catalyst.expressions.Literal.default(kind.keyType())
    return F.create_map(_column(frame, key), F.lit(None))


def _column(frame: DataFrame, expression: Any) -> Column:
    jvm: Any = frame.sparkSession.sparkContext._jvm
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))
