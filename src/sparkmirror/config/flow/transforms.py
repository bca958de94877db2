"""Reads the `transforms` and `predicates` of a file as steps, each a few SQL expressions that change a flow's records.

Called by `config.flow.flows`. Expressions are texts here; Spark judges them when the flow starts (`spark.record_plan`).
A `Source` says where each stands. `config.flow.connect_transforms` translates Connect's own transformations.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sparkmirror.config.flow.connect_transforms import PREDICATES, TRANSFORMS, Given, Unusable
from sparkmirror.config.flow.lookup_tables import PREFIX as TABLE
from sparkmirror.config.flow.lookup_tables import LookupTable, read_tables
from sparkmirror.config.flow.schema_registries import AVRO, SchemaRegistries, read_registries
from sparkmirror.config.flow.schema_registries import PREFIX as SCHEMAS
from sparkmirror.config.flow.source_line import FUNCTION_NAME, Source
from sparkmirror.config.formats.properties import Entry
from sparkmirror.config.keys.flow_keys import (
    TRANSFORMS_DEADLETTER_TOPIC,
    TRANSFORMS_DEADLETTER_WHEN,
    TRANSFORMS_EXPLODE,
    TRANSFORMS_FUNCTION,
    TRANSFORMS_WHERE,
)
from sparkmirror.config.reading import Problems
from sparkmirror.config.types import split_list
from sparkmirror.policy.naming import can_hold_data

WHERE, EXPLODE, FUNCTION = TRANSFORMS_WHERE.name, TRANSFORMS_EXPLODE.name, TRANSFORMS_FUNCTION.name
DEAD_WHEN, DEAD_TOPIC = TRANSFORMS_DEADLETTER_WHEN.name, TRANSFORMS_DEADLETTER_TOPIC.name
_SET = "transforms.set."
_OURS = ("where", "set", "deadletter", "explode", "function", "table", "schemas", "avro")
_COLUMNS = {"topic": "target_topic", "partition": "target_partition"}
SETTABLE = ("topic", "partition", "timestamp", "key", "value", "headers")


@dataclass(frozen=True, slots=True)
class Keep:
    """Records for which `condition` is true go on; all others are dropped."""

    condition: str
    source: Source


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Records for which `condition` is true go to `topic` as they came; the other steps do not touch them."""

    condition: str
    topic: str
    source: Source


@dataclass(frozen=True, slots=True)
class Explode:
    """A record becomes one for each element of the array that `expression` gives; later expressions see its number and
    itself as `pos` and `col`. Of a record with an empty array, or none, nothing becomes."""

    expression: str
    source: Source


@dataclass(frozen=True, slots=True)
class SetColumn:
    """`column` of the written record becomes `expression`; those of one list see the record as it was before it."""

    column: str
    expression: str
    source: Source


@dataclass(frozen=True, slots=True)
class SetColumns:
    columns: tuple[SetColumn, ...]


@dataclass(frozen=True, slots=True)
class CallFunction:
    """`name` is `module:function`, from DataFrame to DataFrame."""

    name: str
    source: Source


Step: TypeAlias = Keep | DeadLetter | Explode | SetColumns | CallFunction


@dataclass(frozen=True, slots=True)
class Transforms:
    """The steps of a flow in their order; none for a flow whose batches pass untouched. `tables` are what their
    expressions may look records up in, `schemas` where the schemas of values are registered."""

    steps: tuple[Step, ...] = ()
    tables: tuple[LookupTable, ...] = ()
    schemas: SchemaRegistries | None = None

    @property
    def may_multiply(self) -> bool:
        """Whether a step can make several records of one."""
        return any(isinstance(step, Explode | CallFunction) for step in self.steps)

    @property
    def sets_partition(self) -> bool:
        """Whether an expression chooses the target's partition; what a function does nobody knows before it is
        called."""
        sets = (step.columns for step in self.steps if isinstance(step, SetColumns))
        return any(one.column == _COLUMNS["partition"] for columns in sets for one in columns)

    @property
    def databases(self) -> tuple[LookupTable, ...]:
        """Those of the tables that databases have; none where no step could look anything up."""
        return tuple(table for table in self.tables if table.jdbc is not None) if self.steps else ()


