"""A database with a server of its own (H2) and a JDBC driver, for tables that a flow looks up."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from sparkmirror.java import find_java
from sparkmirror.testing.jars import H2, fetch
from sparkmirror.testing.ports import PortReservation

PASSWORD = "s3cret-of-the-shop"
_START_SECONDS_MAX = 60.0
_STATEMENT_SECONDS_MAX = 60.0


def driver_jar() -> Path:
    """What a user would name by `spark.jars`."""
    (jar,) = fetch(H2).glob("*.jar")
    return jar


@dataclass(slots=True)
class Database:
    """A running server; its database `shop` is in memory, and gone when it ends."""

    port: int
    process: "subprocess.Popen[bytes]"

    @property
    def url(self) -> str:
        return f"jdbc:h2:tcp://127.0.0.1:{self.port}/mem:shop;DB_CLOSE_DELAY=-1"

    def run(self, statements: str) -> None:
        """Run SQL as the owner, whom the first call makes."""
        login = ["-url", self.url, "-user", "mirror", "-password", PASSWORD]
        _java("org.h2.tools.Shell", *login, "-sql", statements)

    def pause(self) -> None:
        """It keeps its connections, and answers nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def _java(*words: str) -> None:
    command = [str(find_java()), "-cp", str(driver_jar()), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_STATEMENT_SECONDS_MAX, check=False)
    assert done.returncode == 0 and "Error" not in done.stdout + done.stderr, done.stdout + done.stderr


@contextmanager
def database(directory: Path) -> Iterator[Database]:
    """A server whose user is `mirror`, with PASSWORD."""
    reservation = PortReservation(1)
    (port,) = reservation.ports
    words = ["-Xmx128m", "-Dh2.bindAddress=127.0.0.1", "-cp", str(driver_jar())]
    words += ["org.h2.tools.Server", "-tcp", "-tcpPort", str(port), "-ifNotExists", "-baseDir", str(directory)]
    with (directory / "h2.log").open("wb") as said:
        command = [str(find_java()), *words]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    found = Database(port, process)
    try:
        give_up_at = time.monotonic() + _START_SECONDS_MAX
        while not _listens(process.pid, port):
            assert process.poll() is None and time.monotonic() < give_up_at, (directory / "h2.log").read_text()
            time.sleep(0.05)
        yield found
    finally:
        found.end()
        reservation.close()


def _listens(pid: int, port: int) -> bool:
    sockets = psutil.Process(pid).net_connections("tcp")
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in sockets)
