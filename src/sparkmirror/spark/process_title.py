"""Names a forked process in the list of processes: without this it would have the command line of its parent.

Linux alone; elsewhere nothing happens. Called by `spark.fork_server`.
"""

import ctypes
from contextlib import suppress
from pathlib import Path
from typing import Final

_ARGUMENTS_AT: Final = 45
"""The fields `arg_start` and `arg_end` of /proc/self/stat, see proc(5), counted from the one behind the name."""


def set_title(*arguments: str) -> None:
    """The command line becomes `python` with these arguments, cut off where the former one ends."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        begin, end = map(int, fields[_ARGUMENTS_AT : _ARGUMENTS_AT + 2])
        title = "\0".join(("python", *arguments)).encode()[: end - begin - 1]
        ctypes.memmove(begin, title.ljust(end - begin, b"\0"), end - begin)
