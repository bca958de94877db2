"""Who may open what Spark's processes create."""

import os
from pathlib import Path

from sparkmirror.spark.privacy import private_files, socket_directory


def test_what_is_created_meanwhile_is_ours_alone_and_afterwards_as_before(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with private_files():
            (tmp_path / "inside").touch()
        (tmp_path / "outside").touch()
    finally:
        os.umask(before)
    assert (tmp_path / "inside").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "outside").stat().st_mode & 0o777 == 0o666


def test_sockets_have_a_directory_of_their_own_that_no_other_user_can_enter(tmp_path: Path) -> None:
    scratch = Path("/tmp") / f"s-{os.getpid()}"  # pytest's own paths may be too long
    scratch.mkdir(mode=0o777)
    try:
        found = socket_directory(scratch)
        assert found.parent == scratch
        assert found.stat().st_mode & 0o777 == 0o700
        found.rmdir()
    finally:
        scratch.rmdir()
    deep = tmp_path / ("x" * 90)
    deep.mkdir()
    short = socket_directory(deep)
    assert len(os.fsencode(short / f".{'0' * 36}.sock")) <= 107, "the longest path that a socket may have"
    assert short.stat().st_mode & 0o777 == 0o700
