"""What each process of a mirror is there for, its CPU and memory by role, and how many answers its readers took.

Linux only, from /proc. Called by `bench.caught_up`.
"""

import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.process_tree import pss_of, read_tree

DRIVER, JVM, PLANNER, READER, WRITER, WORKERS = "driver", "JVM", "planner", "reader", "writer", "other Python"
_PROC = Path("/proc")
_RING = "/memfd:sparkmirror-ring (deleted)"
# Words of a ring's control page, as `sparkmirror.pipeline.relay.ring` has them.
_MAGIC, _MAGIC_AT, _WRITER_AT, _TAKEN_AT, _CALLS_AT = 0x5350_4B4D_4952_0001, 0, 1, 10, 11
_PLANNING = "streaming_source_runner"


@dataclass(frozen=True, slots=True)
class Ring:
    """A reader's memory: `inode` names it, `taken` counts the answers whose rows its writer has taken, and those that
    were announced."""

    inode: int
    reader: int
    writer: int
    taken: int


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a process tree: CPU seconds and role by process (pid and start), answers by ring."""

    cpu_seconds: Mapping[tuple[int, int], float]
    roles: Mapping[tuple[int, int], str]
    taken: Mapping[int, int]


def look_at(root: int) -> Look:
    """The tree as it is now."""
    tree = read_tree(root)
    rings = list(find_rings(process.pid for process in tree))
    readers, writers = {ring.reader for ring in rings}, {ring.writer for ring in rings}
    roles = {
        (process.pid, process.started): role_of(
            command_of(process.pid), process.pid == root, process.pid in readers, process.pid in writers
        )
        for process in tree
    }
    cpu = {(process.pid, process.started): process.own_cpu_seconds for process in tree}
    return Look(cpu, roles, {ring.inode: ring.taken for ring in rings})


def role_of(command: str, is_root: bool, is_reader: bool, is_writer: bool) -> str:
    """By the command line, and by the ends of a ring: Spark's Python workers look alike otherwise."""
    if command.partition(" ")[0].endswith("java"):
        return JVM
    if is_reader:
        return READER
    if is_writer:
        return WRITER
    if is_root:
        return DRIVER
    return PLANNER if _PLANNING in command else WORKERS


def spent_by_role(before: Look, after: Look) -> dict[str, float]:
    """CPU seconds between two looks; what ended in between counts for nothing."""
    return _sum_by_role(after, lambda it: after.cpu_seconds[it] - before.cpu_seconds.get(it, 0.0))


def pss_by_role(look: Look) -> dict[str, float]:
    """Proportional set size now of the processes that were seen, in bytes."""
    return _sum_by_role(look, lambda it: pss_of(it[0]))


def _sum_by_role(look: Look, amount: Callable[[tuple[int, int]], float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for process, role in look.roles.items():
        found[role] = found.get(role, 0.0) + amount(process)
    return found


def answers_between(before: Look, after: Look) -> int:
    """Answers of brokers that brought records, as the writers have taken them."""
    return sum(taken - before.taken.get(inode, 0) for inode, taken in after.taken.items())


def find_rings(pids: Iterable[int]) -> Iterator[Ring]:
    """Those that the processes hold open, once each: a reader does as long as its task runs."""
    found: set[int] = set()
    for pid in pids:
        for descriptor in _ring_descriptors(pid):
            with suppress(OSError, ValueError):
                inode, words = descriptor.stat().st_ino, _control_words(descriptor)
                if inode not in found and words[_MAGIC_AT] == _MAGIC and words[_WRITER_AT] not in (0, pid):
                    found.add(inode)
                    yield Ring(inode, pid, words[_WRITER_AT], words[_TAKEN_AT] + words[_CALLS_AT])


def _ring_descriptors(pid: int) -> Iterator[Path]:
    with suppress(OSError):
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                if str(entry.readlink()) == _RING:
                    yield entry


def _control_words(descriptor: Path) -> list[int]:
    memory = os.open(descriptor, os.O_RDONLY)
    try:
        with mmap.mmap(memory, mmap.PAGESIZE, prot=mmap.PROT_READ) as page:
            return list(memoryview(page[: 8 * (_CALLS_AT + 1)]).cast("Q"))
    finally:
        os.close(memory)


def command_of(pid: int) -> str:
    """The command line, or "" of a process that has gone."""
    with suppress(OSError):
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
