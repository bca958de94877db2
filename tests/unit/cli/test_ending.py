"""How commands end: a reader that leaves, a full disk, a person who is asked, clusters that do not answer."""

import os
import pty
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-c", "import sys; from sparkmirror.cli.main import main; sys.exit(main())")
ASK = """
import argparse
from sparkmirror.cli.procedure import confirm
confirm(argparse.Namespace(yes={yes}), "Fail over?")
print("done")
"""


@pytest.mark.parametrize("arguments", [("--help",), ("version",), ("completion", "bash")])
@pytest.mark.parametrize("environment", [{"PYTHONUNBUFFERED": "1"}, {}], ids=["unbuffered", "buffered"])
def test_a_reader_that_leaves_ends_a_command_without_a_word(
    arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [*COMMAND, *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, env=environment
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [("--help",), ("version",), ("version", "--format", "json")])
@pytest.mark.parametrize("environment", [{"PYTHONUNBUFFERED": "1"}, {}], ids=["unbuffered", "buffered"])
def test_a_full_disk_is_a_sentence(arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, env=environment
        )
    assert ended.returncode == 1
    assert ended.stderr == (
        "sparkmirror: the disk is full: where the output goes could not be written\n"
        "  hint: make room there, and run it again\n"
    )


@pytest.mark.parametrize("verb", ["run", "doctor"])
def test_a_page_without_its_packages_is_a_sentence(verb: str, tmp_path: Path) -> None:
    (file := tmp_path / "mirror.properties").write_text(
        "clusters = A, B\nA.bootstrap.servers = localhost:1\nB.bootstrap.servers = localhost:1\n"
        "A->B.enabled = true\nstatus.listen = localhost:0\n"
    )
    lacking = f"import sys; sys.modules['uvicorn'] = None; {COMMAND[2].removeprefix('import sys; ')}"
    ended = subprocess.run(
        [sys.executable, "-c", lacking, verb, str(file)], capture_output=True, text=True, timeout=120
    )
    said = ended.stdout + ended.stderr
    assert ended.returncode == (3 if verb == "run" else 1), said
    assert "`status.listen` asks for a server of the page, whose packages are not installed: uvicorn." in said
    assert "pip install 'sparkmirror[web]'" in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("typed", "yes", "expected"),
    [(b"y\n", False, "done"), (b"n\n", False, "Nothing was changed."), (b"\n", False, "Nothing"), (b"", True, "done")],
)
def test_a_person_at_a_terminal_is_asked_once(typed: bytes, yes: bool, expected: str) -> None:
    ours, theirs = pty.openpty()
    asked = subprocess.Popen(
        [sys.executable, "-c", ASK.format(yes=yes)], stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, text=True
    )
    os.close(theirs)
    os.write(ours, typed)
    said = asked.communicate(timeout=60)[0]
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:
        pass  # the other end is closed: all was read
    os.close(ours)
    assert expected in said + shown.decode()
    assert ("Fail over? [y/N]" in shown.decode()) is not yes


def test_a_script_without_a_terminal_is_never_asked() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ASK.format(yes=False)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.stdout, ended.stderr) == ("done\n", "")


def test_a_comparison_that_failed_is_not_a_difference(tmp_path: Path) -> None:
    """Nothing listens there: that says nothing about the records. In processes of their own: they set up logging."""
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:1\nA->B.enabled = true\n"
    )
    for words, status in ((["verify", str(file)], 4), (["lag", str(file), "--group", "g"], 1)):
        ended = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=300)
        assert ended.returncode == status, ended.stderr


@pytest.fixture
def http_port() -> Iterator[int]:
    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            """As a real server, it waits for a whole line, and takes what a Kafka client sends for none."""
            if self.rfile.readline().endswith(b"\r\n"):
                self.wfile.write(b"HTTP/1.0 404 Not Found\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.parametrize("verb", ["topics", "verify"])
def test_all_clusters_that_do_not_answer_are_named_at_once(verb: str, tmp_path: Path, http_port: int) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = A, B, C\nA.bootstrap.servers = nowhere.invalid:9092\nB.bootstrap.servers = 127.0.0.1:1\n"
        f"C.bootstrap.servers = 127.0.0.1:{http_port}\nA->B.enabled = true\nC->B.enabled = true\n"
    )
    ended = subprocess.run([*COMMAND, verb, str(file)], capture_output=True, text=True, timeout=300)
    for sentence in (
        "Cluster A (nowhere.invalid:9092) did not answer while connecting: nobody knows the host.",
        "Cluster B (127.0.0.1:1) did not answer while connecting: the connection is refused, so nothing listens there.",
        f"Cluster C: at 127.0.0.1:{http_port} an HTTP server answers, not a broker.",
    ):
        assert ended.stderr.count(f"sparkmirror: {sentence}") == 1, ended.stderr
