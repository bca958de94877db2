"""Pages of files that a process has mapped and does not use any more, such as a library's code. Linux only.

Source: madvise(2), proc_pid_smaps(5).
"""

import ctypes
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_SMAPS: Final = Path("/proc/self/smaps")
_MAPPING: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (....) \S+ \S+ \S+ +(/.*)")
_WRITTEN: Final = ("Anonymous:", "Swap:")
"""What a mapping has of its own, in memory and out of it."""
_LAST: Final = "VmFlags:"
_DONT_NEED: Final = 4


def give_back(name: str) -> None:
    """Take what was read of files whose path has that name in it out of this process's memory; a page that is used
    again is read again, mostly from the system's cache. Does nothing where the system does not say what is mapped."""
    with suppress(OSError), _SMAPS.open(errors="surrogateescape") as lines:
        found = list(unchanged(lines, name))
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, stop in found:
            madvise(start, stop - start, _DONT_NEED)


def unchanged(smaps: Iterable[str], name: str) -> Iterator[tuple[int, int]]:
    """Where such files are mapped as they are: nothing may be written there, and no page has been, for example by
    relocation. What was written would be lost."""
    mapping: tuple[int, int] | None = None
    for line in smaps:
        if begins := _MAPPING.match(line):
            start, stop, rights, path = begins.groups()
            mapping = (int(start, 16), int(stop, 16)) if name in path and "w" not in rights else None
        elif mapping and line.startswith(_WRITTEN) and line.split()[1] != "0":
            mapping = None
        elif mapping and line.startswith(_LAST):
            yield mapping
            mapping = None
