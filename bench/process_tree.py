"""CPU and memory of a program with all its descendants, from /proc (Linux). Called by `bench.running`."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SAMPLE_SECONDS = 0.5
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc/<pid>/stat. CPU is user and system time, of itself and of its children that have ended.

    `own_cpu_seconds` is its own alone. `started` is in clock ticks since boot: with the pid it names one process.
    """

    pid: int
    parent: int
    session: int
    started: int
    cpu_seconds: float
    own_cpu_seconds: float = 0.0


def parse_stat(text: str) -> Process:
    """Of /proc/<pid>/stat (see proc(5)); the command name may hold blanks and brackets."""
    pid, _, rest = text.partition(" ")
    fields = rest.rpartition(")")[2].split()
    own, children = (sum(int(value) for value in fields[start : start + 2]) / _TICKS_PER_SECOND for start in (11, 13))
    return Process(int(pid), int(fields[1]), int(fields[3]), int(fields[19]), own + children, own)


def select_tree(processes: list[Process], root: int) -> list[Process]:
    """`root`, its descendants, and what else lives in its session: a child whose parent has ended."""
    members: dict[int, Process] = {}
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    waiting = [process for process in processes if root in (process.pid, process.session)]
    while waiting:
        process = waiting.pop()
        if process.pid not in members:
            members[process.pid] = process
            waiting += children.get(process.pid, [])
    return list(members.values())


def read_tree(root: int) -> list[Process]:
    return select_tree(list(read_processes()), root)


def cpu_seconds(root: int) -> float:
    """Used by the tree so far. An ended process counts once, with the parent that waited for it."""
    return sum(process.cpu_seconds for process in read_tree(root))


def own_cpu_seconds(root: int) -> dict[tuple[int, int], float]:
    """Used so far by each process of the tree that lives, itself alone; the key names the process for ever."""
    return {(process.pid, process.started): process.own_cpu_seconds for process in read_tree(root)}


def spent_between(before: dict[tuple[int, int], float], after: dict[tuple[int, int], float]) -> float:
    """CPU seconds between two looks; what ended in between counts for nothing, so that it cannot make time run back."""
    return sum(seconds - before.get(process, 0.0) for process, seconds in after.items())


def pss_bytes(root: int) -> int:
    """Proportional set size of the tree: memory that several processes share counts once."""
    return sum(pss_of(process.pid) for process in read_tree(root))


def read_processes() -> Iterator[Process]:
    """All processes of the machine that we may see."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                yield parse_stat((entry / "stat").read_text(errors="replace"))


def pss_of(pid: int) -> int:
    """Of one process, 0 of one that has gone."""
    with suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


class PeakMemory:
    """Samples the tree's PSS every half second while the block runs; `peak_bytes` is the largest sum."""

    def __init__(self, root: int) -> None:
        self.peak_bytes = 0
        self._root = root
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="peak-memory", daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            self.peak_bytes = max(self.peak_bytes, pss_bytes(self._root))
            if self._done.wait(SAMPLE_SECONDS):
                return
