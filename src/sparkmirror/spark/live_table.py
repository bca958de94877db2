"""A table that a flow's expressions look up, in a Python worker: read when it is first asked for, and read again while
it serves. Called by `spark.lookup`.

Each worker holds its own copy, reads files where Spark's executor runs, and takes a newer version on between two
batches of rows: a record sees the version that its task has when it arrives. A version that cannot be read is not
taken on.
"""

import importlib
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pyarrow as pa

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.config.flow.lookup_tables import LookupTable
from sparkmirror.errors import TableProblem

TABLE_BYTES_MAX: Final = 256 << 20
"""Of a table in memory. Each task of a flow has a copy."""
_SAY_SECONDS: Final = 60.0
_LATE_SECONDS: Final = 60.0
"""After which a reading that goes on is said."""

log = logging.getLogger(__name__)


class Version(NamedTuple):
    """A table as it was read: its rows, and the row of each key. `signature` tells whether its files are the same."""

    rows: pa.StructArray
    places: Mapping[Any, int]
    signature: Any


class LiveTable:
    """One worker's copy. `schema` is what the rows had when the flow began: later versions have at least as much."""

    def __init__(self, table: LookupTable, schema: pa.Schema, clock: Clock = SYSTEM_CLOCK) -> None:
        self._table = table
        self._schema = schema
        self._clock = clock
        self._version: Version | None = None
        self._look_at = self._say_at = self._began_at = 0.0
        self._is_late = False
        self._reading: threading.Thread | None = None

    def look_up(self, keys: Sequence[pa.Array]) -> pa.StructArray:
        """The row of each key, null where there is none; `keys` are the parts of the key.

        Raises TableProblem where the table has not been read and cannot be.
        """
        version = self._current()
        return version.rows.take(pa.array(map(version.places.get, _joined(keys)), pa.int64()))

    def _current(self) -> Version:
        now = self._clock.monotonic()
        if self._version is None:
            self._version = read_version(self._table, self._schema)
            self._look_at = now + self._table.reload_seconds
        elif self._reading is not None and self._reading.is_alive():
            self._warn_if_late(now)
        elif now >= self._look_at:
            self._look_at = now + self._table.reload_seconds
            self._began_at, self._is_late = now, False
            self._reading = threading.Thread(target=self._renew, args=(self._version,), daemon=True)
            self._reading.start()
        return self._version

    def _warn_if_late(self, now: float) -> None:
        """Once for each reading: a storage that hangs keeps its thread, and no other reading begins."""
        lasts = now - self._began_at
        if lasts >= _LATE_SECONDS and not self._is_late:
            self._is_late = True
            _log(f"a reading of the table {_shown(self._table)} has lasted for {lasts:.0f} s, and goes on")

    def _renew(self, before: Version) -> None:
        """Records do not wait for it."""
        try:
            with _named(self._table):
                is_same = before.signature is not None and signature_of(self._table) == before.signature
            if not is_same:
                self._version = read_version(self._table, self._schema)
                if not self._table.is_copy:
                    log.info("the table %s was read again, %d rows.", self._table.name, len(self._version.rows))
            self._say_at = 0.0
        except TableProblem as problem:
            self._warn(problem)

    def _warn(self, problem: TableProblem) -> None:
        """At most once a minute: a short interval is not a reason to fill a log."""
        now = self._clock.monotonic()
        if now >= self._say_at:
            self._say_at = now + _SAY_SECONDS
            _log(str(problem.args[0]))


def _log(what: str) -> None:
    log.warning("%s; records are looked up in what was read before.", what, extra={"event": "table-not-read"})


def _shown(table: LookupTable) -> str:
    return f"{table.name} ({table.path or table.function})"


def read_version(table: LookupTable, schema: pa.Schema | None = None) -> Version:
    """The table as it is now, with the columns of `schema`, or all. Raises TableProblem."""
    with _named(table):
        return read_unnamed(table, schema)


@contextmanager
def _named(table: LookupTable) -> Iterator[None]:
    """Turns what a table's storage, files or function raise into TableProblem, with the table's name."""
    try:
        yield
    except Exception as problem:
        what = f"{type(problem).__name__}: {problem}" if not isinstance(problem, TableProblem) else problem.args[0]
        raise TableProblem(f"the table {_shown(table)} cannot be read: {what}") from None


