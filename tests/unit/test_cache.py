"""The shared cache: filled once, whole or not at all."""

import os
import threading
from pathlib import Path

import pytest

from sparkmirror.cache import OpenToOthers, cache_directory, own_directory, publish_once


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


def never(_: Path) -> None:
    raise AssertionError("it is there already")


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777])
@pytest.mark.parametrize("place", ["cache/spark/classes", "cache/spark", "cache"])
def test_what_others_could_have_written_is_not_loaded(tmp_path: Path, mode: int, place: str) -> None:
    directory = tmp_path / "cache" / "spark" / "classes"
    publish_once(directory, lambda scratch: (scratch / "jar").touch())
    assert publish_once(directory, never) == directory
    (tmp_path / place).chmod(mode)
    if mode == 0o1777 and place != "cache/spark/classes":
        publish_once(directory, never)  # as in /tmp: others add what is theirs, and change nothing of ours
        return
    with pytest.raises(OpenToOthers, match=f"others may write in {tmp_path / place}; use `chmod go-w`"):
        publish_once(directory, never)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("place", ["cache/classes", "cache"])
def test_what_is_another_users_is_not_loaded(tmp_path: Path, place: str) -> None:
    directory = tmp_path / "cache" / "classes"
    publish_once(directory, lambda scratch: (scratch / "jar").touch())
    os.chown(tmp_path / place, 12345, -1)
    with pytest.raises(OpenToOthers, match=f"{tmp_path / place} belongs to user 12345"):
        publish_once(directory, never)


def test_a_link_to_what_others_may_write_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs").chmod(0o777)
    (tmp_path / "ours").symlink_to(tmp_path / "theirs")
    with pytest.raises(OpenToOthers):
        publish_once(tmp_path / "ours", never)


def test_what_is_made_is_ours_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        own_directory(tmp_path / "a" / "b")
        publish_once(tmp_path / "a" / "c", lambda scratch: (scratch / "jar").touch())
    finally:
        os.umask(before)
    assert {(tmp_path / one).stat().st_mode & 0o777 for one in ("a", "a/b", "a/c")} == {0o700}
