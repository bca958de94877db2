"""Processes that Spark wants are forked from one server, and stand where Spark started another program."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from tests.faults.tree import is_gone
from tests.waiting import wait_until

from sparkmirror.spark.fork_server import ForkServer
from sparkmirror.spark.process_title import set_title

SECONDS_MAX = 60.0
LINKER_BYTES_MAX = 12 << 20
"""Of 46 MB that linking brings into memory."""

DRIVER = """
import sys
from pathlib import Path
from sparkmirror.spark import fork_server
if "records" not in sys.argv:
    fork_server._MODULES = ("json",)
server = fork_server.ForkServer.prepare(Path(sys.argv[1]))
server.fork(decodes="records" in sys.argv)
print(server.python, flush=True)
sys.stdin.read()
server.close()
"""

TELLS = """
import json, os, sys
from pathlib import Path
print(json.dumps({"arguments": sys.argv[1:], "colour": os.environ.get("COLOUR"), "here": os.getcwd(),
                  "heard": sys.stdin.read(), "parent": os.getppid(), "forked": "sparkmirror.spark.fork_server" in
                  sys.modules, "title": Path("/proc/self/cmdline").read_bytes().decode(),
                  "kernels": "sparkmirror.batch.kernels" in sys.modules,
                  "threads": len(os.listdir("/proc/self/task"))}))
print("to standard error", file=sys.stderr)
"""

WAITS = """
import os, time
print(os.getpid(), flush=True)
time.sleep(600)
"""


@contextmanager
def driver(directory: Path, *words: str) -> Iterator[tuple[psutil.Process, Path]]:
    """A process that has a server, and the program that stands for its Python."""
    for name, text in {"tells": TELLS, "waits": WAITS}.items():
        (directory / f"{name}.py").write_text(textwrap.dedent(text))
    pipe = subprocess.PIPE
    room = "a title needs room, as the path of a file does give it"
    command = [sys.executable, "-c", DRIVER, str(directory), *words, room]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdin is not None and child.stdout is not None
        yield psutil.Process(child.pid), Path(child.stdout.readline().strip())
        with suppress(BrokenPipeError):
            child.stdin.close()


def tell(python: Path, directory: Path) -> dict[str, object]:
    """What a module says that was started in place of Python."""
    ended = subprocess.run(
        [python, "-m", "tells", "a b", "é"], cwd=directory, input="a question", capture_output=True, text=True,
        env={**os.environ, "COLOUR": "blue"}, timeout=SECONDS_MAX, check=True,
    )  # fmt: skip
    assert ended.stderr == "to standard error\n"
    told = json.loads(ended.stdout)
    assert isinstance(told, dict)
    return told


def test_what_decodes_records_is_loaded_once_for_all(tmp_path: Path) -> None:
    """Else each reader and writer links the kernels, and imports what else decodes records."""
    with driver(tmp_path, "records") as (process, python):
        told = tell(python, tmp_path)
        linker = [one.rss for one in process.memory_maps() if "libllvmlite" in one.path]
    assert told["kernels"]
    assert linker, "what the kernels were linked by is mapped"
    assert sum(linker) < LINKER_BYTES_MAX, "and is not in memory any more"
    assert told["threads"] == 1, "a lock that another thread held would be held for ever"
    with driver(tmp_path) as (_, python):
        assert not tell(python, tmp_path)["kernels"]


def test_a_forked_process_is_what_was_wanted(tmp_path: Path) -> None:
    with driver(tmp_path) as (process, python):
        told = tell(python, tmp_path)
        (server,) = process.children()
        assert told["forked"] is True
        assert told["parent"] == server.pid
        assert told["arguments"] == ["a b", "é"]
        assert (told["colour"], told["here"], told["heard"]) == ("blue", str(tmp_path), "a question")
        assert str(told["title"]).startswith("python\0-m\0tells\0a b")


def test_who_asked_ends_with_the_process_and_the_process_with_who_asked(tmp_path: Path) -> None:
    with driver(tmp_path) as (_, python):
        for signalled in ("the process", "who asked"):
            asked = subprocess.Popen([python, "-m", "waits"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
            with asked:
                assert asked.stdout is not None
                forked = psutil.Process(int(asked.stdout.readline()))
                assert forked.pid != asked.pid
                if signalled == "the process":
                    forked.kill()
                    asked.wait(SECONDS_MAX)
                else:
                    asked.terminate()
                    wait_until(lambda one=forked: is_gone(one.pid), "the fork has ended")


def test_without_a_server_it_is_python_itself(tmp_path: Path) -> None:
    with driver(tmp_path) as (process, python):
        (server,) = process.children()
        server.kill()
        wait_until(lambda: is_gone(server.pid), "the server has ended")
        told = tell(python, tmp_path)
        assert told["forked"] is False
        assert told["arguments"] == ["a b", "é"]
        asked = subprocess.run([python, "-c", "print(7)"], capture_output=True, text=True, check=True)
        assert asked.stdout == "7\n"


def test_what_is_no_module_is_left_to_python(tmp_path: Path) -> None:
    with driver(tmp_path) as (_, python):
        asked = subprocess.run(
            [python, "-c", "print(7)"], capture_output=True, text=True, check=True, timeout=SECONDS_MAX
        )
        assert asked.stdout == "7\n"


def test_the_server_ends_with_its_driver(tmp_path: Path) -> None:
    with driver(tmp_path) as (process, _):
        (server,) = process.children()
        process.send_signal(signal.SIGKILL)
        wait_until(lambda: is_gone(server.pid), "the server has ended")


def test_a_process_with_threads_is_not_forked(tmp_path: Path) -> None:
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        assert ForkServer.prepare(tmp_path) is None
    finally:
        done.set()
        other.join()


@pytest.mark.parametrize("words", [("-m", "a.module"), ("-m", "x" * 10_000)])
def test_a_title_fits_into_the_place_of_the_former_one(words: tuple[str, ...]) -> None:
    before = Path("/proc/self/cmdline").read_bytes()
    child = os.fork()
    if not child:
        set_title(*words)
        after = Path("/proc/self/cmdline").read_bytes()
        os._exit(not (len(after) <= len(before) and after.startswith(b"python\0-m\0"[: len(after) - 1])))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