NO_TRANSFORMS = Transforms()


def read_transforms(layer: Mapping[str, Entry], problems: Problems) -> Transforms:
    """The steps that the flow's properties ask for, in the order: where, deadletter, Connect's list, explode, set,
    function."""
    entries = {name: entry for name, entry in layer.items() if re.match(r"(transforms|predicates)(\.|$)", name)}
    steps: list[Step] = []
    if entry := entries.get(WHERE):
        steps.append(Keep(_expression(entry, problems), _source(entry, problems)))
    steps += _dead_letter(entries, problems)
    steps += _connect_steps(entries, problems)
    if entry := entries.get(EXPLODE):
        steps.append(Explode(_expression(entry, problems), _source(entry, problems)))
    steps += _set_columns(entries, problems)
    steps += _function(entries, problems)
    return Transforms(tuple(steps), read_tables(entries, problems), read_registries(entries, problems))


def warn_of_unread_tables(flows: Sequence[Transforms], problems: Problems) -> None:
    """Warns of each table in which no flow looks anything up, since a flow without steps passes whole batches."""
    read = {table.source for one in flows if one.steps for table in one.tables}
    for table in {table.source: table for one in flows for table in one.tables if table.source not in read}.values():
        where = table.source
        problems.warn(
            f"the table `{table.name}` is not used: no flow that has it has a step that could look it up",
            Entry(where.key, "", where.line, where.file),
            f"write a step such as `{WHERE} = lookup_{table.name}(key) IS NOT NULL`, or remove the table's lines",
        )


def _source(entry: Entry, problems: Problems) -> Source:
    return Source(entry.key, entry.line, entry.file or problems.file)


def _expression(entry: Entry, problems: Problems) -> str:
    if not entry.value.strip():
        problems.error(f"`{entry.key}` is empty", "write a Spark SQL expression, or remove the line", entry)
    return entry.value.strip()


def _dead_letter(entries: Mapping[str, Entry], problems: Problems) -> list[Step]:
    when, topic = entries.get(DEAD_WHEN), entries.get(DEAD_TOPIC)
    if when and topic:
        if not can_hold_data(topic.value.strip()):
            what = f"names `{topic.value.strip()}`, which cannot be a topic for data"
            hint = (
                "use letters, digits, `.`, `_` and `-`; a name that begins with `__` or `mm2-` is an internal topic's"
            )
            problems.error(f"`{topic.key}` {what}", hint, topic)
        return [DeadLetter(_expression(when, problems), topic.value.strip(), _source(when, problems))]
    if when:
        problems.error(f"`{when.key}` needs `{DEAD_TOPIC}`", f"add a line such as `{DEAD_TOPIC} = dead-letters`", when)
    elif topic:
        problems.error(f"`{topic.key}` needs `{DEAD_WHEN}`", "say which records go there, or remove the line", topic)
    return []


def _set_columns(entries: Mapping[str, Entry], problems: Problems) -> list[Step]:
    columns: list[SetColumn] = []
    for name, entry in entries.items():
        column = name.removeprefix(_SET)
        if not name.startswith(_SET):
            continue
        if column in SETTABLE:
            text = _expression(entry, problems)
            columns.append(SetColumn(_COLUMNS.get(column, column), text, _source(entry, problems)))
        else:
            why = "the target numbers its records itself" if column == "offset" else "there is no such column"
            problems.error(f"`{entry.key}` cannot be set: {why}", f"columns to set are {', '.join(SETTABLE)}", entry)
    return [SetColumns(tuple(columns))] if columns else []


def _function(entries: Mapping[str, Entry], problems: Problems) -> list[Step]:
    entry = entries.get(FUNCTION)
    if entry is None:
        return []
    if not FUNCTION_NAME.fullmatch(entry.value.strip()):
        problems.error(f"`{entry.key} = {entry.value}` must be written `module:function`", entry=entry)
    return [CallFunction(entry.value.strip(), _source(entry, problems))]


