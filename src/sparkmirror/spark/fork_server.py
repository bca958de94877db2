"""Forks Spark's Python processes of one machine from one process that has everything loaded.

A start takes some seven Python processes, one after the other. Each would load PySpark, pyarrow and much of this
package again, a quarter to a whole second, and keep 20 to 60 MB of it for itself. The server is a fork of the driver,
made while the driver has one thread; it shares what it has loaded with the driver and with all that it forks. Spark
starts `spark.python_stand_in`, which asks it. Where there is no server, or it has ended, Spark's processes are started
as ever. Called by `runtime.start`.
"""

import array
import gc
import importlib
import os
import runpy
import select
import shlex
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from sparkmirror.spark.privacy import PRIVATE_UMASK, socket_directory
from sparkmirror.spark.process_title import set_title

_MODULES: Final = (
    "pyarrow",
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "sparkmirror.logs.handlers",
    "sparkmirror.planning.planner",
    "sparkmirror.pipeline.fetch.reader",
    "sparkmirror.pipeline.produce.writer",
    "sparkmirror.spark.python_daemon",
    "sparkmirror.spark.run_reader",
    "sparkmirror.spark.run_writer",
)
"""What Spark's Python processes need of a flow without transforms. No import may start a thread."""
_MODULES_OF_RECORDS: Final = (
    "pyarrow.compute",
    "sparkmirror.batch.json_members",
    "sparkmirror.batch.picking",
    "sparkmirror.pipeline.fetch.record_rows",
    "sparkmirror.pipeline.produce.record_writer",
)
"""What they need besides where records pass Spark one by one: the kernels among it, which each reader and writer would
link for itself, 0.06 s and 30 MB."""
_STREAMS: Final = 3
_REQUEST_SECONDS_MAX: Final = 10.0


class ForkServer:
    """The server as the driver has it. `python` is the program that stands for Python, from before `fork` on."""

    def __init__(self, directory: Path, python: Path, listener: socket.socket) -> None:
        self.python = python
        self._directory = directory
        self._listener = listener
        self._lifeline = -1
        self._pid = 0

    @classmethod
    def prepare(cls, scratch: Path) -> Self | None:
        """The socket and the program, without the server; None where it cannot be. What asks before `fork` waits."""
        if threading.active_count() > 1:  # a lock that another thread holds would be held for ever
            return None
        try:
            directory = socket_directory(scratch)
            python = _write_program(scratch / "python", directory / "fork-server")
            if not os.access(python, os.X_OK):  # not on this file system
                return None
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(directory / "fork-server"))
            listener.listen(socket.SOMAXCONN)
        except OSError:
            return None
        return cls(directory, python, listener)

    def fork(self, *, decodes: bool) -> None:
        """Loads what Spark's Python processes need, and starts the server; `decodes` where records pass Spark. Without
        the server, who asks gets a Python."""
        load((*_MODULES, *_MODULES_OF_RECORDS) if decodes else _MODULES)
        if decodes:
            from sparkmirror.batch.machine_code import leave_linker

            leave_linker()
        watched, self._lifeline = os.pipe()
        with suppress(OSError):
            self._pid = os.fork()
            if not self._pid:
                _be_server(self._listener, watched)
        os.close(watched)
        self._listener.close()

    def close(self) -> None:
        """Ends the server. What it has forked ends when Spark says so."""
        self._listener.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        if self._pid:
            with suppress(OSError):
                os.waitpid(self._pid, 0)
            self._pid = 0


def load(modules: Sequence[str]) -> None:
    """All of them. Nothing of them is garbage, so none is looked for, then or later."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else it starts threads
    gc.disable()
    try:
        for module in modules:
            importlib.import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def _write_program(file: Path, address: Path) -> Path:
    stand_in = Path(__file__).with_name("python_stand_in.py")
    words = (sys.executable, "-S", "-E", str(stand_in), sys.executable, str(address))
    file.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    file.chmod(0o700)
    return file


@dataclass(frozen=True, slots=True)
class _Request:
    directory: bytes
    umask: int
    arguments: list[str]
    environment: dict[bytes, bytes]
    streams: list[int]


def _be_server(listener: socket.socket, lifeline: int) -> None:
    """In the fork: serves until the driver is gone, and ends the process."""
    with suppress(BaseException):
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _close_all_but({0, 1, 2, listener.fileno(), lifeline})
        _silence_streams()
        set_title("-m", "sparkmirror.spark.fork_server")
        _Server(listener, lifeline).serve()
    os._exit(0)


def _close_all_but(kept: set[int]) -> None:
    """A descriptor that stayed open here, such as the JVM's standard input, would keep others from seeing its end."""
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - its own descriptor is among them
        if int(entry) not in kept:
            with suppress(OSError):
                os.close(int(entry))