def read_unnamed(table: LookupTable, schema: pa.Schema | None = None) -> Version:
    """As `read_version`. Raises TableProblem without the table's name, and what its files or its function raise."""
    before = signature_of(table)
    found = _called(table) if table.function else _read_files(table)
    if signature_of(table) != before:
        raise TableProblem("its files changed while they were read: replace them by a rename")
    if found.nbytes > TABLE_BYTES_MAX:
        raise TableProblem(f"it takes {found.nbytes >> 20} MiB of memory, more than {TABLE_BYTES_MAX >> 20}")
    if missing := [name for name in table.keys if name not in found.column_names]:
        raise TableProblem(f"it has no column {', '.join(missing)}; its columns are {', '.join(found.column_names)}")
    found = _without_dictionaries(found)
    rows = found if schema is None else found.select(schema.names).cast(schema)
    return Version(_as_struct(rows), _places(found, table.keys), before)


def _without_dictionaries(found: pa.Table) -> pa.Table:
    fields = [one.with_type(one.type.value_type) if pa.types.is_dictionary(one.type) else one for one in found.schema]
    return found.cast(pa.schema(fields))


def _as_struct(rows: pa.Table) -> pa.StructArray:
    whole = rows.combine_chunks()
    columns = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in whole.columns]
    return pa.StructArray.from_arrays(columns, fields=list(whole.schema))


def _places(found: pa.Table, names: Sequence[str]) -> dict[Any, int]:
    keys = _joined([found.column(name).combine_chunks() for name in names])
    places = {key: at for at, key in enumerate(keys) if key is not None}
    twice = next((key for at, key in enumerate(keys) if key is not None and places[key] != at), None)
    if twice is not None:
        raise TableProblem(f"the key {twice!r} is in it twice")
    return places


def _joined(parts: Sequence[pa.Array]) -> list[Any]:
    """Keys as the bytes of their text, tuples of several parts; None where a part is null."""
    texts: list[list[Any]] = [_text(part).to_pylist() for part in parts]
    if len(texts) == 1:
        return texts[0]
    return [None if None in key else key for key in zip(*texts, strict=True)]


def _text(array: pa.Array) -> pa.Array:
    """Keys compare as text: the number 7 is the string 7, and the bytes 7."""
    kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return array
    if not fits_key(kind):
        raise TableProblem(f"a key of type {kind} cannot be looked up: use a string, bytes, a whole number or a date")
    return array.cast(pa.string()).cast(pa.binary())


def fits_key(kind: pa.DataType) -> bool:
    """Whether a column of this type has one text for each value."""
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_null(kind)
    return bool(is_text or types.is_integer(kind) or types.is_date(kind) or types.is_boolean(kind))


# What is read.


def signature_of(table: LookupTable) -> Any:
    """Paths, sizes and times of the table's files; None for a function, whose answer may always be another one."""
    if table.function:
        return None
    from pyarrow.fs import FileSelector, FileType

    system, path = _place(table.path)
    info = system.get_file_info(path)
    found = system.get_file_info(FileSelector(path, recursive=True)) if info.type == FileType.Directory else [info]
    return sorted((one.path, one.size or 0, one.mtime_ns or 0) for one in found if one.type != FileType.Directory)


def _place(path: str) -> tuple[Any, str]:
    from pyarrow.fs import FileSystem, LocalFileSystem

    found: tuple[Any, str] = FileSystem.from_uri(path) if "://" in path else (LocalFileSystem(), path)
    return found


def _read_files(table: LookupTable) -> pa.Table:
    from pyarrow import dataset

    system, path = _place(table.path)
    found = dataset.dataset(path, format=table.format, filesystem=system)
    if table.format == "csv":  # as Spark reads it: text, and nothing is null
        found = dataset.dataset(path, format=_text_only(found.schema.names), filesystem=system)
    return found.to_table()


def _text_only(names: Sequence[str]) -> Any:
    from pyarrow import csv, dataset

    options = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
    )
    return dataset.CsvFileFormat(convert_options=options)


def _called(table: LookupTable) -> pa.Table:
    module, _, name = table.function.partition(":")
    answer = getattr(importlib.import_module(module), name)()
    if isinstance(answer, pa.Table):
        return answer
    if isinstance(answer, pa.RecordBatch):
        return pa.Table.from_batches([answer])
    if isinstance(answer, list) and answer and all(isinstance(row, dict) for row in answer):
        return pa.Table.from_pylist(answer)
    raise TableProblem(f"it returned {type(answer).__name__}, where a pyarrow.Table or a list of dicts is wanted")
