"""Ends child processes and removes their directory even when this process is killed. Called by `kafka`, `process`.

A shell waits on a pipe that only this process holds open. Linux's parent-death signal does not serve here: the kernel
sends it when the starting *thread* ends.
"""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

_SCRIPT = """
pids=
while read -r verb pid; do
    kept=
    for each in $pids; do [ "$each" = "$pid" ] || kept="$kept $each"; done
    pids=$kept
    [ "$verb" = watch ] && pids="$pids $pid"
done
for each in $pids; do kill -KILL "$each" 2>/dev/null; done
[ -z "$pids" ] || sleep 0.5
tries=0
until rm -rf "$1" || [ "$tries" -ge 20 ]; do tries=$((tries + 1)); sleep 0.5; done
"""


class Guard:
    """Owns `directory` and the processes in it, and removes both when it is closed or this process ends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "sparkmirror-guard", str(directory)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            cwd="/", text=True, bufsize=1, start_new_session=True,
        )  # fmt: skip

    def watch(self, pid: int) -> None:
        """Kills `pid` when this process ends."""
        self._tell(f"watch {pid}")

    def forget(self, pid: int) -> None:
        """Forgets `pid`: it has ended, and another process may get its number."""
        self._tell(f"forget {pid}")

    def close(self) -> None:
        """Kills the processes that are still watched, and removes the directory."""
        if self._shell.stdin is not None:
            self._shell.stdin.close()
        self._shell.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _tell(self, line: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{line}\n")
        self._shell.stdin.flush()