def _silence_streams() -> None:
    """A program that waits for the end of the driver's output shall not wait for the server's end."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(_STREAMS):
        os.dup2(nowhere, stream)
    os.close(nowhere)


class _Server:
    """One loop: requests, ends of what was forked, and ends of who asked for it."""

    def __init__(self, listener: socket.socket, lifeline: int) -> None:
        self._listener = listener
        self._lifeline = lifeline
        self._asked_by: dict[int, tuple[int, socket.socket]] = {}
        self._poll = select.poll()
        self._ended, self._told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
        for descriptor in (self._listener.fileno(), self._ended, self._lifeline):
            self._poll.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._lifeline:
                    return
                if descriptor == self._ended:
                    self._reap()
                elif descriptor == self._listener.fileno():
                    self._answer()
                else:
                    self._end(descriptor)

    def _reap(self) -> None:
        """Lets go who asked for a process that has ended: it ends, too."""
        with suppress(BlockingIOError):
            os.read(self._ended, 4096)
        for descriptor, (pid, connection) in list(self._asked_by.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._poll.unregister(descriptor)
                del self._asked_by[descriptor]
                connection.close()

    def _end(self, descriptor: int) -> None:
        """Spark has ended who asked, and means the process."""
        self._poll.unregister(descriptor)
        with suppress(ProcessLookupError):
            os.kill(self._asked_by[descriptor][0], signal.SIGTERM)

    def _answer(self) -> None:
        """Forks a process for who asks, or lets it go."""
        connection, _ = self._listener.accept()
        streams = array.array("i")
        try:
            connection.settimeout(_REQUEST_SECONDS_MAX)
            request = _read(connection, streams)
            pid = os.fork()
            if not pid:
                self._become(request, connection)
            self._asked_by[connection.fileno()] = pid, connection
            self._poll.register(connection, select.POLLHUP)
            connection.sendall(b"+")
        except (OSError, ValueError):
            if connection.fileno() not in self._asked_by:
                connection.close()
        finally:
            for stream in streams:
                os.close(stream)

    def _become(self, request: _Request, connection: socket.socket) -> None:
        """In the fork: the process that was asked for. Does not return."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            ours = (self._listener.fileno(), self._lifeline, self._ended, self._told, connection.fileno())
            for descriptor in (*ours, *self._asked_by):
                os.close(descriptor)
            _take_over(request)
            status = _run(lambda: runpy.run_module(request.arguments[1], run_name="__main__", alter_sys=True))
        finally:
            os._exit(status)


def _read(connection: socket.socket, streams: "array.array[int]") -> _Request:
    """The request; its streams are in `streams`, whatever happens. Raises OSError, and ValueError where it is none."""
    head, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(_STREAMS * streams.itemsize))
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            streams.frombytes(content)
    rest = bytearray()
    size = int.from_bytes(head, "big")
    while len(rest) < size:
        part = connection.recv(size - len(rest))
        if not part:
            raise ValueError("the request was cut off")
        rest += part
    directory, umask, count, *words = bytes(rest).split(b"\0")
    arguments = [os.fsdecode(word) for word in words[: int(count)]]
    if arguments[:1] != ["-m"] or len(arguments) < len(("-m", "module")) or len(streams) != _STREAMS:
        raise ValueError("not a module")
    pairs = (word.partition(b"=") for word in words[int(count) :])
    return _Request(directory, int(umask), arguments, {name: value for name, _, value in pairs}, list(streams))


def _take_over(request: _Request) -> None:
    """Streams, environment, directory, arguments and path of the process that Spark wanted."""
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, "r", closefd=False)
    sys.stdout, sys.stderr = (
        os.fdopen(number, "w", buffering=1, errors="backslashreplace", closefd=False) for number in (1, 2)
    )
    os.environb.clear()
    os.environb.update(request.environment)
    os.umask(request.umask | PRIVATE_UMASK)
    os.chdir(request.directory)
    sys.argv = request.arguments[1:]
    set_title(*request.arguments)
    places = [str(Path.cwd()), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    sys.path[:0] = [place for place in dict.fromkeys(places) if place and place not in sys.path]
    warnings.filterwarnings("ignore", "'.*' found in sys.modules", RuntimeWarning, "runpy")


def _run(program: Callable[[], object]) -> int:
    """Its exit status, as of a Python that runs nothing else. What the driver wants done at its own end is not done."""
    status = 0
    try:
        program()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    with suppress(BaseException):
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        sys.stdout.flush()
        sys.stderr.flush()
    return status
