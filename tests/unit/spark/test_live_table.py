"""A table that is looked up: read as its format says, renewed while it serves, never replaced by what is no table."""

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, json, parquet
from tests.manual_clock import ManualClock

from sparkmirror.config.flow.lookup_tables import LookupTable
from sparkmirror.config.flow.source_line import Source
from sparkmirror.errors import TableProblem
from sparkmirror.spark import live_table
from sparkmirror.spark.live_table import LiveTable, read_version

ROWS: list[dict[str, Any]] = [{"id": 1, "region": "eu"}, {"id": 7, "region": None}, {"id": None, "region": "nowhere"}]
ANSWERS: list[Any] = []


def answer() -> Any:
    found = ANSWERS[0]
    if isinstance(found, Exception):
        raise found
    return found


def table_of(path: Path | str = "", kind: str = "parquet", *keys: str, function: str = "") -> LookupTable:
    line = Source("transforms.table.t.key", 1, "mm2")
    return LookupTable("t", keys or ("id",), str(path), function, kind, 60.0, line)


def store(path: Path, rows: list[dict[str, Any]]) -> None:
    """As one does who replaces a file that others read."""
    fresh = path.with_suffix(".fresh")
    parquet.write_table(pa.Table.from_pylist(rows), fresh)
    fresh.rename(path)


def live(table: LookupTable, clock: ManualClock | None = None) -> LiveTable:
    return LiveTable(table, pa.schema(list(read_version(table).rows.type)), clock or ManualClock())


def found(table: LiveTable, *keys: Any) -> list[Any]:
    return table.look_up([pa.array(keys)]).to_pylist()


def renewed(table: LiveTable) -> None:
    """Wait until the thread that reads it again is over."""
    assert table._reading is not None
    table._reading.join(30)


def test_keys_compare_as_text_and_a_missing_one_is_null(tmp_path: Path) -> None:
    store(tmp_path / "t.parquet", ROWS)
    table = live(table_of(tmp_path / "t.parquet"))
    assert found(table, b"7", b"1", b"8", None) == [ROWS[1], ROWS[0], None, None]
    assert found(table, "7") == found(table, 7) == [ROWS[1]]
    assert found(table, None) == [None], "the row without a key is nobody's"
    with pytest.raises(TableProblem, match="a key of type double cannot be looked up"):
        found(table, 7.0)


def test_a_key_of_two_columns(tmp_path: Path) -> None:
    rows = [{"shop": "a", "id": 1, "name": "x"}, {"shop": "b", "id": 1, "name": "y"}]
    store(tmp_path / "t.parquet", rows)
    table = live(table_of(tmp_path / "t.parquet", "parquet", "shop", "id"))
    assert table.look_up([pa.array(["b", "b", None]), pa.array([1, 2, 1])]).to_pylist() == [rows[1], None, None]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "json", "csv"])
def test_each_format_is_read_and_csv_is_text(tmp_path: Path, kind: str) -> None:
    path, rows = tmp_path / f"t.{kind}", pa.Table.from_pylist(ROWS[:2])
    if kind == "csv":
        csv.write_csv(pa.Table.from_pylist([{"id": "007", "region": "NA"}, {"id": "8", "region": None}]), path)
        assert found(live(table_of(path, kind)), "007", "7", "8") == [
            {"id": "007", "region": "NA"}, None, {"id": "8", "region": None},
        ]  # fmt: skip
        return
    if kind == "json":
        path.write_text('{"id": 1, "region": "eu"}\n{"id": 7, "region": null}\n')
        assert json.read_json(path).num_rows == 2
    elif kind == "arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
    else:
        parquet.write_table(rows, path)
    assert found(live(table_of(path, kind)), 1, 7) == ROWS[:2]


def test_a_directory_of_files_is_one_table(tmp_path: Path) -> None:
    for number, row in enumerate(ROWS[:2]):
        parquet.write_table(pa.Table.from_pylist([row], pa.schema([("id", pa.int64()), ("region", pa.string())])),
                            tmp_path / f"part-{number}.parquet")  # fmt: skip
    (tmp_path / "_SUCCESS").touch()
    assert found(live(table_of(tmp_path)), 1, 7) == ROWS[:2]


@pytest.mark.parametrize(("is_copy", "said"), [(False, ["the table t was read again, 1 rows."]), (True, [])])
def test_a_newer_version_is_taken_on_when_its_time_has_come(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_copy: bool, said: list[str]
) -> None:
    """Of a copy of a database's table the log has the sentence of who made it."""
    caplog.set_level(logging.INFO)
    path, clock = tmp_path / "t.parquet", ManualClock()
    store(path, ROWS)
    table = live(replace(table_of(path), is_copy=is_copy), clock)
    assert found(table, 1) == [ROWS[0]]
    store(path, [{"id": 1, "region": "us", "more": 5}])
    assert found(table, 1) == [ROWS[0]], "not before the interval is over"
    clock.now += 60
    found(table, 1)
    renewed(table)
    assert found(table, 1) == [{"id": 1, "region": "us"}], "columns that it did not have are left out"
    assert caplog.messages == said


