"""Tables of databases that a flow's expressions look up: read by Spark's JDBC source into files of this run, which
workers read as those of any other table (`spark.live_table`). Owned by `runtime.running_flow`.

A file is replaced by a rename when the database has other rows. What cannot be read again leaves the file as it is.
"""

import filecmp
import logging
import shutil
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.jdbc_source import JdbcSource
from sparkmirror.config.flow.lookup_tables import LookupTable
from sparkmirror.errors import TableProblem
from sparkmirror.shown import HIDDEN, hide_user_info, show_text
from sparkmirror.spark.live_table import read_unnamed
from sparkmirror.spark.plan_check import refuse

ANSWER_SECONDS_MAX: Final = 60.0
"""For one reading of a table. A flow waits for the first; of a later one that takes longer the log says so."""
_SAY_SECONDS: Final = 60.0
_MODE: Final = 0o600
"""Spark writes files that others may read; the directory keeps them out already."""
_NO_DRIVER: Final = ("ClassNotFoundException", "No suitable driver")

log = logging.getLogger(__name__)


class JdbcTables:
    """The tables of one flow that databases have. Each is read by a thread, which the database may keep waiting."""

    def __init__(self, flow: FlowConfig, directory: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        """Files are in `directory`, which is made, and which nobody else may enter."""
        self._flow = flow
        self._directory = directory
        databases = flow.transforms.databases
        self._tables = {table.name: _JdbcTable(str(flow.name), table, directory, clock) for table in databases}

    def ready(self, spark: SparkSession) -> FlowConfig:
        """The flow, with a file in the place of each database. A table that was read before is not read again here.

        Raises ConfigError for a table that cannot be read.
        """
        if self._tables:
            self._directory.mkdir(mode=0o700, exist_ok=True)
        for table in self._tables.values():
            table.begin(spark)
        copies = {name: table.await_first() for name, table in self._tables.items()}
        transforms = self._flow.transforms
        tables = tuple(copies.get(table.name, table) for table in transforms.tables)
        return replace(self._flow, transforms=replace(transforms, tables=tables))

    def poll(self) -> None:
        """Warns of a database that keeps a reading waiting."""
        for table in self._tables.values():
            table.poll()

    def end(self) -> None:
        for table in self._tables.values():
            table.end()


class _JdbcTable:
    """One of them: its file, and the thread that reads it."""

    def __init__(self, flow: str, table: LookupTable, directory: Path, clock: Clock) -> None:
        assert table.jdbc is not None
        self._flow = flow
        self._table = table
        self._jdbc: JdbcSource = table.jdbc
        self._directory = directory
        self._clock = clock
        self._file = directory / f"{table.name}.parquet"
        self._copy = replace(table, jdbc=None, path=str(self._file), format="parquet", is_copy=True)
        self._schema: pa.Schema | None = None
        self._thread: threading.Thread | None = None
        self._is_first_over = threading.Event()
        self._is_ended = threading.Event()
        self._problem: TableProblem | None = None
        self._read_at = self._asked_at = clock.monotonic()
        self._is_asking = False
        self._say_at = 0.0

    def begin(self, spark: SparkSession) -> None:
        """Start the thread, unless it runs: one for all readings, since each that calls Spark keeps a JVM thread."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, args=(spark,), name=f"sparkmirror-table-{self._table.name}", daemon=True
            )
            self._thread.start()

    def await_first(self) -> LookupTable:
        """The table as a file. Raises ConfigError."""
        is_over = self._is_first_over.wait(ANSWER_SECONDS_MAX)
        problem = self._problem if is_over else TableProblem(f"it has not answered for {ANSWER_SECONDS_MAX:.0f} s")
        if problem is not None:
            self.end()
            message = f"names a database, but {self._jdbc.what} cannot be read: {problem.args[0]}"
            raise refuse(self._jdbc.source, message, problem.hint or "see to the database, and start again")
        return self._copy

    def poll(self) -> None:
        silent = self._clock.monotonic() - self._asked_at
        if self._is_first_over.is_set() and self._is_asking and silent >= ANSWER_SECONDS_MAX:
            self._warn(f"it has not answered for {silent:.0f} s")

    def end(self) -> None:
        self._is_ended.set()

    def _run(self, spark: SparkSession) -> None:
        try:
            self._read(spark)
        except TableProblem as problem:
            self._problem = problem
            return
        finally:
            self._is_first_over.set()
        while not self._is_ended.wait(self._table.reload_seconds):
            try:
                self._read(spark)
            except TableProblem as problem:
                if not self._is_ended.is_set():
                    self._warn(str(problem.args[0]))

    def _warn(self, reason: str) -> None:
        """At most once a minute: a short interval is not a reason to fill a log."""
        now = self._clock.monotonic()
        if now >= self._say_at:
            self._say_at = now + _SAY_SECONDS
            log.warning(
                "%s: the table %s (%s) cannot be read again: %s; records are looked up in the rows of %.0f s ago.",
                self._flow, self._table.name, self._jdbc.what, reason, now - self._read_at,
                extra={"event": "table-not-read"},
            )  # fmt: skip

    def _read(self, spark: SparkSession) -> None:
        """Raises TableProblem."""
        self._asked_at = self._clock.monotonic()
        self._is_asking = True
        fresh = self._directory / f"{self._table.name}-{uuid.uuid4().hex[:12]}"
        try:
            rows = spark.read.format("jdbc").options(**dict(self._jdbc.options)).load()
            rows.coalesce(1).write.parquet(fresh.as_uri())
            self._put_in_place(next(fresh.glob("part-*.parquet")))
        except TableProblem:
            raise
        except Exception as problem:  # Spark's, and whatever a driver throws
            raise _explain(problem, self._jdbc) from None
        finally:
            self._is_asking = False
            shutil.rmtree(fresh, ignore_errors=True)

    def _put_in_place(self, fresh: Path) -> None:
        """Rows that are as before leave the file alone, so that no worker reads it again."""
        began = self._asked_at
        if self._schema is None or not filecmp.cmp(fresh, self._file, shallow=False):
            version = read_unnamed(replace(self._copy, path=str(fresh)), self._schema)
            fresh.chmod(_MODE)
            fresh.replace(self._file)
            if self._schema is not None:
                log.info("%s: the table %s was read again, %d rows.", self._flow, self._table.name, len(version.rows))
            self._schema = pa.schema(list(version.rows.type))
        self._read_at, self._say_at = began, 0.0


def _explain(problem: Exception, jdbc: JdbcSource) -> TableProblem:
    """The sentence of a failure, without secrets that a driver may have put into it."""
    texts = list(_causes(problem))
    said = next((text for text in texts if "SQL" in text.partition(":")[0]), texts[-1])
    for secret in jdbc.secrets:
        said = said.replace(secret, HIDDEN)
    hint = ""
    if any(mark in text for text in texts for mark in _NO_DRIVER):
        hint = (
            "name the jar of the database's JDBC driver by `--conf spark.jars=/path/to/driver.jar`, and its class by "
            "`transforms.table.<name>.jdbc.driver`, which for some databases is known"
        )
    return TableProblem(show_text(hide_user_info(said)), hint)


def _causes(problem: Exception) -> Iterator[str]:
    """The first lines of an exception and of what caused it, outermost first."""
    cause: Any = problem.java_exception if isinstance(problem, Py4JJavaError) else getattr(problem, "_origin", None)
    if cause is None:
        yield _first_line(f"{type(problem).__name__}: {problem}")
    while cause is not None:
        yield _first_line(str(cause.toString()))
        cause = cause.getCause()


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), text)
