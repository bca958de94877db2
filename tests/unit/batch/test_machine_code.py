"""Loops as machine code: linked where they were compiled before, compiled where they were not, or are damaged."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sparkmirror.batch import compiling, kernel_files, machine_code
from sparkmirror.batch.machine_code import BYTES, INTEGER, ROOM, TABLE, Bytes, Int64, Integers, kernel, part


@part
def _double(number: Int64) -> Int64:
    return number * 2


def _sums(content: Bytes, table: Integers, more: Int64, is_doubled: bool, room: Bytes) -> Any:
    total = np.int64(more)
    for place in range(content.shape[0]):
        total += content[place]
        room[place] = content[place] + 1
    tabled = np.int64(0)
    for row in range(table.shape[0]):
        for column in range(table.shape[1]):
            tabled += table[row, column] * (row + 1)
    return (_double(total) if is_doubled else total), tabled


make = kernel(BYTES, TABLE, INTEGER, INTEGER, ROOM, results=2)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is compiled from here on."""
    names: list[str] = []
    compile_kernel = compiling.compile_kernel

    def note(function: Callable[..., int], parameters: list[machine_code.Parameter], results: int, name: str) -> bytes:
        names.append(name)
        return compile_kernel(function, parameters, results, name)

    monkeypatch.setattr(compiling, "compile_kernel", note)
    return names


@pytest.fixture
def kept_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kernel_files, "_directory", lambda: tmp_path)
    return tmp_path


def test_a_kernel_takes_arrays_and_numbers_and_returns_numbers(kept_in: Path) -> None:
    sums = make(_sums)
    content, room = np.frombuffer(bytes([1, 2, 255]), np.uint8), np.zeros(3, np.uint8)
    table = np.array([[1, 2], [3, -(2**62)]])
    assert sums(content, table, 10, False, room) == (268, 3 + 6 - 2**63)
    assert room.tolist() == [2, 3, 0]
    assert sums(content, table[:0], np.int64(-300), True, room) == (-84, 0)
    assert [file.name for file in kept_in.iterdir()] == [f"{__name__}._sums"]


def test_what_was_compiled_once_is_linked_by_who_comes_next(kept_in: Path, compiled: list[str]) -> None:
    for _ in range(2):
        sums = make(_sums)
        assert sums(np.ones(2, np.uint8), np.ones((1, 1), np.int64), 0, False, np.zeros(2, np.uint8)) == (2, 1)
    assert compiled == [f"{__name__}._sums"]


@pytest.mark.parametrize("damage", [b"", b"\0" * 40, b"\x7fELF"])
def test_a_file_that_is_not_whole_is_never_linked(kept_in: Path, compiled: list[str], damage: bytes) -> None:
    make(_sums)
    (file,) = kept_in.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) - 1000] + damage if damage else b"")
    sums = make(_sums)
    assert sums(np.ones(1, np.uint8), np.ones((1, 1), np.int64), 1, True, np.zeros(1, np.uint8)) == (4, 1)
    make(_sums)
    assert len(compiled) == 2, "what was compiled instead was not kept"


def test_without_a_cache_every_process_compiles(monkeypatch: pytest.MonkeyPatch, compiled: list[str]) -> None:
    monkeypatch.setattr(kernel_files, "_directory", lambda: None)
    for _ in range(2):
        make(_sums)
    assert len(compiled) == 2


def wide() -> Integers:
    return np.ones((4, 4), np.int64)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, np.ones(2, np.int8)),
        (0, np.ones((2, 1), np.uint8)),
        (0, np.ones(4, np.uint8)[::2]),
        (1, np.ones(4, np.int64)),
        (1, wide()[:, :2]),
        (1, wide().astype(np.int32)),
        (4, np.frombuffer(b"ab", np.uint8)),
    ],
)
def test_an_array_of_another_form_is_refused(kept_in: Path, place: int, wrong: NDArray[np.generic]) -> None:
    """The code would read or write beside it."""
    arguments: list[Any] = [np.ones(2, np.uint8), wide(), 0, False, np.zeros(2, np.uint8)]
    sums = make(_sums)
    sums(*arguments)
    arguments[place] = wrong
    with pytest.raises(TypeError, match=rf"_sums is given an array of {wrong.dtype}"):
        sums(*arguments)


def test_a_kernel_that_holds_its_arrays_is_called_with_numbers_alone(kept_in: Path) -> None:
    def _count(content: Bytes, table: Integers, first: Int64, second: Int64) -> Any:
        table[0, 0] += first
        return content[0] * first - second

    content, table = np.full(3, 7, np.uint8), np.zeros((1, 2), np.int64)
    count = machine_code.bind(kernel(BYTES, TABLE, INTEGER, INTEGER)(_count), content, table)
    assert count(10, 3) == 67
    content[0] = 2
    assert count(1, -5) == 7
    assert table.tolist() == [[11, 0]]
    with pytest.raises(TypeError, match="an array of int64"):
        machine_code.bind(kernel(BYTES, TABLE, INTEGER, INTEGER)(_count), table, table)


def test_neither_end_of_a_task_has_llvm_before_kernels_pay() -> None:
    """Its library is 46 MB."""
    ends = "import sparkmirror.pipeline.fetch.reader, sparkmirror.pipeline.produce.sender, sparkmirror.spark.run_reader"
    program = f"import sys; {ends}; print(sorted(sys.modules.keys() & {{'llvmlite', 'numba'}}))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