def test_a_reading_that_hangs_is_said_once_and_the_former_version_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, clock, goes_on = tmp_path / "t.parquet", ManualClock(), threading.Event()
    store(path, ROWS)
    table = live(table_of(path), clock)
    found(table, 1)
    store(path, [{"id": 1, "region": "us"}])
    signature_of = live_table.signature_of

    def hang(table: LookupTable) -> Any:
        goes_on.wait(30)
        return signature_of(table)

    monkeypatch.setattr(live_table, "signature_of", hang)
    for seconds in (60, 59, 31, 60):
        clock.now += seconds
        assert found(table, 1) == [ROWS[0]]
    assert caplog.messages == [
        f"a reading of the table t ({path}) has lasted for 90 s, and goes on; "
        "records are looked up in what was read before."
    ]
    goes_on.set()
    renewed(table)
    assert found(table, 1) == [{"id": 1, "region": "us"}]


def test_a_table_that_is_the_same_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, clock = tmp_path / "t.parquet", ManualClock()
    store(path, ROWS)
    table = live(table_of(path), clock)
    found(table, 1)
    monkeypatch.setattr(live_table, "read_version", lambda *_: pytest.fail("it was read"))
    clock.now += 60
    found(table, 1)
    renewed(table)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (os.remove, "FileNotFoundError"),
        (lambda path: path.write_bytes(b"rubbish"), "cannot be read"),
        (lambda path: store(path, [{"id": 1}]), "region"),
        (lambda path: store(path, [{"id": 1, "region": "a"}, {"id": 1, "region": "b"}]), "b'1' is in it twice"),
    ],
)
def test_what_cannot_be_read_is_said_and_the_former_version_serves_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], object], said: str
) -> None:
    path, clock = tmp_path / "t.parquet", ManualClock()
    store(path, ROWS)
    table = live(table_of(path), clock)
    found(table, 1)
    spoil(path)
    clock.now += 60
    with caplog.at_level(logging.WARNING):
        found(table, 1)
        renewed(table)
    assert found(table, 1) == [ROWS[0]] and said in caplog.text and str(path) in caplog.text
    store(path, [{"id": 1, "region": "us"}])
    clock.now += 60
    found(table, 1)
    renewed(table)
    assert found(table, 1) == [{"id": 1, "region": "us"}]


def test_a_storage_that_is_away_is_said_and_the_former_version_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, clock = tmp_path / "t.parquet", ManualClock()
    store(path, ROWS)
    table = live(table_of(path), clock)
    found(table, 1)

    def refuse(_: LookupTable) -> Any:
        raise OSError("When getting information for key 't': AWS Error NETWORK_CONNECTION")

    monkeypatch.setattr(live_table, "signature_of", refuse)
    clock.now += 60
    with caplog.at_level(logging.WARNING):
        assert found(table, 1) == [ROWS[0]]
        renewed(table)
    assert f"the table t ({path}) cannot be read: OSError: When getting information" in caplog.text
    assert "Traceback" not in caplog.text


def test_a_table_that_cannot_be_read_is_said_once_a_minute(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, clock = tmp_path / "t.parquet", ManualClock()
    store(path, ROWS)
    table = live(replace(table_of(path), reload_seconds=1.0), clock)
    found(table, 1)

    def count() -> int:
        clock.now += 2
        with caplog.at_level(logging.WARNING):
            found(table, 1)
            renewed(table)
        return len(caplog.messages)

    path.unlink()
    assert [count(), count(), count()] == [1, 1, 1]
    clock.now += 60
    assert [count(), count()] == [2, 2]
    store(path, ROWS)
    assert count() == 2
    path.unlink()
    assert count() == 3, "it was there meanwhile"


def test_a_function_gives_a_table_or_rows_and_may_fail_later() -> None:
    clock, table = ManualClock(), table_of(function=f"{__name__}:answer")
    ANSWERS[:] = [ROWS]
    served = live(table, clock)
    assert found(served, 1) == [ROWS[0]]
    ANSWERS[:] = [OSError("the database is away")]
    clock.now += 60
    found(served, 1)
    renewed(served)
    ANSWERS[:] = [pa.Table.from_pylist([{"id": 1, "region": "us"}])]
    assert found(served, 1) == [ROWS[0]]
    clock.now += 60
    found(served, 1)
    renewed(served)
    assert found(served, 1) == [{"id": 1, "region": "us"}]


@pytest.mark.parametrize(
    ("given", "said"),
    [([], "returned list"), (5, "returned int"), ([{"name": 1}], "no column id; its")],
)
def test_what_is_no_table_is_refused(given: Any, said: str) -> None:
    ANSWERS[:] = [given]
    with pytest.raises(TableProblem, match=said):
        read_version(table_of(function=f"{__name__}:answer"))


def test_a_table_beyond_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store(tmp_path / "t.parquet", ROWS)
    monkeypatch.setattr(live_table, "TABLE_BYTES_MAX", 8)
    with pytest.raises(TableProblem, match="MiB of memory"):
        read_version(table_of(tmp_path / "t.parquet"))


def test_a_file_that_changes_while_it_is_read_is_no_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store(tmp_path / "t.parquet", ROWS)
    signatures = iter([["before"], ["after"]])
    monkeypatch.setattr(live_table, "signature_of", lambda _: next(signatures))
    with pytest.raises(TableProblem, match="replace them by a rename"):
        read_version(table_of(tmp_path / "t.parquet"))
