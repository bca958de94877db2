"""What is said while another program downloads: a bar on a terminal, lines elsewhere."""

import os
import pty
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sparkmirror.testing import download

PROGRAM = """
import time
from pathlib import Path
from sparkmirror.testing.download import showing_download
here = Path({here!r})
with showing_download("some jars", here, 4_000_000):
    here.joinpath("a.part").write_bytes(bytes(2_000_000))
    time.sleep(1.5)
"""


def test_a_terminal_gets_a_bar(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    program = [sys.executable, "-c", PROGRAM.format(here=str(tmp_path))]
    subprocess.run(program, stderr=follower, env=environment, check=True, timeout=120)
    os.close(follower)
    shown = os.read(leader, 1 << 16).decode(errors="replace")
    os.close(leader)
    assert "Downloading some jars" in shown and "2.0/4.0 MB" in shown


def test_a_log_gets_lines_with_an_estimate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_LINE_SECONDS", 0.0)
    with download.showing_download("some jars", tmp_path, 4_000_000):
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / "a.part").write_bytes(bytes(2_000_000))
        seen = ""
        while "2 of 4 MB, about " not in seen:
            seen += capsys.readouterr().err
    assert seen.startswith("Downloading some jars, 4 MB.\n")
    assert "Downloaded some jars in" in capsys.readouterr().err


def test_directories_that_vanish_while_they_are_counted_count_for_nothing(tmp_path: Path) -> None:
    """As those that pip makes for a moment."""
    (tmp_path / "kept").write_bytes(bytes(10))
    is_over = threading.Event()

    def make_and_delete() -> None:
        while not is_over.is_set():
            (tmp_path / "a" / "b" / "c").mkdir(parents=True)
            shutil.rmtree(tmp_path / "a")

    other = threading.Thread(target=make_and_delete)
    other.start()
    try:
        assert {download.count_bytes(tmp_path) for _ in range(2000)} == {10}
    finally:
        is_over.set()
        other.join()


def test_a_failed_download_is_not_called_downloaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError, match="no network"), download.showing_download("some jars", tmp_path, 10):
        raise OSError("no network")
    assert "Downloaded" not in capsys.readouterr().err
