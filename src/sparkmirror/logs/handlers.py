"""Writes one sentence per event on stderr, from the driver and from Spark's Python processes alike.

The JVM's stderr, which its Python workers inherit, is a pipe: lines that our own loggers wrote there are passed on, all
else (Spark's chatter, stack traces of dying workers) only with `--debug`. Called by `runtime.run`, `spark.session`, by
the commands that run a mirror, and by the workers at their start.
"""

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from sparkmirror.logs.events import LogEvent, Repeats
from sparkmirror.shown import show_lines

_MARK = "sparkmirror-says "
_KEPT_LINES = 40

log = logging.getLogger("sparkmirror")


class StderrHandler(logging.Handler):
    """Writes news to stderr, as `text` or `json` lines, and counts repeats."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self._line: Callable[[LogEvent], str] = json_lines() if how == "json" else LogEvent.as_text
        self._repeats = Repeats()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sentence: LogEvent = getattr(record, "sentence", None) or LogEvent.of(record)
            self._write(self._repeats.take(sentence, time.monotonic()))
        except Exception:  # who listened is gone: no reason for the mirror to end
            self.handleError(record)

    def look(self) -> None:
        """Say what was counted and is due."""
        self.acquire()
        try:
            self._write(self._repeats.due(time.monotonic()))
        finally:
            self.release()

    def finish(self) -> None:
        """Say what was counted, whether or not it is due."""
        self._write(list(self._repeats.remaining(time.monotonic())))
        self._repeats = Repeats()

    def _write(self, sentences: list[LogEvent]) -> None:
        with suppress(OSError):
            for one in sentences:
                print(self._line(one), file=sys.stderr, flush=True)


def json_lines() -> Callable[[LogEvent], str]:
    """A formatter that makes one line of JSON of an event; fields that are not known are null."""
    from pythonjsonlogger.json import JsonFormatter

    formatter = JsonFormatter([])  # no fields of its own before ours
    return lambda event: formatter.format(logging.makeLogRecord({"msg": event.fields()}))


class _WorkerHandler(logging.Handler):
    """The handler of a worker: marked lines on stderr, which the driver recognises."""

    def __init__(self, flow: str) -> None:
        super().__init__()
        self._flow = flow

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(_MARK + LogEvent.of(record, self._flow).packed(), file=sys.stderr, flush=True)
        except Exception:  # as above
            self.handleError(record)


def speak_as_driver(how: str = "text") -> None:
    """Say our sentences on stderr, as `text` with the time or as `json`, one object a line."""
    _use(StderrHandler(how))


def speak_as_worker(flow: object = "") -> None:
    """Say our sentences so that the driver recognises them, as about `flow`. Called again for each task: workers are
    reused."""
    _use(_WorkerHandler(str(flow)))


def speaks_json() -> bool:
    """Whether this process logs JSON: then nothing else may be on its stderr."""
    return any(isinstance(one, StderrHandler) and one.how == "json" for one in log.handlers)


def say_progress(message: str, flow: object, figures: Mapping[str, Any]) -> None:
    """Reports how a flow is doing: a line of its own in text, an event with `figures` in JSON."""
    if speaks_json():
        log.info("%s", message, extra={"sentence": _now(logging.INFO, "progress", message, str(flow), figures)})
    else:
        print(show_lines(message), file=sys.stderr, flush=True)


def _now(level: int, event: str, message: str, flow: str, figures: Mapping[str, Any]) -> LogEvent:
    return LogEvent(time.time_ns() // 1_000_000, level, event, message, flow, figures=figures)


def say_end(message: str, hint: str) -> None:
    """Writes in JSON, as the last line, why the command ends."""
    figures = {"hint": hint} if hint else {}
    print(json_lines()(_now(logging.ERROR, "ended", message, "", figures)), file=sys.stderr, flush=True)


def say_warning(message: str) -> None:
    """Writes a warning about a file in JSON."""
    print(json_lines()(_now(logging.WARNING, "configuration", message, "", {})), file=sys.stderr, flush=True)


def look() -> None:
    """Say what was counted and is due; called now and then."""
    for handler in log.handlers:
        if isinstance(handler, StderrHandler):
            handler.look()


def finish() -> None:
    """Say what was counted, at the end of a run."""
    for handler in log.handlers:
        if isinstance(handler, StderrHandler):
            handler.finish()


def _use(handler: logging.Handler) -> None:
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False


class JvmLogReader:
    """Listens to the JVM's stderr on a thread; `last_lines` explains a JVM that did not start."""

    def __init__(self, *, debug: bool) -> None:
        self._debug = debug
        self._read, self._write = os.pipe()
        self.last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        threading.Thread(target=self._listen, name="sparkmirror-jvm-ear", daemon=True).start()

    @contextmanager
    def at_launch(self) -> Iterator[int]:
        """The descriptor for the JVM's stderr, open while the JVM is launched."""
        try:
            yield self._write
        finally:
            os.close(self._write)

    def _listen(self) -> None:
        with open(self._read, errors="replace") as lines:  # noqa: PTH123 - a descriptor, not a path
            for line in lines:
                self._take(line.rstrip())

    def _take(self, line: str) -> None:
        if line.startswith(_MARK) and (sentence := _recognised(line)):
            log.log(sentence.level, "%s", sentence.message, extra={"sentence": sentence})
            return
        self.last_lines.append(line)
        if self._debug:
            print(line, file=sys.stderr, flush=True)


def _recognised(line: str) -> LogEvent | None:
    """The event of a marked line; None for a line that two processes have written into each other's."""
    try:
        return LogEvent.unpacked(line.removeprefix(_MARK))
    except (ValueError, TypeError):
        return None
