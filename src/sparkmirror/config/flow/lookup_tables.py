"""Reads the `transforms.table.<name>.…` lines of a file: tables in which a flow's expressions look records up.

Called by `config.flow.transforms`. `spark.lookup` makes a function of each table, and reads and reloads it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from sparkmirror.config.flow.jdbc_source import OPTION, SETTINGS, JdbcSource, read_jdbc
from sparkmirror.config.flow.named_settings import group_by_name
from sparkmirror.config.flow.source_line import FUNCTION_NAME, Source
from sparkmirror.config.formats.properties import Entry
from sparkmirror.config.keys.flow_keys import TRANSFORMS_TABLE_FORMAT, TRANSFORMS_TABLE_RELOAD
from sparkmirror.config.reading import Problems
from sparkmirror.config.types import split_list

PREFIX: Final = "transforms.table."
FORMATS: Final = ("parquet", "csv", "json", "arrow")
_SETTINGS: Final = ("path", "function", "format", "key", "reload.interval.ms", *SETTINGS)
_SOURCES: Final = ("a path", "a function", "a database")


@dataclass(frozen=True, slots=True)
class LookupTable:
    """A table whose rows are found by `keys`, columns of it. It is in the file or directory `path`, of that `format`,
    or is what the Python function `function` (`module:function`) returns, or a database's `jdbc`; two of them are
    empty. `source` is the line of its key. `is_copy` of a file that this run makes of a database's table: who makes it
    says when it has other rows."""

    name: str
    keys: tuple[str, ...]
    path: str
    function: str
    format: str
    reload_seconds: float
    source: Source
    jdbc: JdbcSource | None = None
    is_copy: bool = False


def read_tables(entries: Mapping[str, Entry], problems: Problems) -> tuple[LookupTable, ...]:
    """The flow's tables, in the order of the file."""
    named = group_by_name(entries, PREFIX, _SETTINGS, "table", problems, (OPTION,))
    return tuple(table for name, given in named.items() for table in _read(name, given, problems))


def _read(name: str, given: Mapping[str, Entry], problems: Problems) -> Iterator[LookupTable]:
    some = next(iter(given.values()))
    path, function = (given[one].value.strip() if one in given else "" for one in ("path", "function"))
    of_database = {setting: entry for setting, entry in given.items() if setting.startswith("jdbc.")}
    found = [what for what, given_so in zip(_SOURCES, (path, function, of_database), strict=True) if given_so]
    if len(found) != 1:
        what = " and ".join(found) if found else f"none of {', '.join(_SOURCES)}"
        hint = f"write one of `{PREFIX}{name}.path = …`, `.function = …` and `.jdbc.url = …`"
        problems.error(f"the table `{name}` has {what}", hint, some)
    elif "key" not in given or not (keys := split_list(given["key"].value)):
        problems.error(f"the table `{name}` has no key", f"write `{PREFIX}{name}.key = <column>`", some)
    elif function and not FUNCTION_NAME.fullmatch(function):
        problems.error(f"`{given['function'].key} = {function}` must be written `module:function`", entry=some)
    else:
        jdbc = read_jdbc(name, of_database, problems) if of_database else None
        kind = _format(path, given.get("format"), problems)
        seconds = _reload_ms(given.get("reload.interval.ms"), problems) / 1000
        line = Source(given["key"].key, given["key"].line, given["key"].file or problems.file)
        yield LookupTable(name, tuple(keys), path, function, kind, seconds, line, jdbc)


def _format(path: str, entry: Entry | None, problems: Problems) -> str:
    if entry is None:
        suffix = PurePosixPath(path).suffix.removeprefix(".").lower()
        return suffix if suffix in FORMATS else TRANSFORMS_TABLE_FORMAT.default
    try:
        return TRANSFORMS_TABLE_FORMAT.type.parse(entry.value)
    except ValueError as problem:
        problems.error(f"`{entry.key} = {entry.value}` {problem}", entry=entry)
        return TRANSFORMS_TABLE_FORMAT.default


def _reload_ms(entry: Entry | None, problems: Problems) -> int:
    if entry is None:
        return TRANSFORMS_TABLE_RELOAD.default
    try:
        return TRANSFORMS_TABLE_RELOAD.type.parse(entry.value)
    except ValueError as problem:
        problems.error(f"`{entry.key} = {entry.value}` {problem}", entry=entry)
        return TRANSFORMS_TABLE_RELOAD.default
