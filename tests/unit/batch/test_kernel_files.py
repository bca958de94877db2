"""Object files of kernels: compiled once by a process of its own, and found by all others, which do without numba."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

import sparkmirror.batch
from sparkmirror.batch import kernel_files
from sparkmirror.batch.kernel_files import KERNEL_MODULES

SECONDS_MAX = 200


@pytest.fixture
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of nobody's yet, and a process that has not asked for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernel_files, "KERNEL_MODULES", ("compare",))
    kernel_files._kept.cache_clear()
    yield tmp_path
    kernel_files._kept.cache_clear()


def run(*lines: str) -> str:
    command = [sys.executable, "-c", "\n".join(["import sys", *lines])]
    return subprocess.run(command, check=True, timeout=SECONDS_MAX, stdout=subprocess.PIPE, text=True).stdout


def compiled_in(cache_home: Path) -> set[str]:
    """The functions of which there are object files."""
    return {file.name.rpartition(".")[2] for file in cache_home.rglob("sparkmirror.batch.*")}


def test_all_modules_that_have_kernels_are_compiled_ahead() -> None:
    directory = Path(sparkmirror.batch.__file__).parent
    assert {file.stem for file in directory.glob("*.py") if "\n@kernel(" in file.read_text()} == set(KERNEL_MODULES)


def test_a_process_that_finds_them_does_not_import_numba() -> None:
    imports = [f"import sparkmirror.batch.{module}" for module in KERNEL_MODULES]
    run(*imports)  # they may have to be compiled first
    assert run(*imports, "print('numba' in sys.modules)") == "False\n"


def test_one_process_compiles_them_while_others_wait(cache_home: Path) -> None:
    """And what it compiled works in a third."""
    look = ["import sparkmirror.batch.compare", "print('numba' in sys.modules)"]
    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(lambda _: kernel_files._kept.__wrapped__(), range(2))
    assert one is not None and one == other
    assert compiled_in(cache_home) == {"_compare_bodies", "_compare_records"}
    assert run(*look) == "False\n"


def test_what_was_compiled_before_an_interruption_stays(cache_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror that ends within half a minute, again and again, has kernels after some starts."""
    monkeypatch.setattr(kernel_files, "KERNEL_MODULES", ("compare", "nowhere"))
    assert kernel_files._kept() is None
    compiled = {file: file.stat().st_mtime_ns for file in cache_home.rglob("sparkmirror.batch.*")}
    assert compiled_in(cache_home) == {"_compare_bodies", "_compare_records"}
    monkeypatch.setattr(kernel_files, "KERNEL_MODULES", ("compare",))
    kernel_files._kept.cache_clear()
    assert kernel_files._kept() is not None
    assert {file: file.stat().st_mtime_ns for file in cache_home.rglob("sparkmirror.batch.*")} == compiled


def test_a_cache_that_others_could_fill_is_not_used(cache_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    kernels = cache_home / "sparkmirror" / "kernels"
    kernels.mkdir(parents=True)
    kernels.chmod(0o777)
    assert kernel_files._kept() is None
    assert f"others may write in {kernels}" in caplog.text
    assert kernel_files.load("any") is None


def test_what_cannot_be_compiled_ahead_is_said(
    cache_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kernel_files, "KERNEL_MODULES", ("nowhere",))
    assert kernel_files._kept() is None
    assert (
        "each process compiles its own: ModuleNotFoundError: No module named 'sparkmirror.batch.nowhere'" in caplog.text
    )
    assert compiled_in(cache_home) == set()


def test_the_process_that_compiles_ends_with_the_one_that_waits(cache_home: Path) -> None:
    waits = "import sparkmirror.batch.kernels"
    with subprocess.Popen([sys.executable, "-c", waits], env={**os.environ}) as parent:
        process, deadline = psutil.Process(parent.pid), time.monotonic() + SECONDS_MAX
        while not (children := process.children()):
            assert time.monotonic() < deadline and parent.poll() is None
            time.sleep(0.01)
        parent.kill()
    _, alive = psutil.wait_procs(children, SECONDS_MAX)
    assert alive == []
