"""A run whose process tree is to be broken: who reads, who writes, stop and go of all, memory."""

import mmap
import os
import signal
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
from tests.scenarios.mirror import START_SECONDS_MAX, Mirror

RING = "/memfd:sparkmirror-ring (deleted)"
_RING_MAGIC = 0x5350_4B4D_4952_0001
_STACKS_SECONDS = 1.0
_PAGE = 4000


class Run(Mirror):
    """A mirror in a `with` block, which leaves nothing behind."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.destroy()

    @property
    def pid(self) -> int:
        return self._child.pid

    def rings(self) -> Iterator[tuple[int, int]]:
        """Reader's and writer's process id of each ring that both have open, by the ring's own control page."""
        for process in self.processes():
            for number, link in _descriptors(process.pid):
                if link == RING:
                    writer = _writer_of(process.pid, number)
                    if writer not in (0, process.pid) and not is_gone(writer):
                        yield process.pid, writer
                        break

    def rings_of_both_tasks(self) -> list[tuple[int, int]]:
        """As `rings`, once there are two."""
        found: list[tuple[int, int]] = []

        def are_there() -> bool:
            found[:] = self.rings()
            return len(found) == 2

        self.wait_until(are_there, "a ring for each task")
        return found

    def ring_sizes(self) -> list[int]:
        """Bytes of each ring's memory file, control page included."""
        sizes = []
        for process in self.processes():
            for number, link in _descriptors(process.pid):
                if link == RING:
                    with suppress(OSError):  # it is closed meanwhile
                        sizes.append(Path(f"/proc/{process.pid}/fd/{number}").stat().st_size)
        return sizes

    def interrupt(self) -> None:
        """What a terminal does on Ctrl-C: SIGINT to the foreground process group."""
        os.killpg(self.pid, signal.SIGINT)

    def pause(self) -> None:
        """SIGSTOP to the whole tree."""
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.suspend()

    def resume(self) -> None:
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def memory_bytes(self) -> int:
        """Of the whole tree; pages that several share are divided among them (PSS)."""
        total = 0
        for process in self.processes():
            with suppress(psutil.Error, OSError):
                total += process.memory_full_info().pss
        return total

    def wait_until(self, condition: Callable[[], object], what: str, seconds_max: float = START_SECONDS_MAX) -> None:
        """As `Mirror.wait_until`; where time is up, the failure shows where its threads stood, and it has ended."""
        try:
            super().wait_until(condition, what, seconds_max)
        except AssertionError as late:
            if not self.running:
                raise
            raise AssertionError(f"{late}\n{self.stacks()}") from None

    def stacks(self) -> str:
        """Ends it: what it has said, what its workers wait for in the kernel, and where the threads of Spark's tasks
        and of the driver stand; a few pages."""
        said, printed, waits = self.errors, self.output, "\n".join(map(_waits, self.workers()))
        for jvm in self.jvms():
            with suppress(psutil.NoSuchProcess):
                jvm.send_signal(signal.SIGQUIT)
        time.sleep(_STACKS_SECONDS)
        tasks = _of_tasks(self.output[len(printed) :])
        for pid in [*(process.pid for process in self.workers()), self.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGABRT)
        time.sleep(_STACKS_SECONDS)
        return f"{said[-_PAGE:]}\n{waits}\n{tasks[: 6 * _PAGE]}\n{self.errors[len(said) :][: 5 * _PAGE]}"

    def destroy(self) -> None:
        """Kill the whole tree, in whatever state it is, so that a failed test hides no reason behind another."""
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._child.kill()
        self._child.wait()


def _waits(worker: psutil.Process) -> str:
    """Of one process: its CPU time, whether it has a ring, and the kernel function in which each thread waits."""
    try:
        with worker.oneshot():
            cpu, parent, state = sum(worker.cpu_times()[:2]), worker.ppid(), worker.status()
        threads = [place.read_text() or "?" for place in sorted(Path(f"/proc/{worker.pid}/task").glob("*/wchan"))]
        has_ring = worker.pid in rings_of([worker.pid])
    except (psutil.Error, OSError) as gone:
        return f"worker {worker.pid}: {gone}"
    ring = "with a ring" if has_ring else "without a ring"
    return f"worker {worker.pid} of {parent}, {state}, {ring}, {cpu:.1f} CPU s: {', '.join(threads)}"


def _of_tasks(dump: str) -> str:
    """Of a JVM's thread dump, the threads that run tasks, or talk with Python for them."""
    titles = ((thread.split("\n")[0].lower(), thread) for thread in dump.split("\n\n"))
    return "\n\n".join(thread for title, thread in titles if "launch worker for task" in title or "python" in title)


def is_gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def rings_of(pids: Iterable[int]) -> set[int]:
    """Those of the processes that hold leased memory, open or mapped."""
    return {pid for pid in pids if any(link == RING for _, link in _descriptors(pid)) or _maps_ring(pid)}


def open_rings(processes: Iterable[psutil.Process]) -> set[int]:
    """The inodes of leased memory that any of the processes holds."""
    found = set()
    for process in processes:
        for number, link in _descriptors(process.pid):
            if link == RING:
                with suppress(OSError):
                    found.add(Path(f"/proc/{process.pid}/fd/{number}").stat().st_ino)
    return found


def _descriptors(pid: int) -> list[tuple[int, str]]:
    found = []
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.append((int(entry.name), str(entry.readlink())))
    return found


def _maps_ring(pid: int) -> bool:
    try:
        return RING in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def _writer_of(pid: int, descriptor: int) -> int:
    try:
        memory = os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDONLY)
    except OSError:
        return 0
    try:
        with mmap.mmap(memory, mmap.PAGESIZE, prot=mmap.PROT_READ) as page:
            magic, writer = struct.unpack("QQ", page[:16])
    except ValueError:  # a ring that is being made has no size yet
        return 0
    finally:
        os.close(memory)
    return int(writer) if magic == _RING_MAGIC else 0
