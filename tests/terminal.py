"""A program at a terminal of its own, and what stands on it: for pictures of what a person sees."""

import os
import pty
import re
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

_CONTROL = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])|\r|\n")


class Terminal:
    """Runs `command`; a context manager, which interrupts it at the end as Ctrl-C does."""

    def __init__(self, command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
        self._pid, self._descriptor = pty.fork()
        if not self._pid:
            os.chdir(directory)
            os.execvpe(command[0], list(command), dict(environment))
        self._written = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGINT)
        while self._read():
            pass
        os.waitpid(self._pid, 0)
        os.close(self._descriptor)

    def wait_until(self, is_shown: Callable[[list[str]], object], seconds: float) -> list[str]:
        """The lines, with their colours, as soon as they are what is waited for."""
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            self._read()
            if is_shown(lines := screen(self._written.decode(errors="replace"))):
                return lines
        raise AssertionError("\n".join(lines))

    def _read(self) -> bool:
        """Takes what has been written; False where the program has ended."""
        if not select.select([self._descriptor], [], [], 0.1)[0]:
            return True
        try:
            found = os.read(self._descriptor, 1 << 16)
        except OSError:
            return False
        self._written += found
        return bool(found)


def screen(written: str) -> list[str]:
    """The lines that stand there: Rich moves up line by line, and erases each, before it draws a table again."""
    lines, at, place = [""], 0, 0
    for control in _CONTROL.finditer(written):
        lines[at] += written[place : control.start()]
        place = control.end()
        if control[0] == "\n":
            at += 1
            lines += [""] * (at + 1 - len(lines))
        elif control[2] == "A":
            at = max(at - int(control[1] or 1), 0)
        elif control[2] == "K":
            lines[at] = ""
        elif control[2] == "m":
            lines[at] += control[0]
    lines[at] += written[place:]
    return lines
