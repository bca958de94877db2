"""How much CPU a task's two processes have used. Called by `pipeline.produce.task_metrics`."""

import os
import time
from pathlib import Path
from typing import Final

_USER_AT: Final = 11
"""Fields of /proc/<pid>/stat behind the command name (proc(5)): user and system time are the 12th and the 13th."""


def used_seconds(reader: int) -> float:
    """User and system time of this process and of `reader`, a pid; without the reader's once it has ended."""
    return round(time.process_time() + _of_process(reader), 2)


def _of_process(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[_USER_AT : _USER_AT + 2])) / os.sysconf("SC_CLK_TCK")
