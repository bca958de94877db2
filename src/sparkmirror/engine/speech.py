"""What reaches a person: one sentence per event on stderr, from the driver and from Spark's Python processes alike.

The JVM's stderr, which its Python workers inherit, is a pipe: lines that our own loggers wrote there are passed on, all
else (Spark's chatter, stack traces of dying workers) only with `--debug`. Called by `engine.run`, `engine.spark`, and
by the workers at their start.
"""

import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from subprocess import Popen
from unittest.mock import patch

_MARK = "sparkmirror-says "
_KEPT_LINES = 40

log = logging.getLogger("sparkmirror")


def speak_as_driver() -> None:
    """Log our sentences to stderr with the time."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    _use(handler)


def speak_as_worker() -> None:
    """Log our sentences so that the driver recognises them. Idempotent: workers are reused."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(f"{_MARK}%(levelname)s %(message)s"))
    _use(handler)


def _use(handler: logging.Handler) -> None:
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False


class JvmEar:
    """Listens to the JVM's stderr on a thread; `last_lines` explains a JVM that did not start."""

    def __init__(self, *, debug: bool) -> None:
        self._debug = debug
        self._read, self._write = os.pipe()
        self.last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        threading.Thread(target=self._listen, name="sparkmirror-jvm-ear", daemon=True).start()

    @contextmanager
    def at_launch(self) -> Iterator[None]:
        """While this is open, PySpark launches its JVM with the pipe as stderr (it offers no parameter for that)."""
        try:
            with patch("pyspark.java_gateway.Popen", partial(Popen, stderr=self._write)):
                yield
        finally:
            os.close(self._write)

    def _listen(self) -> None:
        with open(self._read, errors="replace") as lines:  # noqa: PTH123 - a descriptor, not a path
            for line in lines:
                self._take(line.rstrip())

    def _take(self, line: str) -> None:
        if line.startswith(_MARK):
            level, _, sentence = line.removeprefix(_MARK).partition(" ")
            log.log(logging.getLevelNamesMapping().get(level, logging.WARNING), "%s", sentence)
            return
        self.last_lines.append(line)
        if self._debug:
            print(line, file=sys.stderr, flush=True)
