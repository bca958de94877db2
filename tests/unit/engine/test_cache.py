"""The shared cache: filled once, whole or not at all."""

import threading
from pathlib import Path

import pytest

from sparkmirror.engine.cache import cache_directory, publish_once


def test_the_cache_is_where_xdg_says_else_below_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_directory() == tmp_path / ".cache" / "sparkmirror"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "sparkmirror"


def test_a_failed_filling_leaves_nothing_and_the_next_one_succeeds(tmp_path: Path) -> None:
    def fail(scratch: Path) -> None:
        (scratch / "half").write_text("half")
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        publish_once(tmp_path / "jars", fail)
    assert not (tmp_path / "jars").exists()
    assert [path.name for path in tmp_path.iterdir()] == [".jars.lock"]

    publish_once(tmp_path / "jars", lambda scratch: (scratch / "whole").touch())
    assert [path.name for path in (tmp_path / "jars").iterdir()] == ["whole"]


def test_workers_that_come_at_once_wait_for_the_first(tmp_path: Path) -> None:
    all_here, fillings = threading.Barrier(4), []

    def fill(scratch: Path) -> None:
        fillings.append(scratch)
        (scratch / "jar").write_text("whole")

    def work() -> None:
        all_here.wait(60)
        assert (publish_once(tmp_path / "jars", fill) / "jar").read_text() == "whole"

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(fillings) == 1
