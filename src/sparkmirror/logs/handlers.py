"""Writes log events to stderr, those of the driver and those of Spark's Python workers.

The driver gives the JVM a pipe as stderr, which the JVM's Python workers inherit. Workers mark the lines of their log
events; the driver logs these, and prints other lines (Spark's own log, stack traces of workers) with `--debug` only.
Called by `runtime.start`, `spark.session`, the commands that run a mirror, and the workers at their start.
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
_LAST_WORDS = 5
_READ_SECONDS_MAX = 5.0

log = logging.getLogger("sparkmirror")


class StderrHandler(logging.Handler):
    """Writes events to stderr as `text` or `json` lines, and counts repeats instead of writing them."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self._line: Callable[[LogEvent], str] = json_lines() if how == "json" else LogEvent.as_text
        self._repeats = Repeats()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            event: LogEvent = getattr(record, "log_event", None) or LogEvent.of(record)
            self._write(self._repeats.take(event, time.monotonic()))
        except Exception:  # the reader of stderr has gone; the mirror goes on without it
            self.handleError(record)

    def write_due_repeats(self) -> None:
        """Write the counted repeats whose pause is over."""
        self.acquire()
        try:
            self._write(self._repeats.due(time.monotonic()))
        finally:
            self.release()

    def write_all_repeats(self) -> None:
        """Write all counted repeats, due or not."""
        self._write(list(self._repeats.remaining(time.monotonic())))
        self._repeats = Repeats()

    def _write(self, sentences: list[LogEvent]) -> None:
        with suppress(OSError):
            for one in sentences:
                print(self._line(one), file=sys.stderr, flush=True)


def json_lines() -> Callable[[LogEvent], str]:
    """A function that formats an event as one line of JSON; fields without a value are null."""
    from pythonjsonlogger.json import JsonFormatter

    formatter = JsonFormatter([])  # no fields of its own before ours
    return lambda event: formatter.format(logging.makeLogRecord({"msg": event.fields()}))


class _WorkerHandler(logging.Handler):
    """The handler of a worker: writes marked lines to stderr, which the driver recognises."""

    def __init__(self, flow: str) -> None:
        super().__init__()
        self._flow = flow

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(_MARK + LogEvent.of(record, self._flow).packed(), file=sys.stderr, flush=True)
        except Exception:  # as above
            self.handleError(record)


def log_to_stderr(how: str = "text") -> None:
    """Log to stderr, in the driver: as `text` with the time, or as `json`, one object a line."""
    _use(StderrHandler(how))


def log_to_driver(flow: object = "") -> None:
    """Log to the driver, in a worker: events that name no flow are of `flow`. Called for each task, since Spark reuses
    workers."""
    _use(_WorkerHandler(str(flow)))


def logs_json() -> bool:
    """Whether this process logs JSON; then it writes nothing else to stderr."""
    return any(isinstance(one, StderrHandler) and one.how == "json" for one in log.handlers)


def log_progress(message: str, flow: object, figures: Mapping[str, Any]) -> None:
    """Writes a flow's progress: in text the message alone, in JSON an event with `figures`."""
    if logs_json():
        log.info("%s", message, extra={"log_event": _now(logging.INFO, "progress", message, str(flow), figures)})
    else:
        print(show_lines(message), file=sys.stderr, flush=True)


def _now(level: int, event: str, message: str, flow: str, figures: Mapping[str, Any]) -> LogEvent:
    return LogEvent(time.time_ns() // 1_000_000, level, event, message, flow, figures=figures)


def log_end(message: str, hint: str) -> None:
    """Writes the reason for which the command ends as the last line, in JSON."""
    figures = {"hint": hint} if hint else {}
    print(json_lines()(_now(logging.ERROR, "ended", message, "", figures)), file=sys.stderr, flush=True)


def log_warning(message: str) -> None:
    """Writes a warning about a file in JSON."""
    print(json_lines()(_now(logging.WARNING, "configuration", message, "", {})), file=sys.stderr, flush=True)


def write_due_repeats() -> None:
    """Write the counted repeats whose pause is over; `runtime.progress` calls it about once a second."""
    for handler in log.handlers:
        if isinstance(handler, StderrHandler):
            handler.write_due_repeats()


def write_all_repeats() -> None:
    """Write all counted repeats, at the end of a run."""
    for handler in log.handlers:
        if isinstance(handler, StderrHandler):
            handler.write_all_repeats()


def _use(handler: logging.Handler) -> None:
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False


class JvmLogReader:
    """Reads the JVM's stderr on a thread, from `listen` on. `last_lines` holds its last lines, which explain a JVM that
    did not start."""

    def __init__(self, *, debug: bool) -> None:
        self._debug = debug
        self._read, self._write = os.pipe()
        self.last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._thread = threading.Thread(target=self._listen, name="sparkmirror-jvm-log", daemon=True)

    def listen(self) -> None:
        """Starts the thread; a JVM may be launched before that."""
        self._thread.start()

    @contextmanager
    def at_launch(self) -> Iterator[int]:
        """The file descriptor for the JVM's stderr; it closes when the block ends, after the JVM's launch."""
        try:
            yield self._write
        finally:
            os.close(self._write)

    def last_words(self) -> str:
        """What a JVM that has ended said last, without warnings, in one line; empty where it said nothing."""
        self._thread.join(_READ_SECONDS_MAX)
        return "; ".join([line for line in self.last_lines if line and not line.startswith("WARNING")][-_LAST_WORDS:])

    def _listen(self) -> None:
        with open(self._read, errors="replace") as lines:  # noqa: PTH123 - a descriptor, not a path
            for line in lines:
                self._take(line.rstrip())

    def _take(self, line: str) -> None:
        if line.startswith(_MARK) and (event := _recognised(line)):
            log.log(event.level, "%s", event.message, extra={"log_event": event})
            return
        self.last_lines.append(line)
        if self._debug:
            print(line, file=sys.stderr, flush=True)


def _recognised(line: str) -> LogEvent | None:
    """The event of a marked line; None for a line into which two processes have written at once."""
    try:
        return LogEvent.unpacked(line.removeprefix(_MARK))
    except (ValueError, TypeError):
        return None