# Connect's way: lists of aliases, each with a type and settings below it.


def _connect_steps(entries: Mapping[str, Entry], problems: Problems) -> list[Step]:
    predicates = _predicates(entries, problems)
    listed = entries.get("transforms")
    steps: list[Step] = []
    aliases = split_list(listed.value) if listed else ()
    for alias in aliases:
        if alias in _OURS:
            problems.error(f"`transforms` lists `{alias}`, which means something else here", "rename it", listed)
            continue
        step = _connect_step(alias, _given(entries, f"transforms.{alias}"), predicates, problems, listed)
        steps += [step] if step else []
    _refuse_unlisted(entries, aliases, problems)
    return steps


def _given(entries: Mapping[str, Entry], prefix: str) -> dict[str, Entry]:
    return {name.removeprefix(f"{prefix}."): entry for name, entry in entries.items() if name.startswith(f"{prefix}.")}


def _connect_step(
    alias: str, given: dict[str, Entry], predicates: Mapping[str, str], problems: Problems, listed: Entry | None
) -> Step | None:
    kind = given.get("type")
    if kind is None:
        problems.error(f"`transforms` lists `{alias}`, which has no `transforms.{alias}.type`", entry=listed)
        return None
    try:
        condition = _condition(given, predicates)
        made = TRANSFORMS.translate(Given(kind.value.strip(), {name: entry.value for name, entry in given.items()}))
    except Unusable as unusable:
        problems.error(f"`{kind.key} = {kind.value}` {unusable}", unusable.hint, kind)
        return None
    source = _source(kind, problems)
    if made is None:
        return Keep("false" if condition is None else f"NOT ({condition})", source)
    column, expression = made
    if condition is not None:
        expression = f"CASE WHEN {condition} THEN {expression} ELSE {column} END"
    return SetColumns((SetColumn(column, expression, source),))


def _condition(given: Mapping[str, Entry], predicates: Mapping[str, str]) -> str | None:
    name = given.get("predicate")
    if name is None:
        return None
    if name.value.strip() not in predicates:
        raise Unusable(f"uses the predicate `{name.value.strip()}`, which `predicates` does not list")
    condition = predicates[name.value.strip()]
    negate = given.get("negate")
    is_negated = negate is not None and negate.value.strip().lower() == "true"
    return f"NOT ({condition})" if is_negated else condition


def _predicates(entries: Mapping[str, Entry], problems: Problems) -> dict[str, str]:
    listed = entries.get("predicates")
    found: dict[str, str] = {}
    for alias in split_list(listed.value) if listed else ():
        given = _given(entries, f"predicates.{alias}")
        kind = given.get("type")
        if kind is None:
            problems.error(f"`predicates` lists `{alias}`, which has no `predicates.{alias}.type`", entry=listed)
            continue
        try:
            values = {name: entry.value for name, entry in given.items()}
            found[alias] = PREDICATES.translate(Given(kind.value.strip(), values))
        except Unusable as unusable:
            problems.error(f"`{kind.key} = {kind.value}` {unusable}", unusable.hint, kind)
            found[alias] = "false"
    return found


def _refuse_unlisted(entries: Mapping[str, Entry], aliases: tuple[str, ...], problems: Problems) -> None:
    """A line that no step was made of: without it records would be copied otherwise than its author thinks."""
    listed = entries.get("predicates")
    known = [f"transforms.{alias}." for alias in aliases]
    known += [f"predicates.{alias}." for alias in (split_list(listed.value) if listed else ())]
    whole = {"transforms", "predicates", WHERE, DEAD_WHEN, DEAD_TOPIC, EXPLODE, FUNCTION}
    for name, entry in entries.items():
        if name not in whole and not name.startswith((_SET, TABLE, SCHEMAS, AVRO, *known)):
            family = name.split(".")[0]
            problems.error(
                f"`{entry.key}` belongs to nothing that `{family}` lists",
                f"add its alias to `{family}`, or write `{WHERE}`, `{_SET}<column>`, `{DEAD_WHEN}` or `{FUNCTION}`",
                entry,
            )
